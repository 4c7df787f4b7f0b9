use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::{parse_values, parse_whole_values, salvage_id};

/// Maximum bytes of a message. A larger one is skipped, and the request it answers fails.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Bytes kept from both ends of an oversized message to find its id.
const END_BYTES: usize = 4096;

const READ_BYTES: usize = 64 << 10;

/// Silence in the middle of a line after which it is treated as complete.
const STALL: Duration = Duration::from_millis(150);

/// A line of a server's output.
#[derive(Debug, PartialEq)]
pub(crate) enum ServerLine {
    /// JSON values that look like messages.
    Messages(Vec<Value>),
    /// A message that is too long or malformed; the request with this id gets no other answer.
    Unreadable { id: Option<u64>, problem: &'static str },
    /// Other output: banners, log lines, stack traces.
    Noise(String),
}

/// Splits a byte stream into messages.
///
/// Normally there is one message per line. Several messages on one line and messages printed over
/// several lines are accepted too.
pub(crate) struct LineReader<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    dropped: usize,
    tail: Vec<u8>,
    /// Length of the line when it was last found incomplete.
    looked: usize,
    held: PartialMessage,
    /// A parsed line that must follow another one.
    next: Option<ServerLine>,
    max: usize,
}

/// The beginning of a message printed over several lines.
#[derive(Default)]
struct PartialMessage {
    text: Vec<u8>,
    balance: BracketCounter,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self::with_limit(from, MAX_MESSAGE_BYTES)
    }

    pub(crate) fn with_limit(from: R, max: usize) -> Self {
        Self {
            from: BufReader::with_capacity(READ_BYTES, from),
            line: Vec::new(),
            dropped: 0,
            tail: Vec::new(),
            looked: 0,
            held: PartialMessage::default(),
            next: None,
            max,
        }
    }

    /// Returns the next non-empty line; `None` at the end of the stream. Cancel-safe.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<ServerLine>> {
        if let Some(line) = self.next.take() {
            return Ok(Some(line));
        }
        loop {
            if self.looked != self.line.len() {
                // In the middle of a line.
                let is_stalled = tokio::time::timeout(STALL, self.from.fill_buf()).await.is_err();
                if is_stalled {
                    match self.stalled() {
                        Some(line) => return Ok(Some(line)),
                        None => self.looked = self.line.len(),
                    }
                }
            }
            let available = self.from.fill_buf().await?;
            if available.is_empty() {
                return Ok(self.at_end());
            }
            let end = memchr::memchr(b'\n', available);
            let used = end.map_or(available.len(), |at| at + 1);
            if self.max < self.line.len() + used {
                self.dropped += used;
                self.tail.extend_from_slice(&available[used.saturating_sub(END_BYTES)..used]);
                self.tail.drain(..self.tail.len().saturating_sub(END_BYTES));
            } else {
                self.line.extend_from_slice(&available[..used]);
            }
            self.from.consume(used);
            if end.is_some()
                && let Some(line) = self.finish_line()
            {
                return Ok(Some(line));
            }
        }
    }

    /// Handles a line without line break that has stalled: complete messages whose writer omitted the
    /// line break, or text such as a prompt of an interactive program.
    fn stalled(&mut self) -> Option<ServerLine> {
        if self.line.first().is_some_and(|it| it.is_ascii_alphanumeric()) {
            return self.finish_line();
        }
        let ends = matches!(self.line.trim_ascii_end().last(), Some(b'}' | b']' | 0));
        if !ends || !self.held.text.is_empty() || self.dropped != 0 {
            return None;
        }
        let values = parse_whole_values(&self.line);
        if !values.iter().any(is_message) {
            return None;
        }
        self.line.clear();
        self.looked = 0;
        Some(ServerLine::Messages(values))
    }

    /// Returns the last line, which may lack its line break.
    fn at_end(&mut self) -> Option<ServerLine> {
        if self.line.is_empty() && self.dropped == 0 { None } else { self.finish_line() }
    }

    fn finish_line(&mut self) -> Option<ServerLine> {
        let line = std::mem::take(&mut self.line);
        self.looked = 0;
        let tail = std::mem::take(&mut self.tail);
        if std::mem::take(&mut self.dropped) != 0 {
            let id = salvage_id(&line[..line.len().min(END_BYTES)], &tail);
            return Some(ServerLine::Unreadable { id, problem: "the message is larger than 64 MiB" });
        }
        self.understand(line)
    }

    fn understand(&mut self, line: Vec<u8>) -> Option<ServerLine> {
        let values = parse_values(&line);
        if values.iter().any(is_message) {
            // A complete message on its own line ends any partial message before it.
            let cut_off = std::mem::take(&mut self.held).text;
            if cut_off.is_empty() {
                return Some(ServerLine::Messages(values));
            }
            self.next = Some(ServerLine::Messages(values));
            return Some(unreadable(&cut_off));
        }
        let text = line.trim_ascii();
        let begins = self.held.text.is_empty() && values.is_empty() && begins_like_json(text);
        if begins || !self.held.text.is_empty() {
            return self.hold(&line);
        }
        (text.iter().any(|byte| *byte != 0))
            .then(|| ServerLine::Noise(String::from_utf8_lossy(text).into_owned()))
    }

    /// Adds a line to a message that spans several lines.
    fn hold(&mut self, line: &[u8]) -> Option<ServerLine> {
        self.held.text.extend_from_slice(line);
        self.held.balance.feed(line);
        let complete = self.held.balance.depth <= 0;
        if !complete && self.held.text.len() <= self.max {
            return None;
        }
        let text = std::mem::take(&mut self.held).text;
        let values = parse_values(&text);
        if complete && values.iter().any(is_message) {
            return Some(ServerLine::Messages(values));
        }
        Some(unreadable(&text))
    }
}

/// Whether a line may start a multi-line JSON value. The character after the first bracket distinguishes
/// `{"id"` from `[INFO] started` and `{ port: 1 }`.
fn begins_like_json(text: &[u8]) -> bool {
    let Some((first, rest)) = text.split_first() else { return false };
    match (first, rest.trim_ascii_start().first()) {
        (b'{' | b'[', None) => true,
        (b'{', Some(next)) => matches!(next, b'"' | b'}'),
        (b'[', Some(next)) => matches!(next, b'{' | b'[' | b']'),
        _ => false,
    }
}

/// Classifies text that looked like the start of a message: unreadable if it contains a JSON-RPC field
/// name, else noise.
fn unreadable(text: &[u8]) -> ServerLine {
    let is_meant = [&b"\"jsonrpc\""[..], b"\"id\"", b"\"method\"", b"\"result\"", b"\"error\""]
        .iter()
        .any(|word| memchr::memmem::find(text, word).is_some());
    if !is_meant {
        return ServerLine::Noise(String::from_utf8_lossy(text.trim_ascii()).into_owned());
    }
    let (head, tail) = (&text[..text.len().min(END_BYTES)], &text[text.len().saturating_sub(END_BYTES)..]);
    ServerLine::Unreadable { id: salvage_id(head, tail), problem: "the message is not valid JSON" }
}

fn is_message(value: &Value) -> bool {
    let is_frame = |it: &Value| ["method", "result", "error"].iter().any(|key| it.get(key).is_some());
    match value {
        Value::Array(batch) => batch.iter().any(is_frame),
        other => is_frame(other),
    }
}

/// Counts open brackets outside of strings, to find the end of a multi-line message without parsing it
/// again for every line.
#[derive(Default)]
struct BracketCounter {
    depth: i64,
    in_string: bool,
    escaped: bool,
}

impl BracketCounter {
    fn feed(&mut self, text: &[u8]) {
        for byte in text {
            match (self.in_string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (_, b'"') => self.in_string = !self.in_string,
                (false, b'{' | b'[') => self.depth += 1,
                (false, b'}' | b']') => self.depth -= 1,
                _ => (),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn read(text: &str, max: usize) -> Vec<ServerLine> {
        let mut reader = LineReader::with_limit(text.as_bytes(), max);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn message_without_line_break_is_delivered_after_stall() {
        let message = || json!({"id": 1, "result": {}});
        for (text, want) in [
            ("{\"id\":1,\"result\":{}}", Some(vec![message()])),
            ("{\"id\":1,\"result\":{}}\r{\"id\":1,\"result\":{}}\r", Some(vec![message(), message()])),
            // An incomplete message, or one and a half, may be continued.
            ("{\"id\":1,\"result\":{}", None),
            ("{\"id\":1,\"result\":{}}{\"id\":[]", None),
            ("{\"level\":1}", None),
            ("", None),
        ] {
            let mut reader = LineReader::with_limit(text.as_bytes(), 1000);
            reader.line = text.as_bytes().to_vec();
            assert_eq!(reader.stalled(), want.map(ServerLine::Messages), "{text}");
        }
        let mut reader = LineReader::with_limit(&b""[..], 1000);
        reader.line = b"Password: ".to_vec();
        assert_eq!(reader.stalled(), Some(ServerLine::Noise("Password:".into())));
    }

    #[tokio::test]
    async fn stream_is_split_into_messages() {
        let message = || json!({"id": 1, "result": {}});
        let one = || vec![ServerLine::Messages(vec![message()])];
        let unreadable = |id| ServerLine::Unreadable { id, problem: "the message is not valid JSON" };
        for (text, want) in [
            ("{\"id\":1,\"result\":{}}\n", one()),
            ("{\"id\":1,\"result\":{}}", one()),
            ("\r\n\n{\"id\":1,\"result\":{}}\r\n", one()),
            ("{\n  \"id\": 1,\n  \"result\": {\n  }\n}\n", one()),
            (
                "{\"id\":1,\"result\":{}}{\"id\":1,\"result\":{}}\n",
                vec![ServerLine::Messages(vec![message(), message()])],
            ),
            (
                "listening on \u{1b}[1m3000\n{\"id\":1,\"result\":{}}\n",
                vec![ServerLine::Noise("listening on \u{1b}[1m3000".into()), one().remove(0)],
            ),
            ("{\"level\":\"info\"}\n", vec![ServerLine::Noise("{\"level\":\"info\"}".into())]),
            ("{\"id\":3,\"result\":oops}\n", vec![unreadable(Some(3))]),
            // A truncated message does not swallow the next one.
            (
                "{\"id\":3,\"result\":{\n{\"id\":1,\"result\":{}}\n",
                vec![unreadable(Some(3)), one().remove(0)],
            ),
            // Log lines that look like JSON, alone and between the lines of a message.
            (
                "[INFO] started\n{ port: 3000, mode: 'x' }\n[12:00:01] [warn] {low}\n[main {\n{\"id\":1,\"result\":{}}\n",
                vec![
                    ServerLine::Noise("[INFO] started".into()),
                    ServerLine::Noise("{ port: 3000, mode: 'x' }".into()),
                    ServerLine::Noise("[12:00:01] [warn] {low}".into()),
                    ServerLine::Noise("[main {".into()),
                    one().remove(0),
                ],
            ),
            (
                "[\n  \"a\",\n  nope\n]\n{\"id\":1,\"result\":{}}\n",
                vec![ServerLine::Noise("[\n  \"a\",\n  nope\n]".into()), one().remove(0)],
            ),
            (
                "[{\"level\":30,\n{\"id\":1,\"result\":{}}\n",
                vec![ServerLine::Noise("[{\"level\":30,".into()), one().remove(0)],
            ),
            (
                "Content-Length: 20\r\n\r\n{\"id\":1,\"result\":{}}\n",
                vec![ServerLine::Noise("Content-Length: 20".into()), one().remove(0)],
            ),
        ] {
            assert_eq!(read(text, 1000).await, want, "{text}");
        }
    }

    #[tokio::test]
    async fn oversized_message_fails_its_request() {
        let big =
            format!("{{\"result\":\"{}\",\"id\":5}}\n{{\"id\":1,\"result\":{{}}}}\n", "x".repeat(200_000));
        let lines = read(&big, 1000).await;
        assert!(matches!(lines[0], ServerLine::Unreadable { id: Some(5), .. }), "{lines:?}");
        assert_eq!(lines[1], ServerLine::Messages(vec![json!({"id": 1, "result": {}})]));
    }
}
