//! The catalog of agent kinds, by precedence.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_builtin_tools::agent::AgentKindSummary;

use super::{
    AgentDefinition, AgentProblem, AgentSource,
    builtin::{FORK, built_in_kinds, fork_kind},
};
use crate::{
    EventSender, HostAgent,
    extensions::{FrontMatter, LinkGuard},
};

/// All agent kinds of a session; the first with a name wins.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentKindCatalog {
    kinds: Vec<Arc<AgentDefinition>>,
    /// The fork kind, which can be found by name but is not listed.
    fork: Arc<AgentDefinition>,
    problems: Vec<AgentProblem>,
}

/// Agent files, in order of precedence.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentFiles {
    kinds: Vec<Arc<AgentDefinition>>,
    problems: Vec<AgentProblem>,
}

impl AgentFiles {
    /// Reads the agent files below a directory. Invalid files are reported and skipped.
    pub(crate) fn take(&mut self, files: Vec<(PathBuf, PathBuf)>, source: &AgentSource, fence: &LinkGuard) {
        let before = self.kinds.len();
        for (_, path) in files {
            let front = match fence.read(&path) {
                Ok(front) => front,
                Err(reason) => {
                    let reason = format!("it cannot be read: {reason}");
                    self.problems.push(AgentProblem { file: path, line: 1, reason, is_lost: true });
                    continue;
                }
            };
            let line = front.line_of("name");
            let (kind, problems) = AgentDefinition::of_file(front, path.clone(), source.clone());
            self.problems.extend(problems);
            let Some(mut kind) = kind else { continue };
            if let AgentSource::Plugin(plugin) = source {
                kind.name = format!("{plugin}:{}", kind.name);
            }
            // Two files of the same directory define the name; across directories, precedence decides.
            if let Some(first) = self.kinds[before..].iter().find(|it| it.name == kind.name) {
                let there = first.file.as_deref().map(|it| it.display().to_string()).unwrap_or_default();
                let reason = format!("there is an agent {:?} already: that of {there} counts", kind.name);
                self.problems.push(AgentProblem { file: path, line, reason, is_lost: true });
                continue;
            }
            self.kinds.push(Arc::new(kind));
        }
    }
}

impl AgentKindCatalog {
    /// Combines the definitions of files, of the host, and the built-in ones.
    pub(crate) fn new(files: &AgentFiles, host: &[(String, HostAgent)]) -> Self {
        let fork = Arc::new(fork_kind());
        let mut shelf = Self { kinds: Vec::new(), fork, problems: files.problems.clone() };
        let of = |wanted: fn(&AgentSource) -> bool| files.kinds.iter().filter(move |it| wanted(&it.source));
        shelf.kinds.extend(of(|it| *it == AgentSource::Managed).cloned());
        for (name, agent) in host {
            let (kind, problems) = agent.kind(name);
            shelf.problems.extend(problems);
            shelf.kinds.extend(kind.map(Arc::new));
        }
        shelf.kinds.extend(of(|it| *it == AgentSource::Project).cloned());
        shelf.kinds.extend(of(|it| *it == AgentSource::User).cloned());
        shelf.kinds.extend(of(|it| matches!(it, AgentSource::Plugin(_))).cloned());
        shelf.kinds.extend(built_in_kinds().into_iter().map(Arc::new));
        let mut seen = HashSet::new();
        shelf.kinds.retain(|it| seen.insert(it.name.clone()));
        shelf
    }

    /// Reports problems of files, one line each.
    pub(crate) fn tell_problems(&self, events: &EventSender) {
        for problem in &self.problems {
            events.notice(problem.to_string());
        }
    }

    /// The built-in kinds, as listed for the model.
    pub(crate) fn default_kinds() -> Vec<AgentKindSummary> {
        Self::new(&AgentFiles::default(), &[]).listed()
    }

    /// All kinds, in order of precedence.
    pub(crate) fn kinds(&self) -> &[Arc<AgentDefinition>] {
        &self.kinds
    }

    /// Problems found in files.
    pub(crate) fn problems(&self) -> &[AgentProblem] {
        &self.problems
    }

    /// Finds a kind by name. Without an exact match, compares only the normalised letters; `claude` then
    /// means the general-purpose kind.
    pub(crate) fn find(&self, written: &str) -> Option<&Arc<AgentDefinition>> {
        let exact = self.kinds.iter().find(|it| it.name == written);
        exact.or_else(|| {
            let wanted =
                if plain(written) == "claude" { String::from("generalpurpose") } else { plain(written) };
            let listed = self.kinds.iter().find(|it| plain(&it.name) == wanted);
            listed.or_else(|| (wanted == FORK).then_some(&self.fork))
        })
    }

    /// The kinds as listed for the model.
    pub(crate) fn listed(&self) -> Vec<AgentKindSummary> {
        let kinds = self.kinds.iter().map(|kind| AgentKindSummary {
            name: kind.name.clone(),
            description: kind.description.clone(),
            tools: kind.tools_in_words(),
        });
        let mut kinds: Vec<AgentKindSummary> = kinds.collect();
        kinds.sort_by(|a, b| a.name.cmp(&b.name));
        kinds
    }
}

impl AgentDefinition {
    fn tools_in_words(&self) -> String {
        match (&self.tools, self.disallowed.as_slice()) {
            (Some(tools), _) if tools.is_empty() => String::from("none"),
            (Some(tools), _) => tools.join(", "),
            (None, []) => String::from("all"),
            (None, without) => format!("all but {}", without.join(", ")),
        }
    }
}

impl HostAgent {
    /// Converts a definition of the host.
    fn kind(&self, name: &str) -> (Option<AgentDefinition>, Vec<AgentProblem>) {
        let mut fields = self.definition.as_object().cloned().unwrap_or_default();
        fields.remove("prompt");
        fields.insert(String::from("name"), name.into());
        fields.insert(String::from("description"), self.description.clone().into());
        if let Some(tools) = &self.tools {
            fields.insert(String::from("tools"), tools.clone().into());
        }
        if let Some(model) = &self.model {
            fields.insert(String::from("model"), model.clone().into());
        }
        let front = FrontMatter::of_fields(fields, self.prompt.clone());
        let file = Path::new("the host").join(name);
        let (kind, problems) = AgentDefinition::of_file(front, file, AgentSource::Host);
        (kind.map(|kind| AgentDefinition { file: None, ..kind }), problems)
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|it| it.is_alphanumeric() || *it == ':').flat_map(char::to_lowercase).collect()
}
