//! Trust: what a project's settings request, and which of it the user has approved.
//!
//! A project's files can run code (hooks, MCP servers), change the environment and widen permissions.
//! None of that takes effect before the user has seen and approved it. An approval is bound to the real
//! path of the project and to the content of each item, including the scripts a command names. A changed
//! item needs a new approval; the others stay trusted.

mod bound_files;
mod trust_list;

use std::{collections::HashSet, path::PathBuf, sync::Arc};

use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) use trust_list::{TrustList, add_items, folder_key, forget};

use crate::{
    SettingsOrigin, SettingsText,
    keys::ProjectTrustRule,
    setting_units::{SettingUnit, UnitEntry},
    stable_read::FileFingerprint,
};

/// Kind of an item, for display.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ItemKind {
    /// Runs code at events.
    Hook,
    /// Runs a program or connects to a server, and offers its tools.
    McpServer,
    /// Changes the environment of Haft and its child processes.
    Environment,
    /// Allows calls without a prompt.
    AllowRule,
    /// Adds a directory to the workspace.
    Directory,
    /// Any other setting that is not stricter than the user's.
    Setting,
}

/// A part of a project's settings that needs approval.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrustItem {
    pub kind: ItemKind,
    /// Dotted name of the setting.
    pub name: String,
    /// Its value as JSON with sorted keys.
    pub text: String,
    /// The project's files it would run, with content hashes.
    pub files: Vec<BoundFile>,
}

/// A file of the project that an item refers to.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct BoundFile {
    /// Path relative to the project.
    pub path: PathBuf,
    /// SHA-256 of the content in hexadecimal.
    pub sha256: String,
}

/// An item that is not approved yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingItem {
    pub item: TrustItem,
    /// The approved item it probably replaces.
    pub before: Option<TrustItem>,
    /// Where it was set.
    pub origin: SettingsOrigin,
}

/// All items of a project that are not approved yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingTrust {
    /// The real path an approval is bound to.
    pub folder: PathBuf,
    /// The items, in the order of the files.
    pub items: Vec<PendingItem>,
}

impl TrustItem {
    /// Returns a hash of the whole item.
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

    /// Builds the trust item of a unit. Also returns the scripts it names, each with its state when it
    /// was read.
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

/// Returns the value with the keys of all objects sorted, so that reordering is not a change.
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

/// Result of the trust check of a project's text.
#[derive(Debug, Default)]
pub(crate) struct AdmittedSettings {
    /// Units that take effect: approved or harmless.
    pub(crate) units: Vec<SettingUnit>,
    /// Units that need approval.
    pub(crate) pending: Vec<PendingItem>,
    /// Settings a project may never set: dotted names and pointers.
    pub(crate) refused: Vec<(String, String)>,
    /// The scripts that were read.
    pub(crate) scripts: Vec<(PathBuf, FileFingerprint)>,
}

/// Whether project settings need approval.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TrustMode {
    /// New items need the user's approval.
    #[default]
    Ask,
    /// All items count as approved; the embedding host vouches for the project.
    Assume,
}

/// Splits a project's units into those that take effect, those that need approval, and those that are
/// refused.
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

/// What a unit of a project's settings may do.
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
