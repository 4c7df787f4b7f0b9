//! Parses the `hooks` object of a settings file.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use crate::{
    BlockEffect, CommandHandler, ErrorEffect, ErrorPolicy, ExternalHandler, HandlerKind, HookDefinition,
    HookEvent, HookHandler, HookId, HookRepeat, HookRunMode, HookSource, HttpHandler, matcher::HookMatcher,
};

/// A problem in a `hooks` object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DefinitionProblem {
    /// JSON pointer relative to the `hooks` object.
    pub pointer: String,
    /// The problem and its solution.
    pub message: String,
}

impl fmt::Display for DefinitionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hooks{}: {}", self.pointer, self.message)
    }
}

/// Parses a `hooks` object. Invalid definitions are reported; one that could have been a gate is kept as
/// [`HookHandler::Unusable`], which fails whenever it would run, as its `on_error` says.
pub fn parse_definitions(
    hooks: &Value,
    source: &Arc<HookSource>,
) -> (Vec<HookDefinition>, Vec<DefinitionProblem>) {
    let mut reader = DefinitionReader { source, definitions: Vec::new(), problems: Vec::new() };
    reader.read_all(hooks);
    (reader.definitions, reader.problems)
}

struct DefinitionReader<'a> {
    source: &'a Arc<HookSource>,
    definitions: Vec<HookDefinition>,
    problems: Vec<DefinitionProblem>,
}

/// Position of a definition: event, matcher and pointer.
struct DefinitionPointer<'a> {
    event: HookEvent,
    matcher: &'a HookMatcher,
    pointer: String,
}

impl DefinitionReader<'_> {
    fn problem(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.problems.push(DefinitionProblem { pointer: pointer.into(), message: message.into() });
    }

    fn read_all(&mut self, hooks: &Value) {
        let Value::Object(events) = hooks else {
            self.problem("", "must be an object of events, such as {\"PreToolUse\": [...]}");
            return;
        };
        for (name, groups) in events {
            let pointer = format!("/{name}");
            match (name.parse::<HookEvent>(), groups) {
                (Err(unknown), _) => self.problem(pointer, format!("{unknown}; it is ignored")),
                (Ok(event), Value::Array(groups)) => {
                    for (index, group) in groups.iter().enumerate() {
                        self.read_group(event, group, &format!("{pointer}/{index}"));
                    }
                }
                (Ok(event), _) => self.unusable_group(event, &pointer, "must be a list of matcher groups"),
            }
        }
    }

    fn unusable_group(&mut self, event: HookEvent, pointer: &str, message: &str) {
        self.problem(pointer, message);
        let handler = HookHandler::Unusable(format!("hooks{pointer} {message}"));
        self.definitions.push(HookDefinition::new(event, handler, Arc::clone(self.source)));
    }

    fn read_group(&mut self, event: HookEvent, group: &Value, pointer: &str) {
        let Some(hooks) = group.get("hooks").and_then(Value::as_array) else {
            return self.unusable_group(event, pointer, "must be an object with a list called \"hooks\"");
        };
        let matcher = match group.get("matcher") {
            None | Some(Value::Null) => HookMatcher::all(),
            Some(Value::String(text)) => HookMatcher::parse(text),
            Some(_) => return self.unusable_group(event, pointer, "has a matcher that is not text"),
        };
        if let Some(problem) = matcher.problem() {
            self.problem(format!("{pointer}/matcher"), problem.to_owned());
        }
        for (index, hook) in hooks.iter().enumerate() {
            let place =
                DefinitionPointer { event, matcher: &matcher, pointer: format!("{pointer}/hooks/{index}") };
            self.read_hook(&place, hook);
        }
    }

    fn read_hook(&mut self, place: &DefinitionPointer<'_>, hook: &Value) {
        let empty = Map::new();
        let fields = hook.as_object().unwrap_or(&empty);
        let handler = match read_handler(fields) {
            Ok(handler) if !place.event.supports(handler.kind()) => {
                let message = format!("{} hooks can only be commands or MCP tools", place.event);
                self.problem(&place.pointer, &message);
                HookHandler::Unusable(message)
            }
            Ok(handler) => handler,
            Err(message) => {
                self.problem(&place.pointer, &message);
                HookHandler::Unusable(format!("hooks{}: {message}", place.pointer))
            }
        };
        let mut definition =
            HookDefinition::matching(place.event, place.matcher.clone(), handler, Arc::clone(self.source));
        if let Some(id) = fields.get("id").and_then(Value::as_str).filter(|id| !id.trim().is_empty()) {
            definition.id = HookId::new(id);
        }
        definition.status_message = fields.get("statusMessage").and_then(Value::as_str).map(str::to_owned);
        self.read_when(place, fields, &mut definition);
        self.read_timeout(place, fields, &mut definition);
        self.read_on_error(place, fields, &mut definition);
        self.definitions.push(definition);
    }

    fn read_when(
        &mut self,
        place: &DefinitionPointer<'_>,
        fields: &Map<String, Value>,
        into: &mut HookDefinition,
    ) {
        if let Some(condition) = fields.get("if") {
            match condition.as_str() {
                Some(rule) => into.condition = Some(rule.to_owned()),
                None => {
                    self.problem(format!("{}/if", place.pointer), "must be a permission rule; it is ignored")
                }
            }
        }
        if into.condition.is_some() && !place.event.is_about_a_tool() {
            let message = format!("{} is not about a tool, so this hook never runs", place.event);
            self.problem(format!("{}/if", place.pointer), message);
        }
        if self.flag(place, fields, "once") {
            into.repeat = HookRepeat::Once;
        }
        if self.flag(place, fields, "asyncRewake") {
            into.mode = HookRunMode::BackgroundRewake;
        } else if self.flag(place, fields, "async") {
            into.mode = HookRunMode::Background;
        }
    }

    fn flag(&mut self, place: &DefinitionPointer<'_>, fields: &Map<String, Value>, name: &str) -> bool {
        match fields.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(set)) => *set,
            Some(_) => {
                self.problem(format!("{}/{name}", place.pointer), "must be true or false; it is ignored");
                false
            }
        }
    }

    fn read_timeout(
        &mut self,
        place: &DefinitionPointer<'_>,
        fields: &Map<String, Value>,
        into: &mut HookDefinition,
    ) {
        let Some(value) = fields.get("timeout").filter(|value| !value.is_null()) else { return };
        let seconds = value.as_f64().filter(|seconds| 0.0 < *seconds);
        match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(timeout) => into.timeout = timeout.min(place.event.longest_timeout()),
            None => {
                let message =
                    format!("must be a number of seconds above 0; {} s is used", into.timeout.as_secs_f64());
                self.problem(format!("{}/timeout", place.pointer), message);
            }
        }
    }

    fn read_on_error(
        &mut self,
        place: &DefinitionPointer<'_>,
        fields: &Map<String, Value>,
        into: &mut HookDefinition,
    ) {
        let mut said: Vec<ErrorEffect> = Vec::new();
        for (name, open, closed) in [
            ("on_error", "open", "closed"),
            ("onError", "open", "closed"),
            ("onFailure", "continue", "block"),
        ] {
            let Some(value) = fields.get(name) else { continue };
            match value.as_str() {
                Some(word) if word == open => said.push(ErrorEffect::Open),
                Some(word) if word == closed => said.push(ErrorEffect::Closed),
                _ => {
                    let message = format!("must be {open:?} or {closed:?}; {closed:?} is assumed");
                    self.problem(format!("{}/{name}", place.pointer), message);
                    said.push(ErrorEffect::Closed);
                }
            }
        }
        if said.contains(&ErrorEffect::Open) && said.contains(&ErrorEffect::Closed) {
            self.problem(&place.pointer, "says both open and closed about errors; closed counts");
        }
        into.on_error = match said.first() {
            None => ErrorPolicy::Default,
            Some(_) if said.contains(&ErrorEffect::Closed) => ErrorPolicy::Explicit(ErrorEffect::Closed),
            Some(_) => ErrorPolicy::Explicit(ErrorEffect::Open),
        };
        let cannot_close = place.event.block_effect() != BlockEffect::Prevents
            && place.event != HookEvent::PermissionRequest;
        if into.on_error == ErrorPolicy::Explicit(ErrorEffect::Closed) && cannot_close {
            let message = format!("{} has nothing to keep closed; an error is only reported", place.event);
            self.problem(&place.pointer, message);
        }
    }
}

fn read_handler(fields: &Map<String, Value>) -> Result<HookHandler, String> {
    match fields.get("type").and_then(Value::as_str) {
        Some("command") => read_command(fields).map(HookHandler::Command),
        Some("http") => read_http(fields).map(HookHandler::Http),
        Some("mcp_tool") => external(HandlerKind::McpTool, &["server", "tool"], fields),
        Some("prompt") => external(HandlerKind::Prompt, &["prompt"], fields),
        Some("agent") => external(HandlerKind::Agent, &["prompt"], fields),
        Some(other) => {
            Err(format!("has the type {other:?}; known are command, http, mcp_tool, prompt and agent"))
        }
        None => Err("must be an object with a \"type\": command, http, mcp_tool, prompt or agent".to_owned()),
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    match fields.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
        _ => Err(format!("needs {name:?}, as text")),
    }
}

fn texts(fields: &Map<String, Value>, name: &str) -> Result<Option<Vec<String>>, String> {
    let Some(value) = fields.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let list = value.as_array().map(|list| list.iter().map(|it| it.as_str().map(str::to_owned)).collect());
    list.flatten().map(Some).ok_or_else(|| format!("{name:?} must be a list of texts"))
}

fn read_command(fields: &Map<String, Value>) -> Result<CommandHandler, String> {
    let command = text(fields, "command")?;
    match texts(fields, "args")? {
        Some(args) => Ok(CommandHandler::Exec { program: command, args }),
        None => {
            let shell = fields.get("shell").and_then(Value::as_str).map(str::to_owned);
            Ok(CommandHandler::Shell { line: command, shell })
        }
    }
}

fn read_http(fields: &Map<String, Value>) -> Result<HttpHandler, String> {
    let url = text(fields, "url")?;
    let mut headers = Vec::new();
    match fields.get("headers") {
        None | Some(Value::Null) => (),
        Some(Value::Object(given)) => {
            for (name, value) in given {
                let value = value.as_str().ok_or_else(|| format!("the header {name:?} must be text"))?;
                headers.push((name.clone(), value.to_owned()));
            }
        }
        Some(_) => return Err("\"headers\" must be an object of texts".to_owned()),
    }
    let allowed_env_vars = texts(fields, "allowedEnvVars")?.unwrap_or_default();
    Ok(HttpHandler { url, headers, allowed_env_vars })
}

fn external(kind: HandlerKind, needed: &[&str], fields: &Map<String, Value>) -> Result<HookHandler, String> {
    for name in needed {
        text(fields, name)?;
    }
    Ok(HookHandler::External(ExternalHandler { kind, fields: fields.clone() }))
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
