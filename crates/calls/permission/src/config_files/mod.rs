//! Configuration files that programs follow: a read-only command may run programs they name.
//!
//! Programs search them in the working directory and its parents, so the current directory of the
//! command counts.

use std::{
    fs,
    path::{Path, PathBuf},
};

mod compose;
mod git_repository;
mod git_settings;
mod gitlinks;

use haft_bash_analysis::ConfigDependence;

/// Maximum bytes of a file; larger ones count as unknown.
const LARGEST: u64 = 256 << 10;

/// Whether git, called so that it runs no programs named in files, shows only the repository it finds
/// from this directory.
pub(crate) fn git_is_own(dir: &Path) -> bool {
    let Ok(dir) = dir.canonicalize() else { return !dir.exists() };
    git_repository::is_plain(&dir, git_repository::GitConfigUse::Guarded)
}

/// Whether a program that depends on these files behaves as usual in this directory.
pub(crate) fn is_plain(obeyed: ConfigDependence, dir: &Path, home: Option<&Path>) -> bool {
    // In a missing directory the command fails.
    let Ok(dir) = dir.canonicalize() else { return !dir.exists() };
    let home = home.and_then(|home| home.canonicalize().ok());
    let above = || dir.ancestors().filter(|it| Some(*it) != home.as_deref());
    match obeyed {
        ConfigDependence::Git => git_repository::is_plain(&dir, git_repository::GitConfigUse::Full),
        ConfigDependence::GitIndex => git_repository::index_is_plain(&dir),
        ConfigDependence::Toolchain => toolchain_is_plain(&dir, home.as_deref()),
        ConfigDependence::Cargo => cargo_is_plain(above()) && toolchain_is_plain(&dir, home.as_deref()),
        ConfigDependence::CargoWithLock => {
            is_locked(&dir) && is_plain(ConfigDependence::Cargo, &dir, home.as_deref())
        }
        ConfigDependence::Versions => {
            above().all(|it| VERSION_FILES.iter().all(|name| versions_are_plain(&it.join(name))))
        }
        ConfigDependence::Npm => above().all(|it| !exists(&it.join(".npmrc"))),
        ConfigDependence::Go => above().all(|it| !exists(&it.join("go.mod")) && !exists(&it.join("go.work"))),
        ConfigDependence::Compose => dir.ancestors().all(compose::is_plain),
        ConfigDependence::Shellcheck => dir.ancestors().all(|it| {
            [".shellcheckrc", "shellcheckrc"].iter().all(|name| shellcheck_is_plain(&it.join(name)))
        }),
    }
}

/// Names of the configuration files and directories of a kind of program, in lower case.
pub(crate) fn config_names(kind: ConfigDependence) -> &'static [&'static str] {
    const CARGO: &[&str] = &[".cargo", "rust-toolchain", "rust-toolchain.toml", "cargo.toml", "cargo.lock"];
    match kind {
        ConfigDependence::Git | ConfigDependence::GitIndex => {
            &[".git", "head", "objects", "refs", "commondir"]
        }
        ConfigDependence::Cargo | ConfigDependence::CargoWithLock => CARGO,
        ConfigDependence::Toolchain => &["rust-toolchain", "rust-toolchain.toml"],
        ConfigDependence::Versions => VERSION_FILES,
        ConfigDependence::Npm => &[".npmrc", "package.json", "package-lock.json", "node_modules"],
        ConfigDependence::Go => &["go.mod", "go.work"],
        ConfigDependence::Compose => compose::NAMES,
        ConfigDependence::Shellcheck => &[".shellcheckrc", "shellcheckrc"],
    }
}

/// Whether a name is one of [`config_names`].
pub(crate) fn is_config_name(kind: ConfigDependence, name: &str) -> bool {
    config_names(kind).contains(&name)
}

/// Whether a name is one of [`config_names`] of any kind.
pub(crate) fn is_any_config_name(name: &str) -> bool {
    use ConfigDependence::{Cargo, Compose, Git, Go, Npm, Shellcheck, Versions};
    [Cargo, Compose, Git, Go, Npm, Shellcheck, Versions].iter().any(|kind| is_config_name(*kind, name))
}

/// Whether there may be a nested repository below the repository around `dir`; true if the tree is too
/// large to tell.
pub(crate) fn holds_repository(dir: &Path) -> bool {
    let Some(top) = dir.ancestors().find(|it| exists(&it.join(".git"))) else { return false };
    let mut open = vec![top.to_owned()];
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            seen += 1;
            let is_repository = entry.file_name().eq_ignore_ascii_case(".git");
            if MAX_SEARCHED < seen || is_repository && dir != top {
                return true;
            }
            if !is_repository && entry.file_type().is_ok_and(|it| it.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    false
}

/// Maximum entries searched for a nested repository.
const MAX_SEARCHED: usize = 200_000;

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn read(path: &Path) -> Option<String> {
    let meta = path.metadata().ok()?;
    (meta.is_file() && meta.len() <= LARGEST).then(|| fs::read_to_string(path).ok())?
}

/// Tables of Cargo's configuration that only affect output or how a build would be done.
const CARGO_TABLES: &[&str] = &["alias", "term", "profile", "future-incompat-report", "cargo-new"];

fn cargo_is_plain<'a>(mut dirs: impl Iterator<Item = &'a Path>) -> bool {
    let plain =
        |path: PathBuf| !exists(&path) || read(&path).is_some_and(|text| is_plain_toml(&text, CARGO_TABLES));
    dirs.all(|dir| plain(dir.join(".cargo/config.toml")) && plain(dir.join(".cargo/config")))
}

/// Whether a TOML text unambiguously contains only these tables.
fn is_plain_toml(text: &str, tables: &[&str]) -> bool {
    let mut inside = false;
    if text.contains("\"\"\"") || text.contains("'''") {
        return false;
    }
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).all(|line| {
        if let Some(header) = line.strip_prefix('[').filter(|_| !line.starts_with("[[")) {
            // In an array, a line may also start with a bracket without naming a table.
            let name = header.split([']', '.']).next().unwrap_or_default().trim();
            inside = tables.contains(&name);
        }
        inside
    })
}

/// A file that names the toolchain may name any directory.
fn toolchain_is_plain(dir: &Path, home: Option<&Path>) -> bool {
    let files = dir.ancestors().flat_map(|it| [it.join("rust-toolchain"), it.join("rust-toolchain.toml")]);
    let mut found = files.filter(|path| exists(path));
    found.all(|path| read(&path).is_some_and(|text| names_installed_toolchain(&text, home)))
}

/// Whether a text only names an installed toolchain.
fn names_installed_toolchain(text: &str, home: Option<&Path>) -> bool {
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let channel = match &lines[..] {
        [channel] => channel,
        ["[toolchain]", line] => {
            let Some((name, value)) = line.split_once('=') else { return false };
            let value = value.trim();
            let quoted = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            match quoted.filter(|_| name.trim() == "channel") {
                Some(channel) => channel,
                None => return false,
            }
        }
        _ => return false,
    };
    let sane = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let Some(home) = home.filter(|_| !channel.is_empty() && channel.chars().all(sane)) else { return false };
    let installed = fs::read_dir(home.join(".rustup/toolchains")).into_iter().flatten().flatten();
    let fits =
        |name: &str| name == channel || name.strip_prefix(channel).is_some_and(|rest| rest.starts_with('-'));
    installed.into_iter().any(|entry| entry.file_name().to_str().is_some_and(fits))
}

/// Whether a `Cargo.lock` exists beside the package or its workspace, so that cargo will not create one.
/// True without a `Cargo.toml`; false for a workspace with `exclude`.
fn is_locked(dir: &Path) -> bool {
    let mut projects = dir.ancestors().filter(|it| exists(&it.join("Cargo.toml")));
    let Some(own) = projects.next() else { return true };
    let gathers = |dir: &Path| {
        let text = read(&dir.join("Cargo.toml")).unwrap_or_default();
        text.contains("[workspace") && !text.contains("exclude")
    };
    exists(&own.join("Cargo.lock")) || projects.any(|it| gathers(it) && exists(&it.join("Cargo.lock")))
}

/// Files that select program versions for a directory.
const VERSION_FILES: &[&str] =
    &[".tool-versions", ".python-version", ".ruby-version", ".node-version", ".java-version"];

/// Whether versions are given as numbers, not as paths.
fn versions_are_plain(path: &Path) -> bool {
    !exists(path) || read(path).is_some_and(|text| !text.contains(['/', ':', '\\', '~']))
}

/// Whether scripts may not include other files.
fn shellcheck_is_plain(path: &Path) -> bool {
    !exists(path) || read(path).is_some_and(|text| !text.contains("external-sources"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (name, text) in files {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn config_files_of_other_programs_are_classified() {
        let (_dir, root) = tree(&[
            ("plain/Cargo.toml", ""),
            ("plain/Cargo.lock", ""),
            ("unlocked/Cargo.toml", ""),
            ("alias/.cargo/config.toml", "# x\n[alias]\nxtask = \"run\"\n[term]\nquiet = true\n"),
            ("rustc/.cargo/config.toml", "[build]\nrustc = \"./x\"\n"),
            ("dotted/.cargo/config", "build.rustc = \"./x\"\n"),
            ("hidden/.cargo/config.toml", "[alias]\nx = \"\"\"\n[build]\n\"\"\"\n"),
            ("rustc/deep/er/x", ""),
            ("path/rust-toolchain.toml", "[toolchain]\npath = \"./x\"\n"),
            ("channel/rust-toolchain.toml", "[toolchain]\nchannel = \"1.80\"\n"),
            ("other/rust-toolchain", "nightly-2020-01-01\n"),
            ("odd/rust-toolchain", "../x\n"),
            ("npm/.npmrc", "registry=http://x\n"),
            ("npm/deep/x", ""),
            ("go/go.mod", "module x\ntoolchain go1.99\n"),
            ("home/.rustup/toolchains/1.80-x86_64/x", ""),
            ("home/.npmrc", ""),
            ("home/.cargo/config.toml", "[build]\nrustc = \"./x\"\n"),
            ("home/ws/x", ""),
            ("plain/inner/Cargo.toml", ""),
            ("gathered/Cargo.toml", "[workspace]\nmembers = [\"inner\"]\n"),
            ("gathered/Cargo.lock", ""),
            ("gathered/inner/Cargo.toml", ""),
            ("checked/.shellcheckrc", "disable=SC2059\n"),
            ("reading/.shellcheckrc", "external-sources=true\n"),
            ("reading/deep/x", ""),
            ("composed/compose.yaml", "services:\n  a:\n    image: x\n"),
            ("included/docker-compose.yml", "include:\n  - oci://x/y\n"),
            ("included/deep/x", ""),
            ("extended/compose.yml", "services:\n  a:\n    extends: {file: /x}\n"),
            ("pointed/.env", "A=1\nDOCKER_HOST=tcp://x\n"),
            ("settled/.env", "A=1\n"),
            ("versions/.tool-versions", "nodejs 22.1.0\n"),
            ("versions/.python-version", "3.12\n"),
            ("placed/.tool-versions", "nodejs path:./x\n"),
            ("placed/deep/x", ""),
            ("shim/.python-version", "../../../evil\n"),
            ("spelled/compose.yaml", "\"\\x69nclude\":\n  - oci://x/y\n"),
        ]);
        let home = root.join("home");
        use ConfigDependence::{Cargo, CargoWithLock, Compose, Go, Npm, Shellcheck, Toolchain, Versions};
        for (kind, place, want) in [
            (Cargo, "plain", true),
            (CargoWithLock, "plain", true),
            (CargoWithLock, "unlocked", false),
            (Cargo, "alias", true),
            (Cargo, "rustc", false),
            (Cargo, "rustc/deep/er", false),
            (Cargo, "dotted", false),
            (Cargo, "hidden", false),
            (Toolchain, "path", false),
            (Toolchain, "channel", true),
            (Toolchain, "other", false),
            (Toolchain, "odd", false),
            (Cargo, "path", false),
            (Npm, "npm/deep", false),
            (Npm, "plain", true),
            (Go, "go", false),
            (Go, "plain", true),
            (Npm, "home/ws", true),
            (Cargo, "home/ws", true),
            (CargoWithLock, "plain/inner", false),
            (CargoWithLock, "gathered/inner", true),
            (Shellcheck, "checked", true),
            (Shellcheck, "reading/deep", false),
            (Shellcheck, "plain", true),
            (Compose, "plain", true),
            (Compose, "composed", true),
            (Compose, "included/deep", false),
            (Compose, "extended", false),
            (Compose, "pointed", false),
            (Compose, "settled", true),
            (Versions, "versions", true),
            (Versions, "placed/deep", false),
            (Versions, "shim", false),
            (Compose, "spelled", false),
        ] {
            assert_eq!(is_plain(kind, &root.join(place), Some(&home)), want, "{kind:?} {place}");
        }
    }
}
