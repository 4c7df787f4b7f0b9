use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::HookId;

/// What is remembered of hooks from event to event, also when the settings are
/// read anew.
#[derive(Debug, Default)]
pub(crate) struct HookState {
    memory: Mutex<HookMemory>,
}

/// The two ways in which a hook can be broken. They are counted apart: a hook
/// may run well and still rewrite every input into one that no tool takes.
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

    /// Counts a failure, and returns how many there were in a row.
    pub(crate) fn failed(&self, id: &HookId, trouble: HookFaultKind) -> u32 {
        let mut memory = self.memory();
        let count = memory.failures_in_a_row.entry((id.clone(), trouble)).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// A success ends a row of failures.
    pub(crate) fn worked(&self, id: &HookId, trouble: HookFaultKind) {
        self.memory().failures_in_a_row.remove(&(id.clone(), trouble));
    }

    /// Takes the only turn of a hook that runs once; false if it was taken.
    pub(crate) fn take_only_turn(&self, id: &HookId) -> bool {
        self.memory().done_once.insert(id.clone())
    }
}
