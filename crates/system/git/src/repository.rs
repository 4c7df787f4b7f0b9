use std::path::PathBuf;

use crate::{GitInvocation, safe_settings::is_ordinary_key};

/// Location and security-relevant configuration of a repository.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RepositoryConfig {
    /// Root of the working tree; `None` in a bare repository.
    pub top: Option<PathBuf>,
    /// Git directory of this worktree.
    pub git_dir: PathBuf,
    /// Git directory shared by all worktrees.
    pub common_dir: PathBuf,
    /// Settings that name programs in the repository's own configuration, and the user's filters that it
    /// could redirect. Read-only calls switch them off.
    pub sinks: Vec<ExecutableSetting>,
    /// Global and system configuration files that were read.
    pub origins: Vec<PathBuf>,
    /// Whether the repository's own configuration includes other files.
    pub includes: bool,
    /// Keys in the repository's own configuration that name programs for network access.
    pub callers: Vec<String>,
    /// The user's ssh command.
    pub ssh: SshProgram,
    /// `core.hooksPath`, if set.
    pub hooks: Option<PathBuf>,
    /// Whether commits are signed (`commit.gpgSign`).
    pub signs: bool,
    /// Whether annotated tags are signed.
    pub signs_tags: bool,
    /// Whether a user name and e-mail address are configured.
    pub has_identity: bool,
}

/// The program run for ssh connections.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SshProgram {
    /// The command from the user's global configuration.
    pub own: Option<String>,
    /// Whether the repository configures another one, which is ignored.
    pub ignored: bool,
}

/// A configuration key that makes git run a program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExecutableSetting {
    /// The key; its subsection may contain any bytes.
    key: Vec<u8>,
}

impl ExecutableSetting {
    /// Returns the key if it makes git run a program or show a file from outside the repository.
    fn parse(key: &[u8]) -> Option<Self> {
        let lower = key.to_ascii_lowercase();
        let begins = |it: &str| lower.starts_with(it.as_bytes());
        let ends = |ends: &[&str]| ends.iter().any(|it| lower.ends_with(it.as_bytes()));
        let runs = begins("filter.") && ends(&[".clean", ".smudge", ".process"])
            || begins("diff.") && ends(&[".textconv", ".command"])
            || begins("merge.") && ends(&[".driver"])
            || begins("gpg.") && ends(&[".program"])
            || lower == b"mailmap.file";
        runs.then(|| Self { key: key.to_owned() })
    }

    /// Overrides with which git runs nothing for this key.
    pub(crate) fn switched_off(&self) -> Vec<(Vec<u8>, &'static str)> {
        let mut off = vec![(self.key.clone(), "")];
        if self.is_filter()
            && let Some(end) = self.key.iter().rposition(|it| *it == b'.')
        {
            off.push(([&self.key[..end], b".required"].concat(), "false"));
        }
        off
    }

    /// Whether it is a content filter.
    pub fn is_filter(&self) -> bool {
        self.key.to_ascii_lowercase().starts_with(b"filter.")
    }
}

/// Collects the user's filters and whether repository settings could redirect them: a filter is a
/// program that may read any setting. `git-lfs` is known to read only `lfs.*`.
#[derive(Default)]
struct UserFilters {
    found: Vec<(ExecutableSetting, bool)>,
    directed: bool,
    lfs_directed: bool,
}

impl UserFilters {
    /// Records a setting of the repository.
    fn inner(&mut self, key: &[u8]) {
        let ordinary = is_ordinary_key(key);
        self.directed |= !ordinary;
        self.lfs_directed |= !ordinary && key.to_ascii_lowercase().starts_with(b"lfs.");
    }

    /// Records a setting of the user or the system.
    fn outer(&mut self, key: &[u8], value: &str) {
        let plain = |it: char| it.is_ascii_alphanumeric() || " -%_".contains(it);
        let lfs = value.starts_with("git-lfs ") && value.chars().all(plain);
        self.found
            .extend(ExecutableSetting::parse(key).filter(ExecutableSetting::is_filter).map(|it| (it, lfs)));
    }

    /// The filters that the repository's settings could redirect.
    fn astray(self) -> impl Iterator<Item = ExecutableSetting> {
        let (directed, lfs_directed) = (self.directed, self.lfs_directed);
        let astray = move |lfs: bool| if lfs { lfs_directed } else { directed };
        self.found.into_iter().filter(move |it| astray(it.1)).map(|it| it.0)
    }
}

/// Whether a key in the repository's own configuration makes git run a program for network access. Names
/// of helpers that ship with git do not count.
fn is_caller(scope: &str, key: &str, value: &str) -> bool {
    let own = matches!(scope, "local" | "worktree");
    let ends = |ends: &[&str]| ends.iter().any(|it| key.ends_with(it));
    let runs = key.starts_with("remote.") && ends(&[".uploadpack", ".receivepack", ".vcs"])
        || matches!(key, "core.gitproxy" | "core.alternaterefscommand")
        || key.starts_with("credential") && ends(&[".helper"]) && value.contains(['!', '/', ' ']);
    own && runs && !value.is_empty()
}

/// Shell command line that prints the repository's location and configuration without running anything
/// of the repository.
pub fn facts_line() -> String {
    let place = GitInvocation::reading("rev-parse", &[])
        .flag("--path-format=absolute")
        .flag("--is-bare-repository")
        .flag("--git-dir")
        .flag("--git-common-dir")
        .flag("--show-toplevel")
        .text();
    let config = "command git --no-pager config --list -z --show-scope --show-origin";
    // The location is three lines; the fourth is an error in a bare repository. The rest is
    // NUL-separated.
    format!("{{ {place} || true; }} && printf '\\0' && {config}")
}

/// Parses the output of [`facts_line`]. `None` if there is no repository.
pub fn parse_facts(printed: &[u8]) -> Option<RepositoryConfig> {
    let split = printed.iter().position(|it| *it == 0)?;
    let place = String::from_utf8_lossy(&printed[..split]).into_owned();
    let mut lines = place.lines();
    let bare = lines.next()? == "true";
    let (git_dir, common_dir) = (PathBuf::from(lines.next()?), PathBuf::from(lines.next()?));
    let top = lines.next().filter(|it| !it.is_empty() && !bare).map(PathBuf::from);
    let mut facts = RepositoryConfig { top, git_dir, common_dir, ..RepositoryConfig::default() };
    let mut fields = printed[split + 1..].split(|it| *it == 0);
    let (mut email, mut filters) = (false, UserFilters::default());
    while let (Some(scope), Some(origin), Some(entry)) = (fields.next(), fields.next(), fields.next()) {
        let (scope, origin) = (String::from_utf8_lossy(scope), String::from_utf8_lossy(origin));
        let scope = scope.as_ref();
        let end = entry.iter().position(|it| *it == b'\n').unwrap_or(entry.len());
        let own = matches!(scope, "local" | "worktree");
        let name = &entry[..end];
        let entry = String::from_utf8_lossy(entry);
        let (key, value) = entry.split_once('\n').unwrap_or((&entry, "true"));
        if own {
            facts.sinks.extend(ExecutableSetting::parse(name));
            filters.inner(name);
        } else {
            filters.outer(name, value);
        }
        facts.includes |= own && key.starts_with("include");
        if let Some(file) = origin.strip_prefix("file:").map(PathBuf::from)
            && !own
            && !facts.origins.contains(&file)
        {
            facts.origins.push(file);
        }
        let lower = key.to_ascii_lowercase();
        if is_caller(scope, &lower, value) {
            facts.callers.push(key.to_owned());
        }
        let is_true = || matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1");
        match lower.as_str() {
            "commit.gpgsign" => facts.signs = is_true(),
            "tag.gpgsign" => facts.signs_tags = is_true(),
            "core.hookspath" => facts.hooks = Some(PathBuf::from(value)),
            "core.sshcommand" if matches!(scope, "local" | "worktree") => facts.ssh.ignored = true,
            "core.sshcommand" => facts.ssh.own = Some(value.to_owned()),
            "user.email" => email = !value.trim().is_empty(),
            _ => {}
        }
    }
    facts.has_identity = email;
    facts.sinks.extend(filters.astray());
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_contain_only_programs_of_repository_settings() {
        let printed = b"false\n/r/.git\n/r/.git\n/r\n\0global\0file:/home/u/.gitconfig\0filter.lfs.clean\ngit-lfs clean\0local\0file:.git/config\0filter.x.clean\nrun\0\
            local\0file:.git/config\0diff.Y.textconv\nrun\0local\0file:.git/config\0commit.gpgsign\ntrue\0global\0file:/home/u/.gitconfig\0user.email\na@b.test\0local\0file:.git/config\0core.bare\nfalse\0";
        let facts = parse_facts(printed).expect("a repository");
        assert_eq!(facts.top, Some(PathBuf::from("/r")));
        assert!(facts.signs && facts.has_identity);
        let line = GitInvocation::reading("status", &facts.sinks).text();
        let want = "GIT_ALLOW_PROTOCOL= GIT_NO_LAZY_FETCH=1 GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=filter.x.clean GIT_CONFIG_VALUE_0='' GIT_CONFIG_KEY_1=filter.x.required \
            GIT_CONFIG_VALUE_1=false GIT_CONFIG_KEY_2=diff.Y.textconv GIT_CONFIG_VALUE_2='' command git";
        assert!(line.starts_with(want), "{line}");
        // A subsection may contain any characters.
        let printed =
            b"false\n/r/.git\n/r/.git\n/r\n\0local\0file:.git/config\0filter.a=b \xff'.clean\nrun\0";
        let line =
            GitInvocation::reading("status", &parse_facts(printed).expect("a repository").sinks).text();
        assert!(line.contains(r#"GIT_CONFIG_KEY_0="$(printf 'filter.a=b \377\047.clean')" "#), "{line}");
        let line = GitInvocation::reading("status", &facts.sinks).text();
        assert!(!line.contains("filter.lfs"), "{line}");
        let printed = b"false\n/r/.git\n/r/.git\n/r\n\0global\0file:/home/u/.gitconfig\0core.sshCommand\nssh -i k\0local\0file:.git/config\0core.sshCommand\nevil\0\
            local\0file:.git/config\0remote.o.uploadPack\n./evil\0local\0file:.git/config\0credential.helper\nstore\0global\0file:/home/u/.gitconfig\0credential.helper\n!mine\0\
            local\0file:.git/config\0credential.https://x.test.helper\n!evil\0local\0file:.git/config\0core.hooksPath\n.husky\0\
            local\0file:.git/config\0tag.gpgSign\nTRUE\0";
        let facts = parse_facts(printed).expect("a repository");
        assert_eq!(facts.ssh, SshProgram { own: Some("ssh -i k".into()), ignored: true });
        assert_eq!(facts.callers, ["remote.o.uploadPack", "credential.https://x.test.helper"]);
        assert_eq!((facts.hooks, facts.signs_tags), (Some(PathBuf::from(".husky")), true));
        assert_eq!(parse_facts(b"nothing"), None);
        assert_eq!(parse_facts(b""), None);
    }
    #[test]
    fn user_filter_is_kept_unless_repository_settings_redirect_it() {
        for (local, lfs, other) in [
            ("remote.origin.url\nx", true, true),
            ("core.hooksPath\n.husky", true, true),
            ("lfs.url\nhttps://x.test", true, true),
            ("alias.st\nstatus", true, false),
            ("core.editor\nvi", true, false),
            ("annex.freezecontent-command\nrun", true, false),
            ("lfs.extension.x.clean\nrun", false, false),
            ("LFS.customTransfer.x.path\nrun", false, false),
            ("diff.x.command\nrun", true, false),
        ] {
            let printed = format!(
                "false\n/r/.git\n/r/.git\n/r\n\0global\0file:/g\0filter.lfs.process\ngit-lfs filter-process\0\
                 system\0file:/s\0filter.own.clean\nown\0local\0file:.git/config\0{local}\0"
            );
            let line =
                GitInvocation::reading("status", &parse_facts(printed.as_bytes()).expect("one").sinks).text();
            let off = |name: &str| line.contains(&format!("={name} "));
            assert_eq!(!off("filter.lfs.process"), lfs, "{local}: {line}");
            assert_eq!(!off("filter.own.clean"), other, "{local}: {line}");
        }
    }
}
