//! Crates have the metadata that registries require, and can be published in some order; `cargo package
//! --workspace` packages them.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use crate::command;

/// Crates that are not published.
const OURS: &[&str] = &["haft-e2e", "xtask"];

pub(crate) fn check() -> Result<Vec<String>, String> {
    let metadata =
        command::output("cargo", &["metadata", "--format-version", "1", "--no-deps", "--offline"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|err| err.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let own = packages.filter(|package| !OURS.iter().any(|name| package["name"] == *name));
    let circles = circles(&metadata);
    Ok(own.filter_map(problem_of).chain(circles).collect())
}

/// Finds pairs of crates whose tests depend on each other by version, so that neither could be published
/// first.
fn circles(metadata: &Value) -> Vec<String> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
    let wanted = |package: &Value, for_tests: bool| -> Vec<String> {
        let all = package["dependencies"].as_array().into_iter().flatten();
        let local = all.filter(|it| it["path"].is_string() && (it["kind"] == "dev") == for_tests);
        local.filter(|it| it["req"] != "*").map(name).collect()
    };
    let needs: BTreeMap<String, Vec<String>> = packages().map(|it| (name(it), wanted(it, false))).collect();
    let mut found = Vec::new();
    for package in packages() {
        for first in wanted(package, true) {
            let mut reached = vec![first.clone()];
            let mut at = 0;
            while let Some(next) = reached.get(at) {
                let more = needs.get(next).into_iter().flatten().filter(|it| !reached.contains(it));
                let more: Vec<String> = more.cloned().collect();
                reached.extend(more);
                at += 1;
            }
            if reached.contains(&name(package)) {
                found.push(format!(
                    "{}: its tests want a version of {first}, which depends on it: name only the path",
                    name(package)
                ));
            }
        }
    }
    found
}

/// Returns what a crate lacks, on one line.
fn problem_of(package: &Value) -> Option<String> {
    let mut lacks = Vec::new();
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    for name in ["description", "license", "rust_version"] {
        if text(name).trim().is_empty() {
            lacks.push(format!("a {name}"));
        }
    }
    if text("license").contains('/') {
        lacks.push(String::from("a license in the form `A OR B`"));
    }
    let words = |name: &str| package[name].as_array().map_or(&[][..], Vec::as_slice);
    let fits = |word: &&Value| {
        word.as_str().is_some_and(|it| {
            (1..=20).contains(&it.len())
                && it.starts_with(|c: char| c.is_ascii_alphanumeric())
                && it.chars().all(|c| c.is_ascii_alphanumeric() || "_-+".contains(c))
        })
    };
    let keywords = words("keywords");
    if !(1..=5).contains(&keywords.len()) || !keywords.iter().all(|word| fits(&word)) {
        lacks.push(String::from("one to five keywords of at most 20 letters"));
    }
    if !(1..=5).contains(&words("categories").len()) {
        lacks.push(String::from("one to five categories"));
    }
    let manifest = Path::new(text("manifest_path"));
    let dir = manifest.parent().unwrap_or(manifest);
    if text("readme").is_empty() || !dir.join(text("readme")).is_file() {
        lacks.push(String::from("a readme"));
    }
    lacks.extend(undocumented(package));
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        // Development dependencies are removed when publishing.
        let is_local = dependency["path"].is_string() && dependency["kind"] != "dev";
        if is_local && dependency["req"] == "*" {
            lacks.push(format!(
                "a version for its dependency {}",
                dependency["name"].as_str().unwrap_or_default()
            ));
        }
    }
    (!lacks.is_empty()).then(|| format!("{} lacks {}", text("name"), lacks.join(", ")))
}

/// Checks that a library starts with a description.
fn undocumented(package: &Value) -> Option<String> {
    let targets = package["targets"].as_array().into_iter().flatten();
    let mut libraries = targets
        .filter(|it| it["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib")));
    let source = libraries.next()?["src_path"].as_str()?;
    let text = fs::read_to_string(source).unwrap_or_default();
    (!text.lines().take(5).any(|line| line.starts_with("//! ")))
        .then(|| format!("words about itself in {source}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_crate_is_publishable() {
        assert_eq!(check(), Ok(Vec::new()));
    }

    #[test]
    fn publishing_cycles_are_found() {
        let package = |name: &str, needs: &str, tests: &str, req: &str| {
            json!({"name": name, "dependencies": [
                {"name": needs, "path": "/x", "req": "^0.1", "kind": null},
                {"name": tests, "path": "/x", "req": req, "kind": "dev"},
            ]})
        };
        let all = |req: &str| {
            json!({"packages": [package("a", "base", "c", req), package("b", "a", "base", "*"),
            package("c", "b", "base", "^0.1"), {"name": "base"}]})
        };
        assert_eq!(circles(&all("*")), Vec::<String>::new());
        assert_eq!(circles(&all("^0.1")).len(), 1);
    }

    #[test]
    fn missing_metadata_is_named() {
        let root = crate::tidy::root();
        let whole = json!({
            "name": "x", "description": "d", "license": "MIT OR Apache-2.0", "rust_version": "1.95",
            "keywords": ["llm"], "categories": ["development-tools"], "readme": "README.md",
            "manifest_path": root.join("Cargo.toml"), "targets": [],
            "dependencies": [{"name": "y", "path": "/y", "req": "^0.1", "kind": null}],
        });
        assert_eq!(problem_of(&whole), None);
        for (field, value, want) in [
            ("description", json!(null), "x lacks a description"),
            ("license", json!("MIT/Apache-2.0"), "A OR B"),
            ("keywords", json!([]), "keywords"),
            ("keywords", json!(["a", "b", "c", "d", "e", "f"]), "keywords"),
            ("keywords", json!(["two words"]), "keywords"),
            ("categories", json!([]), "categories"),
            ("readme", json!("GONE.md"), "a readme"),
            ("dependencies", json!([{"name": "y", "path": "/y", "req": "*", "kind": null}]), "dependency y"),
        ] {
            let mut spoilt = whole.clone();
            spoilt[field] = value;
            let said = problem_of(&spoilt).unwrap_or_default();
            assert!(said.contains(want), "{field}: {said}");
        }
    }
}
