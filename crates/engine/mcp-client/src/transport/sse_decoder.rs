//! Decoder for server-sent events.
//!
//! Own implementation, because existing decoders end the stream at an unknown field or invalid UTF-8 and
//! do not limit the size of an event.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::BoxStream};

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct SseMessage {
    /// Event type; default `message`.
    pub(super) kind: String,
    pub(super) data: Vec<u8>,
}

/// Position in a stream, to resume it.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamPosition {
    /// Id of the last event.
    pub(super) last_id: Option<String>,
    /// Delay before reconnecting, in milliseconds.
    pub(super) retry: Option<u64>,
}

/// Maximum bytes of an event; a larger one ends the stream with an error.
const MAX_EVENT_BYTES: usize = 64 << 20;

pub(super) struct SseStream {
    from: BoxStream<'static, Result<Bytes, String>>,
    decoder: EventDecoder,
}

impl SseStream {
    pub(super) fn new(response: reqwest::Response) -> Self {
        Self::over(response.bytes_stream().map(|chunk| chunk.map_err(|err| haft_mcp_auth::explain(&err))))
    }

    fn over(from: impl Stream<Item = Result<Bytes, String>> + Send + 'static) -> Self {
        Self { from: from.boxed(), decoder: EventDecoder::default() }
    }

    pub(super) fn position(&self) -> &StreamPosition {
        &self.decoder.position
    }

    /// Continues from the position of another stream.
    pub(super) fn resume(&mut self, position: StreamPosition) {
        self.decoder.position = position;
    }

    /// Returns the next event; `None` at the end, `Err` if the stream broke.
    pub(super) async fn next(&mut self) -> Result<Option<SseMessage>, String> {
        loop {
            if let Some(event) = self.decoder.take() {
                return Ok(Some(event));
            }
            match self.from.next().await {
                Some(chunk) => self.decoder.feed(&chunk?)?,
                None => return Ok(None),
            }
        }
    }
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

#[derive(Default)]
struct EventDecoder {
    buffer: Vec<u8>,
    /// Number of buffered bytes known to contain no line end.
    scanned: usize,
    event: SseMessage,
    has_data: bool,
    ready: std::collections::VecDeque<SseMessage>,
    position: StreamPosition,
    begun: bool,
    /// Whether the last line ended with `\r`, so that a following `\n` belongs to it.
    after_return: bool,
}

impl EventDecoder {
    fn take(&mut self) -> Option<SseMessage> {
        self.ready.pop_front()
    }

    fn feed(&mut self, chunk: &[u8]) -> Result<(), String> {
        self.buffer.extend_from_slice(chunk);
        if !self.begun {
            if self.buffer.len() < BOM.len() && BOM.starts_with(&self.buffer) {
                return Ok(());
            }
            self.begun = true;
            if self.buffer.starts_with(BOM) {
                self.buffer.drain(..BOM.len());
            }
        }
        let mut start = 0;
        while let Some(found) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.scanned.max(start)..]) {
            let end = self.scanned.max(start) + found;
            let is_second_half = self.after_return && end == start && self.buffer[end] == b'\n';
            self.after_return = self.buffer[end] == b'\r';
            if !is_second_half {
                let line = self.buffer[start..end].to_vec();
                self.line(&line);
            }
            start = end + 1;
            self.scanned = start;
        }
        self.after_return &= start == self.buffer.len();
        self.buffer.drain(..start);
        self.scanned = self.buffer.len();
        let held = self.buffer.len() + self.event.data.len();
        if MAX_EVENT_BYTES < held { Err(String::from("an event is larger than 64 MiB")) } else { Ok(()) }
    }

    fn line(&mut self, line: &[u8]) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                self.ready.push_back(event);
            }
            return;
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &b""[..]),
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        match field {
            b"data" => {
                if self.has_data {
                    self.event.data.push(b'\n');
                }
                self.has_data = true;
                self.event.data.extend_from_slice(value);
            }
            b"event" => self.event.kind = text(),
            b"id" if !value.contains(&0) => self.position.last_id = Some(text()),
            b"retry" => self.position.retry = text().trim().parse().ok().or(self.position.retry),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn decode(chunks: Vec<Vec<u8>>) -> (Vec<(String, String)>, StreamPosition) {
        let mut stream = SseStream::over(futures_util::stream::iter(
            chunks.into_iter().map(|chunk| Ok(Bytes::from(chunk))),
        ));
        let mut events = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            events.push((event.kind, String::from_utf8_lossy(&event.data).into_owned()));
        }
        (events, stream.position().clone())
    }

    #[tokio::test]
    async fn sse_events_decode_at_any_chunk_boundary() {
        let text = b"\xEF\xBB\xBF: hello\r\nevent: endpoint\ndata: /m\n\nid: 7\rretry: 20\rdata\rdata:b\r\rdata:  c\nfoo: bar\nid: x\0\n\nunfinished: 1\ndata: lost\n";
        let want: Vec<(String, String)> =
            [("endpoint", "/m"), ("", "\nb"), ("", " c")].map(|(a, b)| (a.into(), b.into())).to_vec();
        for size in [1, 2, 3, 5, 1000] {
            let chunks = text.chunks(size).map(<[u8]>::to_vec).collect();
            let (events, position) = decode(chunks).await;
            assert_eq!(events, want, "chunks of {size}");
            assert_eq!(position.last_id.as_deref(), Some("7"));
            assert_eq!(position.retry, Some(20));
        }
    }
}
