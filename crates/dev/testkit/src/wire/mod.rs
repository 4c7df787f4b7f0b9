//! Encodes a turn for each API.

pub(crate) mod bedrock;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod messages;
pub(crate) mod responses;

use crate::{
    token_counter,
    turn::{ReplyPiece, ToolPiece, Turn},
};

/// Context for building an answer.
pub(crate) struct ReplyContext<'a> {
    /// Number of the request.
    pub(crate) index: usize,
    /// Requested model.
    pub(crate) model: &'a str,
    /// Input tokens of the request.
    pub(crate) input_tokens: u64,
    pub(crate) bytes_per_token: f64,
    pub(crate) delta_chars: usize,
    /// Whether thinking is returned as by a router (`reasoning_details`), because the request has
    /// `reasoning`.
    pub(crate) routed: bool,
}

impl ReplyContext<'_> {
    /// Returns the id of a call: its own, or one derived from the numbers of request and call, so that
    /// all APIs return the same.
    pub(crate) fn call_id(&self, tool: &ToolPiece, ordinal: usize) -> String {
        tool.id.clone().unwrap_or_else(|| format!("toolu_mock_{}_{ordinal}", self.index))
    }

    pub(crate) fn message_id(&self) -> String {
        format!("msg_mock_{}", self.index)
    }

    /// Returns input and output tokens of the answer.
    pub(crate) fn usage(&self, turn: &Turn) -> (u64, u64) {
        let said: u64 = turn.reply.iter().map(|piece| self.output_tokens(piece)).sum();
        let given = turn.usage.unwrap_or_default();
        (given.input_tokens.unwrap_or(self.input_tokens), given.output_tokens.unwrap_or(said.max(1)))
    }

    fn output_tokens(&self, piece: &ReplyPiece) -> u64 {
        match piece {
            ReplyPiece::Text(text)
            | ReplyPiece::Thinking(text)
            | ReplyPiece::OpenText(text)
            | ReplyPiece::OpenThinking(text) => token_counter::of_text(text, self.bytes_per_token),
            ReplyPiece::Tool(tool) => token_counter::of_text(&tool.text(), self.bytes_per_token) + 8,
            _ => 0,
        }
    }

    /// Splits a text into deltas.
    pub(crate) fn pieces(&self, text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(self.delta_chars.max(1)).map(|chunk| chunk.iter().collect()).collect()
    }

    /// Splits the input of a call into deltas.
    pub(crate) fn input_pieces(&self, tool: &ToolPiece) -> Vec<String> {
        let text = tool.text();
        let Some(split) = &tool.split else { return self.pieces(&text) };
        let chars: Vec<char> = text.chars().collect();
        let mut marks: Vec<usize> = split.iter().map(|mark| (*mark).min(chars.len())).collect();
        marks.extend([0, chars.len()]);
        marks.sort_unstable();
        marks.windows(2).map(|pair| chars[pair[0]..pair[1]].iter().collect()).collect()
    }
}

/// Returns the stop reason as named in the Messages API.
pub(crate) fn stop_reason(turn: &Turn) -> &str {
    match &turn.stop {
        Some(reason) => reason,
        None if turn.reply.iter().any(|piece| matches!(piece, ReplyPiece::Tool(_))) => "tool_use",
        None => "end_turn",
    }
}

/// Encodes a server-sent event.
pub(crate) fn sse(event: Option<&str>, data: &str) -> Vec<u8> {
    let head = event.map(|event| format!("event: {event}\n")).unwrap_or_default();
    format!("{head}data: {data}\n\n").into_bytes()
}
