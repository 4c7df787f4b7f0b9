//! What a fresh machine with Rust lacks, pinned.

use std::path::{Path, PathBuf};

use crate::run;

/// The test runner.
const NEXTEST: &str = "0.9.143";

/// The server of PostgreSQL, which Debian keeps off the path.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Debian packages the tests use for real: `(package, the program it brings)`.
const PACKAGES: &[(&str, &str)] = &[
    ("git", "git"),
    ("ripgrep", "rg"),
    ("strace", "strace"),
    ("valgrind", "valgrind"),
    // Each of them reads programs in its own way.
    ("mawk", "mawk"),
    ("gawk", "gawk"),
    ("original-awk", "original-awk"),
    ("busybox", "busybox"),
    // The Agent SDKs; the tests install them, pinned, into the target directory.
    ("nodejs", "node"),
    ("npm", "npm"),
    ("python3-venv", "python3"),
    // A language server that comes with its language.
    ("gopls", "gopls"),
    ("golang-go", "go"),
    // A terminal that wraps old rows anew.
    ("tmux", "tmux"),
    // Pages are looked at in it.
    ("chromium", "chromium"),
    // Engines of a fleet, and networks that are cut.
    ("postgresql", POSTGRES),
    ("iproute2", "ip"),
    // Certificates of a network of its own.
    ("openssl", "openssl"),
];

/// Installs what is missing. A package that cannot be had is reported, and the
/// tests that need it say so again.
pub(crate) fn test_tools() -> Result<(), String> {
    if run::output("cargo", &["nextest", "--version"]).is_err() {
        run::cargo(&["install", "--locked", "--version", NEXTEST, "cargo-nextest"])?;
    }
    mcp_peers();
    lsp_peers();
    fleet_peers();
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(_, program)| !is_installed(program)).map(|(package, _)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    run::command("apt-get", &["update", "-qq"]).ok();
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(&missing);
    if let Err(problem) = run::command("apt-get", &install) {
        eprintln!(
            "could not install {}: {problem}; tests that need them are skipped loudly",
            missing.join(", ")
        );
    }
    Ok(())
}

/// A program in exactly this version: of the search path, or the one that was
/// built for it below the target directory. `asking` makes it say its version.
pub(crate) fn pinned(name: &str, version: &str, asking: &[&str]) -> Result<PathBuf, String> {
    let is_right = |program: &Path| {
        let said = run::output(&program.display().to_string(), asking).unwrap_or_default();
        said.split_whitespace().any(|word| word.trim_start_matches('v') == version)
    };
    let tools = run::target_dir()?.join("tools");
    let own = tools.join("bin").join(name);
    let known = [PathBuf::from(name), own.clone()];
    if let Some(program) = known.into_iter().find(|it| is_right(it)) {
        return Ok(program);
    }
    println!("{name} {version} is built first; this takes some minutes");
    let root = tools.display().to_string();
    let flags = ["install", "--locked", "--version", version, "--root", &root, name];
    run::cargo(&flags).map_err(|why| {
        format!(
            "{name} {version} cannot be built here ({why}): put one on the search path, then run this again"
        )
    })?;
    Ok(own)
}

/// MCP servers, clients and the conformance suite of others. Without them the
/// tests that need them say so and pass.
fn mcp_peers() {
    let script = "crates/world/mcp-client/tests/all/support/install_peers.sh";
    let installed = run::target_dir().map(|dir| dir.join("mcp-peers").display().to_string());
    let installed = installed.and_then(|dir| run::command("sh", &[script, &dir]));
    if let Err(problem) = installed {
        eprintln!("could not install the MCP peers: {problem}; tests that need them are skipped loudly");
    }
}

/// Language servers of others. Without them the tests that need them say so and
/// pass.
fn lsp_peers() {
    let script = "crates/hands/lsp/tests/all/support/install_peers.sh";
    let installed = run::target_dir().map(|dir| dir.join("lsp-peers").display().to_string());
    let installed = installed.and_then(|dir| run::command("sh", &[script, &dir]));
    if let Err(problem) = installed {
        eprintln!(
            "could not install the language servers: {problem}; tests that need them are skipped loudly"
        );
    }
}

/// The servers of fleets. Without them the tests that need them say so and pass.
fn fleet_peers() {
    let script = "crates/world/fleet-store/tests/all/support/install_peers.sh";
    let installed = run::target_dir().map(|dir| dir.join("fleet-peers").display().to_string());
    let installed = installed.and_then(|dir| run::command("sh", &[script, &dir]));
    if let Err(problem) = installed {
        eprintln!(
            "could not install the fleet's servers: {problem}; tests that need them are skipped loudly"
        );
    }
}

/// Whether a program is there; a path of its own is looked for where it says.
fn is_installed(program: &str) -> bool {
    if program.starts_with('/') { Path::new(program).is_dir() } else { on_path(program) }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
