//! Converts settings about permissions into a permission policy: rules with their source, directories,
//! the mode. Used by sessions and by programs that only run tools, so that managed settings mean the
//! same in both.
//!
//! The crate does not depend on sessions, flags or approvers.

mod split_rules;

use std::path::{Path, PathBuf};

use haft_config::{PermissionSettings, SettingsLayer, Sourced};
use haft_permission::{Behavior, Destination, OutsideWorkspace, PolicyBuilder, RuleSource};
use haft_types::PermissionMode;

pub use split_rules::split_rules;

/// Adds the rules of the settings. Relative paths in rules of the project and of flags are relative to
/// `project`, if given, otherwise to the directory of the settings file.
pub fn add_rules(
    mut builder: PolicyBuilder,
    permissions: &PermissionSettings,
    project: Option<&Path>,
) -> PolicyBuilder {
    for (behavior, rules) in [
        (Behavior::Allow, &permissions.allow),
        (Behavior::Ask, &permissions.ask),
        (Behavior::Deny, &permissions.deny),
    ] {
        for rule in rules {
            builder = builder.rules(&source(rule, project), behavior, [rule.value.clone()]);
        }
    }
    builder
}

fn source(rule: &Sourced<String>, project: Option<&Path>) -> RuleSource {
    let source = &rule.origin.source;
    let label = rule.origin.to_string();
    let origin = match source.layer {
        SettingsLayer::User => RuleSource::new(label, Destination::UserSettings),
        SettingsLayer::Project => RuleSource::new(label, Destination::ProjectSettings),
        SettingsLayer::Local => RuleSource::new(label, Destination::LocalSettings),
        SettingsLayer::Flag => RuleSource::new(label, Destination::CliArg),
        SettingsLayer::Managed => RuleSource::fixed(label),
    };
    let base = match (project, source.layer) {
        (Some(project), SettingsLayer::Project | SettingsLayer::Local | SettingsLayer::Flag) => project,
        _ => source.base.as_path(),
    };
    origin.rooted(base)
}

/// Adds the directories that the settings name.
pub fn add_directories(
    mut builder: PolicyBuilder,
    permissions: &PermissionSettings,
    cwd: &Path,
    home: Option<&Path>,
) -> PolicyBuilder {
    for dir in directories(permissions, cwd, home) {
        builder = builder.additional_dir(dir, None);
    }
    builder
}

/// The directories that the settings add to the workspace, as absolute paths.
pub fn directories(
    permissions: &PermissionSettings,
    cwd: &Path,
    home: Option<&Path>,
) -> impl Iterator<Item = PathBuf> {
    permissions.additional_directories.iter().map(move |dir| expanded(&dir.value, cwd, home))
}

fn expanded(text: &str, cwd: &Path, home: Option<&Path>) -> PathBuf {
    let expanded = haft_paths::expand(Path::new(text), cwd, home);
    let expanded = expanded.unwrap_or_else(|_| cwd.join(text));
    haft_paths::lexical(&expanded)
}

/// Forbids reading and writing outside the workspace, if the settings ask for it.
pub fn add_boundaries(mut builder: PolicyBuilder, permissions: &PermissionSettings) -> PolicyBuilder {
    if permissions.block_reads_outside_working_directories {
        builder = builder.reads_outside(OutsideWorkspace::Deny);
    }
    if permissions.block_writes_outside_working_directories {
        builder = builder.writes_outside(OutsideWorkspace::Deny);
    }
    builder
}

/// The initial permission mode: `wanted`, else that of the settings.
///
/// # Errors
///
/// Returns the mode if the settings disable it.
pub fn mode(
    wanted: Option<PermissionMode>,
    permissions: &PermissionSettings,
) -> Result<PermissionMode, PermissionMode> {
    let from_settings = permissions.default_mode.as_ref().map(|mode| mode.value);
    let mode = wanted.or(from_settings).unwrap_or_default();
    let forbidden = match mode {
        PermissionMode::BypassPermissions => permissions.disable_bypass_permissions_mode,
        PermissionMode::Auto => permissions.disable_auto_mode,
        _ => false,
    };
    if forbidden { Err(mode) } else { Ok(mode) }
}

/// The path in `PWD`, if it is a symlink path to `cwd`. Rules with that path apply to `cwd` too.
pub fn link_to(cwd: &Path, pwd: Option<String>) -> Option<PathBuf> {
    let link = pwd.map(PathBuf::from).filter(|it| it.is_absolute() && it != cwd)?;
    let here = cwd.canonicalize().ok()?;
    (link.canonicalize().ok()? == here && link != here).then_some(link)
}
