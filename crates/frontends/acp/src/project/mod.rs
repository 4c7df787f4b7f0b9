//! What a session does, as updates for the editor: the same functions for events
//! as they happen and for lines of the log.

mod calls;
mod content;
mod diffs;
mod journal;
mod proposal;
mod read_ahead;
mod replay;
mod teller;
mod update;

pub(crate) use self::{
    calls::CallInspector,
    content::fenced,
    journal::JournalView,
    proposal::proposed_diffs,
    replay::replay_log,
    teller::{PromptResponse, UpdateBuilder, title_of, turn_answer, usage_update},
    update::AcpUpdate,
};
