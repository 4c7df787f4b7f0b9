//! Decoder for AWS's binary event stream, limited to what Bedrock uses.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::BytesMut;
use serde_json::Value;

use crate::{ModelError, http_error};

/// Bytes of the shortest valid message: lengths and two checksums.
const SHORTEST: usize = 16;
/// Maximum bytes of a message; a longer one is an error.
const LONGEST: usize = 32 * 1024 * 1024;

/// Incremental parser.
#[derive(Debug, Default)]
pub(crate) struct EventStreamParser {
    buffer: BytesMut,
}

impl EventStreamParser {
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<String>) -> Result<(), ModelError> {
        self.buffer.extend_from_slice(bytes);
        while let Some(head) = self.buffer.first_chunk::<4>() {
            let length = u32::from_be_bytes(*head) as usize;
            if !(SHORTEST..=LONGEST).contains(&length) {
                return Err(ModelError::protocol("a message has an impossible length"));
            }
            if self.buffer.len() < length {
                break;
            }
            let frame = self.buffer.split_to(length);
            let message = FrameMessage::read(&frame)
                .ok_or_else(|| ModelError::protocol("a message cannot be read: it is damaged"))?;
            out.extend(data_of(&message)?);
        }
        Ok(())
    }
}

/// A message: its string headers and its payload.
struct FrameMessage<'a> {
    headers: Vec<(&'a [u8], &'a str)>,
    payload: &'a [u8],
}

impl<'a> FrameMessage<'a> {
    /// Parses one message: total length, header length, checksum of both; headers; payload; checksum of
    /// everything before. `None` if any of it is invalid.
    fn read(frame: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let end = frame.len().checked_sub(4)?;
        let sums = [(8, frame.get(..8)?), (end, frame.get(..end)?)];
        for (at, summed) in sums {
            if number(at)? != crc32fast::hash(summed) {
                return None;
            }
        }
        let headers = usize::try_from(number(4)?).ok()?;
        let (mut rest, payload) = frame.get(12..end)?.split_at_checked(headers)?;
        let mut headers = Vec::new();
        while !rest.is_empty() {
            headers.extend(take_header(&mut rest)?);
        }
        Some(Self { headers, payload })
    }

    fn header(&self, name: &str) -> Option<String> {
        let found = self.headers.iter().find(|header| header.0 == name.as_bytes())?;
        Some(found.1.to_owned())
    }
}

/// Takes the next header. The outer `None` is an error; the inner one is a header that is not a string.
fn take_header<'a>(rest: &mut &'a [u8]) -> Option<Option<(&'a [u8], &'a str)>> {
    let take = |rest: &mut &'a [u8], count: usize| {
        let (taken, after) = rest.split_at_checked(count)?;
        *rest = after;
        Some(taken)
    };
    let long = |rest: &mut &'a [u8]| {
        let length = take(rest, 2)?.first_chunk()?;
        take(rest, u16::from_be_bytes(*length).into())
    };
    let name = usize::from(take(rest, 1)?[0]);
    let name = take(rest, name)?;
    match take(rest, 1)?[0] {
        // Booleans.
        0 | 1 => (),
        kind @ 2..=5 => drop(take(rest, 1 << (kind - 2))?),
        6 => drop(long(rest)?),
        7 => return Some(Some((name, std::str::from_utf8(long(rest)?).ok()?))),
        // Timestamp, UUID.
        8 => drop(take(rest, 8)?),
        9 => drop(take(rest, 16)?),
        _ => return None,
    }
    Some(None)
}

/// Returns the event in a message; `None` for message types without one.
fn data_of(message: &FrameMessage<'_>) -> Result<Option<String>, ModelError> {
    let header = |name: &str| message.header(name);
    let payload: Value = serde_json::from_slice(message.payload).unwrap_or(Value::Null);
    match header(":message-type").as_deref() {
        Some("event") => {}
        Some("exception") => {
            return Err(exception(&header(":exception-type").unwrap_or_default(), message.payload));
        }
        _ => {
            let words = header(":error-message").unwrap_or_else(|| "no message".to_owned());
            return Err(ModelError::Server { status: 500, message: words });
        }
    }
    let Some(data) = payload["bytes"].as_str() else { return Ok(None) };
    let bytes = STANDARD.decode(data).map_err(|_| ModelError::protocol("an event is not base64"))?;
    let text = String::from_utf8(bytes).map_err(|_| ModelError::protocol("an event is not UTF-8"))?;
    Ok(Some(text))
}

/// Converts an exception in the middle of a stream, by its AWS name.
fn exception(kind: &str, payload: &[u8]) -> ModelError {
    let status = match kind {
        "throttlingException" | "serviceQuotaExceededException" => 429,
        "validationException" => 400,
        "accessDeniedException" => 403,
        "resourceNotFoundException" => 404,
        "serviceUnavailableException" => 503,
        _ => 500,
    };
    http_error::of_status(status, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a message with valid checksums.
    fn framed(headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(16 + headers.len() + payload.len()).unwrap();
        let mut out = length.to_be_bytes().to_vec();
        out.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
        out.extend(crc32fast::hash(&out).to_be_bytes());
        out.extend([headers, payload].concat());
        out.extend(crc32fast::hash(&out).to_be_bytes());
        out
    }

    fn header(name: &str, kind: u8, value: &[u8]) -> Vec<u8> {
        let mut out = vec![u8::try_from(name.len()).unwrap()];
        out.extend(name.bytes());
        out.push(kind);
        out.extend(value);
        out
    }

    fn text(name: &str, value: &str) -> Vec<u8> {
        let length = u16::try_from(value.len()).unwrap().to_be_bytes();
        header(name, 7, &[&length, value.as_bytes()].concat())
    }

    fn fed(bytes: &[u8], piece: usize) -> Result<Vec<String>, ModelError> {
        let (mut parser, mut out) = (EventStreamParser::default(), Vec::new());
        bytes.chunks(piece).try_for_each(|piece| parser.feed(piece, &mut out))?;
        Ok(out)
    }

    #[test]
    fn eventstream_headers_of_every_type_are_skipped() {
        let mut headers: Vec<u8> = Vec::new();
        let kinds: [(u8, &[u8]); 9] = [
            (0, &[]),
            (1, &[]),
            (2, &[1]),
            (3, &[0; 2]),
            (4, &[0; 4]),
            (5, &[0; 8]),
            (6, &[0, 3, 1, 2, 3]),
            (8, &[0; 8]),
            (9, &[0; 16]),
        ];
        for (kind, value) in kinds {
            headers.extend(header("x", kind, value));
        }
        headers.extend(text(":message-type", "event"));
        let payload = br#"{"bytes":"e30="}"#;
        let two = [framed(&headers, payload), framed(&headers, payload)].concat();
        for piece in [1, 7, two.len()] {
            assert_eq!(fed(&two, piece).unwrap(), ["{}", "{}"], "{piece}");
        }
        // A message without an event.
        assert!(fed(&framed(&headers, b"{}"), 64).unwrap().is_empty());
    }

    #[test]
    fn damaged_eventstream_is_rejected_without_panic() {
        let whole = framed(&text(":message-type", "event"), br#"{"bytes":"e30="}"#);
        for at in 4..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(fed(&damaged, 64).is_err(), "{at}");
        }
        for headers in [
            vec![5],
            header("x", 10, &[]),
            header("x", 5, &[0; 7]),
            header("x", 6, &[0, 9, 1]),
            header("x", 7, &[0, 1, 0xff]),
            b"\xff".to_vec(),
        ] {
            assert!(fed(&framed(&headers, b"{}"), 64).is_err(), "{headers:?}");
        }
        // Headers longer than the message.
        let mut long = whole.clone();
        long[4..8].copy_from_slice(&1000_u32.to_be_bytes());
        let sum = crc32fast::hash(&long[..8]).to_be_bytes();
        long[8..12].copy_from_slice(&sum);
        let end = long.len() - 4;
        let sum = crc32fast::hash(&long[..end]).to_be_bytes();
        long[end..].copy_from_slice(&sum);
        assert!(fed(&long, 64).is_err());
    }
}
