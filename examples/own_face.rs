//! A face of your own: a program that shows what a session does and answers its
//! questions, in plain lines.
//!
//! `cargo run --example own_face -p haft` plays a scripted model; type `yes` or
//! `no` when it asks. Everything else (permissions, tools, the log) is the
//! engine's: a face decides nothing.

use std::io::{BufRead, Write};

use haft::{
    model::{ModelEvent, ScriptedProvider},
    prelude::*,
    runtime::PermissionAnswer,
    session::{
        ApproverSpec, Command, DenialText, QuestionAnswer, QuestionSubject, Session, SessionEventKind,
    },
    types::{MessageBlock, ToolUse},
};

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// What is ordered.
    dish: String,
}

/// The session this face shows.
fn spec() -> Result<SessionSpec, BuildError> {
    let order = tool("Order", "Orders a dish.", async |args: Order, _cx| {
        Ok(format!("{} is on its way", args.dish).into())
    });
    let call = ToolUse { id: "o1".into(), name: "Order".into(), input: json!({"dish": "soup"}) };
    let model = ScriptedProvider::new([
        vec![MessageBlock::Text { text: "I order something. ".into() }, MessageBlock::ToolUse(call)],
        vec![MessageBlock::Text { text: "Enjoy.".into() }],
    ]);
    let mut spec = Agent::builder(model).tool(order.build()).spec()?;
    // Questions come as events, and answers go back as commands.
    spec.asking = ApproverSpec::Face(DenialText::default());
    Ok(spec)
}

/// Shows a session until its prompt is done.
async fn show(prompt: &str, mut input: impl BufRead, mut out: impl Write) -> std::io::Result<()> {
    let spec = spec().map_err(std::io::Error::other)?;
    let (handle, mut events) = Session::open(spec).map_err(std::io::Error::other)?;
    handle.prompt(Prompt::text(prompt));
    while let Some(event) = events.next().await {
        match event.what {
            SessionEventKind::Agent(AgentEvent::Model(ModelEvent::Text(words))) => write!(out, "{words}")?,
            SessionEventKind::Agent(AgentEvent::CallFinished(call)) => {
                writeln!(out, "\nresult: {}", call.report.content.to_text())?;
            }
            SessionEventKind::Asked(question) => {
                let QuestionSubject::Permission(asked) = &question.subject else { continue };
                writeln!(out, "\nquestion: {}", asked.description)?;
                let mut line = String::new();
                input.read_line(&mut line)?;
                let answer = match line.trim() {
                    "yes" => PermissionAnswer::allow(),
                    _ => PermissionAnswer::deny("the person said no"),
                };
                let answer = QuestionAnswer::Permission(answer);
                handle.send(Command::Answer { question: question.id.clone(), answer });
            }
            SessionEventKind::TurnEnded(turn) => {
                writeln!(out, "\nend: {:?}", turn.end.reason)?;
                break;
            }
            SessionEventKind::Notice(text) => writeln!(out, "\nnotice: {text}")?,
            _ => {}
        }
    }
    handle.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    show("Order something.", std::io::stdin().lock(), std::io::stdout()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_is_asked_and_its_answer_counts() {
        for (typed, want) in [("yes\n", "result: soup is on its way"), ("no\n", "the person said no")] {
            let mut out = Vec::new();
            show("Order something.", typed.as_bytes(), &mut out).await.unwrap();
            let text = String::from_utf8(out).unwrap();
            let lines = ["I order something.", "question: ", want, "Enjoy.", "end: Completed"];
            let mut rest = text.as_str();
            for line in lines {
                let at = rest.find(line).unwrap_or_else(|| panic!("no {line:?} in {text}"));
                rest = &rest[at + line.len()..];
            }
        }
    }
}
