//! Rules, modes and directories of all layers, as one policy.

use std::{path::Path, sync::Arc};

use haft_config::{Layer, Sourced};
use haft_permission::{
    Behavior, Boundary, CommandJudge, Destination, Enforcement, Origin, Policy, PolicyBuilder,
    SandboxedCommands, ShellCommands,
};
use haft_types::PermissionMode;

use super::{Setup, absolute, split_rules};
use crate::output::Failure;

/// What takes command lines apart.
fn command_judge() -> Arc<dyn CommandJudge> {
    Arc::new(ShellCommands)
}

/// The policy of a session.
pub(super) fn policy(setup: &Setup) -> Result<Policy, Failure> {
    let permissions = &setup.loaded.settings.permissions;
    let mode = mode(setup)?;
    let mut builder = Policy::builder(&setup.cwd).mode(mode).commands(command_judge());
    if let Some(home) = &setup.home {
        builder = builder.home(home);
    }
    for (behavior, rules) in [
        (Behavior::Allow, &permissions.allow),
        (Behavior::Ask, &permissions.ask),
        (Behavior::Deny, &permissions.deny),
    ] {
        builder = add_rules(builder, behavior, rules);
    }
    let flags = Origin::new("the command line", Destination::CliArg).rooted(setup.cwd.as_path());
    builder = builder.rules(&flags, Behavior::Allow, split_rules(&setup.options.allowed_tools)).rules(
        &flags,
        Behavior::Deny,
        split_rules(&setup.options.disallowed_tools),
    );
    for dir in &permissions.additional_directories {
        builder = builder.additional_dir(expanded(&dir.value, setup), None);
    }
    for dir in &setup.options.add_dir {
        builder = builder.additional_dir(absolute(dir, &setup.cwd), Some(Destination::CliArg));
    }
    builder = sandboxed(builder, setup);
    let places = setup.store.places();
    for dir in places.user.iter().chain(&places.state) {
        builder = builder.protect(dir);
    }
    // What was too large to show is there to be read.
    builder = builder.readable_dir(setup.session_dir().join("tool-results"));
    if permissions.block_reads_outside_working_directories {
        builder = builder.reads_outside(Boundary::Deny);
    }
    if permissions.block_writes_outside_working_directories {
        builder = builder.writes_outside(Boundary::Deny);
    }
    Ok(builder.build())
}

/// The workspace, and what was added to it.
pub(super) fn directories(setup: &Setup) -> Vec<std::path::PathBuf> {
    let added = setup.loaded.settings.permissions.additional_directories.iter();
    let by_flag = setup.options.add_dir.iter().map(|dir| absolute(dir, &setup.cwd));
    std::iter::once(setup.cwd.clone())
        .chain(added.map(|dir| expanded(&dir.value, setup)))
        .chain(by_flag)
        .collect()
}

/// What the sandbox means for questions: nothing, unless all of it stands.
fn sandboxed(builder: PolicyBuilder, setup: &Setup) -> PolicyBuilder {
    let wishes = &setup.loaded.settings.sandbox;
    if !setup.walls().enforce() {
        return builder;
    }
    let asks = wishes.auto_allow_bash.as_ref().is_some_and(|it| !it.value);
    let outside = wishes.excluded_commands.iter().map(|it| it.value.clone());
    builder
        .enforcement(Enforcement::Sandboxed)
        .sandboxed_commands(if asks { SandboxedCommands::Ask } else { SandboxedCommands::Run })
        .runs_outside(outside)
}

fn mode(setup: &Setup) -> Result<PermissionMode, Failure> {
    let permissions = &setup.loaded.settings.permissions;
    let from_settings = permissions.default_mode.as_ref().map(|mode| mode.value);
    let mode = setup.options.permission_mode.or(from_settings).unwrap_or_default();
    let forbidden = match mode {
        PermissionMode::BypassPermissions => permissions.disable_bypass_permissions_mode,
        PermissionMode::Auto => permissions.disable_auto_mode,
        _ => false,
    };
    if forbidden {
        return Err(Failure::Message(format!("the settings forbid the permission mode {mode}")));
    }
    Ok(mode)
}

fn add_rules(mut builder: PolicyBuilder, behavior: Behavior, rules: &[Sourced<String>]) -> PolicyBuilder {
    for rule in rules {
        let source = &rule.origin.source;
        let label = rule.origin.to_string();
        let origin = match source.layer {
            Layer::User => Origin::new(label, Destination::UserSettings),
            Layer::Project => Origin::new(label, Destination::ProjectSettings),
            Layer::Local => Origin::new(label, Destination::LocalSettings),
            Layer::Flag => Origin::new(label, Destination::CliArg),
            Layer::Managed => Origin::fixed(label),
        };
        builder = builder.rules(&origin.rooted(source.base.as_path()), behavior, [rule.value.clone()]);
    }
    builder
}

fn expanded(text: &str, setup: &Setup) -> std::path::PathBuf {
    let expanded = haft_paths::expand(Path::new(text), &setup.cwd, setup.home.as_deref());
    expanded.map(|path| haft_paths::lexical(&path)).unwrap_or_else(|_| absolute(Path::new(text), &setup.cwd))
}

/// A policy of nothing but rules: what `haft permissions test --batch` judges
/// by.
pub(crate) fn policy_of_rules(
    cwd: &Path,
    home: Option<&Path>,
    mode: PermissionMode,
    rules: [(Behavior, Vec<String>); 3],
    dirs: Vec<std::path::PathBuf>,
) -> Policy {
    let origin = Origin::new("the test", Destination::Session).rooted(cwd);
    let mut builder = Policy::builder(cwd).mode(mode).commands(command_judge());
    if let Some(home) = home {
        builder = builder.home(home);
    }
    for (behavior, texts) in rules {
        builder = builder.rules(&origin, behavior, texts);
    }
    for dir in dirs {
        builder = builder.additional_dir(dir, None);
    }
    builder.build()
}
