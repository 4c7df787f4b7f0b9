//! Who may do what: a rule, a permission callback, a hook that rewrites, and an interrupt.
//!
//! `cargo run --example guarded -p haft`

use std::{
    io::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use haft::{
    model::ScriptedProvider,
    prelude::*,
    types::{MessageBlock, ToolUse},
};
use serde_json::Value;

#[derive(Deserialize, JsonSchema)]
struct Transfer {
    /// Who gets it.
    to: String,
    /// How much, in euros.
    amount: u64,
}

/// What was really done.
type Book = Arc<Mutex<Vec<(String, u64)>>>;

fn agent(book: &Book, answers: Vec<Vec<MessageBlock>>) -> Result<Agent, BuildError> {
    let book = Arc::clone(book);
    let transfer = tool("Transfer", "Sends money.", move |args: Transfer, _cx| {
        let book = Arc::clone(&book);
        async move {
            book.lock().unwrap_or_else(PoisonError::into_inner).push((args.to.clone(), args.amount));
            Ok(format!("{} euros sent to {}", args.amount, args.to).into())
        }
    });
    Agent::builder(ScriptedProvider::new(answers))
        .tool(transfer.build())
        // Asked for every call that no rule decides.
        .ask(async |asked| match asked.input["amount"].as_u64() {
            Some(0..=100) => PermissionAnswer::allow(),
            _ => PermissionAnswer::deny("more than 100 euros need a person"),
        })
        // Runs before that: what it rewrites is checked like any other input.
        .hook(HookEvent::PreToolUse, "Transfer", async |call: HookCall| {
            let Value::Object(mut input) = call.json["tool_input"].clone() else { return HookReply::Pass };
            if input["to"] == "mallory" {
                return HookReply::Block(String::from("not to mallory"));
            }
            input["to"] = Value::from(input["to"].as_str().unwrap_or_default().to_lowercase());
            HookReply::Rewrite(input)
        })
        .build()
}

fn transfer(number: usize, to: &str, amount: u64) -> MessageBlock {
    let input = json!({"to": to, "amount": amount});
    MessageBlock::ToolUse(ToolUse { id: format!("call_{number}").into(), name: "Transfer".into(), input })
}

fn script() -> Vec<Vec<MessageBlock>> {
    let calls = [("Alice", 50), ("bob", 5_000), ("mallory", 1)];
    vec![
        calls.iter().enumerate().map(|(number, (to, amount))| transfer(number, to, *amount)).collect(),
        vec![MessageBlock::Text { text: "One of three went through.".into() }],
    ]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let book = Book::default();
    let mut agent = agent(&book, script())?;
    let mut run = agent.start("Pay everybody.");
    // From anywhere, at any time: `run.cancel_token().cancel()`.
    while let Some(event) = run.next().await {
        if let AgentEvent::CallFinished(call) = event {
            writeln!(std::io::stdout(), "{}", call.report.content.to_text())?;
        }
    }
    let end = run.end().await;
    writeln!(std::io::stdout(), "{} ({} denied)", end.text, end.denials.len())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_is_allowed_is_done() {
        let book = Book::default();
        let mut agent = agent(&book, script()).unwrap();
        let end = agent.run("Pay everybody.").await;
        assert_eq!((end.reason, end.denials.len()), (EndReason::Completed, 2));
        assert_eq!(*book.lock().unwrap(), [(String::from("alice"), 50)]);
        let reasons: Vec<&str> = end.denials.iter().map(|it| it.reason.as_str()).collect();
        assert!(
            reasons[0].contains("more than 100 euros") && reasons[1].contains("not to mallory"),
            "{reasons:?}"
        );
    }

    #[tokio::test]
    async fn a_cancelled_run_ends_and_the_next_prompt_works() {
        let book = Book::default();
        let mut agent = agent(&book, script()).unwrap();
        let run = agent.start("Pay everybody.");
        run.cancel_token().cancel();
        assert_eq!(run.end().await.reason, EndReason::Interrupted);
        assert!(book.lock().unwrap().is_empty());
        assert_eq!(agent.run("Now then.").await.reason, EndReason::Completed);
    }
}
