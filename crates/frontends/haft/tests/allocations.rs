//! What a turn of an agent asks of memory: the loop, the log of the
//! conversation, a call and its result. More than a tenth above these rows is a
//! decision, not an accident.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use haft::{
    model::ScriptedProvider,
    prelude::*,
    types::{MessageBlock, ToolUse},
};
use haft_testkit::{Allocated, CountingAllocator};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[derive(Deserialize, JsonSchema)]
struct Lookup {
    word: String,
}

/// Runs an agent through so many calls.
fn run(turns: usize) -> Allocated {
    let call = |number: usize| {
        let input = json!({"word": format!("word {number}")});
        vec![MessageBlock::ToolUse(ToolUse { id: format!("c{number}").into(), name: "Lookup".into(), input })]
    };
    let mut answers: Vec<Vec<MessageBlock>> = (0..turns).map(call).collect();
    answers.push(vec![MessageBlock::Text { text: "Done.".into() }]);
    let lookup = tool("Lookup", "Says what a word means.", async |args: Lookup, _cx| {
        Ok(format!("{} is the handle of a tool", args.word).into())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut agent = {
        let _inside = runtime.enter();
        let builder = Agent::builder(ScriptedProvider::new(answers)).tool(lookup.read_only().build());
        builder.cwd(dir.path()).state_dir(dir.path().join(".state")).max_turns(1_000).build().unwrap()
    };
    let (found, end) = Allocated::during(|| runtime.block_on(agent.run("go")));
    assert_eq!(end.text, "Done.");
    found
}

#[test]
fn a_turn_with_a_call() {
    run(2);
    let (few, many) = (run(20), run(120));
    let hundred = Allocated { times: many.times - few.times, bytes: many.bytes - few.bytes };
    hundred.check("100 turns", 29_523, 4_419_062);
}
