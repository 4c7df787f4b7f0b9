//! The turn loop: ask the model, run what it calls, give it the results; with
//! the session log, the context budget, and the bounds of a run.
//!
//! **Does not know** terminals, flags, settings files, or any concrete tool. It
//! moves data from the model to the executor and back, and decides nothing
//! about tools.
//!
//! **Invariant:** what is sent to the model is derived from the log, never from
//! process memory; any prefix of the log, cut at any byte, can be resumed.
//!
//! **Invariant:** a call that may act is in the log before it runs; while the log
//! cannot be written, such calls do not run.
//!
//! **Invariant:** every run ends: by the model, by a bound, by an interrupt, or
//! with an error that says why.
//!
//! **Invariant:** what a request says before its conversation stays the same for
//! a whole session, unless somebody changes it on purpose or the conversation is
//! summed up; every cache that is lost all the same is reported with its cause.
//!
//! **Invariant:** a call that was cut, or that leads nowhere, is answered and
//! not run.

mod agent;
mod aside;
mod branches;
pub mod cassette;
mod charge;
mod child;
mod context;
mod conversation;
mod event;
mod fill;
mod fork;
mod held;
mod input;
mod keep;
mod ledger;
mod limits;
pub mod log;
mod logged_results;
mod mask;
mod on_demand;
mod prefix;
mod prompt;
mod prompt_run;
mod repeats;
mod request;
mod settings;
mod shown;
mod structured;
mod takeover;
mod turn;
mod unfinished;
mod unique_ids;
mod unusable;
mod window;
mod witness;

pub use agent::{Agent, AgentListener, ReplayCalls};
pub use aside::SideRequest;
pub use charge::RequestCost;
pub use conversation::{Conversation, Restored};
pub use event::{
    AgentEvent, BlockEvent, CompactedEvent, Compaction, DeniedToolCall, EndReason, InjectedMessage,
    InjectionReason, ResultEvent, RetractedAnswer, TurnEnd,
};
pub use fill::{WindowPart, WindowUsage};
pub use fork::{ForkBasis, ForkPoint};
pub use haft_tool_runtime::LEFT_FOR_LATER;
pub use held::ResultsInContext;
pub use input::{AgentInbox, Attachment, AttachmentKind, UserInput};
pub use keep::{PreservedItem, PreservedState};
pub use ledger::{Budget, ReportReserve};
pub use limits::{LimitReached, RunLimits, RunUsage};
pub use mask::{MaskedResults, Masker};
pub use on_demand::{AgentCommands, CompactionOutcome, SettingsChange};
pub use prefix::{CacheMiss, CacheMissCause, LoggedPrefix, StoredPrefix};
pub use prompt::{
    MemoryFile, MemoryFiles, MemoryOwner, OutputStyle, PromptBase, PromptEnvironment, SystemPrompt,
};
pub use repeats::RepeatLimits;
pub use settings::{AgentSettings, LateInputPolicy};
pub use unfinished::ExternalCallStates;
