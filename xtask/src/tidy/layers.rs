//! Who may depend on whom.

use std::{fs, path::Path};

/// One row a crate. A crate not in this table fails, so a new dependency is
/// always a decision. `docs/architecture.md` shows the same table to people.
const LAYERS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("paths", &[]),
    ("tool", &["types"]),
    ("hooks", &["types"]),
    ("workspace", &["types", "paths"]),
    ("search", &["types", "paths"]),
    ("shell", &["types", "paths"]),
    ("permission", &["types", "paths", "tool", "shell"]),
    ("runtime", &["types", "tool", "permission", "hooks"]),
    ("tools", &["types", "paths", "tool", "workspace", "search", "shell"]),
    ("mcp", &["types", "paths", "tool", "runtime"]),
    ("model", &["types"]),
    ("config", &["types", "paths", "permission", "hooks"]),
    ("agent", &["types", "tool", "permission", "hooks", "runtime", "model"]),
    ("sdk", &["types", "tool", "permission", "hooks", "runtime", "model", "agent", "mcp"]),
    (
        "haft",
        &[
            "types",
            "paths",
            "tool",
            "permission",
            "hooks",
            "workspace",
            "shell",
            "runtime",
            "tools",
            "mcp",
            "model",
            "agent",
            "config",
        ],
    ),
    (
        "cli",
        &[
            "types",
            "paths",
            "tool",
            "permission",
            "hooks",
            "workspace",
            "search",
            "shell",
            "runtime",
            "tools",
            "mcp",
            "model",
            "agent",
            "config",
            "sdk",
            "haft",
            "testkit",
        ],
    ),
    ("testkit", &["types", "model"]),
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).map_err(|err| format!("{}: {err}", crates.display()))?;
    for entry in entries.flatten() {
        let dir = entry.path();
        let Some(name) = dir.file_name().and_then(|name| name.to_str()) else { continue };
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
        match LAYERS.iter().find(|(it, _)| *it == name) {
            None => problems
                .push(format!("crates/{name} has no row in the layer table (xtask/src/tidy/layers.rs)")),
            Some((_, allowed)) => problems.extend(
                ours(&manifest)
                    .filter(|dependency| !allowed.contains(&dependency.as_str()))
                    .map(|dependency| format!("crates/{name} must not depend on {dependency}")),
            ),
        }
    }
    Ok(problems)
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
    fn the_table_points_down() {
        for (at, (name, allowed)) in LAYERS.iter().enumerate() {
            for below in *allowed {
                let position = LAYERS.iter().position(|(it, _)| it == below);
                let known = position.is_some();
                let testing = *below == "testkit";
                assert!(known && (testing || position < Some(at)), "{name} -> {below}");
            }
        }
    }
}
