//! Questions of servers to the person at the terminal.

use std::{
    fs::OpenOptions,
    io::{self, BufRead, BufReader, Write},
};

use haft_mcp::{Elicit, ElicitAnswer, Elicitation};
use haft_tool::{BoxFuture, check_input};
use serde_json::{Map, Value, json};

use crate::show::clean;

/// Shows the question on the controlling terminal and reads the answer there.
#[derive(Debug)]
pub(crate) struct PersonAtTerminal;

impl PersonAtTerminal {
    /// Whether there is a terminal to ask at.
    pub(crate) fn is_there() -> bool {
        crate::ask_terminal::AskTerminal::is_there()
    }
}

impl Elicit for PersonAtTerminal {
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || {
                let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
                let input = BufReader::new(terminal.try_clone()?);
                Dialogue { input, output: terminal }.ask(&request)
            });
            // A terminal that is gone has neither agreed nor refused.
            asked.await.ok().and_then(Result::ok).unwrap_or(ElicitAnswer::Cancel)
        })
    }
}

/// How often a form that does not fit is filled in again.
const TRIES: usize = 3;

/// As many choices of a field as are shown.
const MOST_CHOICES: usize = 20;

struct Dialogue<I, O> {
    input: I,
    output: O,
}

impl<I: BufRead, O: Write> Dialogue<I, O> {
    fn ask(&mut self, request: &Elicitation) -> io::Result<ElicitAnswer> {
        let (server, message) = (clean(&request.server), clean(&request.message));
        write!(self.output, "\nThe MCP server {server} asks:\n  {}\n", message.replace('\n', "\n  "))?;
        if let Some(url) = &request.url {
            let line = self.line(&format!("It wants you to open {}\nDone? [y]es, [n]o: ", clean(url)))?;
            return Ok(yes_or_no(line).map_or(ElicitAnswer::Cancel, |yes| match yes {
                true => ElicitAnswer::Accept(Map::new()),
                false => ElicitAnswer::Decline,
            }));
        }
        match yes_or_no(self.line("Answer? [y]es, [n]o: ")?) {
            Some(true) => (),
            Some(false) => return Ok(ElicitAnswer::Decline),
            None => return Ok(ElicitAnswer::Cancel),
        }
        let schema = request.schema.clone().unwrap_or_else(|| json!({"type": "object"}));
        for _ in 0..TRIES {
            let Some(fields) = self.form(&schema)? else { return Ok(ElicitAnswer::Cancel) };
            let mut filled = Value::Object(fields);
            match (check_input("answer", &schema, &mut filled), filled) {
                (Ok(_), Value::Object(fields)) => return Ok(ElicitAnswer::Accept(fields)),
                (Ok(_), _) => break,
                (Err(problem), _) => writeln!(self.output, "  {}", clean(&problem.message))?,
            }
        }
        Ok(ElicitAnswer::Cancel)
    }

    /// Every field in turn; nothing at the end of the input.
    fn form(&mut self, schema: &Value) -> io::Result<Option<Map<String, Value>>> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut filled = Map::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.contains(&name.as_str());
            let prompt = prompt(name, field, is_required);
            loop {
                let Some(line) = self.line(&prompt)? else { return Ok(None) };
                match read_field(field, line.trim()) {
                    Ok(Some(value)) => {
                        filled.insert(name.clone(), value);
                        break;
                    }
                    Ok(None) if !is_required => break,
                    Ok(None) => writeln!(self.output, "  it is needed")?,
                    Err(problem) => writeln!(self.output, "  {problem}")?,
                }
            }
        }
        Ok(Some(filled))
    }

    fn line(&mut self, prompt: &str) -> io::Result<Option<String>> {
        write!(self.output, "{prompt}")?;
        self.output.flush()?;
        let mut line = String::new();
        Ok((self.input.read_line(&mut line)? != 0).then_some(line))
    }
}

fn yes_or_no(line: Option<String>) -> Option<bool> {
    Some(matches!(line?.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn prompt(name: &str, field: &Value, is_required: bool) -> String {
    let title = field["title"].as_str().unwrap_or(name);
    let mut about = vec![if is_required { "needed" } else { "optional" }.to_owned()];
    let choices = choices(field);
    if !choices.is_empty() {
        let shown: Vec<&str> = choices.iter().take(MOST_CHOICES).map(String::as_str).collect();
        let more = if shown.len() < choices.len() { ", …" } else { "" };
        let which = if field["type"] == "array" { "some of" } else { "one of" };
        about.push(format!("{which} {}{more}", shown.join(", ")));
    } else if let Some(kind) = field["type"].as_str() {
        about.push(kind.to_owned());
    }
    if let Some(default) = field.get("default") {
        about.push(format!("usually {default}"));
    }
    let description = field["description"].as_str().map(|it| format!(": {it}")).unwrap_or_default();
    clean(&format!("  {title}{description} ({}): ", about.join("; ")))
}

/// The values a field may have, where they are listed.
fn choices(field: &Value) -> Vec<String> {
    let field = if field["type"] == "array" { &field["items"] } else { field };
    let plain = field["enum"].as_array().into_iter().flatten();
    let titled = ["oneOf", "anyOf"].iter().filter_map(|key| field[*key].as_array()).flatten();
    let all = plain.chain(titled.filter_map(|it| it.get("const")));
    all.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned)).collect()
}

/// What was typed, as the field wants it; nothing if it is left empty and has
/// no default.
fn read_field(field: &Value, line: &str) -> Result<Option<Value>, String> {
    if line.is_empty() {
        return Ok(field.get("default").cloned());
    }
    let choices = choices(field);
    let known = |text: &str| match choices.is_empty() || choices.iter().any(|it| it == text) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is none of the choices")),
    };
    let value = match field["type"].as_str() {
        Some("boolean") => match line.to_lowercase().as_str() {
            "y" | "yes" | "true" => json!(true),
            "n" | "no" | "false" => json!(false),
            _ => return Err(String::from("yes or no")),
        },
        Some("integer") => json!(line.parse::<i64>().map_err(|_| "a whole number")?),
        Some("number") => json!(line.parse::<f64>().map_err(|_| "a number")?),
        Some("array") => {
            let items = line.split(',').map(str::trim).filter(|it| !it.is_empty());
            json!(items.map(known).collect::<Result<Vec<_>, _>>()?)
        }
        _ => json!(known(line)?),
    };
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(schema: Option<Value>, url: Option<&str>, typed: &str) -> (ElicitAnswer, String) {
        let request = Elicitation {
            server: String::from("srv"),
            message: String::from("Which \u{1b}[31mone?"),
            schema,
            url: url.map(str::to_owned),
            id: None,
        };
        let mut output = Vec::new();
        let answer = Dialogue { input: typed.as_bytes(), output: &mut output }.ask(&request);
        (answer.unwrap_or(ElicitAnswer::Cancel), String::from_utf8_lossy(&output).into_owned())
    }

    #[test]
    fn forms_are_filled_in_checked_and_given_up() {
        let schema = json!({
            "type": "object",
            "properties": {
                "colour": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
                "count": {"type": "integer", "minimum": 1},
                "sure": {"type": "boolean"},
                "tags": {"type": "array", "items": {"anyOf": [{"const": "a"}, {"const": "b"}]}},
            },
            "required": ["count"],
        });
        let accept = |value: Value| match value {
            Value::Object(fields) => ElicitAnswer::Accept(fields),
            _ => ElicitAnswer::Cancel,
        };
        for (typed, want) in [
            (
                "y\nred\n2\nyes\na, b\n",
                accept(json!({"colour": "red", "count": 2, "sure": true, "tags": ["a", "b"]})),
            ),
            ("yes\n\n2\n\n\n", accept(json!({"colour": "blue", "count": 2}))),
            // What does not fit is asked for again.
            ("y\ngreen\nred\nx\n\n3\n\n\n", accept(json!({"colour": "red", "count": 3}))),
            ("y\n\n0\n\n\n\n1\n\n\n", accept(json!({"colour": "blue", "count": 1}))),
            ("n\n", ElicitAnswer::Decline),
            ("y\nred\n", ElicitAnswer::Cancel),
            ("", ElicitAnswer::Cancel),
        ] {
            let (answer, shown) = asked(Some(schema.clone()), None, typed);
            assert_eq!(answer, want, "{typed:?}: {shown}");
            assert!(!shown.contains('\u{1b}'), "{shown:?}");
        }
    }

    #[test]
    fn an_address_is_shown_and_never_opened_by_itself() {
        for (typed, want) in [
            ("y\n", ElicitAnswer::Accept(Map::new())),
            ("n\n", ElicitAnswer::Decline),
            ("", ElicitAnswer::Cancel),
        ] {
            let (answer, shown) = asked(None, Some("https://x.test/pay"), typed);
            assert!(answer == want && shown.contains("https://x.test/pay"), "{typed:?}: {shown}");
        }
    }
}
