//! Asks the person at the terminal.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
};

use haft_permission::{Behavior, PermissionUpdate};
use haft_runtime::{Answer, Ask, Question};
use haft_tool::BoxFuture;

use crate::show::{clean, painted};

/// Shows the question on the controlling terminal and reads the answer there,
/// so that standard input and output stay free for data.
#[derive(Debug)]
pub(crate) struct AskTerminal;

impl AskTerminal {
    /// Whether there is a terminal to ask at.
    pub(crate) fn is_there() -> bool {
        OpenOptions::new().read(true).write(true).open("/dev/tty").is_ok()
    }
}

impl Ask for AskTerminal {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let text = question_text(&question);
        let suggestions = question.decision.suggestions.clone();
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || {
                ask(&text, !suggestions.is_empty()).map(|it| (it, suggestions))
            });
            match asked.await {
                Ok(Ok((Reply::Yes, _))) => Answer::yes(),
                Ok(Ok((Reply::Always, updates))) => Answer::Allow { updated_input: None, updates },
                Ok(Ok((Reply::No, _))) => Answer::no("the user said no"),
                Ok(Err(_)) | Err(_) => Answer::no("the question could not be asked"),
            }
        })
    }
}

enum Reply {
    Yes,
    Always,
    No,
}

fn question_text(question: &Question<'_>) -> String {
    let mut text = format!("{}\n", painted(&clean(question.description), "1", true));
    text.push_str(&format!("  {}\n", clean(&question.decision.reason)));
    for part in question.decision.parts.iter().filter(|part| part.decision != Behavior::Allow) {
        text.push_str(&format!(
            "  {} {}: {}\n",
            mark(part.decision),
            clean(&part.subject),
            clean(&part.reason)
        ));
    }
    for update in &question.decision.suggestions {
        if let PermissionUpdate::AddRules(list) = update {
            for rule in &list.rules {
                let rule = match &rule.rule_content {
                    Some(content) => format!("{}({content})", rule.tool_name),
                    None => rule.tool_name.clone(),
                };
                text.push_str(&format!(
                    "  {} {}\n",
                    painted("always would add the rule", "2", true),
                    clean(&rule)
                ));
            }
        }
    }
    text
}

fn mark(behavior: Behavior) -> &'static str {
    match behavior {
        Behavior::Allow => "✓",
        Behavior::Ask => "?",
        Behavior::Deny => "✗",
    }
}

fn ask(text: &str, always: bool) -> std::io::Result<Reply> {
    let mut terminal: File = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let choices = if always { "[y]es, [n]o, [a]lways" } else { "[y]es, [n]o" };
    write!(terminal, "{text}Run it? {choices}: ")?;
    terminal.flush()?;
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    Ok(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Reply::Yes,
        "a" | "always" if always => Reply::Always,
        _ => Reply::No,
    })
}
