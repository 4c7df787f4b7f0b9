//! Elicitation: asks an MCP server's form or URL, line by line.

use std::io;

use haft_mcp_client::{ElicitAnswer, Elicitation};
use haft_tool::check_input;
use serde_json::{Map, Value, json};

use super::{
    form_field::FormField,
    raw_terminal::{ConsoleInput, TerminalLines},
};
use crate::style::{clean, painted};

/// Maximum number of fields; a form with more is not shown.
const MAX_FIELDS: usize = 50;

pub(super) struct ElicitationDialog<'a, L> {
    pub(super) lines: &'a mut L,
    pub(super) colours: bool,
}

/// Why a form was not filled in.
enum NoFields {
    Declined,
    Cancelled,
}

impl<L: TerminalLines> ElicitationDialog<'_, L> {
    pub(super) fn ask(&mut self, request: &Elicitation) -> io::Result<ElicitAnswer> {
        let server = painted(&clean(&request.server), "1", self.colours);
        let wants = if request.url.is_some() { "wants you to open a page" } else { "asks" };
        self.lines.say(&format!("\nThe MCP server {server} {wants}:\n{}\n", indented(&request.message)))?;
        if let Some(url) = &request.url {
            return self.page(url);
        }
        let schema = request.schema.clone().unwrap_or_else(|| json!({"type": "object"}));
        let fields = FormField::all(&schema);
        if MAX_FIELDS < fields.len() {
            let many = fields.len();
            self.lines.say(&format!("  Its form has {many} fields, too many to fill in here.\n"))?;
            return Ok(ElicitAnswer::Cancel);
        }
        match self.choose("Answer?", "[y]es, [n]o", &["y", "n"])? {
            Some("y") => (),
            Some(_) => return Ok(ElicitAnswer::Decline),
            None => return Ok(ElicitAnswer::Cancel),
        }
        if fields.is_empty() {
            return Ok(ElicitAnswer::Accept(Map::new()));
        }
        Ok(match self.form(&schema, &fields, &request.server)? {
            Ok(filled) => ElicitAnswer::Accept(filled),
            Err(NoFields::Declined) => ElicitAnswer::Decline,
            Err(NoFields::Cancelled) => ElicitAnswer::Cancel,
        })
    }

    /// Shows a URL with its host and asks for consent. Haft never opens it; the user decides by the
    /// host.
    fn page(&mut self, url: &str) -> io::Result<ElicitAnswer> {
        let host = url::Url::parse(url).ok().and_then(|it| it.host_str().map(str::to_owned));
        let host = painted(&clean(&host.unwrap_or_default()), "1", self.colours);
        self.lines.say(&format!("\n  {}\n  It leads to {host}.\n", clean(url)))?;
        Ok(match self.choose("Have you opened it?", "[y]es, [n]o", &["y", "n"])? {
            Some("y") => ElicitAnswer::Accept(Map::new()),
            Some(_) => ElicitAnswer::Decline,
            None => ElicitAnswer::Cancel,
        })
    }

    /// Asks for all fields until the user confirms the whole form, or cancels.
    fn form(
        &mut self,
        schema: &Value,
        fields: &[FormField<'_>],
        server: &str,
    ) -> io::Result<Result<Map<String, Value>, NoFields>> {
        let mut filled = Map::new();
        for field in fields {
            filled.extend(field.default().map(|it| (field.name.to_owned(), it.clone())));
        }
        loop {
            if !self.fill(fields, &mut filled)? {
                return Ok(Err(NoFields::Cancelled));
            }
            let mut whole = Value::Object(filled.clone());
            if let Err(problem) = check_input("The form", schema, &mut whole) {
                self.print_error(&problem.message)?;
                continue;
            }
            // With a single field there is nothing to review: the user has just seen it.
            if fields.len() == 1 {
                return Ok(Ok(in_order(fields, filled)));
            }
            self.show(fields, &filled)?;
            let question = format!("Send this to {}?", clean(server));
            match self.choose(&question, "[y]es, [e]dit, [n]o", &["y", "e", "n"])? {
                Some("y") => return Ok(Ok(in_order(fields, filled))),
                Some("e") => (),
                Some(_) => return Ok(Err(NoFields::Declined)),
                None => return Ok(Err(NoFields::Cancelled)),
            }
        }
    }

    /// Asks for each field in turn; invalid input is asked again. Returns false if the user cancelled.
    fn fill(&mut self, fields: &[FormField<'_>], filled: &mut Map<String, Value>) -> io::Result<bool> {
        for field in fields {
            self.lines.say(&format!("\n{}\n", indented(&field.about())))?;
            loop {
                let suggested = filled.get(field.name).map(|it| field.shown(it));
                let prompt = match &suggested {
                    Some(value) if field.is_required => format!("[{}]> ", clean(value)),
                    Some(value) => format!("[{}, - for nothing]> ", clean(value)),
                    None => String::from("> "),
                };
                let ConsoleInput::Line(line) = self.lines.line(&format!("  {prompt}"))? else {
                    return Ok(false);
                };
                match line.trim() {
                    "" if suggested.is_some() || !field.is_required => break,
                    "" => self.print_error("this one is needed; Esc leaves the question")?,
                    "-" if suggested.is_some() && !field.is_required => {
                        filled.shift_remove(field.name);
                        break;
                    }
                    typed => match field.read(typed) {
                        Ok(value) => {
                            filled.insert(field.name.to_owned(), value);
                            break;
                        }
                        Err(problem) => self.print_error(&problem)?,
                    },
                }
            }
        }
        Ok(true)
    }

    /// Shows the values that will be sent.
    fn show(&mut self, fields: &[FormField<'_>], filled: &Map<String, Value>) -> io::Result<()> {
        let widest = fields.iter().map(|it| it.title().chars().count()).max().unwrap_or(0).min(40);
        let mut out = String::from("\n");
        for field in fields {
            let value = match filled.get(field.name) {
                Some(value) => clean(&field.shown(value)),
                None => painted("nothing", "2", self.colours),
            };
            out.push_str(&format!("  {:<widest$}  {value}\n", clean(&field.title())));
        }
        self.lines.say(&out)
    }

    fn print_error(&mut self, problem: &str) -> io::Result<()> {
        let problem = painted(&indented(problem), "31", self.colours);
        self.lines.say(&format!("{problem}\n"))
    }

    /// Asks for one of the options by its first letter; `None` if the user cancels.
    fn choose(
        &mut self,
        question: &str,
        answers: &str,
        letters: &[&'static str],
    ) -> io::Result<Option<&'static str>> {
        let hint = painted("(Esc: not now)", "2", self.colours);
        loop {
            let ConsoleInput::Line(line) = self.lines.line(&format!("\n{question} {answers} {hint}: "))?
            else {
                return Ok(None);
            };
            let typed = line.trim().to_lowercase();
            let full = |letter: &str| match letter {
                "y" => "yes",
                "n" => "no",
                _ => "edit",
            };
            if let Some(letter) = letters.iter().find(|it| typed == **it || typed == full(it)) {
                return Ok(Some(letter));
            }
        }
    }
}

/// Sorts the values into the order of the form.
fn in_order(fields: &[FormField<'_>], mut filled: Map<String, Value>) -> Map<String, Value> {
    fields.iter().filter_map(|it| Some((it.name.to_owned(), filled.shift_remove(it.name)?))).collect()
}

/// Text of the server, indented and with control characters escaped.
fn indented(text: &str) -> String {
    format!("  {}", clean(text.trim_end()).replace('\n', "\n  "))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A scripted terminal; `^[` cancels.
    struct Played {
        typed: VecDeque<String>,
        shown: String,
    }

    impl TerminalLines for Played {
        fn say(&mut self, text: &str) -> io::Result<()> {
            self.shown.push_str(text);
            Ok(())
        }

        fn line(&mut self, prompt: &str) -> io::Result<ConsoleInput> {
            self.shown.push_str(prompt);
            Ok(match self.typed.pop_front() {
                Some(line) if line != "^[" => ConsoleInput::Line(line),
                _ => ConsoleInput::GivenUp,
            })
        }
    }

    fn asked(schema: Option<Value>, url: Option<&str>, typed: &[&str]) -> (ElicitAnswer, String) {
        let request = Elicitation {
            server: String::from("srv"),
            message: String::from("Which \u{1b}[31mone?\nSay."),
            schema,
            url: url.map(str::to_owned),
            id: None,
        };
        let mut lines =
            Played { typed: typed.iter().map(|it| (*it).to_owned()).collect(), shown: String::new() };
        let answer = ElicitationDialog { lines: &mut lines, colours: false }.ask(&request);
        assert!(lines.typed.is_empty(), "not read: {:?}\n{}", lines.typed, lines.shown);
        (answer.unwrap_or(ElicitAnswer::Cancel), lines.shown)
    }

    fn accept(value: &Value) -> ElicitAnswer {
        ElicitAnswer::Accept(value.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn forms_are_filled_in_checked_looked_at_and_given_up() {
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
        for (typed, want) in [
            (
                &["y", "red", "2", "yes", "a, b", "y"][..],
                accept(&json!({"colour": "red", "count": 2, "sure": true, "tags": ["a", "b"]})),
            ),
            (&["yes", "", "2", "", "", "y"], accept(&json!({"colour": "blue", "count": 2}))),
            (&["y", "-", "2", "", "", "y"], accept(&json!({"count": 2}))),
            // Invalid input is asked again at once.
            (
                &["y", "green", "1", "x", "", "0", "3", "", "", "y"],
                accept(&json!({"colour": "red", "count": 3})),
            ),
            // When the form is edited again, the earlier input is the default.
            (
                &["y", "", "2", "n", "", "e", "1", "", "y", "2", "y"],
                accept(&json!({"colour": "red", "count": 2, "sure": true, "tags": ["b"]})),
            ),
            (&["what?", "n"], ElicitAnswer::Decline),
            (&["y", "", "2", "", "", "no"], ElicitAnswer::Decline),
            (&["^["], ElicitAnswer::Cancel),
            (&["y", "red", "^["], ElicitAnswer::Cancel),
            (&["y", "", "2", "", "", "^["], ElicitAnswer::Cancel),
        ] {
            let (answer, shown) = asked(Some(schema.clone()), None, typed);
            assert_eq!(answer, want, "{typed:?}: {shown}");
            assert!(!shown.contains('\u{1b}'), "{shown:?}");
        }
    }

    #[test]
    fn a_form_without_fields_is_a_yes_or_no_and_an_endless_one_is_left() {
        let empty = json!({"type": "object", "properties": {}});
        assert_eq!(asked(Some(empty.clone()), None, &["y"]).0, accept(&json!({})));
        assert_eq!(asked(Some(empty), None, &["n"]).0, ElicitAnswer::Decline);
        let one = json!({"properties": {"decision": {"enum": ["allow", "deny"], "default": "deny"}}});
        assert_eq!(asked(Some(one), None, &["y", "1"]).0, accept(&json!({"decision": "allow"})));
        let fields: Map<String, Value> = (0..51).map(|at| (format!("f{at}"), json!({}))).collect();
        let (answer, shown) = asked(Some(json!({"properties": fields})), None, &[]);
        assert!(answer == ElicitAnswer::Cancel && shown.contains("51 fields"), "{shown}");
    }

    #[test]
    fn a_page_is_shown_with_its_host_and_never_opened_by_itself() {
        for (typed, want) in [
            (&["y"][..], ElicitAnswer::Accept(Map::new())),
            (&["n"], ElicitAnswer::Decline),
            (&["^["], ElicitAnswer::Cancel),
        ] {
            let (answer, shown) = asked(None, Some("https://user@xn--bcher-kva.test/pay?x=1"), typed);
            assert!(
                answer == want && shown.contains("It leads to xn--bcher-kva.test."),
                "{typed:?}: {shown}"
            );
        }
    }
}
