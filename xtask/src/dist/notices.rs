//! Licences of everything linked into the program, as one text, which must accompany copies.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{command, tidy};

/// Name of the file in every package.
pub(super) const FILE: &str = "THIRD-PARTY-NOTICES";

/// Lower-case prefixes of licence files.
const LICENCE_FILES: &[&str] =
    &["license", "licence", "copying", "copyright", "notice", "unlicense", "ofl", "patents"];

/// Directories of a package whose content is not linked.
const NOT_COMPILED: &[&str] = &["tests", "benches", "examples", "fuzz", ".git", ".github"];

/// Maximum depth at which licences of bundled sources and fonts are searched.
const MAX_DEPTH: usize = 5;

/// Returns the notices of all packages linked into `haft`; the same for the same lock file.
pub(super) fn collect(version: &str) -> Result<String, String> {
    let manifest = tidy::root().join("Cargo.toml").display().to_string();
    let arguments = ["metadata", "--format-version", "1", "--locked", "--manifest-path", &manifest];
    let metadata = command::output("cargo", &arguments)?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|err| format!("cargo metadata: {err}"))?;
    let packages = linked_packages(&metadata, "haft-cli");
    if packages.is_empty() {
        return Err(String::from("cargo metadata names no dependency of haft-cli"));
    }
    notices(version, &packages)
}

/// A registry package that is linked into the program.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LinkedPackage {
    name: String,
    version: String,
    licence: String,
    directory: PathBuf,
}

/// Follows normal dependencies only: build scripts, procedural macros and their dependencies are not
/// linked.
fn linked_packages(metadata: &Value, root: &str) -> BTreeSet<LinkedPackage> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        array(&metadata["packages"]).into_iter().map(|it| (text(&it["id"]), it)).collect();
    let nodes: BTreeMap<String, Value> =
        array(&metadata["resolve"]["nodes"]).into_iter().map(|it| (text(&it["id"]), it)).collect();
    let is_macro = |package: &Value| {
        let kinds = array(&package["targets"]).into_iter().flat_map(|it| array(&it["kind"]));
        kinds.into_iter().any(|it| it == "proc-macro")
    };
    let mut waiting: Vec<String> =
        packages.iter().filter(|(_, it)| it["name"] == root).map(|(id, _)| id.clone()).collect();
    let (mut seen, mut linked) = (BTreeSet::new(), BTreeSet::new());
    while let Some(id) = waiting.pop() {
        let Some(package) = packages.get(&id).filter(|it| !is_macro(it)) else { continue };
        if !seen.insert(id.clone()) {
            continue;
        }
        if !package["source"].is_null() {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            linked.insert(LinkedPackage {
                name: text(&package["name"]),
                version: text(&package["version"]),
                licence: text(&package["license"]),
                directory: manifest.parent().map(PathBuf::from).unwrap_or_default(),
            });
        }
        for dependency in nodes.get(&id).map(|it| array(&it["deps"])).unwrap_or_default() {
            if array(&dependency["dep_kinds"]).iter().any(|it| it["kind"].is_null()) {
                waiting.push(text(&dependency["pkg"]));
            }
        }
    }
    linked
}

fn notices(version: &str, packages: &BTreeSet<LinkedPackage>) -> Result<String, String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without_text = Vec::new();
    let mut out = format!(
        "Third-party software in haft {version}\n\n\
         The program contains the following packages. The texts of their licences follow.\n\n"
    );
    for package in packages {
        let LinkedPackage { name, version, licence, directory } = package;
        let _ = writeln!(out, "  {name} {version} ({licence})");
        let mut found = Vec::new();
        licence_texts(directory, 0, &mut found)?;
        if found.is_empty() {
            without_text.push(format!("{name} {version} ({licence})"));
        }
        for text in found {
            texts.entry(text).or_default().insert(format!("{name} {version}"));
        }
    }
    let _ = writeln!(
        out,
        "\nIt also contains the standard library of Rust (MIT OR Apache-2.0), \
         copyright of the Rust project's contributors."
    );
    if !without_text.is_empty() {
        let _ = writeln!(
            out,
            "\nThese packages name a licence and ship no text of it; the texts of the same licences below apply:\n"
        );
        without_text.iter().for_each(|it| _ = writeln!(out, "  {it}"));
    }
    for (text, users) in &texts {
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        let _ = write!(out, "\n{}\n{}\n{0}\n\n{text}\n", "-".repeat(80), users.join(", "));
    }
    Ok(out)
}

/// Collects the licence files of a package, including those of bundled sources and fonts.
fn licence_texts(directory: &Path, depth: usize, found: &mut Vec<String>) -> Result<(), String> {
    let problem = |err: std::io::Error| format!("{}: {err}", directory.display());
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).map_err(problem)?.flatten().map(|it| it.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_dir() {
            let is_compiled = !NOT_COMPILED.contains(&name.as_str());
            if is_compiled && depth < MAX_DEPTH {
                licence_texts(&path, depth + 1, found)?;
            }
        } else if LICENCE_FILES.iter().any(|it| name.starts_with(it)) && !is_source(&name) {
            let text = fs::read(&path).map_err(|err| format!("{}: {err}", path.display()))?;
            let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
            found.push(text.trim().to_owned());
        }
    }
    Ok(())
}

/// Whether a file such as `license.rs` is source code.
fn is_source(name: &str) -> bool {
    [".rs", ".c", ".h", ".py", ".go", ".pl", ".json", ".toml", ".sh"].iter().any(|it| name.ends_with(it))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, kind: &str, directory: &Path) -> Value {
        let manifest = directory.join(name).join("Cargo.toml");
        json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": "registry",
            "targets": [{"kind": [kind]}], "manifest_path": manifest})
    }

    #[test]
    fn notices_contain_linked_packages_without_duplicates() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = scratch.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/LICENSE", "same text\n");
        write("b/fonts/LICENSE-OFL", "font text\r\n");
        write("b/COPYING", "same text");
        write("b/tests/LICENSE", "not linked");
        write("c/src/license.rs", "code");
        write("macro/LICENSE", "macro text");
        write("built/LICENSE", "build text");
        let dependency = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let mut root = package("haft-cli", "bin", scratch.path());
        root["source"] = Value::Null;
        let metadata = json!({
            "packages": [root, package("a", "lib", scratch.path()), package("b", "lib", scratch.path()),
                package("c", "lib", scratch.path()), package("macro", "proc-macro", scratch.path()),
                package("built", "lib", scratch.path())],
            "resolve": {"nodes": [
                {"id": "haft-cli", "deps": [dependency("a", Value::Null), dependency("macro", Value::Null),
                    dependency("built", json!("build"))]},
                {"id": "a", "deps": [dependency("b", Value::Null), dependency("c", Value::Null)]},
            ]},
        });
        let linked = linked_packages(&metadata, "haft-cli");
        let names: Vec<&str> = linked.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let text = notices("0.1.0", &linked).unwrap();
        assert_eq!(text.matches("same text").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0, b 1.0.0\n"), "{text}");
        assert!(text.contains("font text\n") && text.contains("ship no text of it"), "{text}");
        for absent in ["not linked", "macro text", "build text", "code\n"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
    }
}
