//! `haft fleet logs` and `attach`.

use std::{io::IsTerminal as _, process::ExitCode};

use futures_util::StreamExt as _;
use haft_console::{
    stdout::{CliError, CommandExit, print_bytes, print_error, print_line, print_untrusted},
    style,
};
use haft_types::text::one_line;
use serde_json::Value;
use tokio::io::AsyncBufReadExt as _;

use super::FleetContext;
use crate::FleetClient;

pub(super) async fn logs(
    desk: &FleetClient,
    id: &str,
    follow: bool,
    from: u64,
    context: &FleetContext,
) -> CommandExit {
    let run = desk.run(id).await?.head.id;
    let is_read = std::io::stdout().is_terminal() && !context.options.json;
    let mut lines = desk.lines(&run, from, follow).await?;
    while let Some(line) = lines.next().await {
        let line = line?;
        if is_read { print_read(&line.text, &mut ShownAnswer::default())? } else { print_line(&line.text)? }
    }
    Ok(ExitCode::SUCCESS)
}

/// Follows a running job and sends it each line the user types. Returns when the job has ended.
pub(super) async fn attach(desk: &FleetClient, id: &str) -> CommandExit {
    let run = desk.run(id).await?.head.id;
    let mut lines = desk.lines(&run, 0, true).await?;
    let mut live = desk.store().log.follow_live(run.clone());
    let mut typed = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let (mut is_typed, mut is_live) = (true, true);
    let mut spoken = ShownAnswer::default();
    loop {
        tokio::select! {
            line = lines.next() => match line {
                Some(line) => print_read(&line?.text, &mut spoken)?,
                None => return Ok(ExitCode::SUCCESS),
            },
            text = live.next(), if is_live => match text {
                Some(Ok(text)) => drop(print_bytes(style::clean(spoken.live(&text)).as_bytes())?),
                Some(Err(_)) | None => is_live = false,
            },
            line = typed.next_line(), if is_typed => match line {
                Ok(Some(line)) if !line.trim().is_empty() => {
                    if let Err(failure) = desk.send_or_answer(&run, &line).await {
                        print_error(&failure.0);
                    }
                }
                Ok(Some(_)) => (),
                Ok(None) | Err(_) => is_typed = false,
            },
        }
    }
}

/// Avoids printing an answer twice: a follower gets its text live while it is generated, and again as a
/// log line. Either may arrive first.
#[derive(Debug, Default)]
struct ShownAnswer {
    /// Text printed live whose log line has not arrived yet.
    ahead: String,
    /// Text printed from a log line that may still arrive live.
    behind: String,
}

impl ShownAnswer {
    /// The part of a live piece that was not printed yet.
    fn live<'a>(&mut self, piece: &'a str) -> &'a str {
        // Leading line breaks may differ between the two copies, so they do not count as a difference.
        let piece = if self.behind.is_empty() || self.behind.starts_with('\n') {
            piece
        } else {
            piece.trim_start_matches('\n')
        };
        if piece.is_empty() {
            return piece;
        }
        let known = common_start(&self.behind, piece);
        if known == 0 {
            self.behind.clear();
        } else {
            self.behind.drain(..known);
        }
        let new = &piece[known..];
        self.ahead.push_str(new);
        new
    }

    /// The part of a log line's text that was not printed yet.
    fn line(&mut self, text: &str) -> String {
        let ahead = std::mem::take(&mut self.ahead);
        let shown = ahead.trim_start_matches('\n').trim_end_matches('\n');
        match text.strip_prefix(shown) {
            Some(rest) => {
                self.behind = rest.to_owned();
                rest.to_owned()
            }
            None if shown.ends_with(text) => String::new(),
            None => text.to_owned(),
        }
    }
}

/// Length in bytes of the common prefix, at a character boundary.
fn common_start(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    same.map(|(it, _)| it.len_utf8()).sum()
}

/// Prints a log line in readable form.
fn print_read(line: &str, spoken: &mut ShownAnswer) -> Result<(), CliError> {
    let Ok(line) = serde_json::from_str::<Value>(line) else { return print_untrusted(line) };
    let text = match line["type"].as_str() {
        Some("user" | "assistant") => {
            let content = &line["message"]["content"];
            let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
            let mut shown: Vec<String> =
                content.as_str().map(|text| format!("> {text}")).into_iter().collect();
            shown.extend(blocks.iter().filter_map(|block| match block["type"].as_str()? {
                "text" => Some(spoken.line(block["text"].as_str()?)).filter(|it| !it.is_empty()),
                "tool_use" => Some(format!(
                    "[{}] {}",
                    block["name"].as_str()?,
                    one_line(&block["input"].to_string(), 160)
                )),
                "tool_result" => {
                    let content = &block["content"];
                    let text = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default();
                    Some(format!("  = {}", one_line(text, 160)))
                }
                _ => None,
            }));
            shown.join("\n")
        }
        Some("fleet") => match line["fleet"]["kind"].as_str() {
            Some("setup") => line["fleet"]["text"].as_str().unwrap_or_default().trim_end().to_owned(),
            Some("owner") => format!(
                "-- worker {} (epoch {})",
                line["fleet"]["worker"].as_str().unwrap_or_default(),
                line["fleet"]["epoch"]
            ),
            Some("question") => {
                let asked = &line["fleet"]["question"];
                let choices = asked["choices"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let choices: String = choices.map(|it| format!("\n   {it}")).collect();
                let (tool, text) = (asked["tool"].as_str(), asked["text"].as_str());
                format!("?? {}: {}{choices}", tool.unwrap_or_default(), text.unwrap_or_default())
            }
            Some("warning") => format!("-- {}", line["fleet"]["text"].as_str().unwrap_or_default()),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    if text.is_empty() { Ok(()) } else { print_untrusted(&text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shown_once_whichever_way_it_comes_first() {
        let mut spoken = ShownAnswer::default();
        assert_eq!((spoken.live("one "), spoken.live("two")), ("one ", "two"));
        assert_eq!(spoken.line("one two three"), " three");
        assert_eq!((spoken.live(" th"), spoken.live("ree\n")), ("", "\n"));
        assert_eq!(spoken.line("a line alone"), "a line alone");
        assert_eq!((spoken.live("a line alone"), spoken.live("\n")), ("", "\n"));
        assert_eq!(spoken.live("another"), "another");
        assert_eq!(spoken.line("another"), "");
        assert_eq!(spoken.line("a third"), "a third");
        assert_eq!((spoken.live("\n"), spoken.live("\na "), spoken.live("third")), ("", "", ""));
        assert_eq!(spoken.line("of two\nlines"), "of two\nlines");
        assert_eq!(
            (spoken.live("\nof two"), spoken.live("\nlines"), spoken.live("\nnew")),
            ("", "", "\nnew")
        );
    }
}
