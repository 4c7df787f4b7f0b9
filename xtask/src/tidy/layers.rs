//! Who may depend on whom: the tree is the rule.
//!
//! A crate depends on crates of floors below its own and on earlier ones of its
//! own floor. `docs/architecture.md` shows the same house to people.

use std::{fs, path::Path};

/// The floors, from the ground up, and the crates of each in order. A crate that
/// stands elsewhere, or nowhere here, fails: a new one is always a decision.
const FLOORS: &[(&str, &[&str])] = &[
    ("ground", &["types", "paths", "process", "net"]),
    (
        "hands",
        &[
            "workspace",
            "search",
            "command",
            "sandbox",
            "shell",
            "git",
            "schedule",
            "lsp",
            "triggers",
            "worktree",
        ],
    ),
    ("call", &["tool", "hooks", "permission", "runtime"]),
    ("kit", &["tools"]),
    ("mind", &["model", "agent"]),
    ("world", &["mcp-auth", "mcp-client", "mcp-server", "tool-host", "fleet-store"]),
    ("engine", &["config", "session"]),
    ("faces", &["host", "sdk", "acp", "view", "haft", "terminal", "fleet", "cli"]),
    ("dev", &["testkit"]),
];

/// Crates that must not know others although their floors would let them.
const STRANGERS: &[(&str, &[&str])] = &[
    ("shell", &["workspace", "search", "command"]),
    ("sandbox", &["workspace", "search", "command"]),
    ("command", &["workspace", "search", "process", "net"]),
    ("tool", &["paths", "process", "net", "workspace", "search", "command", "sandbox", "shell"]),
    ("hooks", &["tool", "workspace", "search", "command", "sandbox", "shell", "paths"]),
    ("permission", &["hooks", "workspace", "search", "sandbox", "shell", "process", "net"]),
    ("runtime", &["workspace", "search", "command", "sandbox", "shell"]),
    ("tools", &["runtime", "permission", "hooks"]),
    (
        "model",
        &[
            "tool",
            "runtime",
            "permission",
            "hooks",
            "tools",
            "workspace",
            "search",
            "command",
            "sandbox",
            "shell",
            "paths",
        ],
    ),
    ("agent", &["tools", "workspace", "search", "command", "sandbox", "shell", "paths"]),
    ("mcp-auth", &["tools", "agent", "model", "runtime", "workspace", "search", "process"]),
    ("mcp-client", &["tools", "agent", "model", "workspace", "search"]),
    ("mcp-server", &["mcp-auth", "mcp-client", "tools", "agent", "model", "workspace", "search"]),
    (
        "tool-host",
        &["mcp-auth", "mcp-client", "mcp-server", "tools", "agent", "model", "workspace", "search", "shell"],
    ),
    (
        "config",
        &[
            "agent",
            "model",
            "mcp-auth",
            "mcp-client",
            "mcp-server",
            "tools",
            "runtime",
            "workspace",
            "search",
        ],
    ),
    (
        "terminal",
        &[
            "session",
            "config",
            "agent",
            "model",
            "tools",
            "runtime",
            "permission",
            "hooks",
            "mcp-auth",
            "mcp-client",
            "mcp-server",
            "sdk",
            "haft",
        ],
    ),
];

/// Where tests and the mock model of the program come from.
const FOR_TESTS: &str = "testkit";

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for (floor, dir) in crate_dirs(root)? {
        let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(place) = place_of(name).filter(|(number, _)| FLOORS[*number].0 == floor) else {
            problems.push(format!(
                "crates/{floor}/{name} has no place in the house (FLOORS in xtask/src/tidy/layers.rs)"
            ));
            continue;
        };
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
        let wrong = ours(&manifest).filter(|it| !may_depend(name, place, it));
        problems.extend(wrong.map(|it| format!("crates/{floor}/{name} must not depend on {it}")));
    }
    Ok(problems)
}

/// Every crate with the floor it stands on.
fn crate_dirs(root: &Path) -> Result<Vec<(String, std::path::PathBuf)>, String> {
    let crates = root.join("crates");
    let read = |dir: &Path| fs::read_dir(dir).map_err(|err| format!("{}: {err}", dir.display()));
    let mut found = Vec::new();
    for floor in read(&crates)?.flatten().filter(|it| it.path().is_dir()) {
        let name = floor.file_name().to_string_lossy().into_owned();
        for dir in read(&floor.path())?.flatten().filter(|it| it.path().is_dir()) {
            found.push((name.clone(), dir.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// The floor of a crate and its place there.
fn place_of(name: &str) -> Option<(usize, usize)> {
    FLOORS
        .iter()
        .enumerate()
        .find_map(|(floor, (_, crates))| crates.iter().position(|it| *it == name).map(|place| (floor, place)))
}

fn may_depend(name: &str, place: (usize, usize), on: &str) -> bool {
    let strangers = STRANGERS.iter().find(|(it, _)| *it == name).map_or(&[][..], |it| it.1);
    let is_below = place_of(on).is_some_and(|below| below < place) || (name == "cli" && on == FOR_TESTS);
    is_below && !strangers.contains(&on)
}

/// Our crates in `[dependencies]`, not in `[dev-dependencies]`.
fn ours(manifest: &str) -> impl Iterator<Item = String> {
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    section.filter_map(|line| {
        let name = line.split(['.', ' ', '=']).next()?;
        if name == "haft" {
            Some(String::from("haft"))
        } else {
            name.strip_prefix("haft-").map(str::to_owned)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_their_section_only() {
        let manifest = "[package]\nname = \"haft-x\"\n[dependencies]\nhaft-types.workspace = true\nserde = \"1\"\nhaft = { path = \"..\" }\n\n[dev-dependencies]\nhaft-agent.workspace = true\n";
        assert_eq!(ours(manifest).collect::<Vec<_>>(), ["types", "haft"]);
    }

    #[test]
    fn only_what_is_below_may_be_known() {
        for (name, on, want) in [
            ("paths", "types", true),
            ("types", "paths", false),
            ("types", "types", false),
            ("tools", "tool", true),
            ("tools", "runtime", false),
            ("tool", "tools", false),
            ("cli", "haft", true),
            ("haft", "cli", false),
            ("cli", "testkit", true),
            ("haft", "testkit", false),
            ("cli", "nobody", false),
        ] {
            let place = place_of(name).unwrap_or_default();
            assert_eq!(may_depend(name, place, on), want, "{name} -> {on}");
        }
    }
}
