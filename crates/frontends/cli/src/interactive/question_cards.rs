//! Shows the session's prompts (permission, plan, user questions, elicitation) as cards and translates
//! the answers.

use std::{path::Path, sync::Arc};

use haft_console::prompts::form;
use haft_mcp_client::{ElicitAnswer, Elicitation};
use haft_permission::{Behavior, Destination, PermissionUpdate, RuleList, RuleText, preview};
use haft_session::{QuestionAnswer, QuestionSubject, SessionQuestion};
use haft_tool::{LineStyle, RenderedLine, UserInteraction, UserQuestion};
use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};
use haft_tui::{CardAnswer, ChoiceOption, QuestionCard, QuestionKind};
use haft_types::AgentId;
use serde_json::Value;

use super::user_question::{answer_text, question_card};

/// An unanswered prompt and the meaning of each option of its card.
pub(super) struct OpenCard {
    question: Arc<SessionQuestion>,
    cwd: String,
    rows: Vec<(ChoiceOption, OptionMeaning)>,
    /// Answers given so far to the questions of an AskUserQuestion call.
    answered: serde_json::Map<String, Value>,
}

/// What follows an answer.
pub(super) enum CardStep {
    /// Send this answer to the session.
    Done(QuestionAnswer),
    /// Show this card: the call has more questions.
    Next(QuestionCard),
}

/// What choosing an option means.
enum OptionMeaning {
    Yes(Vec<PermissionUpdate>),
    No,
    Stop,
    /// Allow the call with the edited input.
    Edited,
    /// Allow, and save the rule the user typed in place of this one.
    Rule(RuleList),
}

impl OpenCard {
    pub(super) fn new(question: &Arc<SessionQuestion>, cwd: &Path) -> Self {
        let rows = match &question.subject {
            QuestionSubject::Permission(asked) => permission_rows(asked, &question.agent),
            QuestionSubject::Elicitation(asked) => page_rows(asked),
            QuestionSubject::ServerTrust(_) => vec![
                (row('y', "Yes, start it from now on, exactly as it is"), OptionMeaning::Yes(Vec::new())),
                (row('n', "No"), OptionMeaning::No),
            ],
        };
        let (question, cwd) = (Arc::clone(question), cwd.display().to_string());
        Self { question, cwd, rows, answered: serde_json::Map::new() }
    }

    /// The questions of an AskUserQuestion call; empty for other calls.
    fn questions(&self) -> &[UserQuestion] {
        match &self.question.subject {
            QuestionSubject::Permission(asked) => match &asked.interaction {
                UserInteraction::Questions(questions) => questions,
                UserInteraction::None | UserInteraction::Plan(_) => &[],
            },
            QuestionSubject::Elicitation(_) | QuestionSubject::ServerTrust(_) => &[],
        }
    }

    fn shortened(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.cwd), "")
    }

    pub(super) fn card(&self) -> QuestionCard {
        let questions = self.questions();
        if let Some(next) = questions.get(self.answered.len()) {
            let from = self.question.asker.clone();
            return question_card(next, &self.question.id, from, questions.len() - self.answered.len());
        }
        let rows: Vec<ChoiceOption> = self.rows.iter().map(|it| it.0.clone()).collect();
        let (title, headline, body, kind) = match &self.question.subject {
            QuestionSubject::Permission(asked) => {
                let headline = self.shortened(&asked.shown.headline);
                let name = format!("{} ", asked.tool);
                let headline = headline.strip_prefix(&name).unwrap_or(&headline).to_owned();
                match plan_of(asked) {
                    Some(plan) => {
                        let body =
                            plan.lines().map(|line| RenderedLine::new(LineStyle::Plain, line)).collect();
                        (String::from("The plan is ready"), String::new(), body, QuestionKind::Choice(rows))
                    }
                    None => {
                        let title = format!("{} wants to run", asked.tool);
                        (title, headline, self.body(asked), QuestionKind::Choice(rows))
                    }
                }
            }
            QuestionSubject::Elicitation(asked) => {
                let kind = match (&asked.url, &asked.schema) {
                    (None, Some(schema)) => QuestionKind::Form(form::fields(schema)),
                    _ => QuestionKind::Choice(rows),
                };
                let wants = if asked.url.is_some() { "wants you to open a page" } else { "asks" };
                let title = format!("The MCP server {} {wants}", asked.server);
                (title, String::new(), elicitation_body(asked), kind)
            }
            QuestionSubject::ServerTrust(waiting) => {
                let news = if waiting.has_changed() { "has changed" } else { "names" };
                let title = format!("The project {news} the MCP server {}", waiting.server.name);
                let body = vec![RenderedLine::new(LineStyle::Plain, waiting.server.summary())];
                (title, String::new(), body, QuestionKind::Choice(rows))
            }
        };
        let from = match (&self.question.asker, &self.question.agent) {
            (Some(asker), _) => Some(asker.clone()),
            (None, AgentId::Main) => None,
            (None, child) => Some(child.to_string()),
        };
        QuestionCard { id: self.question.id.clone(), from, title, headline, body, kind }
    }

    /// The text of the card: the diff or command, then the reason for the prompt, part by part.
    fn body(&self, asked: &PermissionQuestion) -> Vec<RenderedLine> {
        let mut lines = asked.shown.lines.clone();
        lines.extend(asked.warning().map(|words| RenderedLine::new(LineStyle::Error, words)));
        let decision = &asked.decision;
        for part in &decision.parts {
            let (mark, style) = match part.decision {
                Behavior::Allow => ("✓", LineStyle::Dim),
                Behavior::Ask => ("?", LineStyle::Plain),
                Behavior::Deny => ("✗", LineStyle::Error),
            };
            let text = format!("{mark} {}: {}", self.shortened(&part.subject), self.shortened(&part.reason));
            lines.push(RenderedLine::new(style, text));
        }
        if decision.parts.iter().all(|part| part.reason != decision.reason) {
            lines.push(RenderedLine::new(LineStyle::Plain, self.shortened(&decision.reason)));
        }
        lines.extend(decision.notes.iter().map(|note| RenderedLine::new(LineStyle::Dim, note.as_str())));
        lines
    }

    /// Translates the user's choice into the answer for the session, or into the next card. The error
    /// says why the answer is invalid; the card stays open.
    pub(super) fn answer(&mut self, answer: CardAnswer) -> Result<CardStep, String> {
        let Some(asked) = self.questions().get(self.answered.len()) else {
            return self.plain_answer(answer).map(CardStep::Done);
        };
        let Some(words) = answer_text(asked, &answer) else {
            let no = PermissionAnswer::deny("the user did not want to answer");
            return Ok(CardStep::Done(QuestionAnswer::Permission(no)));
        };
        let text = asked.question.clone();
        self.answered.insert(text, Value::from(words));
        if self.answered.len() < self.questions().len() {
            return Ok(CardStep::Next(self.card()));
        }
        let QuestionSubject::Permission(asked) = &self.question.subject else {
            return Err(String::from("this is no question to a person"));
        };
        let mut input = asked.input.clone();
        input["answers"] = Value::Object(std::mem::take(&mut self.answered));
        Ok(CardStep::Done(QuestionAnswer::Permission(PermissionAnswer::allow_with(input))))
    }

    fn plain_answer(&self, answer: CardAnswer) -> Result<QuestionAnswer, String> {
        let (row, words) = match answer {
            CardAnswer::Choice(choice) => (self.rows.get(choice.row), choice.words),
            CardAnswer::Form(values) => return self.form_answer(&values),
            CardAnswer::Many(..) | CardAnswer::Cancelled => (None, String::new()),
        };
        let meaning = row.map_or(&OptionMeaning::No, |it| &it.1);
        Ok(match &self.question.subject {
            QuestionSubject::Permission(_) => QuestionAnswer::Permission(match meaning {
                OptionMeaning::Yes(updates) => PermissionAnswer::allow_and_keep(updates.clone()),
                OptionMeaning::No if words.trim().is_empty() => PermissionAnswer::deny("the user said no"),
                OptionMeaning::No => {
                    PermissionAnswer::deny(format!("the user said no, and: {}", words.trim()))
                }
                OptionMeaning::Edited => PermissionAnswer::allow_with(edited(&words)?),
                OptionMeaning::Rule(list) => {
                    let list = RuleList { rules: vec![written_rule(&words)?], ..list.clone() };
                    PermissionAnswer::allow_and_keep(vec![PermissionUpdate::AddRules(list)])
                }
                OptionMeaning::Stop => PermissionAnswer::Deny {
                    message: String::from("the user said no and stopped the work"),
                    interrupt: true,
                },
            }),
            QuestionSubject::Elicitation(_) => QuestionAnswer::Elicitation(match (row, meaning) {
                (_, OptionMeaning::Yes(_)) => ElicitAnswer::Accept(serde_json::Map::new()),
                (None, _) => ElicitAnswer::Decline,
                _ => ElicitAnswer::Decline,
            }),
            QuestionSubject::ServerTrust(_) => {
                QuestionAnswer::ServerTrust(matches!(meaning, OptionMeaning::Yes(_)))
            }
        })
    }

    fn form_answer(&self, values: &[String]) -> Result<QuestionAnswer, String> {
        let QuestionSubject::Elicitation(asked) = &self.question.subject else {
            return Err(String::from("this is no form"));
        };
        let schema = asked.schema.clone().unwrap_or_default();
        let filled = form::read(&schema, values)?;
        Ok(QuestionAnswer::Elicitation(ElicitAnswer::Accept(filled)))
    }
}

/// Parses the edited input as JSON. The runtime validates it against the tool's schema like any other
/// input.
fn edited(text: &str) -> Result<Value, String> {
    let input: Value =
        serde_json::from_str(text).map_err(|err| format!("what was edited is no JSON: {err}"))?;
    input.is_object().then_some(input).ok_or_else(|| String::from("the input must be an object"))
}

/// Parses a rule that the user typed: `Tool` or `Tool(pattern)`.
fn written_rule(words: &str) -> Result<RuleText, String> {
    let words = words.trim();
    let (tool, content) = match words.split_once('(') {
        Some((tool, rest)) => {
            let inner = rest.strip_suffix(')').filter(|it| !it.trim().is_empty());
            (tool, Some(inner.ok_or("a rule looks like Bash(npm test) and ends with a bracket")?.to_owned()))
        }
        None => (words, None),
    };
    let fits = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-');
    if !tool.is_empty() && tool.chars().all(fits) {
        Ok(RuleText { tool_name: tool.to_owned(), rule_content: content })
    } else {
        Err(String::from("a rule begins with the name of a tool: Bash(npm test)"))
    }
}

/// The rule and its text if the update adds exactly one rule.
fn only_rule(rules: &[PermissionUpdate]) -> Option<(RuleList, String)> {
    let [PermissionUpdate::AddRules(list)] = rules else { return None };
    let [rule] = list.rules.as_slice() else { return None };
    let text = match &rule.rule_content {
        Some(content) => format!("{}({content})", rule.tool_name),
        None => rule.tool_name.clone(),
    };
    Some((list.clone(), text))
}

fn row(key: char, label: &str) -> ChoiceOption {
    ChoiceOption { key, label: label.to_owned(), ..ChoiceOption::default() }
}

/// The plan to approve, if the prompt is for a plan.
fn plan_of(asked: &PermissionQuestion) -> Option<&str> {
    match &asked.interaction {
        UserInteraction::Plan(plan) => Some(plan),
        UserInteraction::None | UserInteraction::Questions(_) => None,
    }
}

fn permission_rows(asked: &PermissionQuestion, agent: &AgentId) -> Vec<(ChoiceOption, OptionMeaning)> {
    if plan_of(asked).is_some() {
        let input = serde_json::to_string_pretty(&asked.input).unwrap_or_default();
        let edit = ChoiceOption { edits: Some(input), ..row('e', "Yes, but edit it first") };
        let no = ChoiceOption { words: true, ..row('n', "No, go on planning, and say what is missing") };
        return vec![
            (row('y', "Yes, begin"), OptionMeaning::Yes(Vec::new())),
            (edit, OptionMeaning::Edited),
            (no, OptionMeaning::No),
            (row('x', "No, and stop"), OptionMeaning::Stop),
        ];
    }
    let decision = &asked.decision;
    let once = ChoiceOption { twice: decision.must_ask(), ..row('y', "Yes, this once") };
    let mut rows = vec![(once, OptionMeaning::Yes(Vec::new()))];
    let rules: Vec<PermissionUpdate> = decision
        .suggestions
        .iter()
        .filter(|it| matches!(it, PermissionUpdate::AddRules(_) | PermissionUpdate::AddDirectories { .. }))
        .cloned()
        .collect();
    let is_rule = |it: &PermissionUpdate| matches!(it, PermissionUpdate::AddRules(_));
    if !agent.is_main() && !rules.is_empty() && rules.iter().all(is_rule) {
        let to_it: Vec<PermissionUpdate> = rules.iter().cloned().map(for_agent).collect();
        let label = "Yes, and the same to this agent until it ends";
        rows.push((lasting('g', label, &to_it), OptionMeaning::Yes(to_it)));
    }
    if !rules.is_empty() {
        let here: Vec<PermissionUpdate> = rules.iter().cloned().map(for_session).collect();
        let label = "Yes, and the same until the session ends";
        rows.push((lasting('s', label, &here), OptionMeaning::Yes(here)));
    }
    if rules.iter().any(|it| it.destination().persists()) {
        let label = "Yes, always here (written into the settings)";
        rows.push((lasting('a', label, &rules), OptionMeaning::Yes(rules.clone())));
    }
    if let Some((list, given)) = only_rule(&rules) {
        let label = if list.destination.persists() {
            "Yes, and always by a rule you change first"
        } else {
            "Yes, and until the session ends by a rule you change first"
        };
        let own = ChoiceOption { words: true, given, ..row('r', label) };
        rows.push((own, OptionMeaning::Rule(list)));
    }
    for update in &decision.suggestions {
        if let PermissionUpdate::SetMode { mode, .. } = update {
            let label = format!("Yes, and go on in {mode} mode");
            rows.push((row('m', &label), OptionMeaning::Yes(vec![update.clone()])));
        }
    }
    let input = serde_json::to_string_pretty(&asked.input).unwrap_or_default();
    let edit = ChoiceOption { edits: Some(input), ..row('e', "Yes, but edit it first") };
    rows.push((edit, OptionMeaning::Edited));
    let no = ChoiceOption { words: true, ..row('n', "No, and say what to do instead") };
    rows.push((no, OptionMeaning::No));
    rows.push((row('x', "No, and stop"), OptionMeaning::Stop));
    rows
}

/// Restricts added rules to the agent that asked. Other updates are returned unchanged.
fn for_agent(update: PermissionUpdate) -> PermissionUpdate {
    match update {
        PermissionUpdate::AddRules(mut list) => {
            list.destination = Destination::Agent;
            PermissionUpdate::AddRules(list)
        }
        other => other,
    }
}

/// Changes the destination of added rules and directories to the session, so that they are not saved.
/// Other updates are returned unchanged.
fn for_session(update: PermissionUpdate) -> PermissionUpdate {
    match update {
        PermissionUpdate::AddRules(mut list) => {
            list.destination = Destination::Session;
            PermissionUpdate::AddRules(list)
        }
        PermissionUpdate::AddDirectories { directories, .. } => {
            PermissionUpdate::AddDirectories { directories, destination: Destination::Session }
        }
        other => other,
    }
}

/// Builds the option that allows a call permanently. Its details show the rule and up to three other
/// commands it would allow. A rule without a pattern or with `*` in it has to be confirmed twice.
fn lasting(key: char, label: &str, updates: &[PermissionUpdate]) -> ChoiceOption {
    let (mut detail, mut twice) = (Vec::new(), false);
    for update in updates {
        let shown = preview(update);
        detail.push(shown.summary);
        let others: Vec<String> = shown.matches.into_iter().take(3).collect();
        if !others.is_empty() {
            detail.push(format!("also runs: {}", others.join("  ·  ")));
        }
        if let PermissionUpdate::AddRules(list) = update {
            let is_wide = |content: &Option<String>| content.as_ref().is_none_or(|it| it.contains('*'));
            twice |= list.rules.iter().any(|rule| is_wide(&rule.rule_content));
        }
    }
    ChoiceOption { detail, twice, ..row(key, label) }
}

/// Describes the rules that an answer allows until the end of the session.
pub(super) fn session_allowances(answer: &QuestionAnswer) -> Vec<String> {
    let QuestionAnswer::Permission(PermissionAnswer::Allow { updates, .. }) = answer else {
        return Vec::new();
    };
    let lasts = |it: &&PermissionUpdate| it.destination() == Destination::Session;
    updates.iter().filter(lasts).map(|it| preview(it).summary).collect()
}

fn page_rows(asked: &Elicitation) -> Vec<(ChoiceOption, OptionMeaning)> {
    let yes = if asked.url.is_some() { "I have opened it" } else { "Yes" };
    vec![(row('y', yes), OptionMeaning::Yes(Vec::new())), (row('n', "No"), OptionMeaning::No)]
}

/// The text of an elicitation. A URL is shown with its host on a separate line; Haft never opens it.
fn elicitation_body(asked: &Elicitation) -> Vec<RenderedLine> {
    let mut lines: Vec<RenderedLine> =
        asked.message.lines().map(|line| RenderedLine::new(LineStyle::Plain, line)).collect();
    if let Some(address) = &asked.url {
        let host = url::Url::parse(address).ok().and_then(|it| it.host_str().map(str::to_owned));
        lines.push(RenderedLine::new(LineStyle::Hunk, format!("It leads to {}", host.unwrap_or_default())));
        lines.push(RenderedLine::new(LineStyle::Plain, address.as_str()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_people_write_them() {
        for (words, want) in [
            ("Bash(npm test)", Some(("Bash", Some("npm test")))),
            (" Read ", Some(("Read", None))),
            ("mcp__x__y", Some(("mcp__x__y", None))),
            ("Bash(npm (a))", Some(("Bash", Some("npm (a)")))),
            ("Bash(npm", None),
            ("Bash()", None),
            ("npm test", None),
            ("", None),
        ] {
            let read = written_rule(words).ok();
            let read = read.as_ref().map(|it| (it.tool_name.as_str(), it.rule_content.as_deref()));
            assert_eq!(read, want, "{words}");
        }
    }

    /// The card and the plain terminal both name what the call would do that cannot be undone.
    #[test]
    fn a_card_says_what_cannot_be_brought_back() {
        for is_destructive in [true, false] {
            let asked = PermissionQuestion {
                tool: String::from("Git"),
                call_id: "c1".into(),
                agent_id: AgentId::Main,
                input: Value::Null,
                description: String::from("git push"),
                is_destructive,
                shown: haft_tool::Rendered::default(),
                decision: haft_permission::Decision::elsewhere(String::from("nobody said so"), Vec::new()),
                interaction: UserInteraction::None,
            };
            let question = SessionQuestion {
                id: String::from("q"),
                agent: AgentId::Main,
                asker: None,
                subject: QuestionSubject::Permission(Arc::new(asked)),
            };
            let card = OpenCard::new(&Arc::new(question), Path::new("/w")).card();
            let is_said = card.body.iter().any(|line| line.text.contains("cannot be brought back"));
            assert_eq!(is_said, is_destructive);
        }
    }
}
