//! Ids of jobs, and validation of their fields.

use std::collections::BTreeMap;

use haft_fleet_store::FleetName;
use serde_json::Value;

/// Derives the id of a job from its deduplication key.
pub fn job_id(tenant: &str, dedup: &str) -> String {
    let hash = blake3::hash(format!("{tenant}\0{dedup}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

pub(super) fn unknown_field(name: &str, known: &[&str]) -> String {
    match haft_types::nearest(name, known.iter().copied(), 1).first() {
        Some(meant) => format!("`{name}` is not known here; did you mean `{meant}`?"),
        None => format!("`{name}` is not known here; there are: {}", known.join(", ")),
    }
}

/// The fields of a job that the store interprets.
pub(super) struct JobHeads<'a> {
    pub(super) pool: &'a str,
    pub(super) concurrency_key: Option<&'a str>,
    pub(super) dedup: &'a str,
    pub(super) labels: &'a BTreeMap<String, String>,
}

/// Maximum bytes of a key in the store.
const LONGEST_KEY: usize = 512;
/// Maximum bytes of all labels of a job in the store.
const MAX_LABELS: usize = 8 << 10;

impl JobHeads<'_> {
    /// Returns the field that the store would reject, and why, so that it is reported before anything is
    /// queued.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        if let Err(err) = FleetName::parse(self.pool) {
            return Some(("pool", err.to_string()));
        }
        if self.concurrency_key.is_some_and(|it| LONGEST_KEY < it.len()) {
            return Some(("concurrency_key", format!("a concurrency key has {LONGEST_KEY} bytes at most")));
        }
        if LONGEST_KEY < self.dedup.len() {
            return Some(("key", format!("batch and key of a job have {LONGEST_KEY} bytes at most")));
        }
        let bytes: usize = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        (MAX_LABELS < bytes).then(|| {
            let why = format!(
                "the values of this row have {bytes} bytes, and {MAX_LABELS} are taken; long texts belong into a prompt file"
            );
            ("labels", why)
        })
    }
}
