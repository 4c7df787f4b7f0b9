//! Parser for server-sent events.
//!
//! Own implementation because existing libraries fail on unknown lines and do not limit the length of a
//! line, which is unsafe with unknown gateways.

use crate::ModelError;

/// Maximum bytes of an event; a longer one is an error.
const MAX_EVENT: usize = 64 * 1024 * 1024;

/// One server-sent event, with its data lines joined.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SseEvent {
    pub(crate) event: Option<String>,
    pub(crate) data: String,
}

/// Incremental parser.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    event: Option<String>,
    data: Option<String>,
    after_cr: bool,
    past_first_line: bool,
}

impl SseParser {
    /// Processes a chunk of the body, split anywhere, and appends complete events to `out`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), ModelError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                return self.check_size();
            };
            self.after_cr = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&bytes[..end], out)?;
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, out)?;
            }
            bytes = &bytes[end + 1..];
            self.check_size()?;
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), ModelError> {
        if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT {
            return Err(ModelError::protocol("an event has no end"));
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], out: &mut Vec<SseEvent>) -> Result<(), ModelError> {
        let mut line = line;
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            let event = self.event.take();
            if let Some(data) = self.data.take() {
                out.push(SseEvent { event, data });
            }
            return Ok(());
        }
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        // Lossy decoding could change the input of a tool call.
        let text = || std::str::from_utf8(value).map_err(|_| ModelError::protocol("an event is not UTF-8"));
        match name {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(text()?);
                }
                None => self.data = Some(text()?.to_owned()),
            },
            b"event" => self.event = Some(text()?.to_owned()),
            // Older llama.cpp servers report errors in a field of this name.
            b"error" if value.starts_with(b"{") => self.data = Some(format!("{{\"error\":{}}}", text()?)),
            _ => {}
        }
        Ok(())
    }

    /// Handles the end of a body: the last event counts even without a blank line after it.
    pub(crate) fn finish(&mut self, out: &mut Vec<SseEvent>) -> Result<(), ModelError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, out)?;
        }
        self.take_line(b"", out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = SseParser::default();
        let mut out = Vec::new();
        for piece in pieces {
            parser.feed(piece, &mut out).unwrap();
        }
        out.into_iter().map(|it| (it.event.unwrap_or_default(), it.data)).collect()
    }

    #[test]
    fn sse_events_are_parsed() {
        for (body, want) in [
            ("data: a\n\n", vec![("", "a")]),
            ("event: x\ndata: a\ndata: b\n\n", vec![("x", "a\nb")]),
            ("\u{feff}data: a\n\n", vec![("", "a")]),
            ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", vec![("", "a"), ("", "b"), ("", "c")]),
            (": ping\n\nid: 7\nretry: soon\nwhat: ever\nnonsense\ndata:a\n\n", vec![("", "a")]),
            ("data\n\n", vec![("", "")]),
            ("event: x\n\ndata: a\n\n", vec![("", "a")]),
            ("event: x\nevent: y\ndata: a\n\n", vec![("y", "a")]),
            ("data: cut", vec![]),
            ("data:  two blanks\n\n", vec![("", " two blanks")]),
            ("error: {\"code\":500}\n\n", vec![("", "{\"error\":{\"code\":500}}")]),
            ("error: soon\n\n", vec![]),
        ] {
            let want: Vec<_> = want.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
            assert_eq!(parse(&[body.as_bytes()]), want, "{body:?}");
            for cut in 0..body.len() {
                let (head, tail) = body.as_bytes().split_at(cut);
                assert_eq!(parse(&[head, tail]), want, "{body:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn last_sse_event_needs_no_blank_line() {
        for (body, want) in [
            ("data: a\n\ndata: b", vec!["a", "b"]),
            ("data: a\n\ndata: b\n", vec!["a", "b"]),
            ("data: a\r\n\r\n", vec!["a"]),
            ("", vec![]),
            ("event: x\n", vec![]),
        ] {
            let mut parser = SseParser::default();
            let mut out = Vec::new();
            parser.feed(body.as_bytes(), &mut out).unwrap();
            parser.finish(&mut out).unwrap();
            let data: Vec<&str> = out.iter().map(|it| it.data.as_str()).collect();
            assert_eq!(data, want, "{body:?}");
        }
    }

    #[test]
    fn invalid_utf8_in_sse_is_an_error() {
        let mut parser = SseParser::default();
        assert!(parser.feed(b"data: \xff\n\n", &mut Vec::new()).is_err());
    }

    #[test]
    fn endless_sse_line_is_an_error() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1024 * 1024];
        let fed = (0..80).try_for_each(|_| parser.feed(&piece, &mut Vec::new()));
        assert!(fed.is_err());
    }

    proptest! {
        #[test]
        fn sse_chunk_boundaries_do_not_matter(
            body in "(data: |event: |:|\n|\r|\r\n|x|é){0,30}",
            cuts in proptest::collection::vec(0_usize..100, 0..6),
        ) {
            let bytes = body.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(parse(&pieces), parse(&[bytes]));
        }
    }
}
