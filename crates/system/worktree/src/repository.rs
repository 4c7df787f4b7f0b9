use std::path::{Path, PathBuf};

use haft_git::{ExecutableSetting, GitInvocation, facts_line, parse_facts};

use crate::{WorktreeRecord, git_runner::GitRunner};

/// A repository, seen from one of its checkouts.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryInfo {
    /// The checkout.
    pub(crate) top: PathBuf,
    /// The first checkout, below which worktrees are made.
    pub(crate) main: PathBuf,
    /// Git's own directory of this checkout.
    pub(crate) git_dir: PathBuf,
    /// Git's own directory of all of them.
    pub(crate) common_dir: PathBuf,
    pub(crate) sinks: Vec<ExecutableSetting>,
}

impl RepositoryInfo {
    /// A line that runs nothing the repository names. Also for lines that change
    /// something of git's own: hooks and filters stay out of it.
    pub(crate) fn line(&self, subcommand: &str) -> GitInvocation {
        GitInvocation::reading(subcommand, &self.sinks)
    }
}

impl GitRunner {
    /// The repository a directory is in.
    pub(crate) fn repository(&self, dir: &Path) -> Result<RepositoryInfo, String> {
        let printed = self.run(dir, &facts_line())?;
        let facts = parse_facts(&printed.stdout).filter(|_| printed.code == 0);
        let Some(facts) = facts else {
            let said = printed.stderr.trim();
            let dir = dir.display();
            return Err(if said.contains("not a git repository") {
                format!("{dir} is in no git repository, so there are no worktrees")
            } else {
                format!("git cannot work in {dir}: {}", haft_types::text::head(said, 500))
            });
        };
        let Some(top) = facts.top else {
            return Err(format!("{} is a repository without files", dir.display()));
        };
        let mut seen = RepositoryInfo {
            main: top.clone(),
            top,
            git_dir: facts.git_dir,
            common_dir: facts.common_dir,
            sinks: facts.sinks,
        };
        let listed = self.worktrees(&seen)?;
        if let Some(first) = listed.first().filter(|it| !it.is_bare) {
            seen.main.clone_from(&first.path);
        }
        Ok(seen)
    }

    /// All checkouts git knows, the first one first.
    pub(crate) fn worktrees(&self, repository: &RepositoryInfo) -> Result<Vec<ListedCheckout>, String> {
        let line = repository.line("worktree").flag("list").flag("--porcelain").flag("-z").text();
        let printed = self.run(&repository.top, &line)?.checked("git cannot list its worktrees")?;
        Ok(parse_list(&printed.stdout))
    }

    /// The repository of a worktree, if the worktree still is what was made.
    pub(crate) fn repository_of(&self, record: &WorktreeRecord) -> Result<RepositoryInfo, String> {
        let link = record.path.join(".git");
        let is_file = link.symlink_metadata().is_ok_and(|it| it.is_file());
        let says = std::fs::read_to_string(&link).unwrap_or_default();
        let common = std::fs::read_to_string(record.admin_dir.join("commondir")).unwrap_or_default();
        if !is_file || says != record.link || common.trim_end() != "../.." {
            return Err(format!(
                "{} is not linked to its repository any more as it was: it is left alone",
                record.path.display()
            ));
        }
        let repository = self.repository(&record.path)?;
        if repository.common_dir == record.common_dir && repository.git_dir == record.admin_dir {
            Ok(repository)
        } else {
            Err(format!("{} belongs to another repository now", record.path.display()))
        }
    }
}

/// A checkout that git lists.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ListedCheckout {
    pub(crate) path: PathBuf,
    pub(crate) branch: Option<String>,
    pub(crate) is_bare: bool,
    /// Why it is locked, if it is.
    pub(crate) locked: Option<String>,
}

fn parse_list(printed: &[u8]) -> Vec<ListedCheckout> {
    let text = String::from_utf8_lossy(printed).into_owned();
    let mut all: Vec<ListedCheckout> = Vec::new();
    for line in text.split('\0') {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "worktree" {
            all.push(ListedCheckout { path: rest.into(), ..ListedCheckout::default() });
            continue;
        }
        let Some(last) = all.last_mut() else { continue };
        match word {
            "branch" => last.branch = rest.strip_prefix("refs/heads/").map(str::to_owned),
            "bare" => last.is_bare = true,
            "locked" => last.locked = Some(rest.to_owned()),
            _ => (),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkouts_are_read() {
        let printed = b"worktree /r\0HEAD abc\0branch refs/heads/main\0\0worktree /r/w x\0HEAD abc\0detached\0locked why not\0\0";
        let all = parse_list(printed);
        assert_eq!((all.len(), all[0].branch.as_deref()), (2, Some("main")));
        assert_eq!((all[1].path.to_str(), all[1].locked.as_deref()), (Some("/r/w x"), Some("why not")));
        assert_eq!(parse_list(b"odd\0"), []);
    }
}
