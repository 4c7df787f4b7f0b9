//! Finds out which part of a request the provider rejected.

use std::sync::LazyLock;

use regex::Regex;

use crate::{ModelError, Repair, RepairKind, http_error::room_left};

/// A change that would make the provider accept the request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum RefusalFix {
    /// Remove all thinking.
    Thinking,
    /// Replace one block, or one block inside a result.
    Block { message: usize, block: usize, inner: Option<usize> },
    /// Replace the last image or document: one is invalid, and the error does not say which.
    LastMedia,
    /// Replace the block that an item of the wire format's own list was made from.
    Item(usize),
    /// Remove one tool, by its index.
    Tool(usize),
    /// Remove a field the provider does not know.
    Field(String),
    /// Describe the tools in the system prompt: the server or model does not support tool calls.
    PromptTools,
    /// Send the request in the Responses form.
    Responses,
    /// Do not request a beta feature; an empty name stands for all.
    Beta(String),
    /// Lower `max_tokens` to the model's limit.
    MaxTokens(u64),
    /// Lower `max_tokens` for this request: the input leaves less room in the window.
    Room {
        /// Output tokens that fit.
        answer: u64,
        /// Context window the provider named.
        window: u64,
    },
}

impl RefusalFix {
    /// Translates an item index of the wire format into a message and block. `origins` has the origin of
    /// each item. `None` if the index is out of range.
    pub(crate) fn at_origin(self, origins: &[(usize, Option<usize>)]) -> Option<Self> {
        match self {
            Self::Block { message, .. } | Self::Item(message) if !origins.is_empty() => {
                let (message, block) = *origins.get(message)?;
                Some(Self::Block { message, block: block.unwrap_or(0), inner: None })
            }
            Self::Item(_) => None,
            other => Some(other),
        }
    }
}

/// Fields that some providers do not know and that can be omitted.
const OPTIONAL_FIELDS: [&str; 9] = [
    "context_management",
    "output_config",
    "output_format",
    "speed",
    "service_tier",
    "metadata",
    "defer_loading",
    "eager_input_streaming",
    "strict",
];

/// Phrases with which providers reject an unreadable image or document without saying which one.
const MEDIA_REFUSALS: [&str; 6] = [
    "Could not process image",
    "Could not process PDF",
    "PDF pages",
    "Unsupported MIME type",
    "Unable to process input image",
    "Unable to process input document",
];

struct Patterns {
    place: Regex,
    inner: Regex,
    item: Regex,
    tool: Regex,
    most_output: Regex,
    beta: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    Some(Patterns {
        place: Regex::new(r"messages[.\[]+(\d+)\]?\.content[.\[]+(\d+)").ok()?,
        inner: Regex::new(r"^\]?\.tool_result\.content[.\[]+(\d+)").ok()?,
        item: Regex::new(r"(?:messages|input|contents)[.\[]+(\d+)\]").ok()?,
        tool: Regex::new(r"tools[.\[]+(\d+)\]?\.").ok()?,
        beta: Regex::new(
            r"Unexpected value\(s\) `([^`]+)` for the `anthropic-beta` header|invalid beta flag",
        )
        .ok()?,
        most_output: Regex::new(r"max_tokens: \d+ > (\d+)|supports at most (\d+) completion tokens").ok()?,
    })
});

/// Whether a server rejects tools for a model on Chat Completions and points to Responses, as `OpenAI`
/// does for its newer models (400) and for models that only Responses has (404).
pub(crate) fn wants_responses(error: &ModelError) -> bool {
    let (ModelError::Invalid { message } | ModelError::UnknownModel { message }) = error else {
        return false;
    };
    message.contains("v1/responses") && message.contains("v1/chat/completions")
}

/// Tells the user that requests to a model go to Responses from now on.
pub(crate) fn moved_to_responses(model: &str) -> Repair {
    Repair {
        kind: RepairKind::Setting,
        place: format!("requests to {model}"),
        detail: "sent in the Responses form: the server refuses this model's tools on Chat Completions"
            .to_owned(),
    }
}

/// Parses a rejection. `None` if it names nothing that can be changed.
pub(crate) fn diagnose(message: &str) -> Option<RefusalFix> {
    let patterns = PATTERNS.as_ref()?;
    if let Some((answer, window)) = room_left(message) {
        return Some(RefusalFix::Room { answer, window });
    }
    if let Some(found) = patterns.most_output.captures(message) {
        let most = found.get(1).or(found.get(2))?.as_str().parse().ok()?;
        return Some(RefusalFix::MaxTokens(most));
    }
    if let Some(found) = patterns.beta.captures(message) {
        return Some(RefusalFix::Beta(
            found.get(1).map_or_else(String::new, |name| name.as_str().to_owned()),
        ));
    }
    if is_about_thinking(message) {
        return Some(RefusalFix::Thinking);
    }
    if is_about_calls(message) {
        return Some(RefusalFix::PromptTools);
    }
    if let Some(field) = unknown_field(message) {
        return Some(RefusalFix::Field(field));
    }
    if let Some(found) = patterns.place.captures(message) {
        let after = &message[found.get(0)?.end()..];
        let inner = patterns.inner.captures(after).and_then(|found| found[1].parse().ok());
        return Some(RefusalFix::Block {
            message: found[1].parse().ok()?,
            block: found[2].parse().ok()?,
            inner,
        });
    }
    if MEDIA_REFUSALS.iter().any(|it| message.contains(it)) {
        return Some(RefusalFix::LastMedia);
    }
    if let Some(found) = patterns.tool.captures(message) {
        return Some(RefusalFix::Tool(found[1].parse().ok()?));
    }
    let found = patterns.item.captures(message)?;
    Some(RefusalFix::Item(found[1].parse().ok()?))
}

/// Whether a message of a local model server means that the model, or the server's configuration, does
/// not support tool calls.
fn is_about_calls(message: &str) -> bool {
    [
        "does not support tools",
        "tools param requires --jinja",
        "--enable-auto-tool-choice",
        "tool use is not supported",
    ]
    .iter()
    .any(|words| message.contains(words))
}

fn is_about_thinking(message: &str) -> bool {
    // Gemini's thought signatures are attached to tool calls.
    if message.to_lowercase().replace('_', " ").contains("thought signature") {
        return true;
    }
    let names_it = message.contains("`thinking`") || message.contains("`redacted_thinking`");
    let complains = [
        "signature",
        "cannot be modified",
        "Expected `thinking`",
        "bound to a different",
        "cannot be `thinking`",
    ];
    names_it && complains.iter().any(|word| message.contains(word))
}

/// Matches `tools.3.custom.defer_loading: Extra inputs are not permitted`.
fn unknown_field(message: &str) -> Option<String> {
    let (path, complaint) = message.split_once(": ")?;
    if !complaint.starts_with("Extra inputs are not permitted") {
        return None;
    }
    let field = path.rsplit('.').next()?;
    OPTIONAL_FIELDS.contains(&field).then(|| field.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejection_messages_map_to_fixes() {
        let block = |message, block, inner| Some(RefusalFix::Block { message, block, inner });
        for (message, want) in [
            ("messages.3.content.0.image.source.base64.data: At least one …", block(3, 0, None)),
            (
                "messages.12.content.4.tool_result.content.1.image.source.base64: image exceeds",
                block(12, 4, Some(1)),
            ),
            ("messages.1.content.0: Invalid `signature` in `thinking` block", Some(RefusalFix::Thinking)),
            (
                "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
                Some(RefusalFix::Thinking),
            ),
            (
                "messages.5.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
                Some(RefusalFix::Thinking),
            ),
            ("tools.7.custom.input_schema: JSON schema is invalid.", Some(RefusalFix::Tool(7))),
            (
                "tools.0.custom.defer_loading: Extra inputs are not permitted",
                Some(RefusalFix::Field("defer_loading".to_owned())),
            ),
            ("speed: Extra inputs are not permitted", Some(RefusalFix::Field("speed".to_owned()))),
            (
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease",
                Some(RefusalFix::Room { answer: 11_760, window: 200_000 }),
            ),
            ("max_tokens: 200000 > 64000, which is the maximum allowed", Some(RefusalFix::MaxTokens(64_000))),
            ("prompt is too long: 211539 tokens > 200000 maximum", None),
            (
                "Unexpected value(s) `new-2026` for the `anthropic-beta` header. Please",
                Some(RefusalFix::Beta("new-2026".to_owned())),
            ),
            ("invalid beta flag", Some(RefusalFix::Beta(String::new()))),
            ("Could not process image", Some(RefusalFix::LastMedia)),
            ("Unsupported MIME type: image/gif", Some(RefusalFix::LastMedia)),
            ("Unable to process input image. Please retry or report", Some(RefusalFix::LastMedia)),
            ("Thought signature is not valid.", Some(RefusalFix::Thinking)),
            ("Corrupted thought signature.", Some(RefusalFix::Thinking)),
            (
                "Function call is missing a thought_signature in functionCall parts.",
                Some(RefusalFix::Thinking),
            ),
            ("Invalid 'tools[2].function.name': string does not match", Some(RefusalFix::Tool(2))),
            ("Invalid 'messages[4]': bad image", Some(RefusalFix::Item(4))),
            ("Invalid 'input[2].arguments': not a JSON object", Some(RefusalFix::Item(2))),
            ("messages.3: `tool_use` ids were found without `tool_result` blocks", None),
            ("messages: at least one message is required", None),
        ] {
            assert_eq!(diagnose(message), want, "{message}");
        }
    }
}
