//! Converts terminal output to plain text for models, transcripts and terminals.
//!
//! Own code, because libraries strip escape sequences but do not also collapse redrawn lines, show
//! invalid bytes instead of replacing them, and accept chunks of any size.

use std::fmt::Write as _;

/// A line longer than this many bytes is emitted in pieces.
const PIECE: usize = 16 << 10;
/// Bytes after which an unterminated control string (OSC, DCS, …) is treated as text.
const LONGEST_STRING: usize = 4096;

/// Plain text of one line or part of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PlainPiece<'a> {
    /// Text without line breaks and control characters.
    pub text: &'a str,
    /// Whether the line ends after this piece.
    pub ends_line: bool,
}

/// Incremental converter from raw terminal output to plain lines. Chunks may be split anywhere.
///
/// * Escape sequences are removed; a redrawn line (`\r`, erase line, cursor to column one) shows
///   its last state.
/// * Control and invalid bytes are shown as `\x00`; characters that reorder or hide text as
///   `\u{202e}`.
#[derive(Debug, Default)]
pub struct AnsiStripper {
    state: EscapeState,
    line: String,
    /// Start of an incomplete UTF-8 character.
    carry: Vec<u8>,
    /// The next visible character overwrites the line from its start.
    redraw: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum EscapeState {
    #[default]
    Ground,
    Escape,
    /// After `ESC (` and similar: one more byte follows.
    Intermediate,
    /// In a control sequence: value of the first parameter, and whether it is the only one.
    Control {
        first: u16,
        plain: bool,
    },
    /// Inside OSC, DCS, SOS, PM or APC; bytes so far.
    Text(usize),
    TextEscape,
}

impl AnsiStripper {
    /// Processes a chunk and passes complete pieces to `sink`.
    pub fn feed(&mut self, mut bytes: &[u8], mut sink: impl FnMut(PlainPiece<'_>)) {
        while let Some(&byte) = bytes.first() {
            if self.state == EscapeState::Ground {
                let plain = bytes.iter().position(|it| !is_plain(*it)).unwrap_or(bytes.len());
                if 0 < plain {
                    self.text(&bytes[..plain], plain == bytes.len());
                    bytes = &bytes[plain..];
                    self.hand_on_long_line(&mut sink);
                    continue;
                }
            }
            if self.step(byte, &mut sink) {
                bytes = &bytes[1..];
            }
        }
    }

    /// Passes the remaining text to `sink`.
    pub fn finish(&mut self, mut sink: impl FnMut(PlainPiece<'_>)) {
        self.flush_carry();
        if !self.line.is_empty() {
            sink(PlainPiece { text: &self.line, ends_line: false });
        }
        *self = Self::default();
    }

    /// Processes one byte that is not plain text. Returns false if the byte must be processed again in
    /// the new state.
    fn step(&mut self, byte: u8, sink: &mut impl FnMut(PlainPiece<'_>)) -> bool {
        match self.state {
            EscapeState::Ground => self.control(byte, sink),
            EscapeState::Escape => {
                self.state = match byte {
                    b'[' => EscapeState::Control { first: 0, plain: true },
                    b']' | b'P' | b'X' | b'^' | b'_' => EscapeState::Text(0),
                    b' '..=b'/' => EscapeState::Intermediate,
                    b'\n' | b'\r' | 0x1b => {
                        self.state = EscapeState::Ground;
                        return false;
                    }
                    _ => EscapeState::Ground,
                };
            }
            EscapeState::Intermediate => match byte {
                b' '..=b'/' => {}
                b'\n' | b'\r' | 0x1b => {
                    self.state = EscapeState::Ground;
                    return false;
                }
                _ => self.state = EscapeState::Ground,
            },
            EscapeState::Control { first, plain } => return self.control_sequence(byte, first, plain),
            EscapeState::Text(len) => match byte {
                0x07 => self.state = EscapeState::Ground,
                0x1b => self.state = EscapeState::TextEscape,
                b'\n' => {
                    self.state = EscapeState::Ground;
                    return false;
                }
                _ if LONGEST_STRING < len => self.state = EscapeState::Ground,
                _ => self.state = EscapeState::Text(len + 1),
            },
            EscapeState::TextEscape => {
                self.state = EscapeState::Ground;
                if byte != b'\\' {
                    self.state = EscapeState::Escape;
                    return false;
                }
            }
        }
        true
    }

    fn control_sequence(&mut self, byte: u8, first: u16, plain: bool) -> bool {
        match byte {
            b'0'..=b'9' if plain => {
                let first = first.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                self.state = EscapeState::Control { first, plain };
            }
            b' '..=b'?' => self.state = EscapeState::Control { first, plain: false },
            b'@'..=b'~' => {
                // Erase line and "cursor to column one" are used for redrawing.
                self.redraw |= plain && matches!((byte, first), (b'K', 2) | (b'G', 0 | 1));
                self.state = EscapeState::Ground;
            }
            _ => {
                self.state = EscapeState::Ground;
                return false;
            }
        }
        true
    }

    fn control(&mut self, byte: u8, sink: &mut impl FnMut(PlainPiece<'_>)) {
        self.flush_carry();
        match byte {
            b'\n' => {
                sink(PlainPiece { text: &self.line, ends_line: true });
                self.line.clear();
                self.redraw = false;
            }
            b'\r' => self.redraw = true,
            0x1b => self.state = EscapeState::Escape,
            0x08 => {
                self.line.pop();
            }
            0x07 => {}
            other => {
                self.begin_frame();
                write!(self.line, "\\x{other:02x}").ok();
                self.hand_on_long_line(sink);
            }
        }
    }

    /// Processes bytes without control characters.
    fn text(&mut self, bytes: &[u8], at_end: bool) {
        self.begin_frame();
        if self.carry.is_empty() {
            self.decode(bytes, at_end);
        } else {
            let mut joined = std::mem::take(&mut self.carry);
            joined.extend_from_slice(bytes);
            self.decode(&joined, at_end);
        }
    }

    fn decode(&mut self, mut bytes: &[u8], at_end: bool) {
        loop {
            match std::str::from_utf8(bytes) {
                Ok(text) => return push_visible(&mut self.line, text),
                Err(err) => {
                    let (valid, rest) = bytes.split_at(err.valid_up_to());
                    push_visible(&mut self.line, std::str::from_utf8(valid).unwrap_or_default());
                    let bad = match err.error_len() {
                        None if at_end => {
                            self.carry = rest.to_vec();
                            return;
                        }
                        None => rest.len(),
                        Some(len) => len,
                    };
                    push_bytes(&mut self.line, &rest[..bad]);
                    bytes = &rest[bad..];
                }
            }
        }
    }

    fn flush_carry(&mut self) {
        let carry = std::mem::take(&mut self.carry);
        push_bytes(&mut self.line, &carry);
    }

    fn begin_frame(&mut self) {
        if std::mem::take(&mut self.redraw) {
            self.line.clear();
        }
    }

    fn hand_on_long_line(&mut self, sink: &mut impl FnMut(PlainPiece<'_>)) {
        if PIECE < self.line.len() {
            sink(PlainPiece { text: &self.line, ends_line: false });
            self.line.clear();
        }
    }
}

/// Converts complete output to plain text; see [`AnsiStripper`].
pub fn clean(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut cleaner = AnsiStripper::default();
    let mut push = |piece: PlainPiece<'_>| {
        out.push_str(piece.text);
        if piece.ends_line {
            out.push('\n');
        }
    };
    cleaner.feed(bytes, &mut push);
    cleaner.finish(&mut push);
    out
}

fn is_plain(byte: u8) -> bool {
    byte == b'\t' || (b' ' <= byte && byte != 0x7f)
}

fn push_visible(line: &mut String, text: &str) {
    if text.is_ascii() {
        line.push_str(text);
        return;
    }
    for it in text.chars() {
        if hides_text(it) {
            write!(line, "{}", it.escape_unicode()).ok();
        } else {
            line.push(it);
        }
    }
}

fn push_bytes(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(line, "\\x{byte:02x}").ok();
    }
}

/// Whether it is a C1 control, a bidirectional override or isolate, or a tag character.
fn hides_text(it: char) -> bool {
    matches!(it, '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ansi_stripper_shows_final_state_of_lines() {
        for (raw, want) in [
            (&b"plain\n"[..], "plain\n"),
            (b"a\tb", "a\tb"),
            (b"\x1b[31mred\x1b[0m\n", "red\n"),
            (b"10%\r50%\r100%\n", "100%\n"),
            (b"windows\r\nlines\r\n", "windows\nlines\n"),
            (b"50%\r", "50%"),
            (b"half\x1b[2K\x1b[1Gdone\n", "done\n"),
            (b"a\x1b[2;3Hb", "ab"),
            (b"\x1b]0;title\x07x\x1b]8;;url\x1b\\y", "xy"),
            (b"\x1b]52;c;aGk=\x07", ""),
            (b"\x1b]never closed\nnext\n", "\nnext\n"),
            (b"\x1b(Bx\x1b=y\x1bcz", "xyz"),
            (b"\x1b[?1049h\x1b[?1000hx", "x"),
            (b"nul\x00byte\x7f\x01", "nul\\x00byte\\x7f\\x01"),
            (b"\xff\xfe ok \xe9", "\\xff\\xfe ok \\xe9"),
            (b"ab\x08c bell\x07", "ac bell"),
            ("é日本😀".as_bytes(), "é日本😀"),
            ("a\u{202e}b\u{9b}c\u{e0041}".as_bytes(), "a\\u{202e}b\\u{9b}c\\u{e0041}"),
            (b"\x1b[31", ""),
            (b"\x1b[3\nx", "\nx"),
            (b"x\x1b\x1b[1my", "xy"),
        ] {
            assert_eq!(clean(raw), want, "{:?}", String::from_utf8_lossy(raw));
        }
    }

    #[test]
    fn ansi_stripper_emits_long_line_in_pieces() {
        let raw = vec![b'x'; 100_000];
        let mut pieces = 0;
        let mut total = 0;
        let mut cleaner = AnsiStripper::default();
        for chunk in raw.chunks(1_000) {
            cleaner.feed(chunk, |piece| {
                pieces += 1;
                total += piece.text.len();
                assert!(piece.text.len() <= PIECE + 1_000 && !piece.ends_line);
            });
        }
        cleaner.finish(|piece| total += piece.text.len());
        assert!(4 < pieces && total == 100_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        #[test]
        fn ansi_stripper_output_is_independent_of_chunk_size(
            raw in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x1b), Just(b'['), Just(b'\r'), Just(b'\n'), Just(0xe6), Just(0x97)], 0..200),
            size in 1_usize..7,
        ) {
            let whole = clean(&raw);
            let mut cut = String::new();
            let mut cleaner = AnsiStripper::default();
            let mut push = |piece: PlainPiece<'_>| {
                cut.push_str(piece.text);
                if piece.ends_line { cut.push('\n'); }
            };
            for chunk in raw.chunks(size) { cleaner.feed(chunk, &mut push); }
            cleaner.finish(&mut push);
            prop_assert_eq!(&whole, &cut);
            prop_assert!(!whole.chars().any(|it| it.is_control() && it != '\n' && it != '\t'));
        }
    }
}
