//! Bytes of the terminal as keys.
//!
//! Written here and not taken from a library because we must see where a read
//! ended: it tells Esc from Alt, and a paste without brackets from typing.

mod pasted;

use std::collections::VecDeque;

use self::pasted::{OpenPaste, PasteStep};
use crate::event::{KeyCode, KeyPress};

/// What bytes mean.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InputItem {
    /// A key.
    Key(KeyPress),
    /// Pasted text.
    Paste(String),
    /// What was pasted last goes on.
    PasteMore(String),
    /// The terminal has the keyboard, or not.
    Focus(bool),
    /// The terminal says what its background is.
    Background(crate::theme::TermBackground),
    /// The terminal says in which column its cursor is, counted from 0.
    Column(usize),
    /// The terminal says what size it has.
    Size(crate::app_state::ScreenSize),
}

/// Longest sequence that is waited for; longer ones are no keys.
const LONGEST_SEQUENCE: usize = 64;
/// Longest answer about the background.
const LONGEST_ANSWER: usize = 40;
/// An escape that nothing follows for so long is the key, and text that nothing
/// follows for so long was all of it.
const ESCAPE_MS: u64 = 20;
/// The same while an answer of the terminal is expected: it begins with an escape.
const ANSWER_ESCAPE_MS: u64 = 120;
/// The rest of a sequence or character is waited for so long: lines are slow.
const SEQUENCE_MS: u64 = 200;
/// Who pastes so much does not type behind it at once: the rest is waited for as long as that
/// of a sequence.
const LONG_BURST: usize = 2000;
/// The rest of an answer is waited for so long.
const ANSWER_MS: u64 = 1000;

/// Turns bytes into keys. The same bytes give the same keys however they are
/// split, but for what a split itself tells: Esc, and bursts.
#[derive(Clone, Debug, Default)]
pub struct InputDecoder {
    /// Bytes that are not understood yet.
    held: Vec<u8>,
    /// A paste with brackets.
    paste: Option<OpenPaste>,
    items: VecDeque<InputItem>,
    /// Whether the last bytes were a burst: a line break at the end of the next
    /// ones belongs to it.
    in_burst: bool,
    /// Bytes of the burst.
    burst: usize,
    /// Whether the last text that was pasted goes on, and ended in a carriage return.
    goes_on: Option<bool>,
    /// How many times the terminal was asked where its cursor is: an answer looks
    /// like a function key.
    columns_asked: usize,
    /// Whether the terminal was asked for its background and has not answered.
    background_asked: bool,
}

const PASTE_BEGIN: &[u8] = b"\x1b[200~";
/// How an answer about the background begins.
const BACKGROUND: &[u8] = b"\x1b]11;";

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
        // An answer whose first byte came so long before that it was taken for a key.
        let lost_its_escape = self.held.is_empty() && bytes.starts_with(b"]11;rgb");
        if self.background_asked && self.paste.is_none() && lost_its_escape {
            self.held.push(0x1b);
        }
        if self.paste.is_none() && (self.held.is_empty() || self.in_burst) {
            // The beginning of a character that the last read cut.
            let joined = [self.held.as_slice(), bytes].concat();
            if self.take_burst(&joined) {
                return;
            }
        }
        (self.in_burst, self.goes_on) = (false, self.goes_on.filter(|_| self.paste.is_some()));
        self.held.extend_from_slice(bytes);
        self.parse();
    }

    /// So many answers about the cursor are to come.
    pub fn expect_columns(&mut self, count: usize) {
        self.columns_asked = count;
    }

    /// The terminal was asked for its background.
    pub fn expect_background(&mut self) {
        self.background_asked = true;
    }

    /// Nothing more came: an escape that waits is the key, and so is one with a
    /// letter that could have begun something longer.
    pub fn flush(&mut self) {
        self.in_burst = false;
        if self.paste.is_some() {
            return;
        }
        self.goes_on = None;
        let held = std::mem::take(&mut self.held);
        match held.as_slice() {
            [0x1b] => self.push_key(KeyPress::plain(KeyCode::Esc)),
            [0x1b, letter @ (b'[' | b'O' | b']')] => {
                let code = KeyCode::Char(char::from(*letter));
                self.push_key(KeyPress { alt: true, ..KeyPress::plain(code) });
            }
            // An answer without an end may be one all the same.
            held if held.starts_with(BACKGROUND) => {
                self.items.extend(terminal_answer(held));
                self.background_asked = false;
            }
            _ => (),
        }
    }

    /// Whether the rest of an answer about the background is to come.
    fn is_answering(&self) -> bool {
        let begins = self.background_asked && 1 < self.held.len() && BACKGROUND.starts_with(&self.held);
        begins || self.held.starts_with(BACKGROUND)
    }

    /// In how many milliseconds what waits for more bytes is to be flushed, if
    /// anything does.
    pub fn patience_ms(&self) -> Option<u64> {
        if self.paste.is_some() {
            return None;
        }
        Some(match self.held.as_slice() {
            [] if !self.in_burst => return None,
            [] if LONG_BURST < self.burst => SEQUENCE_MS,
            [] => ESCAPE_MS,
            _ if self.is_answering() => ANSWER_MS,
            [0x1b] if self.background_asked => ANSWER_ESCAPE_MS,
            [0x1b] => ESCAPE_MS,
            _ => SEQUENCE_MS,
        })
    }

    /// The next thing that was understood.
    pub fn next_item(&mut self) -> Option<InputItem> {
        self.items.pop_front()
    }

    fn push_key(&mut self, key: KeyPress) {
        self.items.push_back(InputItem::Key(key));
    }

    /// Text with line breaks that arrives at once was pasted, even if the
    /// terminal does not say so, and so was what follows at once. A break at the very
    /// end of the first bytes was typed.
    fn take_burst(&mut self, bytes: &[u8]) -> bool {
        let is_text = |it: &u8| *it >= 0x20 && *it != 0x7f || matches!(*it, b'\r' | b'\n' | b'\t');
        let is_break = |it: &u8| matches!(*it, b'\r' | b'\n');
        let last = bytes.len().saturating_sub(1);
        let breaks_inside = bytes.iter().take(last).any(is_break) && bytes.iter().any(|it| !is_break(it));
        if !bytes.iter().all(is_text) || !(breaks_inside || self.in_burst) {
            return false;
        }
        // A character may be cut; its rest comes with the next bytes.
        let whole = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(err) if err.error_len().is_none() => err.valid_up_to(),
            Err(_) => bytes.len(),
        };
        self.push_paste(&bytes[..whole], /*is_all*/ false);
        self.held = bytes[whole..].to_vec();
        self.burst = bytes.len() + if self.in_burst { self.burst } else { 0 };
        self.in_burst = true;
        true
    }

    /// Hands pasted text out, as lines.
    fn push_paste(&mut self, bytes: &[u8], is_all: bool) {
        let before = self.goes_on;
        // A line break that was cut in two is one.
        let bytes = match before {
            Some(true) => bytes.strip_prefix(b"\n").unwrap_or(bytes),
            _ => bytes,
        };
        let text = String::from_utf8_lossy(bytes);
        let text = if text.contains('\r') {
            text.replace("\r\n", "\n").replace('\r', "\n")
        } else {
            text.into_owned()
        };
        self.goes_on = (!is_all).then_some(bytes.last() == Some(&b'\r'));
        match self.items.back_mut() {
            Some(InputItem::Paste(it) | InputItem::PasteMore(it)) if before.is_some() => it.push_str(&text),
            _ if before.is_some() => self.items.push_back(InputItem::PasteMore(text)),
            _ => self.items.push_back(InputItem::Paste(text)),
        }
    }

    fn parse(&mut self) {
        loop {
            if let Some(paste) = &mut self.paste {
                match paste.take(&mut self.held) {
                    PasteStep::More => return,
                    PasteStep::Part(bytes) => return self.push_paste(&bytes, /*is_all*/ false),
                    PasteStep::End(bytes) => {
                        self.paste = None;
                        self.push_paste(&bytes, /*is_all*/ true);
                    }
                }
            }
            match parse_one(&self.held) {
                ParsedInput::More => {
                    if LONGEST_SEQUENCE < self.held.len() {
                        self.held.clear();
                    }
                    return;
                }
                ParsedInput::Item(length, item) => {
                    let column = cursor_column(&self.held[..length]).filter(|_| 0 < self.columns_asked);
                    self.columns_asked -= usize::from(column.is_some());
                    self.background_asked &= !matches!(item, Some(InputItem::Background(_)));
                    self.held.drain(..length);
                    self.items.extend(column.map(InputItem::Column).or(item));
                }
                ParsedInput::PasteBegins(length) => {
                    self.held.drain(..length);
                    self.paste = Some(OpenPaste::default());
                }
            }
        }
    }
}

/// The column of an answer about the cursor: `ESC [ row ; column R`.
fn cursor_column(bytes: &[u8]) -> Option<usize> {
    let inner = bytes.strip_prefix(b"\x1b[")?.strip_suffix(b"R")?;
    let (row, column) = std::str::from_utf8(inner).ok()?.split_once(';')?;
    row.parse::<usize>().ok()?;
    column.parse::<usize>().ok()?.checked_sub(1)
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
    if let Some(length) = broken_answer(bytes) {
        return ParsedInput::Item(length, None);
    }
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

/// How long an answer about the background is that broke off: what stands behind it
/// was typed.
fn broken_answer(bytes: &[u8]) -> Option<usize> {
    let body = bytes.strip_prefix(BACKGROUND)?;
    let fits = |it: &u8| it.is_ascii_hexdigit() || matches!(it, b'r' | b'g' | b':' | b'/' | b';' | b'#');
    let length = body.iter().take_while(|it| fits(it)).count();
    let may_end = matches!(body[length..], [] | [7, ..] | [0x1b] | [0x1b, b'\\', ..]);
    (!may_end || LONGEST_ANSWER < length).then_some(BACKGROUND.len() + length.min(LONGEST_ANSWER))
}

/// What the terminal answered, if we asked for it.
fn terminal_answer(bytes: &[u8]) -> Option<InputItem> {
    let text = std::str::from_utf8(bytes.strip_prefix(BACKGROUND)?).ok()?;
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
        return if bytes[2..].iter().all(|it| (0x20..0x40).contains(it)) {
            ParsedInput::More
        } else {
            // Something else begins in the middle: what stands before is no key.
            ParsedInput::Item(2, None)
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
        (_, b't') => screen_size(arguments).map(InputItem::Size),
        _ => csi_key(&String::from_utf8_lossy(arguments), last).map(InputItem::Key),
    };
    ParsedInput::Item(length, item)
}

/// The size in an answer about it: `ESC [ 8 ; rows ; columns t`.
fn screen_size(arguments: &[u8]) -> Option<crate::app_state::ScreenSize> {
    let (rows, columns) = std::str::from_utf8(arguments).ok()?.strip_prefix("8;")?.split_once(';')?;
    Some(crate::app_state::ScreenSize { columns: columns.parse().ok()?, rows: rows.parse().ok()? })
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
