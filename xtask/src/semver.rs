//! `cargo xtask semver [BASE]`: detects breaking changes of the library.
//!
//! The facade re-exports whole crates (`haft::tool`, `haft::session`, …), so each of them is compared
//! with its old version, as described by rustdoc, by a pinned `cargo-semver-checks`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{command, install_tools, tidy};

/// Version of `cargo-semver-checks`.
const SEMVER_CHECKS: &str = "0.51.0";
/// The crate that users depend on.
const FACADE: &str = "haft";

/// Fails if a public item changed in a breaking way. Default base: the newest tag, else the last commit.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let root = tidy::root().display().to_string();
    let git = |args: &[&str]| command::output("git", &[&["-C", &root], args].concat());
    let base = match args {
        [] => git(&["describe", "--tags", "--abbrev=0"]).unwrap_or_else(|_| String::from("HEAD")),
        [base] => base.clone(),
        _ => return Err(String::from("cargo xtask semver [BASE]: at most one revision")),
    };
    let program =
        install_tools::pinned("cargo-semver-checks", SEMVER_CHECKS, &["semver-checks", "--version"])?;
    let place = command::target_dir()?.join("semver");
    let source = place.join("source");
    drop(git(&["worktree", "remove", "--force", &source.display().to_string()]));
    let revision = git(&["rev-parse", "--verify", &format!("{}^{{commit}}", base.trim())])?;
    git(&["worktree", "add", "--force", "--detach", &source.display().to_string(), revision.trim()])?;
    let compared = compare(&program, &source, &place);
    git(&["worktree", "remove", "--force", &source.display().to_string()])?;
    match compared? {
        broken if broken.is_empty() => {
            println!("nothing that was public in {} is gone or changed", base.trim());
            Ok(())
        }
        broken => Err(format!("changed so that others notice since {}: {}", base.trim(), broken.join(", "))),
    }
}

/// Returns the crates with breaking changes.
fn compare(program: &Path, base: &Path, place: &Path) -> Result<Vec<String>, String> {
    let before = described(base, &place.join("before"))?;
    let after = described(&tidy::root(), &place.join("after"))?;
    let mut broken = Vec::new();
    for (name, before) in before {
        let Some((_, after)) = after.iter().find(|(it, _)| *it == name) else {
            broken.push(format!("{name} is gone"));
            continue;
        };
        let (before, after) = (before.display().to_string(), after.display().to_string());
        // Additions are fine: check only for breaking changes.
        let args = [
            "semver-checks",
            "--release-type",
            "minor",
            "--baseline-rustdoc",
            &before,
            "--current-rustdoc",
            &after,
        ];
        if command::command(&program.display().to_string(), &args).is_err() {
            broken.push(name);
        }
    }
    Ok(broken)
}

/// Generates the rustdoc JSON of the crates visible through the facade; returns it by crate name.
fn described(source: &Path, to: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let manifest = source.join("Cargo.toml").display().to_string();
    let metadata = command::output(
        "cargo",
        &["metadata", "--format-version", "1", "--no-deps", "--manifest-path", &manifest],
    )?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|err| err.to_string())?;
    let names = seen_through_the_facade(&metadata);
    let mut args =
        vec!["doc", "--no-deps", "--locked", "--lib", "--all-features", "--manifest-path", &manifest];
    args.extend(names.iter().flat_map(|name| ["-p", name.as_str()]));
    // The format is unstable; the pinned tool supports the one of this compiler.
    let flags = [
        ("RUSTC_BOOTSTRAP", "1"),
        ("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow"),
    ];
    // A separate target directory, because these variables would invalidate other builds.
    let target = command::target_dir()?.join("semver/made");
    let made = target.display().to_string();
    command::cargo_with(&args, &[&flags[..], &[("CARGO_TARGET_DIR", &made)]].concat())?;
    fs::create_dir_all(to).map_err(|err| format!("{}: {err}", to.display()))?;
    names
        .into_iter()
        .map(|name| {
            let file = format!("{}.json", name.replace('-', "_"));
            let kept = to.join(&file);
            fs::copy(target.join("doc").join(&file), &kept).map_err(|err| format!("{file}: {err}"))?;
            Ok((name, kept))
        })
        .collect()
}

/// Returns the facade and the workspace crates it depends on.
fn seen_through_the_facade(metadata: &Value) -> Vec<String> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let facade = packages().find(|package| package["name"] == FACADE);
    let dependencies = facade.and_then(|it| it["dependencies"].as_array()).into_iter().flatten();
    let own = dependencies.filter(|it| it["path"].is_string() && it["kind"].is_null());
    let own = own.filter_map(|it| it["name"].as_str());
    facade.map(|_| FACADE).into_iter().chain(own).map(str::to_owned).collect()
}
