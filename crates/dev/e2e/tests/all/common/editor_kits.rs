//! Third-party packages for the editor protocol, pinned and installed once.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code")]

use std::{path::PathBuf, process::Command};

use crate::hosts::{installed, kit_directory, node_kit, runs};

/// The TypeScript SDK contains the schema; `acpx` is an independent client.
pub const NODE_KIT: [&str; 2] = ["@agentclientprotocol/sdk@2.4.0", "acpx@0.1.15"];
pub const PYTHON_KIT: [&str; 2] = ["agent-client-protocol==0.12.1", "jsonschema==4.25.1"];

/// A directory with the Node packages; `None`, with a message, if they cannot be installed.
pub fn node() -> Option<PathBuf> {
    node_kit("editor-node", &[], &NODE_KIT)
}

/// playwright drives an installed browser; axe checks accessibility.
pub const BROWSER_KIT: [&str; 2] = ["playwright-core@1.65.0", "axe-core@4.14.0"];
const CHROMIUM: &str = "/usr/bin/chromium";

/// A directory with the packages that drive Chromium; `None`, with a message, if they or Chromium are
/// missing.
pub fn browser() -> Option<PathBuf> {
    if !std::path::Path::new(CHROMIUM).exists() {
        eprintln!("SKIPPED: {CHROMIUM} is not there");
        return None;
    }
    node_kit("browser-node", &[], &BROWSER_KIT)
}

/// A Python interpreter with the packages; `None` if they cannot be installed.
pub fn python() -> Option<PathBuf> {
    let dir = kit_directory("editor-python", &PYTHON_KIT.join(" "));
    let python = dir.join("bin/python");
    let make = || {
        runs(Command::new("python3").args(["-m", "venv"]).arg(&dir))
            && runs(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PYTHON_KIT))
    };
    installed(&dir, &PYTHON_KIT.join(" "), make).then_some(python)
}
