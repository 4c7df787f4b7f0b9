//! Cache of what servers offered, so that their tools are available before they are connected.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft_paths::{Durability, ModeOnReplace, replace_file};
use serde::{Deserialize, Serialize};

use crate::{
    client::{OfferedTool, ServerInfo, SkippedOffer},
    config::{ServerConfig, ServerEndpoint},
};

/// Format version; files of other versions are ignored. Increment it when the format changes.
const FORMAT: u32 = 1;

/// Maximum age at which a manifest is used without connecting; the server is started when a tool is
/// called.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// Maximum age at which its tools are shown while the server is being connected.
const USABLE: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a server offered, and which definitions the user has seen.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    format: u32,
    /// Seconds since 1970.
    saved_at: u64,
    /// Size and modification time of the program; changes when it is replaced.
    program_stamp: String,
    pub(crate) info: ServerInfo,
    pub(crate) tools: Vec<OfferedTool>,
    #[serde(default)]
    pub(crate) skipped: Vec<SkippedOffer>,
    /// Hash of every tool definition as first seen or last accepted.
    pub(crate) pins: BTreeMap<String, String>,
}

/// How far a manifest can be relied on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ManifestFreshness {
    /// Usable without connecting.
    Fresh,
    /// Usable until the server is connected.
    Stale,
    /// Only the accepted hashes are used.
    Expired,
}

impl Manifest {
    pub(crate) fn new(
        config: &ServerConfig,
        info: ServerInfo,
        tools: Vec<OfferedTool>,
        skipped: Vec<SkippedOffer>,
        pins: BTreeMap<String, String>,
    ) -> Self {
        let program_stamp = stamp(config);
        Self { format: FORMAT, saved_at: now(), program_stamp, info, tools, skipped, pins }
    }

    pub(crate) fn freshness(&self, config: &ServerConfig) -> ManifestFreshness {
        let age = Duration::from_secs(now().saturating_sub(self.saved_at));
        // A server that supports tools but had none is connected again.
        let is_empty = self.tools.is_empty() && self.info.capabilities.tools;
        match age {
            _ if USABLE < age => ManifestFreshness::Expired,
            _ if FRESH < age || is_empty || self.program_stamp != stamp(config) => ManifestFreshness::Stale,
            _ => ManifestFreshness::Fresh,
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

/// Describes size and modification time of a server's program and of arguments that are files.
fn stamp(config: &ServerConfig) -> String {
    let ServerEndpoint::Stdio(command) = &config.endpoint else { return String::new() };
    let base = command.cwd.clone().unwrap_or_default();
    let files = std::iter::once(&command.program).chain(&command.args).filter(|it| it.contains('/'));
    let stamps = files.filter_map(|file| {
        let facts = std::fs::metadata(base.join(file)).ok().filter(std::fs::Metadata::is_file)?;
        let modified = facts.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(format!("{}.{}", facts.len(), modified.as_nanos()))
    });
    stamps.collect::<Vec<_>>().join(" ")
}

/// A directory with one manifest file per configuration.
#[derive(Clone, Debug)]
pub(crate) struct ManifestCache {
    directory: Option<PathBuf>,
}

impl ManifestCache {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }

    fn path(&self, config: &ServerConfig) -> Option<PathBuf> {
        let directory = self.directory.as_ref()?;
        // In-process servers do not outlive the process.
        let worthwhile = !matches!(config.endpoint, ServerEndpoint::InProcess(_));
        worthwhile.then(|| directory.join(format!("{}.json", config.fingerprint())))
    }

    /// Loads a manifest; `None` if it is missing or unreadable.
    pub(crate) fn load(&self, config: &ServerConfig) -> Option<Manifest> {
        let text = std::fs::read(self.path(config)?).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        (manifest.format == FORMAT).then_some(manifest)
    }

    /// Saves a manifest. Errors are ignored; the next session then connects first.
    pub(crate) fn save(&self, config: &ServerConfig, manifest: &Manifest) {
        if let (Some(path), Ok(text)) = (self.path(config), serde_json::to_vec(manifest)) {
            let _ = write_atomically(&path, &text);
        }
    }
}

/// Writes a file atomically, readable by its owner only. Not synced: after a power failure the server is
/// asked again.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    replace_file(path, content, ModeOnReplace::Private, Durability::Whenever)
}
