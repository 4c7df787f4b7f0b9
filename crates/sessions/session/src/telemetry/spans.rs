//! Converts events to spans.

use std::{collections::HashMap, time::SystemTime};

use haft_agent::{AgentEvent, CacheMiss, EndReason, TurnEnd};
use haft_model::ModelEvent;
use haft_tool_runtime::CallTiming;
use haft_types::{AgentId, CallId, MessageBlock, ToolUse, Usage};
use serde_json::{Value, json};

use crate::{AgentReport, AgentStatus, ChildIdentity};

/// A span, or a log record if it has no end of its own.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) name: String,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) error: Option<String>,
    pub(super) kind: SpanKind,
}

/// Kind of a span.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SpanKind {
    Agent,
    Chat,
    Tool,
    /// A phase of a call.
    Phase,
}

/// Facts known when the run starts.
pub(super) struct RunInfo {
    pub(super) session: String,
    pub(super) model: String,
    pub(super) provider: String,
    pub(super) prompt: Option<String>,
}

/// A run as spans: the main agent, and sub-agents below the calls that started them.
pub(super) struct SpannedRun {
    pub(super) trace: String,
    pub(super) spans: Vec<Span>,
    pub(super) info: RunInfo,
    scopes: HashMap<AgentId, AgentScope>,
    calls: HashMap<(AgentId, CallId), Span>,
    /// Prompt cache misses with their times.
    pub(super) busts: Vec<(SystemTime, CacheMiss)>,
}

/// State of one agent of a run.
struct AgentScope {
    root: Span,
    model: String,
    /// The span of the current model request.
    chat: Option<Span>,
    /// Approximate start of the next request: the time of the last result.
    ready: SystemTime,
    usage: Usage,
}

impl AgentScope {
    fn new(root: Span, model: &str, now: SystemTime) -> Self {
        Self { root, model: model.to_owned(), chat: None, ready: now, usage: Usage::default() }
    }

    fn child(
        &self,
        name: String,
        start: SystemTime,
        attributes: Vec<(&'static str, Value)>,
        kind: SpanKind,
    ) -> Span {
        let parent = Some(self.root.id.clone());
        Span { id: random_hex(16), parent, name, start, end: start, attributes, error: None, kind }
    }

    /// Ends the span of the current request, if there is one.
    fn end_chat(&mut self, now: SystemTime) -> Option<Span> {
        let mut chat = self.chat.take()?;
        chat.end = now;
        chat.attributes.extend([
            ("gen_ai.usage.input_tokens", json!(self.usage.total_input())),
            ("gen_ai.usage.output_tokens", json!(self.usage.output_tokens)),
            ("gen_ai.usage.cache_read.input_tokens", json!(self.usage.cache_read_input_tokens)),
            ("gen_ai.usage.cache_creation.input_tokens", json!(self.usage.cache_creation_input_tokens)),
        ]);
        self.ready = now;
        Some(chat)
    }
}

impl SpannedRun {
    pub(super) fn new(info: RunInfo, traceparent: Option<&str>, now: SystemTime) -> Self {
        let parent = traceparent.and_then(parse_traceparent);
        let trace = parent.as_ref().map_or_else(|| random_hex(32), |(trace, _)| trace.clone());
        let mut attributes = vec![
            ("gen_ai.operation.name", json!("invoke_agent")),
            ("gen_ai.provider.name", json!(info.provider)),
            ("gen_ai.agent.name", json!("haft")),
            ("gen_ai.conversation.id", json!(info.session)),
            ("gen_ai.request.model", json!(info.model)),
        ];
        attributes.extend(info.prompt.as_ref().map(|prompt| ("gen_ai.input.messages", json!(prompt))));
        let root = Span {
            id: random_hex(16),
            parent: parent.map(|(_, span)| span),
            name: String::from("invoke_agent haft"),
            start: now,
            end: now,
            attributes,
            error: None,
            kind: SpanKind::Agent,
        };
        let main = AgentScope::new(root, &info.model, now);
        let scopes = HashMap::from([(AgentId::Main, main)]);
        Self { trace, spans: Vec::new(), info, scopes, calls: HashMap::new(), busts: Vec::new() }
    }

    /// Adds a sub-agent that a call started.
    pub(super) fn begin_child(&mut self, facts: &ChildIdentity, now: SystemTime) {
        let attributes = vec![
            ("gen_ai.operation.name", json!("invoke_agent")),
            ("gen_ai.provider.name", json!(self.info.provider)),
            ("gen_ai.agent.name", json!(facts.kind)),
            ("gen_ai.agent.id", json!(facts.id)),
            ("gen_ai.conversation.id", json!(self.info.session)),
            ("gen_ai.request.model", json!(facts.model)),
        ];
        let root = Span {
            id: random_hex(16),
            parent: Some(call_span(&self.trace, &facts.parent, &facts.call)),
            name: format!("invoke_agent {}", facts.kind),
            start: now,
            end: now,
            attributes,
            error: None,
            kind: SpanKind::Agent,
        };
        self.scopes.insert(facts.id.clone(), AgentScope::new(root, &facts.model, now));
    }

    /// Ends the span of a sub-agent.
    pub(super) fn end_child(&mut self, id: &AgentId, report: &AgentReport, now: SystemTime) {
        let Some(mut scope) = self.scopes.remove(id) else { return };
        self.spans.extend(scope.end_chat(now));
        let mut root = scope.root;
        root.end = now;
        root.attributes.extend([
            ("haft.end", json!(report.status.words())),
            ("haft.turns", json!(report.turns)),
            ("gen_ai.usage.input_tokens", json!(report.usage.total_input())),
            ("gen_ai.usage.output_tokens", json!(report.usage.output_tokens)),
        ]);
        root.error = (report.status != AgentStatus::Completed).then(|| report.status.words().to_owned());
        self.spans.push(root);
    }

    pub(super) fn hear(&mut self, agent: &AgentId, event: &AgentEvent, now: SystemTime, content: bool) {
        let Some(scope) = self.scopes.get_mut(agent) else { return };
        match event {
            AgentEvent::Model(ModelEvent::Started { id, model }) => {
                self.spans.extend(scope.end_chat(now));
                let attributes = vec![
                    ("gen_ai.operation.name", json!("chat")),
                    ("gen_ai.provider.name", json!(self.info.provider)),
                    ("gen_ai.request.model", json!(scope.model)),
                    ("gen_ai.response.model", json!(model)),
                    ("gen_ai.response.id", json!(id)),
                    ("gen_ai.conversation.id", json!(self.info.session)),
                ];
                scope.usage = Usage::default();
                let name = format!("chat {}", scope.model);
                scope.chat = Some(scope.child(name, scope.ready, attributes, SpanKind::Chat));
            }
            AgentEvent::Model(ModelEvent::Usage(usage)) => scope.usage = *usage,
            AgentEvent::Model(ModelEvent::Stopped(reason)) => {
                let reason = serde_json::to_value(reason).unwrap_or_default();
                if let Some(chat) = &mut scope.chat {
                    chat.attributes.push(("gen_ai.response.finish_reasons", json!([reason])));
                }
                self.spans.extend(scope.end_chat(now));
            }
            AgentEvent::Block(it) => {
                if let MessageBlock::ToolUse(call) = &it.block {
                    let mut span =
                        scope.child(String::new(), now, call_attributes(call, content), SpanKind::Tool);
                    span.name = format!("execute_tool {}", call.name);
                    span.id = call_span(&self.trace, agent, &call.id);
                    // The request that contained the call may not have ended yet.
                    span.parent = scope.chat.as_ref().map(|chat| chat.id.clone()).or(span.parent);
                    self.calls.insert((agent.clone(), call.id.clone()), span);
                }
            }
            AgentEvent::CallFinished(it) => {
                scope.ready = now;
                let Some(mut span) = self.calls.remove(&(agent.clone(), it.report.id.clone())) else {
                    return;
                };
                let text = it.report.content.to_text();
                span.end = now;
                span.error = it.report.error.map(|kind| kind.name().to_owned());
                span.attributes.push(("haft.tool.result_bytes", json!(text.len())));
                if let Some(by) = it.report.denied_by {
                    span.attributes.push(("haft.tool.denied", json!(true)));
                    span.attributes.push(("haft.tool.denied_by", json!(by.word())));
                }
                self.spans.extend(phases(&span, &it.report.timing));
                if content {
                    span.attributes.push(("gen_ai.tool.call.result", json!(text)));
                }
                self.spans.push(span);
            }
            AgentEvent::Bust(bust) => self.busts.push((now, bust.clone())),
            AgentEvent::Retrying(it) => {
                if let Some(chat) = &mut scope.chat {
                    chat.attributes.push(("haft.retry.reason", json!(it.reason)));
                }
            }
            _ => (),
        }
    }

    pub(super) fn end(&mut self, end: &TurnEnd, now: SystemTime) {
        for (_, mut open) in self.calls.drain() {
            open.end = now;
            open.error = Some(String::from("no_result"));
            self.spans.push(open);
        }
        for (agent, mut scope) in std::mem::take(&mut self.scopes) {
            self.spans.extend(scope.end_chat(now));
            let mut root = scope.root;
            root.end = now;
            match agent {
                AgentId::Main => {
                    root.attributes.extend([
                        ("haft.end", json!(end.reason.word())),
                        ("haft.turns", json!(end.turns)),
                        ("haft.cache.busts", json!(self.busts.len())),
                        ("gen_ai.usage.input_tokens", json!(end.usage.total_input())),
                        ("gen_ai.usage.output_tokens", json!(end.usage.output_tokens)),
                    ]);
                    root.error = (end.reason != EndReason::Completed).then(|| end.reason.word().to_owned());
                }
                _ => root.attributes.push(("haft.end", json!("goes on in the background"))),
            }
            self.spans.push(root);
        }
    }
}

fn call_attributes(call: &ToolUse, content: bool) -> Vec<(&'static str, Value)> {
    let mut attributes = vec![
        ("gen_ai.operation.name", json!("execute_tool")),
        ("gen_ai.tool.name", json!(call.name)),
        ("gen_ai.tool.call.id", json!(call.id)),
        ("gen_ai.tool.type", json!("function")),
        ("haft.tool.input_bytes", json!(call.input.to_string().len())),
    ];
    if content {
        attributes.push(("gen_ai.tool.call.arguments", json!(call.input.to_string())));
    }
    attributes
}

/// The span id of a call, computed from its ids so that it is known before the call is reported.
pub(super) fn call_span(trace: &str, agent: &AgentId, call: &CallId) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    (trace, agent.as_str(), call.as_str()).hash(&mut hasher);
    format!("{:016x}", hasher.finish().max(1))
}

/// The phases of a call as consecutive spans.
fn phases(call: &Span, timing: &CallTiming) -> Vec<Span> {
    let parts = [
        ("queue", timing.queue),
        ("hooks", timing.hooks),
        ("permission", timing.permission),
        ("run", timing.run),
        ("after", timing.after),
    ];
    let mut start = call.start;
    let mut spans = Vec::new();
    for (name, took) in parts {
        let end = start + took;
        // Phases that did not happen have no duration.
        if !took.is_zero() {
            spans.push(Span {
                id: random_hex(16),
                parent: Some(call.id.clone()),
                name: name.to_owned(),
                start,
                end,
                attributes: Vec::new(),
                error: None,
                kind: SpanKind::Phase,
            });
        }
        start = end;
    }
    spans
}

/// Parses trace id and span id of a W3C `traceparent`.
pub(super) fn parse_traceparent(text: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = text.trim().split('-').collect();
    let [_, trace, span, _] = parts.as_slice() else { return None };
    let is_hex = |part: &str, length: usize| {
        part.len() == length
            && part.bytes().all(|it| it.is_ascii_hexdigit())
            && part.bytes().any(|it| it != b'0')
    };
    (is_hex(trace, 32) && is_hex(span, 16)).then(|| (trace.to_lowercase(), span.to_lowercase()))
}

fn random_hex(digits: usize) -> String {
    let mut hex = uuid::Uuid::new_v4().simple().to_string();
    hex.truncate(digits);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparents() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(
            parse_traceparent(good),
            Some((String::from("4bf92f3577b34da6a3ce929d0e0e4736"), String::from("00f067aa0ba902b7")))
        );
        for bad in ["", "00-x-y-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "4bf9"] {
            assert_eq!(parse_traceparent(bad), None, "{bad}");
        }
    }
}
