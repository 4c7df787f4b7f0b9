//! Combines rules, modes and directories of all settings layers into one policy.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use haft_bash_analysis::{AnalysisContext, SharedAnalysis};
use haft_config::LoadedSettings;
use haft_permission::{
    BashJudge, Behavior, CommandJudge, Destination, PathRuleReach, Policy, PolicyBuilder, ReadOnlyEnforced,
    RuleSource, RunningCommands, SandboxedAskPolicy, SessionCommands,
};
use haft_settings_rules::{add_boundaries, add_directories, add_rules, split_rules};
use haft_shell::run::TaskRegistry;
use haft_types::PermissionMode;

use super::{SessionEnvironment, SessionRoots};
use crate::{OpenError, RuleOrigin, mcp_servers::ToolPolicies};

/// The command line parser where no command of a session is running.
fn command_judge() -> Arc<dyn CommandJudge> {
    Arc::new(BashJudge)
}

/// The running commands of a session. A weak reference: a policy that outlives the session must not keep
/// its lock.
struct SessionTasks {
    tasks: Weak<TaskRegistry>,
    home: Option<PathBuf>,
    roots: Arc<SessionRoots>,
}

impl RunningCommands for SessionTasks {
    fn running(&self) -> Vec<Arc<SharedAnalysis>> {
        let Some(tasks) = self.tasks.upgrade() else { return Vec::new() };
        let roots = self.roots.now();
        let read = |(line, cwd): (String, PathBuf)| {
            let place = AnalysisContext { cwd: &cwd, home: self.home.as_deref(), roots: &roots };
            Arc::new(SharedAnalysis::new(&line, place))
        };
        tasks.running().into_iter().map(read).collect()
    }
}

/// The command line parser of a session, which knows its running commands.
fn session_commands(premises: &SessionEnvironment) -> Arc<dyn CommandJudge> {
    let Some(tasks) = premises.tasks.get() else { return command_judge() };
    let (tasks, home) = (Weak::clone(tasks), premises.home.clone());
    let running = SessionTasks { tasks, home, roots: Arc::clone(&premises.roots) };
    Arc::new(SessionCommands::new(Arc::new(running)))
}

/// Whether this machine can confine read-only commands; tried once.
const READING_HELD: ReadOnlyEnforced =
    ReadOnlyEnforced::AsTried(|| super::read_only_guard::is_supported().is_ok());

/// The policy of a session. Fails for invalid rules of an embedding program.
pub(super) fn policy(premises: &SessionEnvironment) -> Result<Policy, OpenError> {
    let loaded = premises.loaded();
    let permissions = &loaded.settings.permissions;
    let mode = mode(premises, &loaded)?;
    let (cwd, home) = premises.work_place();
    let mut builder =
        Policy::builder(&cwd).mode(mode).commands(session_commands(premises)).reading(READING_HELD);
    if let Some(home) = &home {
        builder = builder.home(home);
    }
    builder = on_hosts(builder, premises);
    // Rules of a project apply to the files that are worked on, which may be on a tool host.
    let project = premises.hosts.get().map(|hosts| hosts.place().cwd.clone());
    builder = add_rules(builder, permissions, project.as_deref());
    let spec = &premises.permissions;
    let origin = match spec.origin {
        RuleOrigin::CommandLine => RuleSource::new("the command line", Destination::CliArg),
        RuleOrigin::Program => RuleSource::new("the program", Destination::Session),
    };
    let origin = origin.rooted(cwd.as_path());
    builder = builder.rules(&origin, Behavior::Allow, split_rules(&spec.allow)).rules(
        &origin,
        Behavior::Deny,
        split_rules(&spec.deny),
    );
    for (behavior, tool) in premises.tool_policies.rules() {
        builder = builder.rules(&ToolPolicies::origin(), behavior, [tool]);
    }
    builder = add_directories(builder, permissions, &cwd, home.as_deref());
    for dir in &premises.extra_dirs {
        builder = builder.additional_dir(dir.clone(), Some(Destination::CliArg));
    }
    if let Some(link) = premises.link_to_here() {
        builder = builder.additional_dir(link, None);
    }
    builder = sandboxed(builder, premises, &loaded);
    let places = premises.store.places();
    for dir in places.protected() {
        builder = builder.protect(dir);
    }
    for dir in premises.kept_dirs() {
        builder = builder.readable_dir(dir);
    }
    builder = add_boundaries(builder, permissions);
    if let Some(classifier) = premises.classifier.get() {
        builder = builder.classifier(Arc::clone(classifier));
    }
    let policy = builder.build();
    if spec.origin == RuleOrigin::Program
        && let Some(warning) = policy.warnings().iter().find(|it| it.rule.origin.label == origin.label)
    {
        let (rule, problem) = (warning.rule.text.to_string(), warning.message.clone());
        return Err(OpenError::Rule { rule, problem });
    }
    Ok(policy)
}

/// The workspace and the directories added to it.
pub(super) fn directories(
    cwd: &Path,
    home: Option<&Path>,
    loaded: &LoadedSettings,
    extra: &[PathBuf],
) -> Vec<PathBuf> {
    std::iter::once(cwd.to_owned())
        .chain(haft_settings_rules::directories(&loaded.settings.permissions, cwd, home))
        .chain(extra.iter().cloned())
        .collect()
}

/// Whether sandboxed commands may run without a prompt: only if the complete sandbox is available.
fn sandboxed(
    builder: PolicyBuilder,
    premises: &SessionEnvironment,
    loaded: &LoadedSettings,
) -> PolicyBuilder {
    let wishes = &loaded.settings.sandbox;
    // The local sandbox does not confine commands on tool hosts.
    if !premises.walls.allows_without_asking() || premises.hosts.get().is_some() {
        return builder;
    }
    let asks = wishes.auto_allow_bash.as_ref().is_some_and(|it| !it.value);
    let outside = wishes.excluded_commands.iter().map(|it| it.value.clone());
    builder
        .enforcement(PathRuleReach::Sandboxed)
        .sandboxed_commands(if asks { SandboxedAskPolicy::Ask } else { SandboxedAskPolicy::Run })
        .runs_outside(outside)
}

fn mode(premises: &SessionEnvironment, loaded: &LoadedSettings) -> Result<PermissionMode, OpenError> {
    let wanted = premises.permissions.mode;
    haft_settings_rules::mode(wanted, &loaded.settings.permissions)
        .map_err(|mode| OpenError::Start(format!("the settings forbid the permission mode {mode}")))
}

/// Uses the directories of all tool hosts as the workspace.
fn on_hosts(mut builder: PolicyBuilder, premises: &SessionEnvironment) -> PolicyBuilder {
    for (_, place) in premises.hosts.get().into_iter().flat_map(|it| it.places()) {
        for dir in std::iter::once(&place.cwd).chain(&place.extra_dirs).filter(|it| it.is_absolute()) {
            builder = builder.additional_dir(dir.clone(), None);
        }
    }
    builder
}

/// A policy of rules alone, for `haft permissions test --batch`.
pub fn policy_of_rules(
    cwd: &Path,
    home: Option<&Path>,
    mode: PermissionMode,
    rules: [(Behavior, Vec<String>); 3],
    dirs: Vec<PathBuf>,
) -> Policy {
    let origin = RuleSource::new("the test", Destination::Session).rooted(cwd);
    let mut builder = Policy::builder(cwd).mode(mode).commands(command_judge()).reading(READING_HELD);
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
