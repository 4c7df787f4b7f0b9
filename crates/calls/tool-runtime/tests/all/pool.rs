//! Which tools the pool contains, under which names, and its exact bytes in the request.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::sync::Arc;

use haft_tool::{DynTool, Exposure, Outcome, Output, RawTool, ToolSpec, Traits, erase, tool};
use haft_tool_runtime::{Pool, PoolFeatures, SharedPool, ToolSearch, ToolVisibility, visible};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema, Serialize)]
struct NoArgs {}

fn builtin(name: &str, traits: Traits) -> Arc<dyn DynTool> {
    tool(name, "Does something.", async |_: NoArgs, _cx| Ok(Outcome::from(()))).traits(traits).build()
}

fn external(name: &str, exposure: Exposure, description: &str) -> Arc<dyn DynTool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({"type": "object", "properties": {}}).into(),
        search_hint: String::new(),
        exposure,
        max_result_chars: None,
        timeout: None,
    };
    Arc::new(RawTool::new(spec, |_, _| Box::pin(async { Ok(Output::from_content("x".into())) })))
}

fn names(pool: &Pool) -> Vec<String> {
    pool.names().map(str::to_owned).collect()
}

#[test]
fn built_ins_come_first_sorted_and_keep_their_names() {
    let base = vec![builtin("Write", Traits::default()), builtin("Bash", Traits::default())];
    let direct = |name| external(name, Exposure::Direct, "");
    let pool = Pool::assemble(base, vec![direct("mcp__z__a"), direct("Bash"), direct("mcp__a__b.c/d")]);
    let got = names(&pool);
    assert_eq!(got[..2], ["Bash", "Write"]);
    assert!(got[2].starts_with("Bash_") && got[3].starts_with("mcp__a__b_c_d_"), "{got:?}");
    assert_eq!(got[4], "mcp__z__a");
    // The original names still find the tool.
    assert_eq!(pool.get("mcp__a__b.c/d").unwrap().name(), "mcp__a__b.c/d");
    assert_eq!(pool.get(&got[3]).unwrap().name(), "mcp__a__b.c/d");
}

#[test]
fn denied_and_disabled_tools_are_not_visible() {
    let base = vec![
        builtin("A", Traits { aliases: &["a_old"], ..Traits::default() }),
        builtin("B", Traits { feature: Some("b"), ..Traits::default() }),
        builtin("C", Traits::default()),
    ];
    let strings = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (visibility, want) in [
        (ToolVisibility::default(), vec!["A", "B", "C"]),
        (ToolVisibility { denied: strings(&["a_old"]), ..ToolVisibility::default() }, vec!["B", "C"]),
        (
            ToolVisibility { only: Some(strings(&["C", "a_old"])), ..ToolVisibility::default() },
            vec!["A", "C"],
        ),
        (ToolVisibility { only: Some(Vec::new()), ..ToolVisibility::default() }, vec![]),
        (
            ToolVisibility {
                features: PoolFeatures { off: strings(&["b"]).into_iter().collect() },
                ..ToolVisibility::default()
            },
            vec!["A", "C"],
        ),
    ] {
        let pool = Pool::assemble(visible(&base, &visibility), Vec::new());
        assert_eq!(names(&pool), want);
    }
}

/// Servers disconnect and reconnect, tools are loaded: the bytes sent before never change.
#[test]
fn advertised_list_is_append_only() {
    let base = || {
        vec![
            builtin("Read", Traits::default()),
            builtin("Cron", Traits { exposure: Exposure::Deferred, ..Traits::default() }),
        ]
    };
    let server = |name: &str| {
        vec![
            external(&format!("mcp__{name}__b"), Exposure::Direct, "b"),
            external(&format!("mcp__{name}__a"), Exposure::Direct, "a"),
        ]
    };
    let mut pool = Pool::assemble(base(), server("zoo"));
    let mut loaded: Vec<String> = Vec::new();
    let mut last = pool.advertised(&loaded);
    let mut advance = |pool: &Pool, loaded: &[String]| {
        let next = pool.advertised(loaded);
        assert!(next.starts_with(last.trim_end_matches(']')), "{last}\n{next}");
        last = next;
    };
    pool = pool.with_external([server("zoo"), server("ant")].concat(), |_| String::from("gone"));
    advance(&pool, &loaded);
    pool = pool.with_external(server("ant"), |_| String::from("the server zoo is not connected"));
    advance(&pool, &loaded);
    loaded.push(String::from("Cron"));
    advance(&pool, &loaded);
    pool = pool.with_external([server("zoo"), server("ant")].concat(), |_| String::from("gone"));
    advance(&pool, &loaded);
    let listed: Vec<Value> = serde_json::from_str(&last).unwrap();
    let listed: Vec<&str> = listed.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(listed, ["Read", "mcp__zoo__a", "mcp__zoo__b", "mcp__ant__a", "mcp__ant__b", "Cron"]);
}

proptest! {
    /// Wire names do not depend on the order in which tools are added.
    #[test]
    fn wire_names_are_unique_and_stable(mut names in prop::collection::hash_set("[a-z./ü]{1,90}", 1..20).prop_map(Vec::from_iter), seed in any::<u64>()) {
        let assemble = |names: &[String]| {
            Pool::assemble(Vec::new(), names.iter().map(|name| external(name, Exposure::Direct, "")).collect())
        };
        let first = assemble(&names);
        let at = usize::try_from(seed % names.len() as u64).unwrap_or(0);
        names.rotate_left(at);
        let second = assemble(&names);
        prop_assert_eq!(first.advertised(&[]), second.advertised(&[]));
        let wire: std::collections::BTreeSet<&str> = first.names().collect();
        prop_assert_eq!(wire.len(), names.len());
        for name in &names {
            prop_assert_eq!(first.get(name).unwrap().name(), name.as_str());
        }
    }
}

#[tokio::test]
async fn tool_search_loads_what_it_finds() {
    let deferred = |name, about| external(name, Exposure::Deferred, about);
    let external = vec![
        deferred("mcp__github__create_issue", "Create an issue in a repository."),
        deferred("mcp__github__close_issue", "Close an issue."),
        deferred("mcp__slack__post", "Post a message to a channel."),
    ];
    let pool = SharedPool::new(Pool::assemble(Vec::new(), Vec::new()));
    let search = erase(ToolSearch::new(pool.clone()));
    pool.set(Pool::assemble(vec![search], external));
    let mut tools = Vec::new();
    for (query, most) in [
        ("select:mcp__slack__post,mcp__github__clos_issue", 5),
        ("create issue", 1),
        ("+slack message", 5),
        ("weather", 5),
    ] {
        let results =
            haft_tool_runtime::ResultStore::new("/nonexistent", haft_tool_runtime::StoreLimits::default());
        let gate = haft_tool_runtime::Gate::new(haft_permission::Policy::default());
        let pipeline = haft_tool_runtime::Pipeline::new(gate, results);
        let call = haft_types::ToolUse {
            id: "call".into(),
            name: String::from("tool_search"),
            input: json!({"query": query, "max_results": most}),
        };
        let cx = haft_tool::CallContext::detached("call", std::path::Path::new("/"));
        let report = pipeline.run(haft_tool_runtime::ParsedCall::parse(&pool.get(), call, &cx), cx).await;
        tools.push((query, report.content.to_text(), report.changes));
    }
    insta::assert_debug_snapshot!(tools);
}
