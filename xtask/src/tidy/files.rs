//! Rules for the text of tracked files.

use std::{fs, path::Path};

use crate::command;

/// Maximum lines of a file; a longer one probably contains more than one idea.
const MAX_LINES: usize = 600;

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let root_text = root.to_string_lossy();
    let listed = command::output(
        "git",
        &["-C", &root_text, "ls-files", "--cached", "--others", "--exclude-standard"],
    )?;
    let mut problems = Vec::new();
    for name in listed.lines() {
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        problems.extend(problems_of(name, &text));
    }
    let changelog = fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    if !changelog.contains("## Unreleased") {
        problems.push(String::from("CHANGELOG.md needs an `## Unreleased` section"));
    }
    Ok(problems)
}

/// A test function that other tests start as their child process, with `--ignored`.
const CHILD_PROCESS: &str = concat!("#[igno", "re = \"a child process of other tests\"]");

fn problems_of(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.ends_with(".rs") {
        let lines = text.lines().count();
        if MAX_LINES < lines {
            problems.push(format!("{name} has {lines} lines; look for the second idea in it"));
        }
        let unfinished = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[igno", "re")];
        let text = text.replace(CHILD_PROCESS, "");
        for word in unfinished.into_iter().filter(|word| text.contains(word)) {
            problems.push(format!("{name} contains {word}"));
        }
    }
    if !name.ends_with(".lock") && !name.ends_with("package-lock.json") {
        for host in registry_hosts().into_iter().filter(|host| text.contains(host.as_str())) {
            problems.push(format!("{name} names the registry host {host}"));
        }
    }
    problems
}

/// Assembled from parts, so that this file does not contain the names.
fn registry_hosts() -> Vec<String> {
    [
        ("crates", "io"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("debian", "org"),
    ]
    .iter()
    .map(|(name, end)| format!("{name}.{end}"))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_rules_find_hosts_long_files_and_todos() {
        let host = registry_hosts().remove(0);
        for (name, text, want) in [
            ("a.md", format!("see https://{host}/x"), 1),
            ("Cargo.lock", host.clone(), 0),
            ("a.rs", "x\n".repeat(601), 1),
            ("a.rs", format!("{}{}", "fn x() { to", "do!() }"), 1),
            ("a.rs", String::from("fn x() {}"), 0),
        ] {
            assert_eq!(problems_of(name, &text).len(), want, "{name}");
        }
    }
}
