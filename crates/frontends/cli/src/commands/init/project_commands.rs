//! Finds a project's build, test, lint and format commands in its files.

use std::path::Path;

use serde_json::Value;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ProjectCommand {
    /// `build`, `test`, `lint` or `format`.
    pub(crate) purpose: &'static str,
    pub(crate) command: String,
    /// File name the command was derived from, for example `Cargo.toml`.
    pub(crate) from: &'static str,
}

/// The commands found in `root`. Unreadable files are skipped.
pub(crate) fn commands(root: &Path) -> Vec<ProjectCommand> {
    let mut out = Vec::new();
    let has = |name: &str| root.join(name).exists();
    let mut add = |purpose: &'static str, command: &str, from: &'static str| {
        out.push(ProjectCommand { purpose, command: command.to_owned(), from });
    };
    if has("Cargo.toml") {
        add("build", "cargo build", "Cargo.toml");
        add("test", "cargo test", "Cargo.toml");
        add("lint", "cargo clippy", "Cargo.toml");
        add("format", "cargo fmt", "Cargo.toml");
    }
    if has("go.mod") {
        add("build", "go build ./...", "go.mod");
        add("test", "go test ./...", "go.mod");
        add("lint", "go vet ./...", "go.mod");
    }
    if has("pom.xml") {
        add("build", "mvn -q compile", "pom.xml");
        add("test", "mvn -q test", "pom.xml");
    }
    if has("gradlew") {
        add("build", "./gradlew build", "gradlew");
        add("test", "./gradlew test", "gradlew");
    }
    out.extend(node(root));
    out.extend(python(root));
    out.extend(make(root));
    out
}

fn text(root: &Path, name: &str) -> Option<String> {
    let path = root.join(name);
    std::fs::metadata(&path).ok().filter(|it| it.is_file() && it.len() < 4 * 1024 * 1024)?;
    std::fs::read_to_string(path).ok()
}

fn node(root: &Path) -> Vec<ProjectCommand> {
    let Some(text) = text(root, "package.json") else { return Vec::new() };
    let Ok(package) = serde_json::from_str::<Value>(&text) else { return Vec::new() };
    let locks =
        [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lockb", "bun"), ("bun.lock", "bun")];
    let manager = locks.iter().find(|(file, _)| root.join(file).exists()).map_or("npm", |(_, name)| *name);
    let names =
        [("build", "build"), ("test", "test"), ("lint", "lint"), ("format", "format"), ("lint", "typecheck")];
    let there = names.into_iter().filter(|(_, script)| package["scripts"][*script].is_string());
    there
        .map(|(purpose, script)| ProjectCommand {
            purpose,
            command: format!("{manager} run {script}"),
            from: "package.json",
        })
        .collect()
}

fn python(root: &Path) -> Vec<ProjectCommand> {
    let Some(text) = text(root, "pyproject.toml") else { return Vec::new() };
    let runner = if root.join("uv.lock").exists() { "uv run " } else { "" };
    let tools = [
        ("[tool.pytest", "test", "pytest"),
        ("[tool.ruff", "lint", "ruff check"),
        ("[tool.mypy", "lint", "mypy ."),
    ];
    let there = tools.into_iter().filter(|(mark, _, _)| text.contains(mark));
    there
        .map(|(_, purpose, command)| ProjectCommand {
            purpose,
            command: format!("{runner}{command}"),
            from: "pyproject.toml",
        })
        .collect()
}

fn make(root: &Path) -> Vec<ProjectCommand> {
    let Some(text) = text(root, "Makefile") else { return Vec::new() };
    let is_target =
        |name: &str| text.lines().any(|line| line.strip_prefix(name).is_some_and(|it| it.starts_with(':')));
    let names = [("build", "build"), ("test", "test"), ("lint", "lint"), ("test", "check")];
    let there = names.into_iter().filter(|(_, target)| is_target(target));
    there
        .map(|(purpose, target)| ProjectCommand {
            purpose,
            command: format!("make {target}"),
            from: "Makefile",
        })
        .collect()
}
