//! Measures the overhead of the tool runtime, compared with the cheapest work a tool could do.
//!
//! Run with `cargo xtask bench overhead`. Prints medians of interleaved rounds, as ratios where a
//! baseline exists.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark prints, and stops when something is wrong"
)]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_permission::{Behavior, Destination, Policy, RuleSource};
use haft_tool::{CallContext, DynTool, Exposure, Outcome, Output, RawTool, ToolSpec, tool};
use haft_tool_runtime::{Gate, ParsedCall, Pipeline, Pool, ResultStore, StoreLimits};
use haft_types::ToolUse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

const ROUNDS: usize = 31;
const CALLS: u32 = 1_000;

#[derive(Deserialize, JsonSchema)]
struct NoArgs {}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // As in a session, calls run on worker threads, not on the thread that waits for them.
    runtime.block_on(async { tokio::spawn(no_op()).await.unwrap() });
    pool_of_500();
    search_in_2000();
}

/// Runs a no-op tool through all eight stages; the baseline is one `stat(2)`.
async fn no_op() {
    let tool =
        tool("NoOp", "Does nothing.", async |_: NoArgs, _cx| Ok(Outcome::from(()))).read_only().build();
    let pool = Pool::assemble(vec![tool], Vec::new());
    let results = ResultStore::new("/nonexistent", StoreLimits::default());
    let pipeline = Arc::new(Pipeline::new(Gate::new(policy_with_200_rules()), results));
    let cx = CallContext::detached("call", Path::new("/"));
    let (mut calls, mut stats) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..CALLS {
            let tool_use = ToolUse { id: "call".into(), name: String::from("NoOp"), input: json!({}) };
            let report = pipeline.run(ParsedCall::parse(&pool, tool_use, &cx), cx.clone()).await;
            assert!(report.error.is_none());
        }
        calls.push(started.elapsed() / CALLS);
        let started = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(std::fs::metadata("/usr/bin/env").unwrap());
        }
        stats.push(started.elapsed() / CALLS);
    }
    let (call, stat) = (median(calls), median(stats));
    let ratio = call.as_secs_f64() / stat.as_secs_f64();
    println!("no-op tool, 8 stages, 200 rules: {call:?}, one stat: {stat:?}, ratio {ratio:.1} (goal 10)");
}

fn policy_with_200_rules() -> Policy {
    let origin = RuleSource::new("bench", Destination::Session);
    let rule = |idx: usize| match idx % 4 {
        0 => format!("Bash(tool{idx} *)"),
        1 => format!("Read(./dir{idx}/**)"),
        2 => format!("Edit(//opt/{idx}/*.txt)"),
        _ => format!("mcp__server{idx}__*"),
    };
    Policy::builder("/").rules(&origin, Behavior::Allow, (0..200).map(rule)).build()
}

fn external(idx: usize, exposure: Exposure) -> Arc<dyn DynTool> {
    let verbs = ["create", "list", "delete", "update", "search", "export", "watch", "merge"];
    let nouns =
        ["issue", "branch", "message", "channel", "invoice", "ticket", "page", "query", "job", "deploy"];
    let (verb, noun) = (verbs[idx % verbs.len()], nouns[idx / 7 % nouns.len()]);
    let spec = ToolSpec {
        name: format!("mcp__server{}__{verb}_{noun}_{idx}", idx % 20),
        description: format!(
            "Will {verb} a {noun} in the workspace of the current user, with filters and paging."
        ),
        input_schema: json!({"type": "object", "properties": {
            "id": {"type": "string", "description": "Identifier."},
            "limit": {"type": "integer", "description": "How many at most."},
            "filter": {"type": "array", "items": {"type": "string"}},
        }, "required": ["id"]})
        .into(),
        search_hint: String::new(),
        exposure,
        max_result_chars: None,
        timeout: None,
    };
    Arc::new(RawTool::new(spec, |_, _| Box::pin(async { Ok(Output::from_content("".into())) })))
}

fn pool_of_500() {
    let tools: Vec<Arc<dyn DynTool>> = (0..500).map(|idx| external(idx, Exposure::Direct)).collect();
    let pool = Pool::assemble(Vec::new(), tools.clone());
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let fresh = Pool::assemble(Vec::new(), tools.clone());
        std::hint::black_box(fresh.advertised(&[]));
        first.push(started.elapsed());
        pool.advertised(&[]);
        let started = Instant::now();
        let moved_on = pool.with_external(tools.clone(), |_| String::from("gone"));
        std::hint::black_box(moved_on.advertised(&[]));
        again.push(started.elapsed());
    }
    let (first, again) = (median(first), median(again));
    println!("pool of 500 tools, assembled and serialised: first {first:?}, cached {again:?} (goal 1 ms)");
}

fn search_in_2000() {
    let tools: Vec<Arc<dyn DynTool>> = (0..2_000).map(|idx| external(idx, Exposure::Deferred)).collect();
    let pool = Pool::assemble(Vec::new(), tools);
    let started = Instant::now();
    pool.search("warm up", 5);
    let built = started.elapsed();
    let mut times = Vec::new();
    for query in ["create issue", "export invoices by filter", "+server7 merge branch", "message channel"] {
        for _ in 0..ROUNDS {
            let started = Instant::now();
            std::hint::black_box(pool.search(query, 5));
            times.push(started.elapsed());
        }
    }
    println!("tool search over 2000 tools: {:?} (goal 5 ms), index built once in {built:?}", median(times));
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
