//! The one session engine under every face of Haft.
//!
//! A face (the terminal, `haft -p`, the Agent SDKs, an editor, a fleet worker,
//! the Rust facade) turns what it was told into a [`SessionSpec`], opens a
//! session with [`Session::open`], sends [`Command`]s through the
//! [`SessionHandle`] and shows what comes out of the [`EventStream`]. Nothing
//! else reaches into a session.
//!
//! Inside: `premises` (settings, rules, walls) and `assembly` put a session
//! together; `owner` is the one task that holds it; `extensions` are commands,
//! skills, agents, plugins and `@` mentions; `servers` are MCP servers;
//! `background`, `checkpoints`, `questions`, `telemetry` are what their names
//! say.
//!
//! **Does not know** terminals, flags, standard input or output, wire formats of
//! hosts, or signals. It prints nothing: what a person should know is an event.
//!
//! **Invariant:** two faces with equal specs and equal commands get equal logs,
//! requests and events.
//!
//! **Invariant:** nothing about a session is per process: not its directory, its
//! variables, its home, its tasks, its hooks, its trust. Any number of sessions
//! live side by side.
//!
//! **Invariant:** a question that is not answered, or whose face is gone, is
//! answered with no.
//!
//! **Invariant:** every session that was opened tells [`SessionEventKind::Closed`] last,
//! however it ended.

mod agents;
mod assembly;
mod background;
mod bill;
mod checkpoints;
mod command;
mod error;
mod event;
mod extensions;
mod failure;
mod far_post;
mod handle;
mod hooks;
mod hosts;
mod judging;
mod late;
mod logs;
mod memory;
mod owner;
mod premises;
mod prompt;
mod proposed_text;
mod questions;
mod rewinding;
mod servers;
mod spec;
mod task_hooks;
mod teams;
mod telemetry;
mod undoing;
mod usage;
mod voice;
mod watch;
mod worktrees;

pub use agents::{
    AgentDefinition, AgentMemory, AgentProblem, AgentReport, AgentSource, AgentStatus, ChildIdentity,
    ChildProgress, KilledBy, LoggedAgent, SubagentDenial, logged_agents, logged_requests,
};
pub use assembly::{SETTINGS_TOOL, TOOLS_OF_SESSIONS, described_tools};
pub use background::TaskTail;
pub use bill::{AgentUsage, UsageTotals};
pub use checkpoints::{RewindReport, rewind_calls};
pub use command::{
    ClientParts, CloseMode, Command, FileContent, Interrupted, ModeRefused, Reply, ServerSwitch, ServersSet,
    SessionIntroduction, SessionUsage, WrittenScope,
};
pub use error::OpenError;
pub use event::{
    Activity, Appended, CommandEnded, CommandResult, DeniedCall, EventSender, EventStream, HookRun,
    PluginInfo, PromptState, QuestionOutcome, SessionEvent, SessionEventKind, SessionSummary, TurnEnded,
    TurnInfo, TurnStarted,
};
pub use extensions::{
    ExtensionProblem, HostAgent, LineProblem, ListedPlugin, LocalCommand, Marketplace, PluginEntry,
    PluginList, PluginOption, SlashCommand, as_context, with_piped,
};
pub use failure::ApiFailure;
pub use far_post::RemoteMail;
pub use haft_lsp::{LanguageStatus, ServerUnavailable};
pub use handle::{CallPipeline, Session, SessionHandle};
pub use hosts::{HostSessionFactory, host_address, open_hosts};
pub use judging::{judge, judge_and_classify};
pub use logs::SessionLogs;
pub use premises::{
    CallLimits, CommandSandbox, SandboxDemand, SessionEnvironment, policy_of_rules, setting_sources,
    split_rules,
};
pub use prompt::{Prompt, PromptAuthor};
pub use proposed_text::{ProposedText, proposed_text};
pub use questions::{
    PermissionQuestion, QuestionAnswer, QuestionSubject, SessionQuestion, read_permission_answer,
};
pub use rewinding::{PastPrompt, RewindOutcome, RewindScope, rewind_preview, rewind_session, said_prompts};
pub use servers::{DiscoveredServers, SessionServers, WaitingServer, journal_path, needs_servers};
pub use spec::{
    AnswerableQuestions, ApproverSpec, DenialText, ExtensionSpec, HostSpec, HostedServers, LocationSpec,
    LogDestination, LogSpec, LogStart, ModelSpec, PermissionSpec, PluginDir, ProviderMiddleware,
    ProviderSpec, ReplaySpec, RuleOrigin, ServerSpec, ServerStart, SessionSpec, SettingsSpec, ToolsSpec,
};
pub use undoing::{change_json, history_json, redo_change, standing_words, undo_change, undo_json};
pub use usage::{ContextPart, ContextUsage};
pub use worktrees::worktree_keeper;
