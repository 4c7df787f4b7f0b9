//! What a project wants, and what of it the person has agreed to.
//!
//! A project's files can run code (hooks, MCP servers), change the environment
//! and widen what is allowed. None of it counts before a person has seen it and
//! said yes, and a yes is for exactly what was seen: it is bound to the real
//! directory and to the content of each item, down to the scripts a command
//! names. What changes asks again; the rest goes on.

mod bound_files;
mod trust_list;

use std::{collections::HashSet, path::PathBuf, sync::Arc};

use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) use trust_list::{TrustList, agree, folder_key, forget};

use crate::{
    SettingsOrigin, SettingsText,
    keys::ProjectTrustRule,
    setting_units::{SettingUnit, UnitEntry},
    stable_read::FileFingerprint,
};

/// What kind of thing an item is, for a face that shows it to a person.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ItemKind {
    /// Runs code at events.
    Hook,
    /// Runs a program, or talks to a server, and offers its tools.
    McpServer,
    /// Changes the environment of Haft and of what it runs.
    Environment,
    /// Lets calls run without a question.
    AllowRule,
    /// Makes a directory part of the workspace.
    Directory,
    /// Anything else that is not stricter than what the person has.
    Setting,
}

/// One thing of a project that needs a yes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrustItem {
    /// What kind of thing it is.
    pub kind: ItemKind,
    /// The setting it belongs to.
    pub name: String,
    /// What it says, as JSON with sorted keys.
    pub text: String,
    /// The project's files it would run, with their content.
    pub files: Vec<BoundFile>,
}

/// A file of the project that an item names.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct BoundFile {
    /// Its path, from the project.
    pub path: PathBuf,
    /// What it holds, as a SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// An item nobody has agreed to yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingItem {
    /// The hook, server, variable or rule that waits.
    pub item: TrustItem,
    /// What stood in its place when the person last agreed.
    pub before: Option<TrustItem>,
    /// Where it stands.
    pub origin: SettingsOrigin,
}

/// Everything of a project that waits for a yes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingTrust {
    /// The real directory a yes is bound to.
    pub folder: PathBuf,
    /// The items, in the order of the files.
    pub items: Vec<PendingItem>,
}

impl TrustItem {
    /// Differs whenever anything about the item differs.
    pub(crate) fn id(&self) -> String {
        let mut digest = Sha256::new();
        let mut feed = |part: &[u8]| {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        };
        feed(self.name.as_bytes());
        feed(self.text.as_bytes());
        for file in &self.files {
            feed(file.path.as_os_str().as_encoded_bytes());
            feed(file.sha256.as_bytes());
        }
        hex(&digest.finalize())
    }

    /// What a unit of a project's settings is to trust.
    /// Also the scripts it names, each in the state in which it was read.
    pub(crate) fn from_unit(
        unit: &SettingUnit,
        project: &std::path::Path,
    ) -> (Self, Vec<(PathBuf, FileFingerprint)>) {
        let kind = match (&unit.entry, unit.path.first().map(String::as_str)) {
            (UnitEntry::Hook { .. }, _) => ItemKind::Hook,
            (_, Some("mcpServers")) => ItemKind::McpServer,
            (_, Some("env")) => ItemKind::Environment,
            _ if unit.name() == "permissions.allow" => ItemKind::AllowRule,
            _ if unit.name() == "permissions.additionalDirectories" => ItemKind::Directory,
            _ => ItemKind::Setting,
        };
        let named = match kind {
            ItemKind::Hook | ItemKind::McpServer | ItemKind::Setting => {
                bound_files::named_in(&unit.value, project)
            }
            ItemKind::Environment | ItemKind::AllowRule | ItemKind::Directory => Vec::new(),
        };
        let (files, prints) = named.into_iter().map(|it| (it.file, (it.path, it.print))).unzip();
        (Self { kind, name: unit.name(), text: sorted(&unit.value).to_string(), files }, prints)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same value with the keys of every object in order: moving a line is not
/// a change.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// What a project's text may say now.
#[derive(Debug, Default)]
pub(crate) struct AdmittedSettings {
    /// The units of the project that count, agreed to or harmless.
    pub(crate) units: Vec<SettingUnit>,
    /// What waits for a yes.
    pub(crate) pending: Vec<PendingItem>,
    /// Settings no project can ever decide, with their pointers.
    pub(crate) refused: Vec<(String, String)>,
    /// The scripts that were looked at.
    pub(crate) scripts: Vec<(PathBuf, FileFingerprint)>,
}

/// Whether a person is asked, or the caller has answered for everything.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TrustMode {
    /// What is new waits for a yes.
    #[default]
    Ask,
    /// The host that started us answers for the project's content.
    Assume,
}

/// Divides what a project says into what counts and what waits.
pub(crate) fn admit(
    units: Vec<SettingUnit>,
    source: &Arc<SettingsText>,
    list: &TrustList,
    project: &std::path::Path,
    mode: TrustMode,
) -> AdmittedSettings {
    let mut admitted = AdmittedSettings::default();
    let mut waiting = Vec::new();
    let mut there = HashSet::new();
    for unit in units {
        match standing_of(&unit, mode) {
            TrustState::Never => admitted.refused.push((unit.name(), unit.pointer)),
            TrustState::Counts => admitted.units.push(unit),
            TrustState::Asks => {
                let (item, scripts) = TrustItem::from_unit(&unit, project);
                admitted.scripts.extend(scripts);
                if list.trusts(&item) {
                    there.insert(item.id());
                    admitted.units.push(unit);
                } else {
                    waiting.push((item, unit.pointer));
                }
            }
        }
    }
    for (item, pointer) in waiting {
        let (used, before) = list.before(&item, &there).unzip();
        there.extend(used);
        let origin = SettingsOrigin { source: Arc::clone(source), pointer };
        admitted.pending.push(PendingItem { item, before, origin });
    }
    admitted
}

/// What a project may say with one unit.
enum TrustState {
    Counts,
    Asks,
    Never,
}

fn standing_of(unit: &SettingUnit, mode: TrustMode) -> TrustState {
    let (never, tightens) = match unit.key.from_project {
        ProjectTrustRule::Tightens | ProjectTrustRule::Harmless => (false, true),
        ProjectTrustRule::NeedsTrust => (false, false),
        ProjectTrustRule::TightensIf(test) => (false, test(&unit.value)),
        ProjectTrustRule::Never => (true, false),
        ProjectTrustRule::NeverIf { never, tightens } => (never(&unit.value), tightens(&unit.value)),
    };
    match (never, tightens || unit.entry == UnitEntry::NoElements || mode == TrustMode::Assume) {
        (true, _) => TrustState::Never,
        (false, true) => TrustState::Counts,
        (false, false) => TrustState::Asks,
    }
}
