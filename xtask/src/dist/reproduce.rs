//! `cargo xtask dist --reproduce`: checks that builds in two directories are byte-identical.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{HELP, binary::BuildDirs};
use crate::{command, tidy};

/// Builds the programs of a package twice and compares them.
pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (package, profile) = match args {
        [] => ("haft-cli", "dist"),
        [package] => (package.as_str(), "dist"),
        [package, profile] => (package.as_str(), profile.as_str()),
        _ => return Err(HELP.to_owned()),
    };
    // Paths of different length and depth, so that an embedded path shifts everything after it.
    let top = command::target_dir()?.join("reproduce");
    let mut sums = Vec::new();
    for dir in [top.join("one"), top.join("somewhere-else/deeper/another-copy")] {
        let place = BuildDirs { target: dir.join("made"), root: dir.join("source") };
        copy_source(&place.root)?;
        let mut found = Vec::new();
        for built in build(&place, package, profile)? {
            let sum = command::output("sha256sum", &[&built.display().to_string()])?;
            let sum = sum.split_whitespace().next().unwrap_or_default().to_owned();
            println!("{sum}  {}", built.display());
            let leaks = leaks(&built, &place)?;
            if !leaks.is_empty() {
                return Err(format!(
                    "{} holds a path of this machine: {}",
                    built.display(),
                    leaks.join(", ")
                ));
            }
            found.push((built.file_name().map(|name| name.to_owned()), sum));
        }
        sums.push(found);
    }
    match sums.as_slice() {
        [one, other] if one == other && !one.is_empty() => {
            println!("two builds of {package} ({profile}) in two directories are the same");
            fs::remove_dir_all(&top).map_err(|err| err.to_string())
        }
        _ => Err(format!("the builds differ; both are below {}", top.display())),
    }
}

/// Copies the files of the repository, except for ignored ones.
fn copy_source(to: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(to);
    let root = tidy::root();
    let listed = command::output(
        "git",
        &["-C", &root.display().to_string(), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    )?;
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), to.join(name));
        if !from.is_file() {
            continue;
        }
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir).map_err(|err| err.to_string())?;
        }
        fs::copy(&from, &to).map_err(|err| format!("{name}: {err}"))?;
    }
    Ok(())
}

/// Builds the programs of a package in a directory.
fn build(place: &BuildDirs, package: &str, profile: &str) -> Result<Vec<PathBuf>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| String::from("cargo"));
    let args = ["build", "--locked", "--profile", profile, "-p", package, "--bins"];
    println!("$ cargo {} in {}", args.join(" "), place.root.display());
    let status = Command::new(cargo)
        .args(args)
        .current_dir(&place.root)
        .envs(place.variables(""))
        .status()
        .map_err(|err| format!("cargo could not be started: {err}"))?;
    if !status.success() {
        return Err(format!("the build in {} failed", place.root.display()));
    }
    let dir = place.target.join(if profile == "dev" { "debug" } else { profile });
    let entries = fs::read_dir(&dir).map_err(|err| format!("{}: {err}", dir.display()))?;
    let is_program = |path: &PathBuf| path.is_file() && path.extension().is_none();
    let mut programs: Vec<PathBuf> = entries.flatten().map(|it| it.path()).filter(is_program).collect();
    programs.retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
    programs.sort();
    Ok(programs)
}

/// Returns local paths that a binary contains.
fn leaks(binary: &Path, place: &BuildDirs) -> Result<Vec<String>, String> {
    let bytes = fs::read(binary).map_err(|err| format!("{}: {err}", binary.display()))?;
    let mut paths = [&place.root, &place.target].map(|path| path.display().to_string()).to_vec();
    // Contains toolchains and packages.
    let home = std::env::var("HOME").unwrap_or_default();
    paths.extend(
        [".rustup/", ".cargo/"].map(|dir| format!("{home}/{dir}")).into_iter().filter(|_| !home.is_empty()),
    );
    let holds = |path: &String| bytes.windows(path.len()).any(|it| it == path.as_bytes());
    Ok(paths.into_iter().filter(holds).collect())
}
