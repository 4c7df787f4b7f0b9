//! Generated documentation.

use std::path::Path;

#[test]
fn keys_documentation_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/terminal-keys.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == haft_tui::keys_page(), "docs/terminal-keys.md is out of step; run `cargo xtask docs`");
}
