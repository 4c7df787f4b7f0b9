//! `cargo xtask quick [REV]`: runs the checks affected by changes since REV.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::build::CompiledTests;
use crate::{command, tidy};

/// The crate of the program.
const PROGRAM: &str = "haft-cli";
/// The end-to-end tests: they start the program but do not depend on its crate.
const END_TO_END: &str = "haft-e2e";

/// Runs formatting and tidy for everything; lints and tests for changed crates and those that depend on
/// them, without slow tests (profile `quick` in `.config/nextest.toml`).
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let base = args.first().map_or("HEAD", String::as_str);
    command::cargo(&["fmt", "--all", "--check"])?;
    tidy::check()?;
    let metadata =
        command::output("cargo", &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|err| format!("cargo metadata: {err}"))?;
    let mut changed = changed_crates(&changed_files(base)?, &crate_directories(&metadata));
    if changed.is_empty() {
        println!("quick: no crate changed since {base}");
        return Ok(());
    }
    if !changed.is_disjoint(&dependencies(&metadata, PROGRAM)) {
        changed.insert(String::from(END_TO_END));
    }
    // The whole workspace is built with one set of features, so that nothing is compiled twice;
    // unchanged crates are not recompiled.
    let compiled = CompiledTests::build()?;
    let affected: Vec<String> = changed.iter().map(|name| format!("rdeps(={name})")).collect();
    compiled.run(&["--profile", "quick", "--no-tests", "pass", "-E", &affected.join(" + ")])
}

/// Returns files that differ from a revision, including untracked ones.
fn changed_files(base: &str) -> Result<Vec<String>, String> {
    let root = tidy::root().to_string_lossy().into_owned();
    let mut files = Vec::new();
    for args in [&["diff", "--name-only", base][..], &["ls-files", "--others", "--exclude-standard"]] {
        let listed = command::output("git", &[&["-C", &root], args].concat())?;
        files.extend(listed.lines().map(str::to_owned));
    }
    Ok(files)
}

/// Returns the directory of each workspace crate, relative to the root and with a trailing slash.
fn crate_directories(metadata: &Value) -> BTreeMap<String, String> {
    let root = format!("{}/", metadata["workspace_root"].as_str().unwrap_or_default());
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let directory = |package: &Value| {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let directory = manifest.strip_prefix(&root).unwrap_or(manifest).trim_end_matches("Cargo.toml");
        (package["name"].as_str().unwrap_or_default().to_owned(), directory.to_owned())
    };
    packages.iter().map(directory).collect()
}

/// Returns the crates that contain a changed file. A changed build file outside of all crates affects
/// every crate; a changed document or packaging file affects the crates that test it.
fn changed_crates(files: &[String], directories: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    for file in files {
        let owner = directories.iter().find(|(_, directory)| file.starts_with(directory.as_str()));
        match owner {
            Some((name, _)) => _ = changed.insert(name.clone()),
            None if is_build_file(file) => changed.extend(directories.keys().cloned()),
            None => changed.extend([PROGRAM, END_TO_END, "xtask"].map(String::from)),
        }
    }
    changed
}

/// A crate of the workspace and all others that it is made of, directly or not.
fn dependencies(metadata: &Value, name: &str) -> BTreeSet<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let (mut found, mut open) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = open.pop() {
        let Some(package) = packages.iter().find(|it| it["name"] == name.as_str()) else { continue };
        if found.insert(name) {
            let used = list(&package["dependencies"]).into_iter().filter(|it| it["kind"] != "dev");
            open.extend(used.filter_map(|it| it["name"].as_str().map(str::to_owned)));
        }
    }
    found
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
    fn changed_file_names_the_crates_to_test() {
        let package =
            |name: &str| json!({"name": name, "manifest_path": format!("/w/crates/{name}/Cargo.toml")});
        let packages = ["a", "ab", "c"].map(package);
        let directories = crate_directories(&json!({"workspace_root": "/w", "packages": packages}));
        for (file, want) in [
            ("crates/a/src/lib.rs", &["a"][..]),
            ("crates/ab/tests/x.rs", &["ab"]),
            ("docs/x.md", &["haft-cli", "haft-e2e", "xtask"]),
            ("Cargo.lock", &["a", "ab", "c"]),
        ] {
            let changed = changed_crates(&[file.to_owned()], &directories);
            assert_eq!(changed.iter().map(String::as_str).collect::<Vec<_>>(), want, "{file}");
        }
    }

    #[test]
    fn dependencies_of_a_program_are_all_crates_it_is_made_of() {
        let on = |name: &str, kind: Value| json!({"name": name, "kind": kind});
        let metadata = json!({"packages": [
            {"name": "program", "dependencies": [on("middle", Value::Null), on("tests", json!("dev"))]},
            {"name": "middle", "dependencies": [on("leaf", json!("build")), on("foreign", Value::Null)]},
            {"name": "leaf", "dependencies": []},
            {"name": "tests", "dependencies": []},
        ]});
        let found = dependencies(&metadata, "program");
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["leaf", "middle", "program"]);
    }
}
