use std::path::{Component, Path, PathBuf};

use crate::spelling::fold;

/// Directories whose content decides what runs later. One name, or several that
/// follow each other.
const DIRECTORIES: &[&[&str]] = &[
    &[".git"],
    &[".config", "git"],
    &[".config", "fish"],
    &[".vscode"],
    &[".idea"],
    &[".husky"],
    &[".cargo"],
    &[".devcontainer"],
    &[".yarn"],
    &[".mvn"],
    &[".claude"],
    &[".haft"],
    &[".ssh"],
    &[".gnupg"],
];

/// Directories of the above in which an agent works.
const WORKTREES: &[&[&str]] = &[&[".claude", "worktrees"], &[".haft", "worktrees"]];

/// Files that decide what runs later.
const FILES: &[&str] = &[
    ".gitconfig",
    ".gitmodules",
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
    ".mcp.json",
    ".claude.json",
    ".haft.json",
];

/// Files of which only the beginning of the name is fixed.
const FILE_PREFIXES: &[&str] = &[".pnp."];

/// Whether writing here is never approved by a rule. `own` are directories with
/// Haft's own state that lie elsewhere.
pub(crate) fn is_protected(path: &Path, own: &[PathBuf]) -> bool {
    if own.iter().any(|dir| path.starts_with(dir)) {
        return true;
    }
    let names: Vec<String> = path.components().filter_map(normal).collect();
    let is_file = names.last().is_some_and(|last| {
        FILES.contains(&&**last) || FILE_PREFIXES.iter().any(|prefix| last.starts_with(prefix))
    });
    is_file || (0..names.len()).any(|at| starts_protected(&names[at..]))
}

/// Whether a protected directory begins with the first of these names.
fn starts_protected(names: &[String]) -> bool {
    let starts = |list: &[&str]| list.len() <= names.len() && list.iter().zip(names).all(|(a, b)| a == b);
    DIRECTORIES.iter().any(|dir| starts(dir))
        && !WORKTREES.iter().any(|dir| starts(dir) && dir.len() < names.len())
}

/// Whether the kernel makes these files up: writing one changes the machine,
/// reading one may never end.
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
    fn protected_names_in_every_spelling() {
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
    fn kernel_trees() {
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
