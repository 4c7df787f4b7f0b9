//! The agent loop: ask the model, run its tool calls, send the results back; with the session log,
//! context management and limits.
//!
//! The crate does not depend on terminals, flags, settings files or concrete tools. It moves data
//! between the model and the executor and makes no decisions about tools.
//!
//! **Invariant:** requests are derived from the log, never from process memory; a log truncated at
//! any byte can be resumed.
//!
//! **Invariant:** a call with side effects is logged before it runs; while the log is not writable,
//! such calls do not run.
//!
//! **Invariant:** every run ends: by the model, by a limit, by an interrupt, or with an error that
//! states the reason.
//!
//! **Invariant:** the part of a request before the conversation stays the same during a session,
//! unless it is changed on purpose or the conversation is compacted. Every prompt cache miss is reported
//! with its cause.
//!
//! **Invariant:** a truncated or futilely repeated call is answered without being run.

mod agent;
mod agent_commands;
mod agent_event;
mod agent_settings;
mod answer_turn;
mod budget;
mod build_request;
mod call_log_writer;
mod child_budget;
mod compaction;
mod context_window;
mod conversation;
mod fork_point;
mod limits;
pub mod log;
mod log_branches;
mod log_takeover;
mod logged_results;
mod prefix;
mod preserved_state;
mod prompt;
mod prompt_run;
pub mod recording;
mod repetition_guard;
mod request_cost;
mod result_log;
mod results_in_context;
mod secret_masker;
mod shown_output;
mod side_request;
mod structured_output;
mod unfinished_calls;
mod unique_call_ids;
mod unusable;
mod user_input;
mod window_usage;

pub use agent::{Agent, AgentListener, ReplayCalls};
pub use agent_commands::{AgentCommands, CompactionOutcome, SettingsChange};
pub use agent_event::{
    AgentEvent, BlockEvent, CompactedEvent, Compaction, DeniedToolCall, EndReason, InjectedMessage,
    InjectionReason, RetractedAnswer, TurnEnd,
};
pub use agent_settings::{AgentSettings, LateInputPolicy};
pub use budget::{Budget, ReportReserve};
pub use conversation::{Conversation, Restored};
pub use fork_point::{ForkBasis, ForkPoint};
pub use haft_tool_runtime::LEFT_FOR_LATER;
pub use limits::{LimitReached, RunLimits, RunUsage};
pub use prefix::{CacheMiss, CacheMissCause, LoggedPrefix, StoredPrefix};
pub use preserved_state::{PreservedItem, PreservedState};
pub use prompt::{
    MemoryFile, MemoryFiles, MemoryOwner, OutputStyle, PromptBase, PromptEnvironment, SystemPrompt,
};
pub use repetition_guard::RepeatLimits;
pub use request_cost::RequestCost;
pub use results_in_context::ResultsInContext;
pub use secret_masker::{MaskedResults, Masker};
pub use side_request::SideRequest;
pub use unfinished_calls::ExternalCallStates;
pub use user_input::{AgentInbox, Attachment, AttachmentKind, UserInput};
pub use window_usage::{WindowPart, WindowUsage};
