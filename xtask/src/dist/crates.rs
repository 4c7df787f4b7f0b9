//! `cargo xtask package-check`: checks that the crates compile as they would be published.
//!
//! `cargo package` with its own verification compiles every dependency of every crate again. Instead,
//! all crates are packaged, unpacked side by side into one workspace in which they refer to each other
//! by path, and checked once. A file missing in a package causes an error there.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crate::{command, tidy};

/// Packages, unpacks and checks all crates; fails at the first that does not compile.
pub(crate) fn check(args: &[String]) -> Result<(), String> {
    if !args.is_empty() {
        return Err(String::from("cargo xtask package-check takes no arguments"));
    }
    let place = command::target_dir()?.join("package-check");
    let (packed, unpacked) = (place.join("packed"), place.join("crates"));
    for old in [packed.join("package"), unpacked.clone()] {
        if old.exists() {
            fs::remove_dir_all(&old).map_err(|err| format!("{}: {err}", old.display()))?;
        }
    }
    let to = packed.display().to_string();
    let pack = ["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"];
    let left_out = ["--exclude", "haft-e2e", "--exclude", "xtask"];
    command::cargo(&[&pack[..], &left_out, &["--target-dir", &to]].concat())?;
    fs::create_dir_all(&unpacked).map_err(|err| format!("{}: {err}", unpacked.display()))?;
    let crates = unpack(&packed.join("package"), &unpacked)?;
    let manifest = unpacked.join("Cargo.toml");
    fs::write(&manifest, workspace(&crates)).map_err(|err| format!("{}: {err}", manifest.display()))?;
    // The versions used by all other tests.
    fs::copy(tidy::root().join("Cargo.lock"), unpacked.join("Cargo.lock")).map_err(|err| err.to_string())?;
    let manifest = manifest.display().to_string();
    let made = place.join("made").display().to_string();
    command::cargo(&["check", "--workspace", "--manifest-path", &manifest, "--target-dir", &made])?;
    println!("{} crates compile from their packages", crates.len());
    Ok(())
}

/// Unpacks the packages; returns the names of their directories.
fn unpack(packed: &Path, to: &Path) -> Result<Vec<String>, String> {
    let listed = fs::read_dir(packed).map_err(|err| format!("{}: {err}", packed.display()))?;
    let mut packages: Vec<PathBuf> = listed.flatten().map(|it| it.path()).collect();
    packages.retain(|it| it.extension().is_some_and(|ending| ending == "crate"));
    packages.sort();
    let mut crates = Vec::new();
    for package in packages {
        let (from, to) = (package.display().to_string(), to.display().to_string());
        command::command("tar", &["-xzf", &from, "-C", &to])?;
        crates.extend(package.file_stem().map(|it| it.to_string_lossy().into_owned()));
    }
    Ok(crates)
}

/// Returns the manifest of a workspace in which packages use each other and not a registry.
fn workspace(crates: &[String]) -> String {
    let mut text = format!("[workspace]\nresolver = \"3\"\nmembers = {crates:?}\n\n[patch.crates-io]\n");
    for dir in crates {
        let name = dir.rsplit_once('-').map_or(dir.as_str(), |(name, _)| name);
        let _ = writeln!(text, "{name} = {{ path = \"{dir}\" }}");
    }
    text
}
