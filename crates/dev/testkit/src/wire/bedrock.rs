//! Messages events in the AWS event stream.

use base64::Engine as _;
use serde_json::json;

use super::{ReplyContext, messages};
use crate::{eventstream, stream_steps::StreamStep, turn::Turn, wire::messages::MessageItem};

/// Encodes the answer as event-stream messages.
pub(crate) fn stream(turn: &Turn, asked: &ReplyContext<'_>) -> Vec<StreamStep> {
    let framed = messages::items(turn, asked).into_iter().map(|item| match item {
        MessageItem::Event(event) => StreamStep::Bytes(chunk(&event.to_string())),
        MessageItem::Error(error) => StreamStep::Bytes(exception(&error.kind, &error.message)),
        MessageItem::Raw(raw) => StreamStep::Bytes(raw.into_bytes()),
        MessageItem::Stall(stall) => StreamStep::Stall(stall),
        MessageItem::Cut(cut) => StreamStep::Cut(cut),
    });
    framed.collect()
}

fn chunk(event: &str) -> Vec<u8> {
    let bytes = base64::engine::general_purpose::STANDARD.encode(event);
    let payload = json!({"bytes": bytes, "p": "abcdefgh"}).to_string();
    let headers =
        [(":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")];
    eventstream::message(&headers, payload.as_bytes())
}

fn exception(kind: &str, message: &str) -> Vec<u8> {
    let headers = [
        (":exception-type", exception_type(kind)),
        (":content-type", "application/json"),
        (":message-type", "exception"),
    ];
    eventstream::message(&headers, json!({"message": message}).to_string().as_bytes())
}

/// Returns AWS's name for an Anthropic error type.
pub(crate) fn exception_type(kind: &str) -> &'static str {
    match kind {
        "rate_limit_error" => "throttlingException",
        "overloaded_error" => "serviceUnavailableException",
        "invalid_request_error" => "validationException",
        "authentication_error" | "permission_error" => "accessDeniedException",
        "not_found_error" => "resourceNotFoundException",
        "timeout_error" => "modelTimeoutException",
        _ => "internalServerException",
    }
}
