//! What a fresh machine with Rust lacks, pinned.

use crate::run;

/// The test runner.
const NEXTEST: &str = "0.9.143";

/// Debian packages the tests use for real: `(package, the program it brings)`.
const PACKAGES: &[(&str, &str)] = &[
    ("git", "git"),
    ("ripgrep", "rg"),
    ("strace", "strace"),
    // The Agent SDKs; the tests install them, pinned, into the target directory.
    ("nodejs", "node"),
    ("npm", "npm"),
    ("python3-venv", "python3"),
    // Pages are looked at in it.
    ("chromium", "chromium"),
];

/// Installs what is missing. A package that cannot be had is reported, and the
/// tests that need it say so again.
pub(crate) fn test_tools() -> Result<(), String> {
    if run::output("cargo", &["nextest", "--version"]).is_err() {
        run::cargo(&["install", "--locked", "--version", NEXTEST, "cargo-nextest"])?;
    }
    mcp_peers();
    lsp_peers();
    let missing: Vec<&str> =
        PACKAGES.iter().filter(|(_, program)| !on_path(program)).map(|(package, _)| *package).collect();
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

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
