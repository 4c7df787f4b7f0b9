//! Messages on a stream: headers, an empty line, a body of the stated length.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// No message is larger.
const MAX_BODY_BYTES: usize = 64 << 20;
/// No message has more parts: each of them takes many times its bytes in memory.
const MAX_PARTS: usize = 2_000_000;
/// Headers end before this.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Why there is no next message.
#[derive(Debug)]
pub enum FrameError {
    /// The stream ended between messages.
    End,
    /// The stream failed, or ended within a message.
    Lost(io::Error),
    /// What came is no message.
    Broken(String),
}

/// Reads messages from a stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    from: R,
    waiting: Vec<u8>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from here on.
    pub fn new(from: R) -> Self {
        Self { from, waiting: Vec::new() }
    }

    /// The body of the next message. Not safe to cancel in the middle of one.
    pub async fn next(&mut self) -> Result<Vec<u8>, FrameError> {
        let (head, body) = loop {
            if let Some(found) = head_end(&self.waiting) {
                break found;
            }
            if MAX_HEAD_BYTES < self.waiting.len() {
                return Err(FrameError::Broken(format!("no end of headers in {MAX_HEAD_BYTES} bytes")));
            }
            if self.more().await? == 0 {
                return Err(if self.waiting.is_empty() {
                    FrameError::End
                } else {
                    FrameError::Broken(format!("it printed {}", shown(&self.waiting)))
                });
            }
        };
        let length = content_length(&self.waiting[..head])?;
        let end = body + length;
        while self.waiting.len() < end {
            if self.more().await? == 0 {
                let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "a message was cut off");
                return Err(FrameError::Lost(cut));
            }
        }
        let rest = self.waiting.split_off(end);
        let mut message = std::mem::replace(&mut self.waiting, rest);
        message.drain(..body);
        let parts = message.iter().filter(|it| matches!(it, b',' | b'[' | b'{')).count();
        if parts <= MAX_PARTS {
            Ok(message)
        } else {
            Err(FrameError::Broken(format!("a message of {parts} parts is too large")))
        }
    }

    async fn more(&mut self) -> Result<usize, FrameError> {
        self.waiting.reserve(64 << 10);
        self.from.read_buf(&mut self.waiting).await.map_err(FrameError::Lost)
    }
}

/// Where the headers end and the body begins.
fn head_end(bytes: &[u8]) -> Option<(usize, usize)> {
    let bytes = &bytes[..bytes.len().min(MAX_HEAD_BYTES)];
    (0..bytes.len()).find_map(|at| {
        let rest = &bytes[at..];
        let gap = [&b"\r\n\r\n"[..], b"\n\n"].into_iter().find(|gap| rest.starts_with(gap))?;
        Some((at, at + gap.len()))
    })
}

fn content_length(head: &[u8]) -> Result<usize, FrameError> {
    let text = String::from_utf8_lossy(head);
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-length").then(|| value.trim().to_owned())
    });
    let value = value.ok_or_else(|| FrameError::Broken(format!("it printed {}", shown(head))))?;
    match value.parse::<usize>() {
        Ok(length) if length <= MAX_BODY_BYTES => Ok(length),
        Ok(length) => Err(FrameError::Broken(format!("a message of {length} bytes is too large"))),
        Err(_) => Err(FrameError::Broken(format!("`{}` is no length", shown(value.as_bytes())))),
    }
}

fn shown(bytes: &[u8]) -> String {
    haft_types::text::one_line(&String::from_utf8_lossy(bytes), 200)
}

/// A message with its headers.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let mut message = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    message.extend_from_slice(body);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Vec<String> {
        let mut reader = FrameReader::new(bytes);
        let mut told = Vec::new();
        loop {
            match reader.next().await {
                Ok(body) => told.push(String::from_utf8_lossy(&body).into_owned()),
                Err(FrameError::End) => return told,
                Err(FrameError::Lost(err)) => told.push(format!("lost: {err}")),
                Err(FrameError::Broken(why)) => told.push(format!("broken: {why}")),
            }
            if told.last().is_some_and(|it| it.starts_with("lost") || it.starts_with("broken")) {
                return told;
            }
        }
    }

    #[tokio::test]
    async fn messages_and_what_is_none() {
        for (bytes, want) in [
            (&b"Content-Length: 2\r\n\r\n{}"[..], vec!["{}"]),
            (b"content-length:2\r\nContent-Type: x\r\n\r\n{}Content-Length: 3\r\n\r\n[1]", vec!["{}", "[1]"]),
            (b"Content-Length: 0\n\n", vec![""]),
            (b"", vec![]),
            (b"Content-Length: 9\r\n\r\n{}", vec!["lost: a message was cut off"]),
            (b"Content-Length: x\r\n\r\n{}", vec!["broken: `x` is no length"]),
            (b"Content-Length: -1\r\n\r\n{}", vec!["broken: `-1` is no length"]),
            (
                b"Content-Length: 99999999999\r\n\r\n{}",
                vec!["broken: a message of 99999999999 bytes is too large"],
            ),
            (b"usage: server\n\n", vec!["broken: it printed usage: server"]),
            (b"hello", vec!["broken: it printed hello"]),
        ] {
            assert_eq!(read(bytes).await, want, "{}", String::from_utf8_lossy(bytes));
        }
        let parts = framed(format!("[{}0]", "0,".repeat(MAX_PARTS)).as_bytes());
        assert_eq!(read(&parts).await, ["broken: a message of 2000001 parts is too large"]);
        let endless = vec![b'x'; MAX_HEAD_BYTES + 1];
        assert_eq!(read(&endless).await, ["broken: no end of headers in 16384 bytes"]);
    }
}
