use std::path::{Component, Path, PathBuf};

use crate::spelling::fold;

/// Why a path is protected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Protection {
    /// Git runs programs named in its configuration and hooks.
    Git,
    /// Keys and login authorisation.
    Keys,
    /// Permissions and settings of agents.
    Agents,
    /// Executed by a shell.
    Shell,
    /// An editor, package manager or build tool runs programs it names.
    Tools,
    /// Haft's own state.
    Own,
}

impl Protection {
    /// Completes a sentence about the path.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Git => "git runs the hooks and programs that it names",
            Self::Keys => "it holds keys and decides who can log in",
            Self::Agents => "it decides what agents may do",
            Self::Shell => "shells run it when they start",
            Self::Tools => "editors and build tools run what it names",
            Self::Own => "it is Haft's own state",
        }
    }
}

/// Directories whose content decides what runs later; one name, or several consecutive ones.
const DIRECTORIES: &[(&[&str], Protection)] = &[
    (&[".git"], Protection::Git),
    (&[".config", "git"], Protection::Git),
    (&[".config", "fish"], Protection::Shell),
    (&[".vscode"], Protection::Tools),
    (&[".idea"], Protection::Tools),
    (&[".husky"], Protection::Git),
    (&[".cargo"], Protection::Tools),
    (&[".devcontainer"], Protection::Tools),
    (&[".yarn"], Protection::Tools),
    (&[".mvn"], Protection::Tools),
    (&[".claude"], Protection::Agents),
    (&[".haft"], Protection::Agents),
    (&[".ssh"], Protection::Keys),
    (&[".gnupg"], Protection::Keys),
];

/// Subdirectories of these in which agents work.
const WORKTREES: &[&[&str]] = &[&[".claude", "worktrees"], &[".haft", "worktrees"]];

/// Files that decide what runs later.
const FILES: &[(Protection, &[&str])] = &[
    (Protection::Git, &[".gitconfig", ".gitmodules"]),
    (
        Protection::Shell,
        &[
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".profile",
            ".xprofile",
            ".kshrc",
            ".cshrc",
            ".tcshrc",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".zlogout",
            ".envrc",
        ],
    ),
    (
        Protection::Tools,
        &[
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".pnpmfile.cjs",
            "bunfig.toml",
            ".bunfig.toml",
            ".bazelrc",
            ".bazelversion",
            ".bazeliskrc",
            ".pre-commit-config.yaml",
            "lefthook.yml",
            "lefthook.yaml",
            ".lefthook.yml",
            ".lefthook.yaml",
            "gradle-wrapper.properties",
            "maven-wrapper.properties",
            ".devcontainer.json",
            ".ripgreprc",
            "pyrightconfig.json",
        ],
    ),
    (Protection::Agents, &[".mcp.json", ".claude.json", ".haft.json"]),
];

/// Prefixes of such file names.
const FILE_PREFIXES: &[&str] = &[".pnp."];

/// Whether no rule can approve writing here. `own` are directories with Haft's state elsewhere.
pub(crate) fn is_protected(path: &Path, own: &[PathBuf]) -> bool {
    protection(path, own).is_some()
}

/// Why no rule can approve writing here; `None` if the path is not protected.
pub(crate) fn protection(path: &Path, own: &[PathBuf]) -> Option<Protection> {
    if own.iter().any(|dir| path.starts_with(dir)) {
        return Some(Protection::Own);
    }
    let names: Vec<String> = path.components().filter_map(normal).collect();
    let by_directory = (0..names.len()).find_map(|at| directory(&names[at..]));
    by_directory.or_else(|| file(names.last()?))
}

/// The protected directory at the start of these components.
fn directory(names: &[String]) -> Option<Protection> {
    let starts = |list: &[&str]| list.len() <= names.len() && list.iter().zip(names).all(|(a, b)| a == b);
    let (_, why) = DIRECTORIES.iter().find(|(dir, _)| starts(dir))?;
    (!WORKTREES.iter().any(|dir| starts(dir) && dir.len() < names.len())).then_some(*why)
}

fn file(name: &str) -> Option<Protection> {
    if FILE_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(Protection::Tools);
    }
    FILES.iter().find(|(_, files)| files.contains(&name)).map(|(why, _)| *why)
}

/// Whether the path is on a kernel file system: writing may change the machine, reading may never end.
pub(crate) fn is_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|tree| path.starts_with(tree))
}

fn normal(component: Component<'_>) -> Option<String> {
    match component {
        Component::Normal(name) => Some(fold(&name.to_string_lossy())),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_match_in_every_spelling() {
        for (path, want) in [
            ("/ws/.git", true),
            ("/ws/.git/hooks/pre-commit", true),
            ("/ws/vendor/x/.GIT/config", true),
            ("/ws/.gitignore", false),
            ("/ws/.github/workflows/ci.yml", false),
            ("/ws/git/x", false),
            ("/ws/.g\u{200c}it/config", true),
            ("/ws/.git./config", true),
            ("/ws/.git /config", true),
            ("/ws/GIT~1/config", true),
            ("/ws/.git::$INDEX_ALLOCATION/config", true),
            ("/ws/.ſſh/authorized_keys", true),
            ("/home/u/.config/git/config", true),
            ("/home/u/.config/nvim/init.lua", false),
            ("/home/u/.Config/Git", true),
            ("/ws/.claude/settings.json", true),
            ("/ws/.claude/worktrees", true),
            ("/ws/.claude/worktrees/a/src/x.rs", false),
            ("/ws/.claude/worktrees/a/.git/config", true),
            ("/ws/.haft/settings.json", true),
            ("/ws/.haft/worktrees/a/x", false),
            ("/ws/.bashrc", true),
            ("/ws/.BashRC", true),
            ("/ws/bashrc", false),
            ("/ws/.bashrc/x", false),
            ("/ws/.pnp.cjs", true),
            ("/ws/.pnp.loader.mjs", true),
            ("/ws/.mcp.json", true),
            ("/ws/.env", false),
            ("/ws/.envrc", true),
            ("/state/haft/trust.json", true),
            ("/state/haftx", false),
        ] {
            assert_eq!(is_protected(Path::new(path), &[PathBuf::from("/state/haft")]), want, "{path}");
        }
    }

    #[test]
    fn protected_path_reports_its_reason() {
        for (path, want) in [
            ("/ws/.git/hooks/pre-commit", Protection::Git),
            ("/root/.ssh/authorized_keys", Protection::Keys),
            ("/ws/.claude/settings.json", Protection::Agents),
            ("/home/u/.bashrc", Protection::Shell),
            ("/ws/.vscode/tasks.json", Protection::Tools),
            ("/ws/.pnp.cjs", Protection::Tools),
            ("/state/haft/.git/config", Protection::Own),
        ] {
            assert_eq!(protection(Path::new(path), &[PathBuf::from("/state/haft")]), Some(want), "{path}");
        }
    }

    #[test]
    fn is_kernel_matches_kernel_file_systems() {
        for (path, want) in [
            ("/proc/self/mem", true),
            ("/dev/null", true),
            ("/sys", true),
            ("/process/x", false),
            ("/ws/proc/x", false),
        ] {
            assert_eq!(is_kernel(Path::new(path)), want, "{path}");
        }
    }
}
