//! The session engine behind every front end of Haft.
//!
//! A front end (the terminal, `haft -p`, the Agent SDKs, an editor, a fleet worker, the Rust library)
//! converts its input into a [`SessionSpec`], opens a session with [`Session::open`], sends [`Command`]s
//! through the [`SessionHandle`] and renders the events of the [`EventStream`]. Front ends do not touch
//! a session in any other way.
//!
//! Modules: `environment` (settings, rules, sandbox) and `build` assemble a session; `actor` is the task
//! that owns it; `extensions` are slash commands, skills, agents, plugins and `@` mentions;
//! `mcp_servers`, `agents`, `questions`, `memory`, `telemetry` and `tool_hosts` are what their names
//! say.
//!
//! The crate does not depend on terminals, command line flags, standard input or output, wire formats of
//! hosts, or signals. It prints nothing: messages to the user are events.
//!
//! **Invariant:** two front ends with equal specs and equal commands get equal logs, requests and events.
//!
//! **Invariant:** no session state is global to the process: not the working directory, environment
//! variables, home directory, tasks, hooks or project trust. Any number of sessions can run in one
//! process.
//!
//! **Invariant:** a permission question that is not answered, or whose front end is gone, counts as denied.
//!
//! **Invariant:** [`SessionEventKind::Closed`] is the last event of every session whose actor task runs
//! to its end, also after an error. A tokio runtime that is shut down first drops the task without it.

#![warn(missing_docs)]

mod actor;
mod agents;
mod api_failure;
mod background_tasks;
mod build;
mod context_usage;
mod environment;
mod extensions;
mod hook_events;
mod late_pipeline;
mod mcp_servers;
mod memory;
mod open_error;
mod permission_dry_run;
mod prompt;
mod proposed_content;
mod questions;
mod remote_mail;
mod rewind_files;
mod rewind_stored;
mod session_command;
mod session_event;
mod session_handle;
mod session_logs;
mod session_spec;
mod task_hooks;
mod team_registry;
mod telemetry;
mod tool_hosts;
mod turn_observer;
mod undo;
mod usage_totals;
mod user_messages;
mod worktrees;

pub use agents::{
    AgentDefinition, AgentMemory, AgentProblem, AgentReport, AgentSource, AgentStatus, ChildIdentity,
    ChildProgress, KilledBy, LoggedAgent, SubagentDenial, logged_agents, logged_requests,
};
pub use api_failure::ApiFailure;
pub use background_tasks::TaskTail;
pub use build::{SETTINGS_TOOL, TOOLS_OF_SESSIONS, described_tools};
pub use context_usage::{ContextPart, ContextUsage};
pub use environment::{
    CallLimits, CommandSandbox, SandboxDemand, SessionEnvironment, policy_of_rules, setting_sources,
    split_rules,
};
pub use extensions::{
    ExtensionProblem, HostAgent, LineProblem, ListedPlugin, LocalCommand, Marketplace, PluginEntry,
    PluginList, PluginOption, SlashCommand, as_context, with_piped,
};
pub use haft_lsp::{LanguageStatus, ServerUnavailable};
pub use mcp_servers::{DiscoveredServers, SessionServers, WaitingServer, journal_path, needs_servers};
pub use open_error::OpenError;
pub use permission_dry_run::{judge, judge_and_classify};
pub use prompt::{Prompt, PromptAuthor};
pub use proposed_content::{ProposedText, proposed_text};
pub use questions::{QuestionAnswer, QuestionSubject, SessionQuestion, read_permission_answer};
pub use remote_mail::RemoteMail;
pub use rewind_files::{RewindReport, rewind_calls};
pub use rewind_stored::{
    PastPrompt, RewindOutcome, RewindScope, rewind_preview, rewind_session, said_prompts,
};
pub use session_command::{
    ClientParts, CloseMode, Command, FileContent, Interrupted, ModeRefused, Reply, ServerSwitch, ServersSet,
    SessionIntroduction, SessionUsage, WrittenScope,
};
pub use session_event::{
    Activity, Appended, CommandEnded, CommandResult, EventSender, EventStream, HookRun, PluginInfo,
    PromptState, QuestionOutcome, SessionEvent, SessionEventKind, SessionSummary, TurnEnded, TurnInfo,
    TurnStarted,
};
pub use session_handle::{CallPipeline, Session, SessionHandle};
pub use session_logs::SessionLogs;
pub use session_spec::{
    AnswerableQuestions, ApproverSpec, DenialText, ExtensionSpec, HostSpec, HostedServers, LocationSpec,
    LogDestination, LogSpec, LogStart, ModelSpec, PermissionSpec, PluginDir, ProviderMiddleware,
    ProviderSpec, ReplaySpec, RuleOrigin, ServerSpec, ServerStart, SessionSpec, SettingsSpec, ToolsSpec,
};
pub use tool_hosts::{HostSessionFactory, host_address, open_hosts};
pub use undo::{change_json, entry_state_text, history_json, redo_change, undo_change, undo_json};
pub use usage_totals::{AgentUsage, UsageTotals};
pub use worktrees::worktree_keeper;
