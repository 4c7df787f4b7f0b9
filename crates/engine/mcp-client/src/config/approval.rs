//! Approval of servers that a project declares. Approvals are bound to the content of a declaration, not
//! to its name.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{ServerDeclaration, ServerScope};
use crate::manager::write_atomically;

/// The user's decision about a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Approval {
    /// The server may run.
    Approved,
    /// The server may not run.
    Rejected,
    /// The user was not asked yet.
    Unknown,
    /// The user approved a different declaration under this name.
    Changed,
}

/// Settings about a project's servers. Must not contain settings of the project itself, which cannot
/// approve its own servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectChoices {
    /// Approves all of the project's servers.
    pub enable_all: bool,
    /// Names of approved servers.
    pub enabled: Vec<String>,
    /// Names of rejected servers.
    pub disabled: Vec<String>,
}

/// The user's approvals by project directory, in a file shared by all processes of the user.
#[derive(Clone, Debug)]
pub struct Approvals {
    path: PathBuf,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Book {
    #[serde(default)]
    projects: BTreeMap<PathBuf, BTreeMap<String, ApprovalEntry>>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct ApprovalEntry {
    approved: bool,
    fingerprint: String,
}

impl Approvals {
    /// Uses this file, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn book(&self) -> Book {
        // An unreadable file counts as empty: the user is asked again.
        std::fs::read(&self.path).ok().and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default()
    }

    /// Returns the decision about a server. `project` is the real path of the project directory. Servers
    /// of other scopes are always approved.
    pub fn of(&self, project: &Path, server: &ServerDeclaration, choices: &ProjectChoices) -> Approval {
        if server.scope != ServerScope::Project {
            return Approval::Approved;
        }
        if choices.disabled.contains(&server.name) {
            return Approval::Rejected;
        }
        let book = self.book();
        let entry = book.projects.get(project).and_then(|it| it.get(&server.name));
        let named = choices.enable_all || choices.enabled.contains(&server.name);
        match entry {
            Some(entry) if entry.fingerprint != server.fingerprint() => Approval::Changed,
            Some(entry) if entry.approved => Approval::Approved,
            Some(_) => Approval::Rejected,
            None if named => Approval::Approved,
            None => Approval::Unknown,
        }
    }

    /// Stores an approval of this declaration. Also call it when a server runs because settings approve
    /// its name, so that a later change is detected.
    pub fn approve(&self, project: &Path, server: &ServerDeclaration) -> io::Result<()> {
        self.decide(project, server, true)
    }

    /// Stores a rejection.
    pub fn reject(&self, project: &Path, server: &ServerDeclaration) -> io::Result<()> {
        self.decide(project, server, false)
    }

    fn decide(&self, project: &Path, server: &ServerDeclaration, approved: bool) -> io::Result<()> {
        let entry = ApprovalEntry { approved, fingerprint: server.fingerprint() };
        self.change(|book| {
            book.projects.entry(project.to_owned()).or_default().insert(server.name.clone(), entry);
        })
    }

    /// Removes all decisions about a project.
    pub fn reset(&self, project: &Path) -> io::Result<()> {
        self.change(|book| {
            book.projects.remove(project);
        })
    }

    /// Changes the file under an exclusive lock across processes.
    fn change(&self, change: impl FnOnce(&mut Book)) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let lock = self.path.with_extension("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(lock)?;
        lock.lock()?;
        let mut book = self.book();
        change(&mut book);
        write_atomically(&self.path, &serde_json::to_vec_pretty(&book)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::declared_servers;

    #[test]
    fn approval_is_bound_to_content_and_directory() {
        let directory = tempfile::tempdir().unwrap();
        let approvals = Approvals::new(directory.path().join("sub/approvals.json"));
        let (here, there) = (Path::new("/here"), Path::new("/there"));
        let server = |command: &str, scope| {
            declared_servers(&json!({"mcpServers": {"s": {"command": command}}}), scope).0.remove(0)
        };
        let (first, swapped) = (server("good", ServerScope::Project), server("evil", ServerScope::Project));
        let none = ProjectChoices::default();
        assert_eq!(approvals.of(here, &server("any", ServerScope::User), &none), Approval::Approved);
        assert_eq!(approvals.of(here, &first, &none), Approval::Unknown);
        approvals.approve(here, &first).unwrap();
        assert_eq!(approvals.of(here, &first, &none), Approval::Approved);
        assert_eq!(approvals.of(here, &swapped, &none), Approval::Changed);
        assert_eq!(approvals.of(there, &first, &none), Approval::Unknown);
        let all = ProjectChoices { enable_all: true, ..ProjectChoices::default() };
        assert_eq!(approvals.of(there, &first, &all), Approval::Approved);
        assert_eq!(approvals.of(here, &swapped, &all), Approval::Changed, "a name is no blank cheque");
        let off = ProjectChoices { disabled: vec!["s".into()], ..all };
        assert_eq!(approvals.of(here, &first, &off), Approval::Rejected);
        approvals.reject(here, &swapped).unwrap();
        assert_eq!(approvals.of(here, &swapped, &none), Approval::Rejected);
        approvals.reset(here).unwrap();
        assert_eq!(approvals.of(here, &first, &none), Approval::Unknown);
    }
}
