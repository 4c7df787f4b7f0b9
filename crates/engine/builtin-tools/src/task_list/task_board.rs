//! The content of a task list, without I/O: applies events and returns tasks.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
}

impl TaskStatus {
    /// Returns the public name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// One task of a list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BoardTask {
    /// Short description in the imperative.
    pub subject: String,
    pub description: String,
    /// The subject in the progressive form ("Running tests"), shown while the task is in progress.
    pub active_form: Option<String>,
    pub status: TaskStatus,
    /// The agent that works on it.
    pub owner: Option<String>,
    /// Tasks that depend on this one.
    pub blocks: BTreeSet<u64>,
    /// Tasks this one depends on.
    pub blocked_by: BTreeSet<u64>,
    /// Additional data.
    pub metadata: Map<String, Value>,
}

/// Changes of a task; fields that are absent stay as they are.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct TaskPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
    /// New owner; an empty name removes the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Tasks that depend on this one, in addition.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub blocks: BTreeSet<u64>,
    /// Tasks this one depends on, in addition.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub blocked_by: BTreeSet<u64>,
    /// Additional data to merge; null removes a key.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A change of a list, as stored in its log.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TaskEvent {
    /// A number was reserved for a task that may follow.
    Reserved { id: u64 },
    /// A task was created.
    Created {
        id: u64,
        /// Its initial values.
        #[serde(flatten)]
        task: TaskPatch,
    },
    /// A task was changed.
    Updated {
        id: u64,
        #[serde(flatten)]
        patch: TaskPatch,
    },
    /// A task was deleted, and removed from the dependencies of others.
    Deleted { id: u64 },
}

impl TaskEvent {
    fn id(&self) -> u64 {
        match self {
            Self::Reserved { id }
            | Self::Created { id, .. }
            | Self::Updated { id, .. }
            | Self::Deleted { id } => *id,
        }
    }
}

/// Tasks by number. Numbers are never reused.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TaskBoard {
    tasks: BTreeMap<u64, BoardTask>,
    highest: u64,
}

impl TaskBoard {
    /// Applies an event. An event about a missing task has no effect.
    pub fn apply(&mut self, event: &TaskEvent) {
        self.highest = self.highest.max(event.id());
        match event {
            TaskEvent::Reserved { .. } => (),
            TaskEvent::Created { id, task } => {
                self.tasks.insert(*id, BoardTask::default());
                self.patch(*id, task);
            }
            TaskEvent::Updated { id, patch } => self.patch(*id, patch),
            TaskEvent::Deleted { id } => {
                self.tasks.remove(id);
                for task in self.tasks.values_mut() {
                    task.blocks.remove(id);
                    task.blocked_by.remove(id);
                }
            }
        }
    }

    fn patch(&mut self, id: u64, patch: &TaskPatch) {
        let there: BTreeSet<u64> = self.tasks.keys().copied().collect();
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let set = |place: &mut String, value: &Option<String>| {
            if let Some(value) = value {
                place.clone_from(value);
            }
        };
        set(&mut task.subject, &patch.subject);
        set(&mut task.description, &patch.description);
        if patch.active_form.is_some() {
            task.active_form.clone_from(&patch.active_form);
        }
        if let Some(owner) = &patch.owner {
            task.owner = (!owner.is_empty()).then(|| owner.clone());
        }
        task.status = patch.status.unwrap_or(task.status);
        for (key, value) in &patch.metadata {
            match value {
                Value::Null => drop(task.metadata.remove(key)),
                value => drop(task.metadata.insert(key.clone(), value.clone())),
            }
        }
        let later: Vec<u64> = patch.blocks.intersection(&there).copied().collect();
        let earlier: Vec<u64> = patch.blocked_by.intersection(&there).copied().collect();
        task.blocks.extend(&later);
        task.blocked_by.extend(&earlier);
        for other in later {
            if let Some(task) = self.tasks.get_mut(&other) {
                task.blocked_by.insert(id);
            }
        }
        for other in earlier {
            if let Some(task) = self.tasks.get_mut(&other) {
                task.blocks.insert(id);
            }
        }
    }

    /// Returns the next unused number.
    pub fn next_id(&self) -> u64 {
        self.highest + 1
    }

    pub fn get(&self, id: u64) -> Option<&BoardTask> {
        self.tasks.get(&id)
    }

    /// Returns all tasks, ordered by number.
    pub fn tasks(&self) -> impl Iterator<Item = (u64, &BoardTask)> {
        self.tasks.iter().map(|(id, task)| (*id, task))
    }

    /// Returns the unfinished tasks this one depends on.
    pub fn open_blockers(&self, task: &BoardTask) -> Vec<u64> {
        let open = |id: &u64| self.tasks.get(id).is_some_and(|it| it.status != TaskStatus::Completed);
        task.blocked_by.iter().copied().filter(open).collect()
    }

    /// Returns why the change is not allowed, as text for the model.
    pub fn refusal(&self, id: u64, patch: &TaskPatch) -> Option<String> {
        for other in patch.blocks.iter().chain(&patch.blocked_by) {
            if !self.tasks.contains_key(other) {
                return Some(format!("there is no task #{other}: nothing was changed"));
            }
        }
        let mut trial = self.clone();
        trial.patch(id, patch);
        let around = trial.cycle_through(id)?;
        let shown: Vec<String> = around.iter().map(|it| format!("#{it}")).collect();
        Some(format!("these tasks would wait for each other: {}; nothing was changed", shown.join(" → ")))
    }

    /// Returns a dependency cycle through the task, if there is one.
    fn cycle_through(&self, start: u64) -> Option<Vec<u64>> {
        let mut came_from: BTreeMap<u64, u64> = BTreeMap::new();
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            for next in self.tasks.get(&at).into_iter().flat_map(|it| &it.blocks) {
                if *next == start {
                    let back = std::iter::successors(Some(at), |it| came_from.get(it).copied());
                    let mut way: Vec<u64> = back.collect();
                    way.reverse();
                    way.push(start);
                    return Some(way);
                }
                if !came_from.contains_key(next) {
                    came_from.insert(*next, at);
                    open.push(*next);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(tasks: u64) -> TaskBoard {
        let mut board = TaskBoard::default();
        for id in 1..=tasks {
            let subject = Some(format!("task {id}"));
            board.apply(&TaskEvent::Created { id, task: TaskPatch { subject, ..TaskPatch::default() } });
        }
        board
    }

    fn edge(blocks: &[u64], blocked_by: &[u64]) -> TaskPatch {
        TaskPatch {
            blocks: blocks.iter().copied().collect(),
            blocked_by: blocked_by.iter().copied().collect(),
            ..TaskPatch::default()
        }
    }

    #[test]
    fn dependencies_are_symmetric_and_acyclic() {
        let mut board = board(4);
        for (id, patch, refused) in [
            (1, edge(&[2], &[]), None),
            (3, edge(&[], &[2]), None),
            (3, edge(&[1], &[]), Some("#3 → #1 → #2 → #3")),
            (1, edge(&[], &[3]), Some("#1 → #2 → #3 → #1")),
            (2, edge(&[2], &[]), Some("#2 → #2")),
            (4, edge(&[9], &[]), Some("there is no task #9")),
            (4, edge(&[1], &[]), None),
        ] {
            let said = board.refusal(id, &patch);
            match refused {
                None => assert_eq!(said, None),
                Some(words) => assert!(said.as_deref().is_some_and(|it| it.contains(words)), "{said:?}"),
            }
            if said.is_none() {
                board.apply(&TaskEvent::Updated { id, patch });
            }
        }
        let three = board.get(3).expect("there");
        assert_eq!(board.open_blockers(three), [2]);
        board.apply(&TaskEvent::Deleted { id: 2 });
        assert!(board.get(3).is_some_and(|it| it.blocked_by.is_empty()));
        assert!(board.get(1).is_some_and(|it| it.blocks.is_empty() && it.blocked_by.contains(&4)));
        board.apply(&TaskEvent::Deleted { id: 4 });
        assert_eq!(board.next_id(), 5, "numbers are not used twice");
    }
}
