//! Every dependency has a permissive licence and comes from the default registry, and the number of
//! packages with several versions does not grow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::command;

/// Licences that only require a notice.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "OpenSSL",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "WTFPL",
    "Zlib",
    "bzip2-1.0.6",
];

/// Maximum number of packages locked in several versions. Lower it when possible; raise it only for a
/// dependency that is worth a second copy of another.
const MAX_DOUBLED: usize = 25;

/// Maximum number of packages that a crate outside the repository compiles when it uses the
/// facade without features. Tool authors wait for them.
const MAX_FOR_A_TOOL: usize = 120;

/// Source prefix of registry packages, whatever mirror is used.
const SOURCE: &str = "registry+";

pub(crate) fn check() -> Result<Vec<String>, String> {
    let metadata = command::output("cargo", &["metadata", "--format-version", "1", "--locked"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|err| err.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let foreign: Vec<&Value> = packages.filter(|package| !package["source"].is_null()).collect();
    let mut problems: Vec<String> = foreign.iter().filter_map(|package| problem_of(package)).collect();
    problems.extend(foreign.iter().filter_map(|package| source_problem(package)));
    problems.extend(doubled(&foreign, MAX_DOUBLED));
    problems.extend(too_many_for_a_tool()?);
    Ok(problems)
}

/// Reports if the facade without features has more than [`MAX_FOR_A_TOOL`] packages.
fn too_many_for_a_tool() -> Result<Option<String>, String> {
    let tree = ["tree", "--locked", "-p", "haft", "--no-default-features", "-e", "normal,build"];
    let tree = command::output(
        "cargo",
        &[&tree[..], &["--prefix", "none", "--no-dedupe", "--format", "{p}"]].concat(),
    )?;
    let packages: BTreeSet<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    // The tool itself is one more.
    let count = packages.len() + 1;
    Ok((MAX_FOR_A_TOOL < count).then(|| {
        format!("a tool outside compiles {count} packages, at most {MAX_FOR_A_TOOL} may be: see `cargo tree -p haft -e normal,build`")
    }))
}

/// Rejects packages from git or other registries, which can change or vanish without a new version.
fn source_problem(package: &Value) -> Option<String> {
    let source = package["source"].as_str().unwrap_or_default();
    (!source.starts_with(SOURCE)).then(|| format!("dependency {} comes from {source}", package["name"]))
}

/// Reports more than `most` packages in several versions.
fn doubled(packages: &[&Value], most: usize) -> Option<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        versions.entry(name).or_default().insert(package["version"].as_str().unwrap_or_default());
    }
    versions.retain(|_, versions| 1 < versions.len());
    (most < versions.len()).then(|| {
        let names: Vec<&str> = versions.keys().copied().collect();
        format!(
            "{} dependencies come in several versions, at most {most} may (`cargo tree -d` says who wants them): {}",
            names.len(),
            names.join(", ")
        )
    })
}

fn problem_of(package: &Value) -> Option<String> {
    let name = package["name"].as_str().unwrap_or_default();
    match package["license"].as_str() {
        Some(licence) if is_permissive(licence) => None,
        Some(licence) => Some(format!("dependency {name} is under {licence}")),
        None => Some(format!("dependency {name} does not say its licence")),
    }
}

/// Evaluates an SPDX expression: `A OR B` needs one permissive licence, `A AND B` both. Parentheses only
/// group alternatives in practice, so they are dropped.
fn is_permissive(licence: &str) -> bool {
    let text = licence.replace(['(', ')'], " ").replace('/', " OR ");
    text.split(" AND ").all(|part| {
        part.split(" OR ").any(|it| {
            let plain = it.split(" WITH ").next().unwrap_or(it).trim();
            PERMISSIVE.contains(&plain)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_sources_and_duplicates_are_checked() {
        let package = |name: &str, version: &str, source: &str| serde_json::json!({"name": name, "version": version, "source": source});
        let (one, two) = (package("a", "1", "registry+x"), package("a", "2", "registry+x"));
        let strange = package("b", "1", "git+https://example.com/b");
        assert_eq!(source_problem(&one), None);
        assert!(source_problem(&strange).is_some());
        assert_eq!(doubled(&[&one, &strange], 0), None);
        assert_eq!(doubled(&[&one, &two], 1), None);
        assert!(doubled(&[&one, &two], 0).is_some_and(|it| it.ends_with(": a")));
    }

    #[test]
    fn licence_expressions_are_evaluated() {
        for (licence, want) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("GPL-3.0-only", false),
            ("MPL-2.0", false),
            ("(MIT OR GPL-2.0) AND Zlib", true),
            ("MIT AND GPL-2.0", false),
        ] {
            assert_eq!(is_permissive(licence), want, "{licence}");
        }
    }
}
