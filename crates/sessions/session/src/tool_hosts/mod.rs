//! Tool hosts of a session: remote machines with its files and commands.
//!
//! The agent loop, the log, keys and hooks stay local. Tools that work on a machine run on the host,
//! under their own names.

mod host_sessions;
mod host_settings;
mod remote_approvals;

use std::{path::PathBuf, sync::Arc};

use haft_agent::{ExternalCallStates, PromptEnvironment, log::RemoteLog};
use haft_tool::DynTool;
use haft_tool_host::{HostAddress, HostSet, LinkConfig, LocalTasks};
use haft_types::{AgentId, CallId, ToolUse};
use serde_json::Value;

pub use self::host_sessions::HostSessionFactory;
use self::remote_approvals::LocalQuestionHandler;
use crate::{
    ApproverSpec, OpenError, SessionSpec, agents::SubagentRegistry, environment::SessionEnvironment,
    late_pipeline::LatePipeline,
};

/// Tools that can refer to a local task or stored result, too.
const ABOUT_BOTH: [&str; 5] = [
    <haft_builtin_tools::task_output::TaskOutput as haft_tool::Tool>::NAME,
    <haft_builtin_tools::task_stop::TaskStop as haft_tool::Tool>::NAME,
    <haft_builtin_tools::read::Read as haft_tool::Tool>::NAME,
    <haft_builtin_tools::grep::Grep as haft_tool::Tool>::NAME,
    <haft_builtin_tools::ls::Ls as haft_tool::Tool>::NAME,
];

/// Whether the session uses tool hosts.
pub(crate) fn is_wanted(premises: &SessionEnvironment, spec: &SessionSpec) -> bool {
    !spec.hosts.named.is_empty() || (spec.model.is_some() && !host_settings::usual(premises).is_empty())
}

/// Connects to the hosts of a session; `None` if it has none. Blocks until they have answered.
pub(crate) fn connect(
    premises: &SessionEnvironment,
    spec: &SessionSpec,
) -> Result<Option<Arc<HostSet>>, OpenError> {
    if !is_wanted(premises, spec) {
        return Ok(None);
    }
    if spec.model.as_ref().is_some_and(|it| it.replay.is_some()) {
        return Err(OpenError::Spec(String::from(
            "a recorded run is played again without its hosts: results come from the recording",
        )));
    }
    let hosts = host_settings::hosts(premises, &spec.hosts.named)?;
    let nobody = premises.loaded().settings.permissions.deny_instead_of_prompting;
    let attended = match &spec.asking {
        ApproverSpec::Nobody => false,
        ApproverSpec::Face(_) => !nobody,
        ApproverSpec::Port(port) => port.is_available(),
        ApproverSpec::Tool(_) => true,
    };
    let setup = |config| {
        let events = premises.events.clone();
        LinkConfig {
            config,
            session: premises.session_id.as_str().to_owned(),
            epoch: spec.hosts.epoch,
            attended,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            times: spec.hosts.times.unwrap_or_else(|| host_settings::times(premises)),
            notice: Arc::new(move |text| events.notice(text)),
        }
    };
    let set = HostSet::open(hosts.into_iter().map(setup).collect()).map_err(OpenError::Start)?;
    premises.hosts.set(Arc::clone(&set)).ok();
    Ok(Some(set))
}

/// The tools of a session with hosts: those that work on a machine are replaced by remote ones.
pub(crate) fn hosted_tools(hosts: &Arc<HostSet>, tools: Vec<Arc<dyn DynTool>>) -> Vec<Arc<dyn DynTool>> {
    let kept = tools.into_iter().filter(|it| !haft_builtin_tools::needs_own_files(it.name()));
    kept.map(|tool| {
        if haft_builtin_tools::OF_MACHINE.contains(&tool.name()) {
            let may_be_near = ABOUT_BOTH.contains(&tool.name());
            hosts.tool(tool, may_be_near)
        } else {
            tool
        }
    })
    .collect()
}

/// Connects hosts with the local approver, and with local secrets to be masked.
pub(crate) fn introduce(
    hosts: &HostSet,
    late: &Arc<LatePipeline>,
    agents: &Arc<SubagentRegistry>,
    premises: &SessionEnvironment,
) {
    hosts.with_question_handler(Arc::new(LocalQuestionHandler { late: Arc::clone(late) }));
    hosts.tasks_known_by(Arc::new(LocalResources {
        agents: Arc::clone(agents),
        session_dir: premises.session_dir(),
    }));
}

/// Masks local secrets in results. They are never inserted into calls, which may go to a host; a host
/// restores what it has masked itself.
pub(crate) struct LocalSecrets(pub(crate) haft_agent::Masker);

impl haft_tool_runtime::SecretMask for LocalSecrets {
    fn mask_result(&self, reach: &haft_tool::AccessSet, content: &mut haft_types::Content) {
        haft_tool_runtime::SecretMask::mask_result(&self.0, reach, content);
    }

    fn unmask_input(&self, _input: &mut Value) -> Result<(), String> {
        Ok(())
    }
}

/// Local agents and stored results.
struct LocalResources {
    agents: Arc<SubagentRegistry>,
    session_dir: PathBuf,
}

impl LocalTasks for LocalResources {
    fn is_near(&self, input: &Value) -> bool {
        let texts = |names: &[&str]| -> Vec<String> {
            names.iter().filter_map(|it| input[*it].as_str().map(str::to_owned)).collect()
        };
        let is_agent = texts(&["task_id", "bash_id", "shell_id"]).iter().any(|id| self.agents.knows(id));
        let is_stored = texts(&["file_path", "path"]).iter().any(|path| {
            let path = haft_paths::lexical(std::path::Path::new(path));
            path.starts_with(&self.session_dir)
        });
        is_agent || is_stored
    }
}

/// Waits for updates of hosts for a sub-agent; forever without hosts.
pub(crate) async fn news_of_hosts(premises: &SessionEnvironment, agent: &AgentId) -> Vec<String> {
    let Some(hosts) = premises.hosts.get() else { return std::future::pending().await };
    hosts.news(agent).await;
    let told = hosts
        .take_news(agent)
        .into_iter()
        .map(|text| haft_types::tags::task_notification("This comes from a task in the background.", &text));
    told.collect()
}

/// Describes the hosts in the system prompt.
pub(crate) fn environment(hosts: &HostSet, environment: &mut PromptEnvironment, mode: String) {
    let place = hosts.place();
    environment.cwd = place.cwd.display().to_string();
    environment.is_git_repository = place.is_git_repository;
    environment.platform.clone_from(&place.platform);
    environment.additional_directories = place.extra_dirs.iter().map(|it| it.display().to_string()).collect();
    let names = hosts.names();
    let mut notes = Vec::new();
    match names.as_slice() {
        [only] => {
            notes.push(format!("Machine: the tool host {only}; files and commands are there, not here"))
        }
        _ => {
            let first = names.first().cloned().unwrap_or_default();
            notes.push(format!(
                "Machines: files and commands are on tool hosts, each with files of its own; `host` of a call says on \
                 which, {first} unless given"
            ));
            for (config, place) in hosts.places() {
                let (name, dir, system) = (&config.name, place.cwd.display(), &place.platform);
                notes
                    .push(format!("Host {name}: {dir}{}{system}", if system.is_empty() { "" } else { ", " }));
            }
        }
    }
    notes.push(mode);
    notes.extend(place.notes.iter().cloned());
    environment.notes = notes;
}

/// Known outcomes of calls that a killed process left open: hosts remember theirs.
pub(crate) struct HostCallStates<'a> {
    pub(crate) premises: &'a SessionEnvironment,
    pub(crate) has_hosts: bool,
    pub(crate) fence: Option<&'a dyn RemoteLog>,
}

impl ExternalCallStates for HostCallStates<'_> {
    fn effects(&self, call: &CallId) -> Option<String> {
        let at_store = || self.fence.and_then(|fence| fence.seen(call));
        self.premises.changed_by(call).or_else(at_store)
    }

    fn is_known_elsewhere(&self, call: &ToolUse) -> bool {
        self.has_hosts && haft_builtin_tools::OF_MACHINE.contains(&call.name.as_str())
    }
}

/// Connects to the hosts of a spec without opening a session. Blocks.
pub fn open_hosts(premises: &SessionEnvironment, spec: &SessionSpec) -> Result<Arc<HostSet>, OpenError> {
    connect(premises, spec)?.ok_or_else(|| OpenError::Spec(String::from("no host is named")))
}

/// Parses and checks a host address of settings or flags.
pub fn host_address(text: &str) -> Result<HostAddress, String> {
    HostAddress::read(text).map_err(|err| err.to_string())
}
