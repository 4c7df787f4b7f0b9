use std::collections::{HashMap, HashSet};

use super::{UndoError, UndoTarget};
use crate::{EntryId, How, JournalEntry};

/// State of a journal entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EntryState {
    /// A change that is in effect.
    InEffect,
    /// A change that was undone.
    Undone,
    /// An undo that is in effect.
    Undo,
    /// An undo that was itself undone, or the redo that did it.
    Redo,
}

/// An entry of the history.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryItem {
    /// The journal entry.
    pub entry: JournalEntry,
    /// Its state.
    pub standing: EntryState,
}

/// Computes the states. Newest first.
pub(super) fn history(entries: Vec<JournalEntry>) -> Vec<HistoryItem> {
    let mut depth: HashMap<EntryId, usize> = HashMap::new();
    for entry in &entries {
        let below = entry.undoes.iter().filter_map(|id| depth.get(id)).max();
        let own = if entry.undoes.is_empty() { 0 } else { below.map_or(1, |it| it + 1) };
        depth.insert(entry.id.clone(), own);
    }
    let mut taken_back: HashSet<EntryId> = HashSet::new();
    let mut items = Vec::new();
    for entry in entries.into_iter().rev() {
        let stands = !taken_back.contains(&entry.id);
        if stands {
            taken_back.extend(entry.undoes.iter().cloned());
        }
        let standing = match (depth.get(&entry.id).copied().unwrap_or(0), stands) {
            (0, true) => EntryState::InEffect,
            (0, false) => EntryState::Undone,
            (odd, true) if odd % 2 == 1 => EntryState::Undo,
            _ => EntryState::Redo,
        };
        items.push(HistoryItem { entry, standing });
    }
    items
}

/// The entries that a target selects, newest first. Only changes in effect can be undone.
pub(super) fn find(history: &[HistoryItem], target: &UndoTarget) -> Result<Vec<JournalEntry>, UndoError> {
    let nothing = |what: String| Err(UndoError::NothingFound(what));
    let matching: Vec<&HistoryItem> = match target {
        UndoTarget::Last => history.iter().filter(|it| it.standing == EntryState::InEffect).take(1).collect(),
        UndoTarget::Call(call) => {
            // Call ids repeat between sessions; the latest one counts.
            let session = history.iter().find(|it| it.entry.origin.call == *call && is_change(it));
            let session = session.map(|it| it.entry.origin.session.clone());
            let same = |it: &&HistoryItem| {
                it.entry.origin.call == *call && Some(&it.entry.origin.session) == session.as_ref()
            };
            history.iter().filter(same).collect()
        }
        UndoTarget::Entry(id) => history.iter().filter(|it| it.entry.id == *id).collect(),
        UndoTarget::Turn(turn) => {
            history.iter().filter(|it| it.entry.origin.turn.as_ref() == Some(turn)).collect()
        }
        UndoTarget::SinceTurn(turn) => {
            let first = history.iter().rposition(|it| it.entry.origin.turn.as_ref() == Some(turn));
            history.iter().take(first.map_or(0, |it| it + 1)).collect()
        }
    };
    let changes: Vec<&HistoryItem> = matching.into_iter().filter(|it| is_change(it)).collect();
    if changes.is_empty() {
        return nothing(match target {
            UndoTarget::Last => "there is nothing to undo".to_owned(),
            UndoTarget::Call(call) => format!("no change of the call {call} is recorded"),
            UndoTarget::Entry(id) => format!("no change {id} is recorded"),
            UndoTarget::Turn(turn) | UndoTarget::SinceTurn(turn) => {
                format!("no change of the turn {} is recorded", turn.as_str())
            }
        });
    }
    let mut standing: Vec<JournalEntry> =
        changes.iter().filter(|it| it.standing == EntryState::InEffect).map(|it| it.entry.clone()).collect();
    if let Some(unseen) = standing.first().filter(|_| standing.iter().all(|it| it.how == How::Unseen)) {
        return nothing(format!(
            "{} {} ran while nothing could be recorded: it is not known what it changed, so it cannot be taken \
             back. An older change is taken back by its id",
            unseen.origin.tool, unseen.id
        ));
    }
    standing.retain(|it| it.how != How::Unseen);
    if standing.is_empty() {
        return nothing("this was undone already; redo brings it back".to_owned());
    }
    Ok(standing)
}

fn is_change(item: &HistoryItem) -> bool {
    matches!(item.standing, EntryState::InEffect | EntryState::Undone)
}
