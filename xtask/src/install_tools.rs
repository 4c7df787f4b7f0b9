//! Installs pinned versions of what a new machine with Rust lacks.

use std::{
    env,
    fs::{self, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    thread,
};

use crate::{command, tidy};

/// Version of the test runner.
const NEXTEST: &str = "0.9.143";

/// Directory of PostgreSQL's server programs, which Debian does not put on `PATH`.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Programs from other registries: directory, and script that installs them.
const PEERS: &[(&str, &str)] = &[
    ("mcp-peers", "crates/engine/mcp-client/tests/all/support/install_peers.sh"),
    ("lsp-peers", "crates/system/lsp/tests/all/support/install_peers.sh"),
    ("fleet-peers", "crates/engine/fleet-store/tests/all/support/install_peers.sh"),
];

/// Debian packages used by tests: package, and a program it provides.
const PACKAGES: &[(&str, &str)] = &[
    ("git", "git"),
    ("ripgrep", "rg"),
    ("strace", "strace"),
    ("valgrind", "valgrind"),
    // awk implementations parse programs differently.
    ("mawk", "mawk"),
    ("gawk", "gawk"),
    ("original-awk", "original-awk"),
    ("busybox", "busybox"),
    // For the Agent SDKs, which the tests install in pinned versions into the target directory.
    ("nodejs", "node"),
    ("npm", "npm"),
    ("python3-venv", "python3"),
    // A language server from the distribution.
    ("gopls", "gopls"),
    ("golang-go", "go"),
    // A terminal that wraps rows again on resize.
    ("tmux", "tmux"),
    // Renders web pages.
    ("chromium", "chromium"),
    // Fleet engines and network partitions.
    ("postgresql", POSTGRES),
    ("iproute2", "ip"),
    // Certificates of a private network.
    ("openssl", "openssl"),
    // File systems that know no flags of rename, and that fold case.
    ("bindfs", "bindfs"),
    ("exfat-fuse", "mount.exfat-fuse"),
    ("exfatprogs", "mkfs.exfat"),
];

/// Installs the test runner in exactly this version.
pub(crate) fn test_runner() -> Result<(), String> {
    if command::output("cargo", &["nextest", "--version"]).is_ok() {
        return Ok(());
    }
    command::cargo(&["install", "--locked", "--version", NEXTEST, "cargo-nextest"])
}

/// Installs programs used by tests. Failures are reported, and tests that need them count as skipped.
pub(crate) fn test_programs() {
    debian_packages();
    thread::scope(|scope| {
        for (name, script) in PEERS {
            scope.spawn(move || {
                if let Err(problem) = install_peers(name, script) {
                    eprintln!("could not install {name}: {problem}; tests that need them are skipped");
                }
            });
        }
    });
}

fn debian_packages() {
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(_, program)| !is_installed(program)).map(|(package, _)| *package).collect();
    if missing.is_empty() {
        return;
    }
    command::command("apt-get", &["update", "-qq"]).ok();
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(&missing);
    if command::command("apt-get", &install).is_ok() {
        return;
    }
    // One by one, so that an unavailable package does not prevent the others.
    for package in missing {
        let one = ["install", "-y", "-qq", "--no-install-recommends", package];
        if let Err(problem) = command::command("apt-get", &one) {
            eprintln!("could not install {package}: {problem}; tests that need it are skipped");
        }
    }
}

/// Returns a program in exactly this version: from `PATH`, or built below the target directory. `asking`
/// are the arguments that print its version.
pub(crate) fn pinned(name: &str, version: &str, asking: &[&str]) -> Result<PathBuf, String> {
    let is_right = |program: &Path| {
        let said = command::output(&program.display().to_string(), asking).unwrap_or_default();
        said.split_whitespace().any(|word| word.trim_start_matches('v') == version)
    };
    let tools = command::target_dir()?.join("tools");
    let own = tools.join("bin").join(name);
    let known = [PathBuf::from(name), own.clone()];
    if let Some(program) = known.into_iter().find(|it| is_right(it)) {
        return Ok(program);
    }
    println!("{name} {version} is built first; this takes some minutes");
    let root = tools.display().to_string();
    let flags = ["install", "--locked", "--version", version, "--root", &root, name];
    command::cargo(&flags).map_err(|why| {
        format!(
            "{name} {version} cannot be built here ({why}): put one on the search path, then run this again"
        )
    })?;
    Ok(own)
}

/// Runs an installation script once per version of it. The result is stored in the user's cache, to be
/// reused by new clones, and linked beside the test programs.
fn install_peers(name: &str, script: &str) -> Result<(), String> {
    let script = tidy::root().join(script);
    let text = fs::read(&script).map_err(|err| format!("{}: {err}", script.display()))?;
    let mut version = DefaultHasher::new();
    text.hash(&mut version);
    let cache = cache_dir()?;
    fs::create_dir_all(&cache).map_err(|err| format!("{}: {err}", cache.display()))?;
    let directory = cache.join(format!("{name}-{:016x}", version.finish()));
    let lock = File::create(directory.with_extension("lock")).map_err(|err| err.to_string())?;
    lock.lock().map_err(|err| format!("{}: {err}", directory.display()))?;
    command::command("sh", &[&script.to_string_lossy(), &directory.to_string_lossy()])?;
    let link = command::target_dir()?.join(name);
    if fs::read_link(&link).is_ok_and(|it| it == directory) {
        return Ok(());
    }
    fs::create_dir_all(command::target_dir()?).map_err(|err| err.to_string())?;
    match fs::symlink_metadata(&link) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&link),
        Ok(_) => fs::remove_file(&link),
        Err(_) => Ok(()),
    }
    .and_then(|()| symlink(&directory, &link))
    .map_err(|err| format!("{}: {err}", link.display()))
}

/// Returns the cache directory for test programs, shared by all clones.
fn cache_dir() -> Result<PathBuf, String> {
    let directory = |name: &str| env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = directory("XDG_CACHE_HOME").or_else(|| directory("HOME").map(|it| it.join(".cache")));
    cache.map(|it| it.join("haft-tests")).ok_or_else(|| String::from("HOME is not set"))
}

/// Whether a program is installed, by name on `PATH` or by path.
fn is_installed(program: &str) -> bool {
    if program.starts_with('/') { Path::new(program).is_dir() } else { on_path(program) }
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
