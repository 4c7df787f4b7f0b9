//! Bytes of the terminal as keys.
//!
//! Written here and not taken from a library because we must see where a read
//! ended: it tells Esc from Alt, and a paste without brackets from typing.

use std::collections::VecDeque;

use crate::event::{KeyCode, KeyPress};

/// What bytes mean.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InputItem {
    /// A key.
    Key(KeyPress),
    /// Pasted text.
    Paste(String),
    /// The terminal has the keyboard, or not.
    Focus(bool),
    /// The terminal says what its background is.
    Background(crate::theme::TermBackground),
}

/// Longest sequence that is waited for; longer ones are no keys.
const LONGEST_SEQUENCE: usize = 64;
/// A paste that never ends is handed out in parts of this size.
const LONGEST_PASTE: usize = 32 << 20;

/// Turns bytes into keys. The same bytes give the same keys however they are
/// split, but for what a split itself tells: Esc, and bursts.
#[derive(Clone, Debug, Default)]
pub struct InputDecoder {
    /// Bytes that are not understood yet.
    held: Vec<u8>,
    /// Bytes of a paste with brackets.
    paste: Option<Vec<u8>>,
    items: VecDeque<InputItem>,
    /// Whether the last bytes were a burst: a line break at the end of the next
    /// ones belongs to it.
    in_burst: bool,
}

const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

enum ParsedInput {
    /// So many bytes mean this.
    Item(usize, Option<InputItem>),
    /// More bytes are needed.
    More,
    PasteBegins(usize),
}

impl InputDecoder {
    /// Takes the bytes of one read.
    pub fn feed(&mut self, bytes: &[u8]) {
        let begins_with_lone_escape =
            self.held == [0x1b] && !matches!(bytes.first(), Some(b'[' | b'O' | b']'));
        if begins_with_lone_escape && self.paste.is_none() {
            self.flush();
        }
        if self.paste.is_none() && self.held.is_empty() && self.take_burst(bytes) {
            return;
        }
        self.in_burst = false;
        self.held.extend_from_slice(bytes);
        self.parse();
    }

    /// Nothing more came: an escape that waits is the key.
    pub fn flush(&mut self) {
        self.in_burst = false;
        if self.paste.is_some() || self.held.is_empty() || self.is_answering() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        if held[0] == 0x1b {
            self.push_key(KeyPress::plain(KeyCode::Esc));
            if 1 < held.len() && held[1] != b'[' && held[1] != b'O' && held[1] != b']' {
                self.held = held[1..].to_vec();
                self.parse();
            }
        }
    }

    /// Whether the rest of an answer of the terminal is to come.
    fn is_answering(&self) -> bool {
        self.held.starts_with(b"\x1b]11;")
    }

    /// Whether something waits for more bytes that may never come.
    pub fn is_waiting(&self) -> bool {
        if self.is_answering() {
            return false;
        }
        self.in_burst || (self.paste.is_none() && !self.held.is_empty())
    }

    /// The next thing that was understood.
    pub fn next_item(&mut self) -> Option<InputItem> {
        self.items.pop_front()
    }

    fn push_key(&mut self, key: KeyPress) {
        self.items.push_back(InputItem::Key(key));
    }

    /// Text with line breaks that arrives at once was pasted, even if the
    /// terminal does not say so. A break at its very end was typed, unless more
    /// of a paste came just before.
    fn take_burst(&mut self, bytes: &[u8]) -> bool {
        let is_text = |it: &u8| *it >= 0x20 && *it != 0x7f || matches!(*it, b'\r' | b'\n' | b'\t');
        let is_break = |it: &u8| matches!(*it, b'\r' | b'\n');
        let last = bytes.len().saturating_sub(1);
        let breaks_inside = bytes.iter().take(last).any(is_break) && bytes.iter().any(|it| !is_break(it));
        let goes_on = self.in_burst && 1 < bytes.len();
        if !bytes.iter().all(is_text) || !(breaks_inside || goes_on) {
            return false;
        }
        // A character may be cut; its rest comes with the next bytes.
        let whole = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(err) if err.error_len().is_none() => err.valid_up_to(),
            Err(_) => bytes.len(),
        };
        self.push_paste(&bytes[..whole]);
        self.held.extend_from_slice(&bytes[whole..]);
        self.in_burst = true;
        true
    }

    fn push_paste(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
        match self.items.back_mut() {
            Some(InputItem::Paste(before)) if self.in_burst => before.push_str(&text),
            _ => self.items.push_back(InputItem::Paste(text)),
        }
    }

    fn parse(&mut self) {
        loop {
            if let Some(paste) = &mut self.paste {
                paste.append(&mut self.held);
                let from = paste.len().saturating_sub(LONGEST_PASTE + PASTE_END.len());
                let Some(end) = find(&paste[from..], PASTE_END).map(|at| from + at) else {
                    if LONGEST_PASTE < paste.len() {
                        let part = std::mem::take(paste);
                        self.push_paste(&part);
                    }
                    return;
                };
                let mut whole = self.paste.take().unwrap_or_default();
                self.held = whole.split_off(end + PASTE_END.len());
                whole.truncate(end);
                self.in_burst = false;
                self.push_paste(&whole);
            }
            match parse_one(&self.held) {
                ParsedInput::More => {
                    if LONGEST_SEQUENCE < self.held.len() {
                        self.held.clear();
                    }
                    return;
                }
                ParsedInput::Item(length, item) => {
                    self.held.drain(..length);
                    self.items.extend(item);
                }
                ParsedInput::PasteBegins(length) => {
                    self.held.drain(..length);
                    self.paste = Some(Vec::new());
                }
            }
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|it| it == what)
}

fn parse_one(bytes: &[u8]) -> ParsedInput {
    let Some(&first) = bytes.first() else { return ParsedInput::More };
    if first == 0x1b {
        return parse_escape(bytes);
    }
    let key = |length, key| ParsedInput::Item(length, Some(InputItem::Key(key)));
    if let Some(press) = control(first) {
        return key(1, press);
    }
    let length = match first {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        // Not the beginning of a character.
        _ => return ParsedInput::Item(1, None),
    };
    let Some(char) = bytes.get(..length) else { return ParsedInput::More };
    match std::str::from_utf8(char).ok().and_then(|it| it.chars().next()) {
        Some(char) => key(length, KeyPress::plain(KeyCode::Char(char))),
        None => ParsedInput::Item(1, None),
    }
}

fn control(byte: u8) -> Option<KeyPress> {
    Some(match byte {
        b'\r' => KeyPress::plain(KeyCode::Enter),
        b'\t' => KeyPress::plain(KeyCode::Tab),
        0x7f | 0x08 => KeyPress::plain(KeyCode::Backspace),
        0 => KeyPress::ctrl(' '),
        1..=0x1a => KeyPress::ctrl(char::from(b'a' + byte - 1)),
        0x1c..=0x1f => KeyPress::ctrl(char::from(b'4' + byte - 0x1c)),
        _ => return None,
    })
}

fn parse_escape(bytes: &[u8]) -> ParsedInput {
    let Some(&second) = bytes.get(1) else { return ParsedInput::More };
    match second {
        b'[' => parse_csi(bytes),
        b'O' => match bytes.get(2) {
            None => ParsedInput::More,
            Some(&last) => {
                ParsedInput::Item(3, letter(last).map(|code| InputItem::Key(KeyPress::plain(code))))
            }
        },
        // Answers to questions nobody asked: OSC, DCS, APC.
        b']' | b'P' | b'_' | b'^' if 2 < bytes.len() => {
            let end = bytes.iter().position(|it| *it == 7).map(|at| at + 1);
            let end = end.or_else(|| find(&bytes[2..], b"\x1b\\").map(|at| at + 4));
            end.map_or(ParsedInput::More, |end| ParsedInput::Item(end, terminal_answer(&bytes[..end])))
        }
        b']' => ParsedInput::More,
        0x1b => match parse_escape(&bytes[1..]) {
            ParsedInput::Item(length, Some(InputItem::Key(key))) => {
                ParsedInput::Item(length + 1, Some(InputItem::Key(KeyPress { alt: true, ..key })))
            }
            // Esc, and something that is no key.
            _ => ParsedInput::Item(1, Some(InputItem::Key(KeyPress::plain(KeyCode::Esc)))),
        },
        _ => match parse_one(&bytes[1..]) {
            ParsedInput::Item(length, Some(InputItem::Key(key))) => {
                ParsedInput::Item(length + 1, Some(InputItem::Key(KeyPress { alt: true, ..key })))
            }
            ParsedInput::Item(length, _) => ParsedInput::Item(length + 1, None),
            _ => ParsedInput::More,
        },
    }
}

/// What the terminal answered, if we asked for it.
fn terminal_answer(bytes: &[u8]) -> Option<InputItem> {
    let text = std::str::from_utf8(bytes).ok()?.strip_prefix("\x1b]11;")?;
    let text = text.trim_end_matches(['\u{7}', '\\', '\u{1b}']);
    crate::theme::TermBackground::of_answer(text).map(InputItem::Background)
}

fn parse_csi(bytes: &[u8]) -> ParsedInput {
    // The console's function keys: `ESC [ [ A`.
    if bytes.get(2) == Some(&b'[') {
        return match bytes.get(3) {
            None => ParsedInput::More,
            Some(it @ b'A'..=b'E') => {
                ParsedInput::Item(4, Some(InputItem::Key(KeyPress::plain(KeyCode::F(it - b'A' + 1)))))
            }
            Some(_) => ParsedInput::Item(4, None),
        };
    }
    let Some(end) = bytes.iter().skip(2).position(|it| (0x40..0x7f).contains(it)).map(|at| at + 2) else {
        return match bytes[2..].iter().all(|it| (0x20..0x40).contains(it)) {
            true => ParsedInput::More,
            // Something else begins in the middle: what stands before is no key.
            false => ParsedInput::Item(2, None),
        };
    };
    let (arguments, last, length) = (&bytes[2..end], bytes[end], end + 1);
    if arguments.iter().any(|it| !(0x20..0x40).contains(it)) {
        return ParsedInput::Item(2, None);
    }
    if bytes[..length] == *PASTE_BEGIN {
        return ParsedInput::PasteBegins(length);
    }
    let item = match (arguments, last) {
        ([], b'I') => Some(InputItem::Focus(true)),
        ([], b'O') => Some(InputItem::Focus(false)),
        _ => csi_key(&String::from_utf8_lossy(arguments), last).map(InputItem::Key),
    };
    ParsedInput::Item(length, item)
}

/// A key with its arguments: `1;5A`, `3~`, `13;2u`, `27;2;13~`.
fn csi_key(arguments: &str, last: u8) -> Option<KeyPress> {
    let mut parts = arguments.split(';').map(|part| {
        let mut sub = part.split(':').map(|it| it.parse::<u32>().unwrap_or(0));
        (sub.next().unwrap_or(0), sub.next().unwrap_or(0))
    });
    let (first, second, third) = (parts.next()?, parts.next().unwrap_or((1, 0)), parts.next());
    // A key that was let go of.
    if second.1 == 3 {
        return None;
    }
    let (code, held) = match last {
        b'u' => (coded(first.0)?, second.0),
        b'~' if first.0 == 27 => (coded(third?.0)?, second.0),
        b'~' => (numbered(first.0)?, second.0),
        b'Z' => (KeyCode::Tab, 2),
        _ => (letter(last)?, second.0),
    };
    let held = held.saturating_sub(1);
    let mut key = KeyPress { code, shift: held & 1 != 0, alt: held & 2 != 0, ctrl: held & 4 != 0 };
    if let KeyCode::Char(it) = key.code {
        if key.shift && !key.ctrl {
            key.code = it.to_uppercase().next().map_or(key.code, KeyCode::Char);
        }
        key.shift = key.shift && key.ctrl;
    }
    Some(key)
}

fn coded(code: u32) -> Option<KeyCode> {
    Some(match code {
        13 | 57414 => KeyCode::Enter,
        27 => KeyCode::Esc,
        9 => KeyCode::Tab,
        127 | 8 => KeyCode::Backspace,
        // Modifiers and media keys alone.
        57344..=63743 => return None,
        _ => KeyCode::Char(char::from_u32(code).filter(|it| !it.is_control())?),
    })
}

fn numbered(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(u8::try_from(number - 10).ok()?),
        17..=21 => KeyCode::F(u8::try_from(number - 11).ok()?),
        23 | 24 => KeyCode::F(u8::try_from(number - 12).ok()?),
        _ => return None,
    })
}

fn letter(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'M' => KeyCode::Enter,
        b'P'..=b'S' => KeyCode::F(last - b'P' + 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
