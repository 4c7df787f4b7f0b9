use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{BoundFile, ItemKind, TrustItem, hex};

/// Approvals for one directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustList {
    records: Vec<TrustRecord>,
}

/// One approval as it is stored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct TrustRecord {
    /// Hash of the whole item; the only field that decides about trust.
    id: String,
    /// This and the following fields are for showing what has changed.
    kind: String,
    name: String,
    text: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    files: Map<String, Value>,
}

/// Returns the key of a directory in the list; `real` must be its real path.
pub(crate) fn folder_key(real: &Path) -> String {
    match real.to_str() {
        Some(text) => text.to_owned(),
        None => format!("bytes:{}", hex(real.as_os_str().as_encoded_bytes())),
    }
}

impl TrustList {
    /// Reads the approvals of a directory from a trust file. Invalid entries are ignored.
    pub(crate) fn read(file: &Map<String, Value>, folder: &str) -> Self {
        let items = file.get("folders").and_then(|it| it.get(folder)?.get("trusted")?.as_array());
        let record = |it: &Value| serde_json::from_value(it.clone()).ok();
        Self { records: items.into_iter().flatten().filter_map(record).collect() }
    }

    /// Whether exactly this item is approved.
    pub(crate) fn trusts(&self, item: &TrustItem) -> bool {
        let id = item.id();
        self.records.iter().any(|record| record.id == id)
    }

    /// Returns the newest approved item with the same name and kind that is no longer present, with its
    /// id: probably an earlier version of this item.
    pub(crate) fn before(&self, item: &TrustItem, there: &HashSet<String>) -> Option<(String, TrustItem)> {
        let fits = |record: &&TrustRecord| {
            record.name == item.name && record.kind == kind_word(item.kind) && !there.contains(&record.id)
        };
        let found = self.records.iter().rev().find(fits);
        found.map(|record| (record.id.clone(), record.to_item(item.kind)))
    }
}

/// Maximum approvals stored per directory; the oldest are dropped. Old ones are kept because switching
/// branches brings items back.
const MAX_RECORDS: usize = 1000;

/// Adds approvals to a trust file.
pub(crate) fn add_items(file: &mut Map<String, Value>, folder: &str, items: &[TrustItem]) {
    let mut records = TrustList::read(file, folder).records;
    for item in items {
        let record = TrustRecord::from_item(item);
        records.retain(|it| it.id != record.id);
        records.push(record);
    }
    let surplus = records.len().saturating_sub(MAX_RECORDS.max(items.len()));
    records.drain(..surplus);
    let folders = file.entry("folders").or_insert_with(|| json!({}));
    if !folders.is_object() {
        *folders = json!({});
    }
    folders[folder] = json!({"trusted": records});
}

/// Removes all approvals of a directory.
pub(crate) fn forget(file: &mut Map<String, Value>, folder: &str) {
    if let Some(folders) = file.get_mut("folders").and_then(Value::as_object_mut) {
        folders.shift_remove(folder);
    }
}

impl TrustRecord {
    fn from_item(item: &TrustItem) -> Self {
        let files = item.files.iter();
        Self {
            id: item.id(),
            kind: kind_word(item.kind).to_owned(),
            name: item.name.clone(),
            text: haft_types::text::head(&item.text, 4000).to_owned(),
            files: files
                .map(|it| (it.path.to_string_lossy().into_owned(), it.sha256.clone().into()))
                .collect(),
        }
    }

    fn to_item(&self, kind: ItemKind) -> TrustItem {
        let file = |(path, sha256): (&String, &Value)| BoundFile {
            path: PathBuf::from(path),
            sha256: sha256.as_str().unwrap_or_default().to_owned(),
        };
        TrustItem {
            kind,
            name: self.name.clone(),
            text: self.text.clone(),
            files: self.files.iter().map(file).collect(),
        }
    }
}

fn kind_word(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Hook => "hook",
        ItemKind::McpServer => "mcp_server",
        ItemKind::Environment => "environment",
        ItemKind::AllowRule => "allow_rule",
        ItemKind::Directory => "directory",
        ItemKind::Setting => "setting",
    }
}
