//! What a session does, as updates for the editor: the same functions for events
//! as they happen and for lines of the log.

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
