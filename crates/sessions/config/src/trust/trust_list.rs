use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{BoundFile, ItemKind, TrustItem, hex};

/// What was agreed to for one directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustList {
    records: Vec<TrustRecord>,
}

/// One agreed item, as it is kept.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct TrustRecord {
    /// Of the whole item: this decides.
    id: String,
    /// The rest is for showing what has changed.
    kind: String,
    name: String,
    text: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    files: Map<String, Value>,
}

/// The directory in the list: the real one, whatever names lead there.
pub(crate) fn folder_key(real: &Path) -> String {
    match real.to_str() {
        Some(text) => text.to_owned(),
        None => format!("bytes:{}", hex(real.as_os_str().as_encoded_bytes())),
    }
}

impl TrustList {
    /// What a trust file says about a directory. Entries that make no sense
    /// are trust for nothing.
    pub(crate) fn read(file: &Map<String, Value>, folder: &str) -> Self {
        let items = file.get("folders").and_then(|it| it.get(folder)?.get("trusted")?.as_array());
        let record = |it: &Value| serde_json::from_value(it.clone()).ok();
        Self { records: items.into_iter().flatten().filter_map(record).collect() }
    }

    /// Whether exactly this was agreed to.
    pub(crate) fn trusts(&self, item: &TrustItem) -> bool {
        let id = item.id();
        self.records.iter().any(|record| record.id == id)
    }

    /// What was last agreed to under the same name and is not there any more:
    /// most likely what this item was before it changed. With its id.
    pub(crate) fn before(&self, item: &TrustItem, there: &HashSet<String>) -> Option<(String, TrustItem)> {
        let fits = |record: &&TrustRecord| {
            record.name == item.name && record.kind == kind_word(item.kind) && !there.contains(&record.id)
        };
        let found = self.records.iter().rev().find(fits);
        found.map(|record| (record.id.clone(), record.to_item(item.kind)))
    }
}

/// How much is remembered for one directory. What was agreed to stays agreed
/// to while branches come and go, but not without end.
const MAX_RECORDS: usize = 1000;

/// Adds items to a trust file.
pub(crate) fn agree(file: &mut Map<String, Value>, folder: &str, items: &[TrustItem]) {
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

/// Takes back everything that was agreed to for a directory.
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
