//! Counts the memory allocations of a call in the runtime, without those of its tool. More than 10 %
//! above the recorded numbers fails the test.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{path::Path, sync::Arc};

use haft_permission::{Behavior, Destination, Policy, RuleSource};
use haft_testkit::{Allocated, CountingAllocator};
use haft_tool::{CallContext, DynTool, Exposure, Outcome, Output, RawTool, ToolSpec, tool};
use haft_tool_runtime::{Gate, ParsedCall, Pipeline, Pool, ResultStore, StoreLimits};
use haft_types::ToolUse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[derive(Deserialize, JsonSchema)]
struct NoArgs {}

fn policy_with_200_rules() -> Policy {
    let origin = RuleSource::new("test", Destination::Session);
    let rule = |number: usize| match number % 4 {
        0 => format!("Bash(tool{number} *)"),
        1 => format!("Read(./dir{number}/**)"),
        2 => format!("Edit(//opt/{number}/*.txt)"),
        _ => format!("mcp__server{number}__*"),
    };
    Policy::builder("/").rules(&origin, Behavior::Allow, (0..200).map(rule)).build()
}

#[test]
fn call_allocations_stay_within_the_recorded_limit() {
    let tool =
        tool("NoOp", "Does nothing.", async |_: NoArgs, _cx| Ok(Outcome::from(()))).read_only().build();
    let pool = Pool::assemble(vec![tool], Vec::new());
    let results = ResultStore::new("/nonexistent", StoreLimits::default());
    let pipeline = Arc::new(Pipeline::new(Gate::new(policy_with_200_rules()), results));
    let cx = CallContext::detached("call", Path::new("/"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let call = || {
        let tool_use = ToolUse { id: "call".into(), name: String::from("NoOp"), input: json!({}) };
        let report = runtime.block_on(pipeline.run(ParsedCall::parse(&pool, tool_use, &cx), cx.clone()));
        assert!(report.error.is_none());
    };
    // Warm up: lazily created values must not count.
    (0..10).for_each(|_| call());
    let (found, ()) = Allocated::during(|| (0..100).for_each(|_| call()));
    found.check("100 calls", 2_100, 855_600);
}

fn external(number: usize) -> Arc<dyn DynTool> {
    let spec = ToolSpec {
        name: format!("mcp__server{}__list_{number}", number % 20),
        description: String::from("Lists what the workspace holds, with filters and paging."),
        input_schema: json!({"type": "object", "properties": {
            "id": {"type": "string", "description": "Identifier."},
            "limit": {"type": "integer", "description": "How many at most."},
        }, "required": ["id"]})
        .into(),
        search_hint: String::new(),
        exposure: Exposure::Direct,
        max_result_chars: None,
        timeout: None,
    };
    Arc::new(RawTool::new(spec, |_, _| Box::pin(async { Ok(Output::from_content("".into())) })))
}

#[test]
fn tool_list_allocations_stay_within_the_recorded_limit() {
    let tools: Vec<Arc<dyn DynTool>> = (0..500).map(external).collect();
    let (first, pool) = Allocated::during(|| {
        let pool = Pool::assemble(Vec::new(), tools.clone());
        pool.advertised(&[]);
        pool
    });
    first.check("a first list", 21_030, 1_475_416);
    let (again, _) = Allocated::during(|| pool.advertised(&[]));
    again.check("the same list again", 11, 144_896);
}
