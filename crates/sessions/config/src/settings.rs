use std::{str::FromStr, sync::Arc};

use haft_hooks::{HookDefinition, HookSource, HttpPolicy, parse_definitions};
use haft_types::PermissionMode;
use serde_json::Value;

use crate::{
    SandboxSettings, SettingsLayer, SettingsSourceKind, SettingsText, Sourced,
    mcp_servers::McpServer,
    merge_layers::MergedSettings,
    setting_units::{SettingUnit, UnitEntry},
};

/// The effective settings of all layers.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub permissions: PermissionSettings,
    /// Environment variables for Haft and its child processes, in order.
    pub env: Vec<(String, Sourced<String>)>,
    /// Hooks in configuration order, without disabled ones.
    pub hooks: Vec<HookDefinition>,
    /// Restrictions of HTTP hooks.
    pub http_hooks: HttpPolicy,
    pub sandbox: SandboxSettings,
    /// Which MCP servers may be used.
    pub mcp: McpSettings,
    /// The MCP servers of user and project.
    pub mcp_servers: Vec<McpServer>,
    /// Default model.
    pub model: Option<Sourced<String>>,
    /// Days after which sessions are deleted. Default 30.
    pub cleanup_period_days: u64,
    merged: MergedSettings,
}

/// Permission rules, directories and modes.
#[derive(Clone, Debug, Default)]
pub struct PermissionSettings {
    pub allow: Vec<Sourced<String>>,
    /// Rules that prompt the user.
    pub ask: Vec<Sourced<String>>,
    pub deny: Vec<Sourced<String>>,
    /// Additional workspace directories as written; relative ones are relative to the working directory.
    pub additional_directories: Vec<Sourced<String>>,
    /// Permission mode in which a session starts.
    pub default_mode: Option<Sourced<PermissionMode>>,
    /// Whether the mode `bypassPermissions` is unavailable.
    pub disable_bypass_permissions_mode: bool,
    /// Whether the mode in which a classifier decides is unavailable.
    pub disable_auto_mode: bool,
    /// Whether reads outside the workspace are denied.
    pub block_reads_outside_working_directories: bool,
    /// Whether writes outside the workspace are denied.
    pub block_writes_outside_working_directories: bool,
    /// Whether calls that would prompt are denied instead.
    pub deny_instead_of_prompting: bool,
}

/// Which MCP servers may be used.
#[derive(Clone, Debug, Default)]
pub struct McpSettings {
    /// Whether all servers of the project are approved.
    pub enable_all_project_servers: bool,
    /// Approved servers of the project.
    pub enabled: Vec<Sourced<String>>,
    /// Rejected servers of the project.
    pub disabled: Vec<Sourced<String>>,
    /// If present, only servers that match an entry may be used.
    pub allowed: Option<Vec<Sourced<Value>>>,
    /// Servers that may never be used.
    pub denied: Vec<Sourced<Value>>,
    /// Servers declared by the organisation.
    pub managed: Vec<(String, Sourced<Value>)>,
    /// Whether only the organisation's servers may be used.
    pub managed_only: bool,
}

/// The units of one text that take effect, with their source.
pub(crate) struct EffectiveUnit {
    pub(crate) source: Arc<SettingsText>,
    pub(crate) units: Vec<SettingUnit>,
}

/// Default number of days sessions are kept.
const CLEANUP_PERIOD_DAYS: u64 = 30;

impl Settings {
    /// Merges the units of all texts, given in ascending precedence.
    pub(crate) fn from_units(speeches: &[EffectiveUnit], mcp_servers: Vec<McpServer>) -> Self {
        let mut merged = MergedSettings::default();
        for speech in speeches {
            merged.add(&speech.units, &speech.source);
        }
        let text = |(name, value): (String, Sourced<Value>)| {
            let text = value.value.as_str()?.to_owned();
            Some((name, value.map(|_| text)))
        };
        let values = |name: &str| -> Option<Vec<String>> {
            merged.get(name).map(|_| merged.texts(name).into_iter().map(|it| it.value).collect())
        };
        Self {
            permissions: PermissionSettings::from_merged(&merged),
            env: merged.map("env").into_iter().filter_map(text).collect(),
            hooks: hooks(speeches, &merged),
            http_hooks: HttpPolicy {
                allowed_urls: values("allowedHttpHookUrls"),
                allowed_env_vars: values("httpHookAllowedEnvVars"),
            },
            sandbox: SandboxSettings::from_merged(&merged),
            mcp: McpSettings::from_merged(&merged),
            mcp_servers,
            model: merged.text("model"),
            cleanup_period_days: merged
                .get("cleanupPeriodDays")
                .and_then(|it| it.value.as_u64())
                .unwrap_or(CLEANUP_PERIOD_DAYS),
            merged,
        }
    }

    /// Returns any setting by its dotted name, with its origin. The origin of a list or object is that
    /// of its first part.
    pub fn get(&self, name: &str) -> Option<Sourced<Value>> {
        self.merged.get(name)
    }

    /// Returns whether a feature is enabled; `otherwise` if no layer sets it.
    pub fn feature(&self, name: &str, otherwise: FeatureSwitch) -> FeatureSwitch {
        let found = self.merged.map("features").into_iter().find(|(it, _)| it == name);
        match found.and_then(|(_, value)| value.value.as_bool()) {
            Some(true) => FeatureSwitch::On,
            Some(false) => FeatureSwitch::Off,
            None => otherwise,
        }
    }
}

/// Whether a feature is enabled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the words explain themselves")]
pub enum FeatureSwitch {
    On,
    Off,
}

impl PermissionSettings {
    fn from_merged(merged: &MergedSettings) -> Self {
        let managed_only = is_on(merged, "allowManagedPermissionRulesOnly");
        let counts =
            |rule: &Sourced<String>| !managed_only || rule.origin.source.layer == SettingsLayer::Managed;
        let mode = merged.text("permissions.defaultMode").and_then(|text| {
            let mode = PermissionMode::from_str(&text.value).ok()?;
            Some(text.map(|_| mode))
        });
        Self {
            // The organisation can forbid further allow rules; deny rules of all layers always apply.
            allow: merged.texts("permissions.allow").into_iter().filter(counts).collect(),
            ask: merged.texts("permissions.ask"),
            deny: merged.texts("permissions.deny"),
            additional_directories: merged.texts("permissions.additionalDirectories"),
            default_mode: mode,
            disable_bypass_permissions_mode: is_disabled(merged, "permissions.disableBypassPermissionsMode"),
            disable_auto_mode: is_disabled(merged, "permissions.disableAutoMode")
                || is_disabled(merged, "disableAutoMode"),
            block_reads_outside_working_directories: is_on(
                merged,
                "permissions.blockReadsOutsideWorkingDirectories",
            ),
            block_writes_outside_working_directories: is_on(
                merged,
                "permissions.blockWritesOutsideWorkingDirectories",
            ),
            deny_instead_of_prompting: is_on(merged, "permissions.denyInsteadOfPrompting"),
        }
    }
}

fn is_on(merged: &MergedSettings, name: &str) -> bool {
    merged.flag(name).is_some_and(|it| it.value)
}

fn is_disabled(merged: &MergedSettings, name: &str) -> bool {
    merged.text(name).is_some_and(|it| it.value == "disable")
}

impl McpSettings {
    fn from_merged(merged: &MergedSettings) -> Self {
        Self {
            enable_all_project_servers: is_on(merged, "enableAllProjectMcpServers"),
            enabled: merged.texts("enabledMcpjsonServers"),
            disabled: merged.texts("disabledMcpjsonServers"),
            allowed: merged.get("allowedMcpServers").map(|_| merged.list("allowedMcpServers")),
            denied: merged.list("deniedMcpServers"),
            managed: merged.map("managedMcpServers"),
            managed_only: is_on(merged, "allowManagedMcpServersOnly"),
        }
    }
}

/// Returns the hooks that are not disabled. A layer can disable its own hooks; the user also those of
/// the project; the organisation all. Only the organisation can disable the organisation's hooks.
fn hooks(speeches: &[EffectiveUnit], merged: &MergedSettings) -> Vec<HookDefinition> {
    let managed_only = is_on(merged, "allowManagedHooksOnly");
    let mut definitions = Vec::new();
    for speech in speeches {
        let layer = speech.source.layer;
        if (managed_only && layer != SettingsLayer::Managed)
            || speeches.iter().any(|it| disables_all(it, layer))
        {
            continue;
        }
        let source = Arc::new(match &speech.source.place {
            SettingsSourceKind::File(path) => HookSource::File(path.clone()),
            SettingsSourceKind::Argument(name) => HookSource::Named(name.clone()),
        });
        let units = speech.units.iter().filter(|unit| matches!(unit.entry, UnitEntry::Hook { .. }));
        let parsed = units.flat_map(|unit| parse_definitions(&unit.value, &source).0);
        definitions
            .extend(parsed.filter(|it| !speeches.iter().any(|by| disables(by, layer, it.id.as_str()))));
    }
    definitions
}

fn may_disable(by: SettingsLayer, layer: SettingsLayer) -> bool {
    match by {
        SettingsLayer::Managed => true,
        SettingsLayer::User | SettingsLayer::Flag => layer != SettingsLayer::Managed,
        SettingsLayer::Project | SettingsLayer::Local => layer.is_of_the_project(),
    }
}

fn disables_all(by: &EffectiveUnit, layer: SettingsLayer) -> bool {
    let says = |unit: &SettingUnit| unit.name() == "disableAllHooks" && unit.value == Value::Bool(true);
    may_disable(by.source.layer, layer) && by.units.iter().any(says)
}

fn disables(by: &EffectiveUnit, layer: SettingsLayer, id: &str) -> bool {
    let says = |unit: &SettingUnit| unit.name() == "disabledHooks" && unit.value.as_str() == Some(id);
    may_disable(by.source.layer, layer) && by.units.iter().any(says)
}
