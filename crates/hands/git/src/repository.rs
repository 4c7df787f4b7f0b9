use std::path::PathBuf;

use crate::GitLine;

/// Where a repository is, and which programs it names itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RepositoryFacts {
    /// The directory with the files; nothing in a bare one.
    pub top: Option<PathBuf>,
    /// Git's own directory of this worktree.
    pub git_dir: PathBuf,
    /// Git's own directory of all worktrees.
    pub common_dir: PathBuf,
    /// Programs that the repository's own configuration names.
    pub sinks: Vec<Sink>,
    /// Whether commits are signed.
    pub signs: bool,
    /// Whether a person with an address is configured.
    pub has_identity: bool,
}

/// A key of the configuration that makes git run a program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sink {
    key: String,
}

impl Sink {
    /// The key, if it is one that the repository itself sets.
    fn of(scope: &str, key: &str) -> Option<Self> {
        let own = matches!(scope, "local" | "worktree");
        let lower = key.to_ascii_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|it| lower.ends_with(it));
        let runs = lower.starts_with("filter.") && ends(&[".clean", ".smudge", ".process"])
            || lower.starts_with("diff.") && ends(&[".textconv", ".command"])
            || lower.starts_with("merge.") && ends(&[".driver"])
            || lower.starts_with("gpg.") && ends(&[".program"])
            || lower.starts_with("alias.")
            || lower.starts_with("pager.");
        (own && runs).then(|| Self { key: key.to_owned() })
    }

    /// Settings that make git run nothing for this key.
    pub(crate) fn switched_off(&self) -> Vec<String> {
        let lower = self.key.to_ascii_lowercase();
        if lower.starts_with("alias.") || lower.starts_with("pager.") {
            return Vec::new();
        }
        let mut off = vec![format!("{}=", self.key)];
        if lower.starts_with("filter.")
            && let Some((driver, _)) = self.key.rsplit_once('.')
        {
            off.push(format!("{driver}.required=false"));
        }
        off
    }

    /// Whether it changes what files look like to git.
    pub fn is_filter(&self) -> bool {
        self.key.to_ascii_lowercase().starts_with("filter.")
    }
}

/// The line that finds out, and runs nothing of the repository: first where it
/// is, then its configuration.
pub fn facts_line() -> String {
    let place = GitLine::reading("rev-parse", &[])
        .flag("--path-format=absolute")
        .flag("--is-bare-repository")
        .flag("--git-dir")
        .flag("--git-common-dir")
        .text();
    let top =
        GitLine::reading("rev-parse", &[]).flag("--path-format=absolute").flag("--show-toplevel").text();
    let config = "command git --no-pager config --list -z --show-scope";
    // The place is three lines, the top may be missing, and the rest is NUL-separated.
    format!("{place} && {{ {top} 2>/dev/null || echo; printf '\\0'; {config}; }}")
}

/// What [`facts_line`] printed; nothing where no repository is.
pub fn parse_facts(printed: &[u8]) -> Option<RepositoryFacts> {
    let split = printed.iter().position(|it| *it == 0)?;
    let place = String::from_utf8_lossy(&printed[..split]).into_owned();
    let mut lines = place.lines();
    let bare = lines.next()? == "true";
    let (git_dir, common_dir) = (PathBuf::from(lines.next()?), PathBuf::from(lines.next()?));
    let top = lines.next().filter(|it| !it.is_empty() && !bare).map(PathBuf::from);
    let mut facts = RepositoryFacts { top, git_dir, common_dir, ..RepositoryFacts::default() };
    let rest = String::from_utf8_lossy(&printed[split + 1..]).into_owned();
    let mut fields = rest.split('\0');
    let mut email = false;
    while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
        let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        facts.sinks.extend(Sink::of(scope, key));
        match key.to_ascii_lowercase().as_str() {
            "commit.gpgsign" => facts.signs = matches!(value, "true" | "yes" | "on" | "1"),
            "user.email" => email = !value.trim().is_empty(),
            _ => {}
        }
    }
    facts.has_identity = email;
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_repository_names_itself_is_switched_off() {
        let printed = b"false\n/r/.git\n/r/.git\n/r\n\0global\0filter.lfs.clean\ngit-lfs clean\0local\0filter.x.clean\nrun\0\
            local\0diff.Y.textconv\nrun\0local\0commit.gpgsign\ntrue\0global\0user.email\na@b.test\0local\0core.bare\nfalse\0";
        let facts = parse_facts(printed).expect("a repository");
        assert_eq!(facts.top, Some(PathBuf::from("/r")));
        assert!(facts.signs && facts.has_identity);
        let line = GitLine::reading("status", &facts.sinks).text();
        assert!(
            line.contains("-c filter.x.clean= -c filter.x.required=false")
                && line.contains("-c diff.Y.textconv=")
        );
        assert!(!line.contains("filter.lfs"), "{line}");
        assert_eq!(parse_facts(b"nothing"), None);
        assert_eq!(parse_facts(b""), None);
    }
}
