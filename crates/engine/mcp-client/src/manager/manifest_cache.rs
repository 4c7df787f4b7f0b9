//! What a server offered the last time, so that its tools are there before it
//! is.

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

/// Raised when the format changes; older files are ignored.
const FORMAT: u32 = 1;

/// Up to here a manifest is taken for the truth, and the server is started when
/// one of its tools is called.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// Up to here its tools are shown while the server is asked again.
const USABLE: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a server offered, and what of it the user has seen.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    format: u32,
    /// Seconds since 1970.
    saved_at: u64,
    /// Changes when the program is replaced.
    program_stamp: String,
    pub(crate) info: ServerInfo,
    pub(crate) tools: Vec<OfferedTool>,
    #[serde(default)]
    pub(crate) skipped: Vec<SkippedOffer>,
    /// Fingerprint of every tool as it was first seen or last accepted.
    pub(crate) pins: BTreeMap<String, String>,
}

/// How far a manifest can be relied on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ManifestFreshness {
    /// No need to ask the server before it is used.
    Fresh,
    /// Good enough until the server has answered.
    Stale,
    /// Only what was agreed to still counts.
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
        // One that offers tools and had none is worth another look.
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

/// Size and time of the program a server consists of: the program itself and
/// the arguments that are files.
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

/// A directory of manifests, one file per configuration.
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
        // What lives in this process has no life beyond it.
        let worthwhile = !matches!(config.endpoint, ServerEndpoint::InProcess(_));
        worthwhile.then(|| directory.join(format!("{}.json", config.fingerprint())))
    }

    /// A manifest that cannot be read is no manifest.
    pub(crate) fn load(&self, config: &ServerConfig) -> Option<Manifest> {
        let text = std::fs::read(self.path(config)?).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        (manifest.format == FORMAT).then_some(manifest)
    }

    /// Failing to save costs a start the next time, nothing else.
    pub(crate) fn save(&self, config: &ServerConfig, manifest: &Manifest) {
        if let (Some(path), Ok(text)) = (self.path(config), serde_json::to_vec(manifest)) {
            let _ = write_atomically(&path, &text);
        }
    }
}

/// Whole or not at all, and readable by the owner alone. Not forced to the
/// disk: what is lost in a power cut is asked again.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    replace_file(path, content, ModeOnReplace::Private, Durability::Whenever)
}
