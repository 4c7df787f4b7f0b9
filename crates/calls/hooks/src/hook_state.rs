use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::HookId;

/// State of hooks across events, kept when settings are reloaded.
#[derive(Debug, Default)]
pub(crate) struct HookState {
    memory: Mutex<HookMemory>,
}

/// Ways in which a hook can fail, counted separately: a hook may run well but rewrite every input into
/// an invalid one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum HookFaultKind {
    Running,
    Rewriting,
}

#[derive(Debug, Default)]
struct HookMemory {
    failures_in_a_row: HashMap<(HookId, HookFaultKind), u32>,
    done_once: HashSet<HookId>,
}

impl HookState {
    fn memory(&self) -> MutexGuard<'_, HookMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a failure; returns the number of consecutive ones.
    pub(crate) fn failed(&self, id: &HookId, trouble: HookFaultKind) -> u32 {
        let mut memory = self.memory();
        let count = memory.failures_in_a_row.entry((id.clone(), trouble)).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Resets the count after a success.
    pub(crate) fn worked(&self, id: &HookId, trouble: HookFaultKind) {
        self.memory().failures_in_a_row.remove(&(id.clone(), trouble));
    }

    /// Claims the only run of a hook that runs once; false if it already ran.
    pub(crate) fn take_only_turn(&self, id: &HookId) -> bool {
        self.memory().done_once.insert(id.clone())
    }
}
