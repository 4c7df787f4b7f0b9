//! Reads the terminal key by key. Own code, because a line editor would be the largest dependency for
//! three prompts, and a terminal in line mode does not report Esc.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ConsoleInput {
    Line(String),
    /// Esc, Ctrl-C, Ctrl-D, a closed terminal, or a withdrawn prompt.
    GivenUp,
}

/// Shows text and reads lines; tests replace it.
pub(super) trait TerminalLines {
    fn say(&mut self, text: &str) -> io::Result<()>;

    fn line(&mut self, prompt: &str) -> io::Result<ConsoleInput>;
}

/// The controlling terminal in raw mode without echo. Drop restores its modes.
pub(super) struct RawTerminal {
    file: File,
    before: SavedTermios,
    taken_back: Arc<AtomicBool>,
}

/// The terminal modes before raw mode, to restore them from another task when the process has to exit.
/// Clones share them.
#[derive(Clone)]
pub(super) struct SavedTermios(Arc<(File, Termios)>);

impl SavedTermios {
    pub(super) fn restore(&self) {
        // A closed terminal needs no restoring.
        let _gone = tcsetattr(&self.0.0, OptionalActions::Now, &self.0.1);
    }
}

/// How long to wait for a key before checking whether the prompt was withdrawn.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Maximum time between the bytes of one key (escape sequences).
const ONE_KEY: Timespec = Timespec { tv_sec: 0, tv_nsec: 30_000_000 };

/// Maximum characters of a line; a longer one is rejected.
const MAX_CHARS: usize = 10_000;

impl RawTerminal {
    pub(super) fn open(taken_back: Arc<AtomicBool>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&file)?;
        let mut keys = before.clone();
        keys.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        // Also discards what was typed before the prompt was visible.
        tcsetattr(&file, OptionalActions::Flush, &keys)?;
        let before = SavedTermios(Arc::new((file.try_clone()?, before)));
        Ok(Self { file, before, taken_back })
    }

    /// The terminal modes before raw mode.
    pub(super) fn before(&self) -> SavedTermios {
        self.before.clone()
    }

    /// Whether colours are allowed (`NO_COLOR`, `TERM`).
    pub(super) fn colours(&self) -> bool {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
        wanted && std::env::var_os("TERM").is_some_and(|it| it != "dumb")
    }

    /// Waits for a byte, at most `limit`. Returns whether there is one.
    fn waits(&self, limit: &Timespec) -> io::Result<bool> {
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(limit)) {
            Ok(ready) => Ok(0 < ready),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(err) => Err(err.into()),
        }
    }

    /// Reads the next byte; blocks. `None` if the prompt was withdrawn.
    fn byte(&mut self) -> io::Result<Option<u8>> {
        loop {
            if self.taken_back.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if self.waits(&LOOK)? {
                let mut byte = [0];
                return Ok((self.file.read(&mut byte)? != 0).then_some(byte[0]));
            }
        }
    }

    fn key(&mut self) -> io::Result<Key> {
        let Some(first) = self.byte()? else { return Ok(Key::GiveUp) };
        Ok(match first {
            b'\r' | b'\n' => Key::Enter,
            0x03 | 0x04 => Key::GiveUp,
            0x08 | 0x7f => Key::Back,
            0x15 => Key::Clear,
            0x1b => self.after_escape()?,
            b'\t' => Key::Char(' '),
            0..=0x1f => Key::Nothing,
            0x20..=0x7e => Key::Char(char::from(first)),
            _ => self.rest_of_char(first)?,
        })
    }

    /// Reads what follows an Esc byte. Esc alone cancels; the sequences of function keys are ignored.
    fn after_escape(&mut self) -> io::Result<Key> {
        if !self.waits(&ONE_KEY)? {
            return Ok(Key::GiveUp);
        }
        let mut next = self.byte()?;
        if matches!(next, Some(b'[' | b'O')) {
            next = self.byte()?;
            while matches!(next, Some(0x20..=0x3f)) {
                next = self.byte()?;
            }
        }
        Ok(if next.is_some() { Key::Nothing } else { Key::GiveUp })
    }

    fn rest_of_char(&mut self, first: u8) -> io::Result<Key> {
        let more = match first {
            0xc0..=0xdf => 1,
            0xe0..=0xef => 2,
            0xf0..=0xf7 => 3,
            _ => return Ok(Key::Nothing),
        };
        let mut bytes = vec![first];
        while bytes.len() <= more {
            let Some(byte) = self.byte()? else { return Ok(Key::GiveUp) };
            bytes.push(byte);
        }
        let typed = std::str::from_utf8(&bytes).ok().and_then(|it| it.chars().next());
        Ok(typed.filter(|it| !it.is_control()).map_or(Key::Nothing, Key::Char))
    }
}

enum Key {
    Char(char),
    Back,
    Clear,
    Enter,
    GiveUp,
    Nothing,
}

impl TerminalLines for RawTerminal {
    fn say(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())
    }

    fn line(&mut self, prompt: &str) -> io::Result<ConsoleInput> {
        let mut line = String::new();
        let shown = prompt.rsplit('\n').next().unwrap_or(prompt);
        self.say(prompt)?;
        loop {
            match self.key()? {
                Key::Char(it) if line.len() < MAX_CHARS => {
                    line.push(it);
                    self.say(it.encode_utf8(&mut [0; 4]))?;
                }
                Key::Back if line.pop().is_some() => self.say(&format!("\r\u{1b}[K{shown}{line}"))?,
                Key::Clear => {
                    line.clear();
                    self.say(&format!("\r\u{1b}[K{shown}"))?;
                }
                Key::Enter => {
                    self.say("\n")?;
                    return Ok(ConsoleInput::Line(line));
                }
                Key::GiveUp => {
                    self.say("\n")?;
                    return Ok(ConsoleInput::GivenUp);
                }
                Key::Char(_) | Key::Back | Key::Nothing => (),
            }
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.before.restore();
    }
}
