use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_tool::{CallEffect, ContextChange};
use haft_tool_runtime::CallReport;
use haft_types::Block;
use serde_json::{Map, Value};

use super::caller::ProtocolEra;

/// Owners of background tasks.
///
/// Tasks belong to the session that started them. Clients without a session cannot be distinguished; if
/// there may be several, a task gets an unguessable name, and any client that knows the name may use it.
#[derive(Default)]
pub(super) struct ClientTasks(Mutex<HashMap<String, TaskOwner>>);

/// Who may use a task.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum TaskOwner {
    /// The client of this session.
    Session(Arc<str>),
    /// Any client that knows this name.
    Knows(String),
    /// The only client.
    OnlyClient,
}

/// The client that makes a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum TaskCaller {
    /// A client with a session.
    Session(Arc<str>),
    /// One of several clients without a session.
    Nameless,
    /// The only client, without a session.
    OnlyClient,
}

impl TaskCaller {
    pub(super) fn new(client: &Arc<str>, protocol: ProtocolEra, several_clients: bool) -> Self {
        match (protocol, several_clients) {
            (ProtocolEra::Legacy, _) => Self::Session(Arc::clone(client)),
            (ProtocolEra::Modern, true) => Self::Nameless,
            (ProtocolEra::Modern, false) => Self::OnlyClient,
        }
    }
}

impl ClientTasks {
    /// Registers tasks that a call left running, and replaces their ids in the report by unguessable
    /// names if needed.
    pub(super) fn note(&self, report: &mut CallReport, caller: &TaskCaller) {
        let ids: Vec<String> = report
            .changes
            .iter()
            .filter_map(|change| match change {
                ContextChange::Trace(CallEffect::BackgroundStarted { id, .. }) => Some(id.clone()),
                _ => None,
            })
            .collect();
        for id in ids {
            let owner = match caller {
                TaskCaller::Session(session) => TaskOwner::Session(Arc::clone(session)),
                TaskCaller::OnlyClient => TaskOwner::OnlyClient,
                TaskCaller::Nameless => {
                    let name = format!("{id}-{}", uuid::Uuid::new_v4().simple());
                    rename(report, &id, &name);
                    TaskOwner::Knows(name)
                }
            };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, owner);
        }
    }

    /// Replaces task names in the arguments by ids, and returns the pairs. The error is a task in the
    /// arguments that belongs to another client.
    pub(super) fn resolve(
        &self,
        arguments: Option<&mut Map<String, Value>>,
        caller: &TaskCaller,
    ) -> Result<Vec<(String, String)>, String> {
        let mut resolved = Vec::new();
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = arguments.into_iter().flat_map(Map::iter_mut);
        for (_, value) in named.filter(|(key, _)| key.to_ascii_lowercase().ends_with("id")) {
            let Some(said) = value.as_str() else { continue };
            let known =
                tasks.iter().find(|(_, owner)| matches!(owner, TaskOwner::Knows(name) if name == said));
            if let Some((id, _)) = known {
                resolved.push((id.clone(), said.to_owned()));
                *value = Value::from(id.as_str());
                continue;
            }
            let is_its = match (tasks.get(said), caller) {
                (None, _) | (Some(TaskOwner::OnlyClient), TaskCaller::OnlyClient) => true,
                (Some(TaskOwner::Session(session)), TaskCaller::Session(client)) => session == client,
                _ => false,
            };
            if !is_its {
                return Err(said.to_owned());
            }
        }
        Ok(resolved)
    }
}

/// Replaces a task id everywhere in a report, except in file names.
pub(super) fn rename(report: &mut CallReport, id: &str, name: &str) {
    for block in &mut report.content.0 {
        if let Block::Text { text } = block {
            *text = renamed(text, id, name);
        }
    }
    if let Some(data) = &mut report.data {
        rename_in(data, id, name);
    }
}

fn rename_in(value: &mut Value, id: &str, name: &str) {
    match value {
        Value::String(text) => *text = renamed(text, id, name),
        Value::Array(list) => list.iter_mut().for_each(|it| rename_in(it, id, name)),
        Value::Object(table) => table.values_mut().for_each(|it| rename_in(it, id, name)),
        _ => (),
    }
}

fn renamed(text: &str, id: &str, name: &str) -> String {
    let is_word = |it: char| it.is_alphanumeric() || it == '_';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(id) {
        let (before, after) = (&rest[..at], &rest[at + id.len()..]);
        let begins = !before.chars().next_back().is_some_and(|it| is_word(it) || it == '/');
        let mut following = after.chars();
        let ends = match following.next() {
            Some('.') => !following.next().is_some_and(is_word),
            Some(it) => !is_word(it),
            None => true,
        };
        out.push_str(before);
        out.push_str(if begins && ends { name } else { id });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_are_renamed_but_not_in_file_names() {
        for (text, want) in [
            ("Task bash_1 runs.", "Task N runs."),
            ("Stop bash_1.", "Stop N."),
            ("bash_1", "N"),
            ("bash_10 and xbash_1", "bash_10 and xbash_1"),
            ("in /tasks/s/bash_1.out: \"bash_1\"", "in /tasks/s/bash_1.out: \"N\""),
        ] {
            assert_eq!(renamed(text, "bash_1", "N"), want);
        }
    }
}
