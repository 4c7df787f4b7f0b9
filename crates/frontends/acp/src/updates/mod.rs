//! Converts a session's activity to updates, with the same functions for live events and log lines.

mod call_info;
mod command_changes;
mod content;
mod diffs;
mod proposed_change;
mod read_ahead;
mod replay_log;
mod update;
mod update_builder;

pub(crate) use self::{
    call_info::CallInspector,
    command_changes::JournalView,
    content::fenced,
    proposed_change::proposed_diffs,
    replay_log::replay_log,
    update::AcpUpdate,
    update_builder::{PromptResponse, UpdateBuilder, title_of, turn_answer, usage_update},
};
