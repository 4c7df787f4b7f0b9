//! Finding one of two hundred tools by a few words, in any language.
//!
//! The queries were written before the search existed, so they are not fitted to it.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::sync::Arc;

use haft_tool::{DynTool, Exposure, Output, RawTool, ToolSpec};
use haft_tool_runtime::Pool;
use serde_json::json;

const TOOLS: &str = include_str!("search/tools.tsv");
const QUERIES: &str = include_str!("search/queries.tsv");

/// How a tool is named in the pool.
#[derive(Clone, Copy, Debug)]
enum Named {
    /// With its own name.
    AsItIs,
    /// With the name the MCP client makes: ASCII only, and the original in the hint.
    InAscii,
}

fn tool(line: &str, named: Named) -> Arc<dyn DynTool> {
    let [server, name, description] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
    let ascii = |text: &str| -> String {
        text.chars().map(|it| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' }).collect()
    };
    let spec = ToolSpec {
        name: match named {
            Named::AsItIs => format!("mcp__{server}__{name}"),
            Named::InAscii if server.is_ascii() => format!("mcp__{server}__{}", ascii(name)),
            // A name without any ASCII characters is replaced by a hash.
            Named::InAscii => {
                let mark: u32 = server.bytes().map(u32::from).sum();
                format!("mcp__{}-{mark:x}__{name}", ascii(server))
            }
        },
        description: description.to_owned(),
        input_schema: json!({"type": "object", "properties": {}}).into(),
        search_hint: format!("{server} {name}"),
        exposure: Exposure::Deferred,
        max_result_chars: None,
        timeout: None,
    };
    Arc::new(RawTool::new(spec, |_, _| Box::pin(async { Ok(Output::from_content("x".into())) })))
}

fn pool(named: Named) -> Pool {
    Pool::assemble(Vec::new(), TOOLS.lines().map(|line| tool(line, named)).collect())
}

#[test]
fn search_ranks_the_expected_tool_in_the_top_three() {
    let queries: Vec<(&str, &str)> = QUERIES.lines().map(|line| line.split_once('\t').unwrap()).collect();
    assert!(50 <= queries.len());
    let mut wrong = Vec::new();
    for named in [Named::AsItIs, Named::InAscii] {
        let pool = pool(named);
        for (query, want) in &queries {
            let found = pool.search(query, 3);
            let own = |wire: &String| match pool.get(wire).unwrap().spec().search_hint.split_once(' ') {
                Some((server, name)) => format!("mcp__{server}__{name}"),
                None => String::new(),
            };
            let found: Vec<String> = found.iter().map(own).collect();
            if !found.iter().any(|it| it == want) {
                wrong.push(format!("{named:?} {query}: {found:?} without {want}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn exact_names_are_found_in_original_and_wire_form() {
    let pool = pool(Named::AsItIs);
    assert_eq!(pool.deferred().count(), 200);
    for (wire, tool) in pool.tools() {
        for name in [wire, tool.name()] {
            assert_eq!(pool.search(name, 1), [wire], "{name}");
        }
    }
}
