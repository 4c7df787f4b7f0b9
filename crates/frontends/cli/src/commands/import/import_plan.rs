//! The plan of an import, and carrying it out.

use std::path::{Path, PathBuf};

use haft_agent::Masker;
use haft_config::{McpScope, SettingsScope, SettingsStore};
use haft_console::create_file;
use haft_mcp_client::{ServerScope, declared_servers};
use haft_types::secret_variables::is_secret_name;
use serde_json::{Map, Value, json};

pub(super) struct ImportPlan {
    /// Haft's state directory.
    pub(super) state: PathBuf,
    pub(super) steps: Vec<PlannedStep>,
}

/// One thing that was found, and what it is converted to.
pub(super) struct PlannedStep {
    /// Its name in the other agent.
    pub(super) theirs: String,
    /// Its name in Haft; empty if it is not imported.
    pub(super) ours: String,
    /// What else the user should know or do.
    pub(super) note: String,
    pub(super) action: ImportAction,
    pub(super) outcome: StepOutcome,
}

/// What a step writes.
pub(super) enum ImportAction {
    Nothing,
    Server {
        scope: McpScope,
        name: String,
        entry: Map<String, Value>,
    },
    Rule {
        scope: SettingsScope,
        list: &'static str,
        rule: String,
    },
    Setting {
        scope: SettingsScope,
        name: &'static str,
        value: Value,
    },
    /// Create a file with this text, unless it exists.
    File {
        path: PathBuf,
        text: String,
    },
    /// Copy a directory recursively, unless it exists.
    Tree {
        from: PathBuf,
        to: PathBuf,
    },
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum StepOutcome {
    Planned,
    Taken,
    AlreadyThere,
    /// Haft reads the original file in place; nothing to do.
    InPlace,
    NotTaken(String),
}

impl StepOutcome {
    pub(super) fn words(&self) -> (&'static str, String) {
        match self {
            Self::Planned => ("would take", String::new()),
            Self::Taken => ("taken", String::new()),
            Self::AlreadyThere => ("there", String::new()),
            Self::InPlace => ("in place", String::new()),
            Self::NotTaken(why) => ("not taken", why.clone()),
        }
    }
}

impl ImportPlan {
    pub(super) fn new(state: PathBuf) -> Self {
        Self { state, steps: Vec::new() }
    }

    fn push(&mut self, theirs: String, ours: String, note: String, action: ImportAction) {
        self.steps.push(PlannedStep { theirs, ours, note, action, outcome: StepOutcome::Planned });
    }

    pub(super) fn add_skipped(&mut self, theirs: impl Into<String>, why: impl Into<String>) {
        self.steps.push(PlannedStep {
            theirs: theirs.into(),
            ours: String::new(),
            note: String::new(),
            action: ImportAction::Nothing,
            outcome: StepOutcome::NotTaken(why.into()),
        });
    }

    pub(super) fn in_place(&mut self, theirs: impl Into<String>, ours: impl Into<String>) {
        self.steps.push(PlannedStep {
            theirs: theirs.into(),
            ours: ours.into(),
            note: String::new(),
            action: ImportAction::Nothing,
            outcome: StepOutcome::InPlace,
        });
    }

    pub(super) fn rule(
        &mut self,
        theirs: impl Into<String>,
        scope: SettingsScope,
        list: &'static str,
        rule: String,
    ) {
        let ours = format!("permissions.{list}: {rule}");
        self.push(theirs.into(), ours, String::new(), ImportAction::Rule { scope, list, rule });
    }

    pub(super) fn setting(
        &mut self,
        theirs: impl Into<String>,
        scope: SettingsScope,
        name: &'static str,
        value: Value,
    ) {
        let ours = format!("{name} = {value}");
        self.push(theirs.into(), ours, String::new(), ImportAction::Setting { scope, name, value });
    }

    pub(super) fn file(&mut self, theirs: impl Into<String>, path: PathBuf, text: String) {
        self.file_with(theirs, path, text, String::new());
    }

    /// Like `file`, with a note for the user.
    pub(super) fn file_with(&mut self, theirs: impl Into<String>, path: PathBuf, text: String, note: String) {
        let ours = path.display().to_string();
        self.push(theirs.into(), ours, note, ImportAction::File { path, text });
    }

    pub(super) fn tree(&mut self, from: PathBuf, to: PathBuf) {
        let (theirs, ours) = (from.display().to_string(), to.display().to_string());
        self.push(theirs, ours, String::new(), ImportAction::Tree { from, to });
    }

    /// Plans to add an MCP server. Values that look like secrets are replaced by references to
    /// variables; a server with a secret in its command line or URL is not imported. Fields Haft does
    /// not know are reported.
    pub(super) fn server(
        &mut self,
        theirs: impl Into<String>,
        scope: McpScope,
        name: &str,
        mut entry: Map<String, Value>,
        left: &[String],
    ) {
        let theirs = theirs.into();
        let masker = Masker::default();
        let written = |part: &str| entry.get(part).map(Value::to_string).unwrap_or_default();
        let open = ["command", "args", "url"].into_iter().find(|part| masker.mask(&written(part)).is_some());
        if let Some(part) = open {
            let why = format!("its `{part}` holds a secret: put that into a variable there, then come again");
            return self.add_skipped(theirs, why);
        }
        let mut named = Vec::new();
        for part in ["env", "headers"] {
            if let Some(Value::Object(fields)) = entry.get_mut(part) {
                for (key, value) in fields {
                    hide_secret(&masker, name, part, key, value, &mut named);
                }
            }
        }
        let secrets = (!named.is_empty())
            .then(|| format!("no secret was copied: set {} in your environment", named.join(", ")));
        let left = (!left.is_empty()).then(|| format!("without its {}", left.join(", ")));
        let note = [secrets, left].into_iter().flatten().collect::<Vec<_>>().join("; ");
        let name = name.to_owned();
        let ours = format!("MCP server {name}");
        self.push(theirs, ours, note, ImportAction::Server { scope, name, entry });
    }
}

/// Replaces a secret by a reference to a variable, and reports the variable's name.
fn hide_secret(
    masker: &Masker,
    server: &str,
    part: &str,
    key: &str,
    value: &mut Value,
    named: &mut Vec<String>,
) {
    let Some(text) = value.as_str() else { return };
    let is_reference = text.contains("${");
    let looks_secret = is_secret_name(key)
        || key.eq_ignore_ascii_case("authorization")
        || masker.mask(text).is_some()
        || masker.mask(&format!("{key}={text}")).is_some();
    if is_reference || !looks_secret {
        return;
    }
    let variable = match part {
        "env" => key.to_owned(),
        _ => {
            let words = format!("{server}_{key}").to_uppercase();
            words.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect()
        }
    };
    let bearer = text.strip_prefix("Bearer ").map_or("", |_| "Bearer ");
    *value = json!(format!("{bearer}${{{variable}}}"));
    named.push(variable);
}

impl PlannedStep {
    /// Whether the step adds a rule that allows something without a prompt.
    pub(super) fn allows(&self) -> bool {
        matches!(&self.action, ImportAction::Rule { list, .. } if *list == "allow")
    }

    /// Whether the result already exists.
    pub(super) fn is_done(&self, store: &SettingsStore) -> bool {
        match &self.action {
            ImportAction::Nothing => false,
            ImportAction::Server { scope, name, .. } => {
                store.mentions_server(*scope, name)
                    || store.current().settings.mcp_servers.iter().any(|it| it.name == *name)
            }
            ImportAction::Rule { list, rule, .. } => {
                let settings = &store.current().settings;
                let path = format!("permissions.{list}");
                settings.get(&path).is_some_and(|it| {
                    it.value.as_array().is_some_and(|rules| rules.iter().any(|has| has == rule))
                })
            }
            ImportAction::Setting { name, .. } => store.current().settings.get(name).is_some(),
            ImportAction::File { path, .. } | ImportAction::Tree { to: path, .. } => path.exists(),
        }
    }

    /// Carries out the step. The error is for the user.
    pub(super) fn apply(&self, store: &SettingsStore) -> Result<(), String> {
        match &self.action {
            ImportAction::Nothing => Ok(()),
            ImportAction::Server { scope, name, entry } => {
                let (_, problems) =
                    declared_servers(&json!({"mcpServers": {name: entry}}), ServerScope::User);
                if let Some(problem) = problems.first() {
                    return Err(problem.reason.clone());
                }
                store.add_server(*scope, name, entry).map(drop).map_err(|err| err.to_string())
            }
            ImportAction::Rule { scope, list, rule } => store
                .add_to_list(*scope, &format!("permissions.{list}"), std::slice::from_ref(rule))
                .map_err(|err| err.to_string()),
            ImportAction::Setting { scope, name, value } => {
                store.set(*scope, name, value).map_err(|err| err.to_string())
            }
            ImportAction::File { path, text } => {
                create_file::create(path, text).map_err(|err| format!("{}: {err}", path.display()))
            }
            ImportAction::Tree { from, to } => {
                let was_there = to.exists();
                copy_tree(from, to, 0).inspect_err(|_| {
                    // Remove a partial copy: the next import would take it for a complete one.
                    if !was_there {
                        drop(std::fs::remove_dir_all(to));
                    }
                })
            }
        }
    }
}

/// Copies files and directories recursively. Skips symlinks, because they may point outside. Fails below
/// 8 levels.
fn copy_tree(from: &Path, to: &Path, depth: usize) -> Result<(), String> {
    const DEEPEST: usize = 8;
    let failed = |err: std::io::Error| format!("{}: {err}", from.display());
    if depth > DEEPEST {
        return Err(format!("{}: it is too deep", from.display()));
    }
    std::fs::create_dir_all(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy_tree(&entry.path(), &target, depth + 1)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target).map(drop).map_err(failed)?;
        }
    }
    Ok(())
}
