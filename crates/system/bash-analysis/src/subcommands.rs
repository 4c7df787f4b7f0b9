//! Programs with subcommands (`git push`, `docker rm`), and their words without the options before the
//! subcommand.
//!
//! Used to match deny rules, so it rather finds too many forms.

use super::programs;

/// Programs whose subcommands have the names of other programs (`docker rm`, `npm test`).
pub(crate) const WITH_COMMANDS: &[&str] = &[
    "apk",
    "apt",
    "apt-get",
    "aws",
    "az",
    "brew",
    "bun",
    "cargo",
    "choco",
    "composer",
    "dnf",
    "docker",
    "dotnet",
    "flutter",
    "gcloud",
    "gem",
    "gh",
    "glab",
    "go",
    "gradle",
    "helm",
    "heroku",
    "just",
    "kubectl",
    "make",
    "mvn",
    "nerdctl",
    "nix",
    "npm",
    "pacman",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "rustup",
    "snap",
    "systemctl",
    "task",
    "terraform",
    "uv",
    "yarn",
    "yum",
    "zypper",
];

/// Subcommands that have subcommands themselves.
const GROUPS: &[&str] = &[
    "auth",
    "compose",
    "config",
    "container",
    "image",
    "issue",
    "network",
    "pr",
    "release",
    "remote",
    "repo",
    "rollout",
    "secret",
    "stash",
    "submodule",
    "system",
    "volume",
    "workflow",
    "worktree",
];

/// Maximum number of positions considered for the subcommand.
const MOST: usize = 16;

/// Forms of a command (bare program name first) without the options before its subcommand and nested
/// subcommand: `git -C a push` becomes `git push`. Several, because it is unknown whether the word after
/// an option is its value.
pub(crate) fn without_options(words: &[String]) -> Vec<Vec<String>> {
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    if name != "git" && !WITH_COMMANDS.contains(&name.as_str()) {
        return Vec::new();
    }
    let mut out = Vec::new();
    let valued = (name == "git").then_some(programs::GIT_VALUED);
    for at in commands(rest, valued) {
        let (front, behind) = (vec![name.clone(), rest[at].clone()], &rest[at + 1..]);
        if 0 < at {
            out.push([&front, behind].concat());
        }
        if GROUPS.contains(&rest[at].as_str()) {
            let inner = commands(behind, None).into_iter().filter(|at| 0 < *at);
            out.extend(inner.map(|at| [&front, &behind[at..]].concat()));
        }
    }
    out
}

/// Possible positions of the first non-option word. `valued` are the options that take a value, if
/// known.
fn commands(words: &[String], valued: Option<&[&str]>) -> Vec<usize> {
    let mut out = Vec::new();
    let mut may_be_value = false;
    for (at, word) in words.iter().enumerate().take(MOST) {
        if word.starts_with(['-', '+']) {
            may_be_value =
                valued.map_or_else(|| !word.contains('='), |valued| valued.contains(&word.as_str()));
            continue;
        }
        out.push(at);
        if !std::mem::take(&mut may_be_value) {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::without_options;

    #[test]
    fn without_options_returns_forms_of_subcommands() {
        for (line, want) in [
            ("git push x", ""),
            ("git -C a push x", "git a push x|git push x"),
            ("git --git-dir=a push", "git push"),
            ("git --no-pager log --grep push", "git log --grep push"),
            ("git -C a --no-pager -c b=c push x", "git a --no-pager -c b=c push x|git b=c push x|git push x"),
            (
                "docker --context a compose -f b up",
                "docker a compose -f b up|docker compose -f b up|docker compose b up|docker compose up",
            ),
            ("cargo +nightly publish", "cargo publish"),
            ("grep -r push x", ""),
            ("git -C", ""),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found: Vec<String> = without_options(&words).iter().map(|it| it.join(" ")).collect();
            assert_eq!(found.join("|"), want, "{line}");
        }
    }
}
