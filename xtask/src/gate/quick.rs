//! `cargo xtask quick [REV]`: the checks that concern what changed since REV.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{run, tidy};

/// Formatting and tidy for everything; lints and tests for the crates that changed
/// and for those that depend on them. Slow tests stay out (the `quick` profile in
/// `.config/nextest.toml`).
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let base = args.first().map_or("HEAD", String::as_str);
    run::cargo(&["fmt", "--all", "--check"])?;
    tidy::check()?;
    let changed = changed_files(base)?;
    let workspace = Workspace::load()?;
    let affected = workspace.affected_by(&changed);
    if affected.is_empty() {
        println!("quick: no crate changed since {base}");
        return Ok(());
    }
    let packages: Vec<&str> = affected.iter().flat_map(|name| ["-p", name]).collect();
    let mut clippy = vec!["clippy", "--all-targets", "--quiet"];
    clippy.extend(&packages);
    clippy.extend(["--", "-D", "warnings"]);
    run::cargo(&clippy)?;
    let threads = super::test_threads();
    let mut tests =
        vec!["nextest", "run", "--profile", "quick", "--no-fail-fast", "--test-threads", &threads];
    tests.extend(&packages);
    run::cargo(&tests)
}

/// Files that differ from the revision, and files that git does not know yet.
fn changed_files(base: &str) -> Result<Vec<String>, String> {
    let root = tidy::root().to_string_lossy().into_owned();
    let mut files = Vec::new();
    for args in [&["diff", "--name-only", base][..], &["ls-files", "--others", "--exclude-standard"]] {
        let listed = run::output("git", &[&["-C", &root], args].concat())?;
        files.extend(listed.lines().map(str::to_owned));
    }
    Ok(files)
}

/// The crates of the workspace, by name.
struct Workspace {
    /// Directory relative to the root, with a final slash.
    directories: BTreeMap<String, String>,
    /// The crates that depend on a crate, tests included.
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Workspace {
    fn load() -> Result<Self, String> {
        let text = run::output("cargo", &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
        let metadata: Value = serde_json::from_str(&text).map_err(|err| format!("cargo metadata: {err}"))?;
        Ok(Self::from_metadata(&metadata))
    }

    fn from_metadata(metadata: &Value) -> Self {
        let root = format!("{}/", metadata["workspace_root"].as_str().unwrap_or_default());
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut workspace = Self { directories: BTreeMap::new(), dependents: BTreeMap::new() };
        for package in packages {
            let name = package["name"].as_str().unwrap_or_default().to_owned();
            let manifest = package["manifest_path"].as_str().unwrap_or_default();
            let directory = manifest.strip_prefix(&root).unwrap_or(manifest).trim_end_matches("Cargo.toml");
            for dependency in package["dependencies"].as_array().into_iter().flatten() {
                let dependency = dependency["name"].as_str().unwrap_or_default().to_owned();
                workspace.dependents.entry(dependency).or_default().insert(name.clone());
            }
            workspace.directories.insert(name, directory.to_owned());
        }
        workspace
    }

    /// The crates that hold a changed file and everything that depends on them. A
    /// changed build file outside of all crates concerns every crate.
    fn affected_by(&self, changed: &[String]) -> BTreeSet<String> {
        let mut waiting: Vec<String> = Vec::new();
        for file in changed {
            let owner = self.directories.iter().find(|(_, directory)| file.starts_with(directory.as_str()));
            match owner {
                Some((name, _)) => waiting.push(name.clone()),
                None if is_build_file(file) => waiting.extend(self.directories.keys().cloned()),
                None => {}
            }
        }
        let mut affected = BTreeSet::new();
        while let Some(name) = waiting.pop() {
            if affected.insert(name.clone()) {
                waiting.extend(self.dependents.get(&name).into_iter().flatten().cloned());
            }
        }
        affected
    }
}

fn is_build_file(file: &str) -> bool {
    ["Cargo.toml", "Cargo.lock", "clippy.toml", "rust-toolchain.toml"].contains(&file)
        || file.starts_with(".cargo/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn change_affects_its_crate_and_all_dependents() {
        let package = |name: &str, needs: &[&str]| {
            let needs: Vec<Value> = needs.iter().map(|it| json!({"name": it})).collect();
            json!({"name": name, "manifest_path": format!("/w/crates/{name}/Cargo.toml"), "dependencies": needs})
        };
        let packages =
            [package("a", &["serde"]), package("b", &["a"]), package("c", &["b"]), package("d", &[])];
        let workspace = Workspace::from_metadata(&json!({"workspace_root": "/w", "packages": packages}));
        for (file, want) in [
            ("crates/a/src/lib.rs", &["a", "b", "c"][..]),
            ("crates/c/tests/x.rs", &["c"]),
            ("crates/d/Cargo.toml", &["d"]),
            ("docs/x.md", &[]),
            ("Cargo.lock", &["a", "b", "c", "d"]),
        ] {
            let affected = workspace.affected_by(&[file.to_owned()]);
            assert_eq!(affected.iter().map(String::as_str).collect::<Vec<_>>(), want, "{file}");
        }
    }
}
