//! Large tool results: files on a worker, uploaded as blobs, and downloaded to files by the worker that
//! takes over.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use haft_fleet_store::{BlobHash, FleetName, FleetStore, RunId, StoreError};

use crate::run_log_lines::RunHistory;

/// Prefix that replaces the path of an uploaded result.
const BLOB: &str = "blob:";
/// Maximum bytes of a result that is uploaded.
const LARGEST: u64 = 64 << 20;

/// Directories with large results of one run.
#[derive(Clone, Debug)]
pub(crate) struct LargeResults {
    tenant: FleetName,
    /// Directories of tool results and command output, each also JSON-escaped.
    dirs: [(PathBuf, String); 2],
}

/// A result file whose path appears in a line.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct NamedResult {
    /// The path as it appears in the line.
    pub(crate) written: String,
    path: PathBuf,
}

/// Result of downloading a blob to a file.
#[derive(Debug)]
pub(crate) enum BlobDownload {
    There(PathBuf),
    /// The tenant has no such blob.
    Unknown,
    NotWritten(String),
}

impl BlobDownload {
    fn path(self) -> Option<PathBuf> {
        match self {
            Self::There(path) => Some(path),
            Self::Unknown | Self::NotWritten(_) => None,
        }
    }
}

impl LargeResults {
    /// Creates the directories' description for a run whose state directory is `state`.
    pub(crate) fn new(tenant: FleetName, state: &Path, run: &RunId) -> Self {
        let results = state.join("sessions").join(run.as_str()).join("tool-results");
        let dirs = [results, state.join("tasks").join(run.as_str())];
        Self { tenant, dirs: dirs.map(|dir| (dir.clone(), written(&dir))) }
    }

    /// Returns the tenant that owns the blobs.
    pub(crate) fn tenant(&self) -> &FleetName {
        &self.tenant
    }

    /// Returns the result files named in a line, longest path first, because one may be a prefix of
    /// another.
    pub(crate) fn named_in(&self, line: &str) -> Vec<NamedResult> {
        let mut found = BTreeSet::new();
        let places = self.dirs.iter().flat_map(|(dir, written)| {
            line.match_indices(written.as_str()).map(move |(at, _)| (dir, written, at))
        });
        for (dir, written, at) in places {
            let rest = &line[at + written.len()..];
            let end = rest.find(|it: char| !is_of_name(it)).unwrap_or(rest.len());
            let name = rest[..end].trim_end_matches('.');
            let is_below = name.starts_with('/')
                && name[1..].split('/').all(|part| !part.is_empty() && part != "." && part != "..");
            if is_below {
                found.insert(NamedResult { written: format!("{written}{name}"), path: dir.join(&name[1..]) });
            }
        }
        let mut found: Vec<NamedResult> = found.into_iter().collect();
        found.sort_by_key(|it| std::cmp::Reverse(it.written.len()));
        found
    }

    /// Reads a result, if it is a regular file of at most [`LARGEST`] bytes.
    pub(crate) async fn read(&self, file: &NamedResult) -> Option<Bytes> {
        let about = tokio::fs::symlink_metadata(&file.path).await.ok()?;
        if !about.is_file() || LARGEST < about.len() {
            return None;
        }
        tokio::fs::read(&file.path).await.ok().map(Bytes::from)
    }

    /// Downloads the uploaded results of a run to files, and replaces their names in its history by
    /// paths.
    pub(crate) async fn download_results(
        &self,
        store: &FleetStore,
        history: &mut RunHistory,
    ) -> Result<(), StoreError> {
        let mut known: HashMap<BlobHash, Option<PathBuf>> = HashMap::new();
        for log in history.logs.values_mut() {
            let mut text = String::from_utf8_lossy(log).into_owned();
            let hashes = blobs_in(&text);
            if hashes.is_empty() {
                continue;
            }
            for hash in hashes {
                if let std::collections::hash_map::Entry::Vacant(place) = known.entry(hash) {
                    place.insert(self.file_of(store, hash).await?.path());
                }
                if let Some(Some(path)) = known.get(&hash) {
                    text = text.replace(&format!("{BLOB}{hash}"), &written(path));
                }
            }
            *log = text.into_bytes();
        }
        Ok(())
    }

    /// Downloads the results named in a message, of this or other runs of the tenant, and replaces their
    /// names by paths.
    pub(crate) async fn with_files(&self, store: &FleetStore, said: &str) -> Result<String, StoreError> {
        let mut text = said.to_owned();
        for hash in blobs_in(said) {
            if let Some(path) = self.file_of(store, hash).await?.path() {
                text = text.replace(&format!("{BLOB}{hash}"), &path.display().to_string());
            }
        }
        Ok(text)
    }

    /// Downloads a blob to a file. A text may contain a name that is not a blob of the tenant.
    pub(crate) async fn file_of(
        &self,
        store: &FleetStore,
        hash: BlobHash,
    ) -> Result<BlobDownload, StoreError> {
        let bytes = match store.blobs.get(self.tenant.clone(), hash).await {
            Ok(bytes) => bytes,
            Err(StoreError::Unknown { .. }) => return Ok(BlobDownload::Unknown),
            Err(err) => return Err(err),
        };
        let path = self.dirs[0].0.join(format!("{hash}.txt"));
        Ok(match write_private(&path, &bytes).await {
            Ok(()) => BlobDownload::There(path),
            Err(err) => BlobDownload::NotWritten(err.to_string()),
        })
    }
}

async fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    if let Some(dir) = path.parent() {
        tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).await?;
    }
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).await?;
    file.write_all(bytes).await?;
    file.flush().await
}

/// Returns a path as it appears in a line of JSON.
fn written(path: &Path) -> String {
    let quoted = serde_json::Value::from(path.display().to_string()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn is_of_name(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.' | '/')
}

/// Returns the blobs named in a text.
pub(crate) fn blobs_in(text: &str) -> BTreeSet<BlobHash> {
    let named =
        text.match_indices(BLOB).filter_map(|(at, _)| text.get(at + BLOB.len()..at + BLOB.len() + 64));
    named.filter_map(|it| BlobHash::parse(it).ok()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[test]
    fn large_results_named_in_lines_are_found() {
        let tenant = FleetName::parse("t").unwrap();
        let run = RunId::parse("r1").unwrap();
        let kept = LargeResults::new(tenant, Path::new("/x/st\"ate"), &run);
        let at = "/x/st\\\"ate/sessions/r1/tool-results";
        let line = format!(
            "all in {at}/a_1.txt: read; {at}/a_1.txt. {at}/../b {at} {at}/mcp/c-2.json\", \
             /x/st\\\"ate/tasks/r1/bash_1.out has them"
        );
        let found: Vec<PathBuf> = kept.named_in(&line).into_iter().map(|it| it.path).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        for (path, want) in found.iter().zip(["mcp/c-2.json", "a_1.txt", "bash_1.out"]) {
            assert!(path.ends_with(want), "{found:?}");
        }
        let hash = BlobHash::hash(b"x");
        assert_eq!(blobs_in(&format!("in blob:{hash}: and blob:12")), BTreeSet::from([hash]));
    }
}
