//! Brings messages into an order every provider accepts: roles alternate, every call has exactly one
//! result at the start of the next message, and the user's messages come first and last.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haft_types::{CallId, Content, Message, MessageBlock, Role};

use super::{LintReport, RepairKind};

/// Result text for a call that has none.
pub(crate) const UNKNOWN_OUTCOME: &str =
    "interrupted, outcome unknown: the call may or may not have had its effect. Check before doing it again.";
const GO_ON: &str = "Continue.";
const CUT_OFF: &str = "(The beginning of this conversation is not shown.)";

/// Returns the messages in a valid order; the same ones if nothing had to be changed. If `paused`, the
/// last answer stays last and unchanged, including pending server-side calls.
pub(crate) fn order(
    mut messages: Vec<Arc<Message>>,
    paused: bool,
    report: &mut LintReport,
) -> Vec<Arc<Message>> {
    let goes_on = |last: &mut Arc<Message>| {
        paused
            && last.role == Role::Assistant
            && !last.content.iter().any(|block| matches!(block, MessageBlock::ToolUse(_)))
    };
    let last = messages.pop_if(goes_on);
    let mut messages = order_all(messages, report);
    messages.extend(last);
    messages
}

fn order_all(messages: Vec<Arc<Message>>, report: &mut LintReport) -> Vec<Arc<Message>> {
    if is_sound(&messages) {
        return messages;
    }
    let mut drafts = merge(messages.iter().map(|message| MessageDraft::from_message(message)), report);
    pair(&mut drafts, report);
    pair_server_calls(&mut drafts, report);
    strip_trailing_thinking(&mut drafts);
    let mut drafts = merge(drafts, report);
    speak_first_and_last(&mut drafts, report);
    drafts.into_iter().map(MessageDraft::into_message).collect()
}

fn is_result(block: &MessageBlock) -> bool {
    matches!(block, MessageBlock::ToolResult { .. })
}

fn is_thinking(block: &MessageBlock) -> bool {
    matches!(block, MessageBlock::Thinking { .. } | MessageBlock::RedactedThinking { .. })
}

/// Returns the id of a call that the provider executes itself.
fn server_call(block: &MessageBlock) -> Option<&str> {
    let MessageBlock::Other(block) = block else { return None };
    let kind = block["type"].as_str()?;
    if kind == "server_tool_use" || kind == "mcp_tool_use" { block["id"].as_str() } else { None }
}

/// Returns the id of the call this server-side result belongs to.
fn server_result(block: &MessageBlock) -> Option<&str> {
    let MessageBlock::Other(block) = block else { return None };
    if block["type"].as_str()?.ends_with("_tool_result") { block["tool_use_id"].as_str() } else { None }
}

/// Whether a server-side call has no result in its message, or a server-side result has no call. None
/// may be pending, because every request ends with a user message.
fn has_loose_server_blocks(blocks: &[MessageBlock]) -> bool {
    if !blocks.iter().any(|block| matches!(block, MessageBlock::Other(_))) {
        return false;
    }
    let calls: HashSet<&str> = blocks.iter().filter_map(server_call).collect();
    let results: HashSet<&str> = blocks.iter().filter_map(server_result).collect();
    calls != results
}

/// Removes server-side calls without a result and results without a call: providers reject a request
/// that contains one, permanently.
fn pair_server_calls(drafts: &mut [MessageDraft], report: &mut LintReport) {
    for draft in drafts.iter_mut().filter(|draft| has_loose_server_blocks(&draft.blocks)) {
        let ids = |of: fn(&MessageBlock) -> Option<&str>| -> HashSet<String> {
            draft.blocks.iter().filter_map(of).map(str::to_owned).collect()
        };
        let (calls, results) = (ids(server_call), ids(server_result));
        draft.blocks.retain(|block| {
            let loose = match (server_call(block), server_result(block)) {
                (Some(id), _) => !results.contains(id),
                (_, Some(id)) => !calls.contains(id),
                _ => false,
            };
            if loose {
                let place = "messages".to_owned();
                report.add(
                    RepairKind::ResultOrphaned,
                    place,
                    "a call the provider never finished was left out",
                );
            }
            !loose
        });
    }
}

/// Whether the messages already are in a valid order.
fn is_sound(messages: &[Arc<Message>]) -> bool {
    let mut seen: HashSet<&CallId> = HashSet::with_capacity(messages.len());
    let mut open: Vec<&CallId> = Vec::new();
    let mut wanted = Role::User;
    for message in messages {
        if message.role != wanted || message.content.is_empty() {
            return false;
        }
        if has_loose_server_blocks(&message.content) {
            return false;
        }
        let results = message.content.iter().take_while(|block| is_result(block)).count();
        if message.content[results..].iter().any(is_result) || results != open.len() {
            return false;
        }
        for (block, id) in message.content.iter().zip(&open) {
            if !matches!(block, MessageBlock::ToolResult { tool_use_id, .. } if tool_use_id == *id) {
                return false;
            }
        }
        open = message
            .content
            .iter()
            .filter_map(|block| match block {
                MessageBlock::ToolUse(call) => Some(&call.id),
                _ => None,
            })
            .collect();
        if !open.iter().all(|id| seen.insert(id)) {
            return false;
        }
        if message.role == Role::Assistant && message.content.last().is_some_and(is_thinking) {
            return false;
        }
        wanted = if wanted == Role::User { Role::Assistant } else { Role::User };
    }
    // The next role would be the assistant, so the user's message came last.
    wanted == Role::Assistant && open.is_empty()
}

/// A message under construction.
struct MessageDraft {
    role: Role,
    blocks: Vec<MessageBlock>,
}

impl MessageDraft {
    fn from_message(message: &Message) -> Self {
        Self { role: message.role, blocks: message.content.clone() }
    }

    fn into_message(self) -> Arc<Message> {
        Arc::new(Message { role: self.role, content: self.blocks })
    }

    fn text(role: Role, text: &str) -> Self {
        Self { role, blocks: vec![MessageBlock::Text { text: text.to_owned() }] }
    }
}

/// Drops empty messages and merges adjacent messages of one role.
fn merge(drafts: impl IntoIterator<Item = MessageDraft>, report: &mut LintReport) -> Vec<MessageDraft> {
    let mut out: Vec<MessageDraft> = Vec::new();
    for draft in drafts {
        if draft.blocks.is_empty() {
            report.add(RepairKind::Roles, "messages".to_owned(), "an empty message was left out");
            continue;
        }
        match out.last_mut() {
            Some(last) if last.role == draft.role => last.blocks.extend(draft.blocks),
            _ => out.push(draft),
        }
    }
    out
}

/// A tool result removed from its message.
struct DetachedResult {
    id: CallId,
    content: Content,
    is_error: bool,
}

fn pair(drafts: &mut Vec<MessageDraft>, report: &mut LintReport) {
    let mut loose: Vec<Vec<DetachedResult>> = drafts.iter_mut().map(take_results).collect();
    let last_use = last_uses(drafts);
    let mut used: HashSet<String> = HashSet::new();
    let mut answered: HashSet<CallId> = HashSet::new();
    let mut placed: Vec<Vec<MessageBlock>> = drafts.iter().map(|_| Vec::new()).collect();
    placed.push(Vec::new());
    for at in 0..drafts.len() {
        for block in &mut drafts[at].blocks {
            let MessageBlock::ToolUse(call) = block else { continue };
            let id = call.id.clone();
            let found = find(&mut loose, at, &id, last_use.get(&id) == Some(&at));
            let wire = unused(&id, &mut used);
            if wire != id.as_str() {
                report.add(
                    RepairKind::CallId,
                    format!("call {id}"),
                    format!("the id was used before; sent as {wire}"),
                );
                call.id = CallId::from(wire.clone());
            }
            let (content, is_error) = match found {
                Some(loose) => (loose.content, loose.is_error),
                None => {
                    report.add(
                        RepairKind::ResultMissing,
                        format!("call {id}"),
                        "it got a result that says its outcome is unknown",
                    );
                    (Content::text(UNKNOWN_OUTCOME), true)
                }
            };
            answered.insert(id);
            placed[at + 1].push(MessageBlock::ToolResult { tool_use_id: wire.into(), content, is_error });
        }
    }
    for left in loose.into_iter().flatten() {
        let place = format!("call {}", left.id);
        if answered.contains(&left.id) {
            report.add(RepairKind::ResultRepeated, place, "a second result was left out");
        } else {
            report.add(RepairKind::ResultOrphaned, place, "its result has no call and was left out");
        }
    }
    place(drafts, placed);
}

fn take_results(draft: &mut MessageDraft) -> Vec<DetachedResult> {
    let mut out = Vec::new();
    draft.blocks.retain_mut(|block| match block {
        MessageBlock::ToolResult { tool_use_id, content, is_error } => {
            out.push(DetachedResult {
                id: tool_use_id.clone(),
                content: std::mem::take(content),
                is_error: *is_error,
            });
            false
        }
        _ => true,
    });
    out
}

/// Returns the index of the last message that contains a call with each id.
fn last_uses(drafts: &[MessageDraft]) -> HashMap<CallId, usize> {
    let calls = drafts.iter().enumerate().flat_map(|(at, draft)| {
        draft.blocks.iter().filter_map(move |block| match block {
            MessageBlock::ToolUse(call) => Some((call.id.clone(), at)),
            _ => None,
        })
    });
    calls.collect()
}

/// Finds the result of a call: in the next message, or later if no later call has the same id.
fn find(
    loose: &mut [Vec<DetachedResult>],
    at: usize,
    id: &CallId,
    is_last_use: bool,
) -> Option<DetachedResult> {
    let reach = if is_last_use { loose.len() } else { (at + 2).min(loose.len()) };
    let later = loose.get_mut(at + 1..reach)?;
    later.iter_mut().find_map(|results| {
        let found = results.iter().position(|result| result.id == *id)?;
        Some(results.remove(found))
    })
}

/// Returns an id derived from `id` that is not used yet.
fn unused(id: &CallId, used: &mut HashSet<String>) -> String {
    let mut wire = id.to_string();
    let mut number = 2;
    while !used.insert(wire.clone()) {
        wire = crate::tool_wire_name::wire_id(&format!("{id}_{number}"));
        number += 1;
    }
    wire
}

/// Puts results at the start of the messages they belong to.
fn place(drafts: &mut Vec<MessageDraft>, placed: Vec<Vec<MessageBlock>>) {
    let old = std::mem::take(drafts);
    let mut placed = placed.into_iter();
    // There are no results before the first message.
    let mut results = placed.next().unwrap_or_default();
    for mut draft in old {
        if draft.role == Role::User {
            results.append(&mut draft.blocks);
            draft.blocks = results;
            drafts.push(draft);
        } else {
            if !results.is_empty() {
                drafts.push(MessageDraft { role: Role::User, blocks: results });
            }
            drafts.push(draft);
        }
        results = placed.next().unwrap_or_default();
    }
    if !results.is_empty() {
        drafts.push(MessageDraft { role: Role::User, blocks: results });
    }
}

/// Removes thinking at the end of an answer: a valid answer never ends with thinking, so such an answer
/// was cut off.
fn strip_trailing_thinking(drafts: &mut [MessageDraft]) {
    for draft in drafts.iter_mut().filter(|draft| draft.role == Role::Assistant) {
        while draft.blocks.last().is_some_and(is_thinking) {
            draft.blocks.pop();
        }
    }
}

fn speak_first_and_last(drafts: &mut Vec<MessageDraft>, report: &mut LintReport) {
    if drafts.first().is_some_and(|first| first.role == Role::Assistant) {
        drafts.insert(0, MessageDraft::text(Role::User, CUT_OFF));
        report.add(RepairKind::Roles, "messages".to_owned(), "the person has to speak first");
    }
    if drafts.last().is_none_or(|last| last.role == Role::Assistant) {
        drafts.push(MessageDraft::text(Role::User, GO_ON));
        report.add(RepairKind::Roles, "messages".to_owned(), "the person has to speak last");
    }
}
