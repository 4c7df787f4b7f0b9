//! Checks that the documentation matches the code.

#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::path::Path;

use haft_mcp_client::{ServerScope, declared_servers};
use haft_mcp_server::client_snippets;

#[test]
fn config_snippets_are_documented_and_parse() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/mcp.md");
    let page = std::fs::read_to_string(page).unwrap();
    for snippet in client_snippets("haft", "haft", &["mcp", "serve"]) {
        let row = format!("| {} | `{}` |", snippet.client, snippet.file);
        assert!(page.contains(&row), "docs/reference/mcp.md lacks the row {row}");
        if snippet.language == "json" {
            let value = serde_json::from_str(&snippet.text).unwrap();
            let (servers, problems) = declared_servers(&value, ServerScope::User);
            assert!(problems.is_empty() && servers[0].summary() == "haft mcp serve", "{problems:?}");
        }
    }
}
