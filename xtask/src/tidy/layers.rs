//! Which crate may depend on which, derived from the directory tree.
//!
//! A crate may depend on crates of lower layers and on earlier crates of its own layer.
//! `docs/architecture.md` describes the layers.

use std::{fs, path::Path};

/// Layers from the lowest, with their crates in order. A crate that is missing here or in another
/// directory is an error: adding one is a decision.
const LAYERS: &[(&str, &[&str])] = &[
    ("base", &["types", "paths", "process", "net"]),
    (
        "system",
        &[
            "workspace",
            "media",
            "html-markdown",
            "search",
            "bash-analysis",
            "sandbox",
            "shell",
            "git",
            "schedule",
            "lsp",
            "triggers",
            "worktree",
        ],
    ),
    ("calls", &["tool", "hooks", "permission", "tool-runtime"]),
    (
        "engine",
        &[
            "command-undo",
            "builtin-tools",
            "model",
            "agent",
            "mcp-auth",
            "mcp-client",
            "mcp-server",
            "tool-host",
            "fleet-store",
        ],
    ),
    ("sessions", &["config", "settings-rules", "session"]),
    ("frontends", &["json-lines", "sdk-server", "acp", "viewer", "haft", "tui", "console", "fleet", "cli"]),
    ("dev", &["testkit", "e2e"]),
];

/// Dependencies that are forbidden although the layers allow them.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("media", &["paths", "process", "net"]),
    ("html-markdown", &["paths", "process", "net", "workspace", "media"]),
    ("shell", &["workspace", "search", "bash-analysis"]),
    ("sandbox", &["workspace", "search", "bash-analysis"]),
    ("bash-analysis", &["workspace", "search", "process", "net"]),
    ("tool", &["paths", "process", "net", "workspace", "search", "bash-analysis", "sandbox", "shell"]),
    ("hooks", &["tool", "workspace", "search", "bash-analysis", "sandbox", "shell", "paths"]),
    ("permission", &["hooks", "workspace", "search", "sandbox", "shell", "process", "net"]),
    ("tool-runtime", &["workspace", "search", "bash-analysis", "sandbox", "shell"]),
    ("command-undo", &["tool-runtime", "permission", "hooks", "search"]),
    ("builtin-tools", &["tool-runtime", "permission", "hooks"]),
    (
        "model",
        &[
            "tool",
            "tool-runtime",
            "permission",
            "hooks",
            "builtin-tools",
            "workspace",
            "media",
            "html-markdown",
            "search",
            "bash-analysis",
            "sandbox",
            "shell",
            "paths",
        ],
    ),
    ("agent", &["builtin-tools", "workspace", "search", "bash-analysis", "sandbox", "shell", "paths"]),
    ("mcp-auth", &["builtin-tools", "agent", "model", "tool-runtime", "workspace", "search", "process"]),
    ("mcp-client", &["builtin-tools", "agent", "model", "workspace", "search"]),
    ("mcp-server", &["mcp-auth", "mcp-client", "builtin-tools", "agent", "model", "workspace", "search"]),
    (
        "tool-host",
        &[
            "mcp-auth",
            "mcp-client",
            "mcp-server",
            "builtin-tools",
            "agent",
            "model",
            "workspace",
            "media",
            "html-markdown",
            "search",
            "shell",
        ],
    ),
    (
        "config",
        &[
            "agent",
            "model",
            "mcp-auth",
            "mcp-client",
            "mcp-server",
            "builtin-tools",
            "tool-runtime",
            "workspace",
            "media",
            "html-markdown",
            "search",
        ],
    ),
    (
        "settings-rules",
        &["agent", "model", "mcp-auth", "mcp-client", "mcp-server", "builtin-tools", "tool-runtime", "net"],
    ),
    (
        "tui",
        &[
            "session",
            "config",
            "agent",
            "model",
            "builtin-tools",
            "tool-runtime",
            "permission",
            "hooks",
            "mcp-auth",
            "mcp-client",
            "mcp-server",
            "sdk-server",
            "haft",
        ],
    ),
];

/// The crate that provides test tools and the mock model.
const FOR_TESTS: &str = "testkit";

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for (layer, dir) in crate_dirs(root)? {
        let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(place) = layer_of(name).filter(|(number, _)| LAYERS[*number].0 == layer) else {
            problems.push(format!("crates/{layer}/{name} has no layer (LAYERS in xtask/src/tidy/layers.rs)"));
            continue;
        };
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
        let wrong = workspace_dependencies(&manifest).filter(|it| !may_depend(name, place, it));
        problems.extend(wrong.map(|it| format!("crates/{layer}/{name} must not depend on {it}")));
    }
    Ok(problems)
}

/// Returns every crate with its directory.
fn crate_dirs(root: &Path) -> Result<Vec<(String, std::path::PathBuf)>, String> {
    let crates = root.join("crates");
    let read = |dir: &Path| fs::read_dir(dir).map_err(|err| format!("{}: {err}", dir.display()));
    let mut found = Vec::new();
    for layer in read(&crates)?.flatten().filter(|it| it.path().is_dir()) {
        let name = layer.file_name().to_string_lossy().into_owned();
        for dir in read(&layer.path())?.flatten().filter(|it| it.path().is_dir()) {
            found.push((name.clone(), dir.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the layer of a crate and its position in the layer.
fn layer_of(name: &str) -> Option<(usize, usize)> {
    LAYERS
        .iter()
        .enumerate()
        .find_map(|(layer, (_, crates))| crates.iter().position(|it| *it == name).map(|place| (layer, place)))
}

fn may_depend(name: &str, place: (usize, usize), on: &str) -> bool {
    let forbidden = FORBIDDEN.iter().find(|(it, _)| *it == name).map_or(&[][..], |it| it.1);
    let is_below = layer_of(on).is_some_and(|below| below < place) || (name == "cli" && on == FOR_TESTS);
    is_below && !forbidden.contains(&on)
}

/// Returns the workspace crates in `[dependencies]`, excluding `[dev-dependencies]`.
fn workspace_dependencies(manifest: &str) -> impl Iterator<Item = String> {
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
        assert_eq!(workspace_dependencies(manifest).collect::<Vec<_>>(), ["types", "haft"]);
    }

    #[test]
    fn dependencies_point_to_lower_layers_only() {
        for (name, on, want) in [
            ("paths", "types", true),
            ("types", "paths", false),
            ("types", "types", false),
            ("builtin-tools", "tool", true),
            ("builtin-tools", "tool-runtime", false),
            ("tool", "builtin-tools", false),
            ("cli", "haft", true),
            ("haft", "cli", false),
            ("cli", "testkit", true),
            ("haft", "testkit", false),
            ("cli", "nobody", false),
        ] {
            let place = layer_of(name).unwrap_or_default();
            assert_eq!(may_depend(name, place, on), want, "{name} -> {on}");
        }
    }
}
