//! Restricts where files of skills, commands, agents and styles may be.
//!
//! **Invariant:** a file of a project or plugin adds nothing to a session from outside that project
//! or plugin: a symlink that leads outside, of the file or of a directory above it, is rejected with a
//! reason. The user's own files may be symlinks to anywhere.

use std::path::{Path, PathBuf};

use super::FrontMatter;
use crate::{AgentSource, environment::SessionEnvironment};

/// Restricts where symlinks of extension files may lead.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkGuard {
    /// The directory that symlinks must not leave, and its description; `None` for no restriction. Its
    /// real path is resolved when a file is read, because most extension directories are empty.
    within: Option<(PathBuf, &'static str)>,
}

impl LinkGuard {
    /// The restriction for files of an owner below a directory such as `.claude`.
    pub(super) fn new(owner: &AgentSource, premises: &SessionEnvironment, dir: &Path) -> Self {
        let project = &premises.store.places().project;
        match owner {
            AgentSource::Project if dir.starts_with(project) => Self::around(project, "the project"),
            AgentSource::Project => Self::around(dir.parent().unwrap_or(dir), "its directory"),
            _ => Self::default(),
        }
    }

    pub(super) fn around(dir: &Path, what: &'static str) -> Self {
        Self { within: Some((dir.to_owned(), what)) }
    }

    /// Whether the real path is outside of the permitted directory.
    pub(super) fn is_left_by(&self, path: &Path) -> bool {
        let Some((dir, _)) = &self.within else { return false };
        path.canonicalize().is_ok_and(|real| !real.starts_with(real_place(dir)))
    }

    /// Reads a file, unless it is outside of the permitted directory.
    pub(crate) fn read(&self, path: &Path) -> Result<FrontMatter, String> {
        let real = path.canonicalize().map_err(|err| err.to_string())?;
        let is_page = |it: &Path| it.extension().is_some_and(|it| it == "md");
        match &self.within {
            Some((dir, what)) if !real.starts_with(real_place(dir)) => Err(format!(
                "it is a link that leads out of {what}; put a copy here, or the link into your own directory (~/.claude)"
            )),
            // A link with a Markdown name to another kind of file, such as a key file, is not a
            // description of an extension.
            Some(_) if is_page(path) && !is_page(&real) => {
                Err(String::from("it is a link to something that is no Markdown file"))
            }
            _ => FrontMatter::read(&real),
        }
    }
}

fn real_place(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_inside_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(path(to), path(name)).unwrap();
        for name in ["project/a/real.md", "other/secret.md", "project-twin/x.md", "project/.env"] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), "text").unwrap();
        }
        link("project/a/real.md", "project/inside.md");
        link("other/secret.md", "project/outside.md");
        link("project/outside.md", "project/twice.md");
        link("other", "project/dir");
        link("project", "project/a/back");
        link("project-twin/x.md", "project/twin.md");
        link("project", "called-otherwise");
        link("project/.env", "project/keys.md");
        for (name, is_read) in [
            ("project/a/real.md", true),
            ("project/inside.md", true),
            ("project/a/back/inside.md", true),
            ("project/outside.md", false),
            ("project/twice.md", false),
            ("project/dir/secret.md", false),
            ("project/twin.md", false),
            ("project/a/../../other/secret.md", false),
            ("project/keys.md", false),
            ("project/nothing.md", false),
        ] {
            for root in ["project", "called-otherwise"] {
                let fence = LinkGuard::around(&path(root), "the project");
                assert_eq!(fence.read(&path(name)).is_ok(), is_read, "{name} in {root}");
            }
            let exists = path(name).exists();
            assert_eq!(LinkGuard::default().read(&path(name)).is_ok(), exists, "{name} without a fence");
        }
    }
}
