//! The thread that owns the terminal.
//!
//! It waits only for keys, updates and the times the state asks for, so that the session's work cannot
//! delay a key. Keys are painted at once, updates at most thirty times per second, and when nothing
//! changes the thread sleeps. Output is not queued: the next frame is created only when the terminal has
//! accepted the last one.

mod crash;
mod cursor_parking;
mod event_loop;
mod full_screen;
mod mailbox;
mod resize_debounce;
mod stderr_capture;
mod tty;

use std::{io, sync::Arc, thread::JoinHandle};

use crate::{
    effect::TermEffect, event::TermEvent, keymap::KeyMap, prompt_history::PromptHistory,
    styled_text::StyledLine, terminal_caps::TerminalCaps, ui_update::UiUpdate,
};

pub(crate) use mailbox::Mailbox;
pub use mailbox::TermSender;
pub use tty::{is_there, repair};

/// A message to the terminal thread.
pub(crate) enum LoopMessage {
    Event(TermEvent),
    /// The screen size may have changed.
    SizeChanged,
    /// A request to suspend the program.
    Suspended,
    /// The program was resumed.
    Resumed,
}

/// Lets the user edit a text; returns `None` on failure. Blocks.
pub type TextEditor = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Options of a terminal.
pub struct TerminalSetup {
    pub look: TerminalCaps,
    pub history: PromptHistory,
    /// Key bindings, and their problems.
    pub keys: (KeyMap, Vec<String>),
    /// Lines shown first.
    pub greeting: Vec<StyledLine>,
    /// Opens the user's editor; called while the terminal is released.
    pub editor: TextEditor,
    /// Carries out effects of the frontend. Must not block.
    pub effects: Arc<dyn Fn(TermEffect) + Send + Sync>,
}

/// A running terminal. Dropping it releases the terminal.
pub struct OpenTerminal {
    sender: TermSender,
    thread: Option<JoinHandle<()>>,
}

impl OpenTerminal {
    /// Takes over the terminal and shows the prompt. Does not wait for the session.
    pub fn start(setup: TerminalSetup) -> io::Result<Self> {
        let tty = tty::Tty::open()?;
        let (sender, mailbox) = mailbox::mailbox()?;
        tty::restore_on_panic();
        crash::restore_on_signal();
        let run = move || event_loop::EventLoop::new(tty, mailbox, setup).run();
        let thread = std::thread::Builder::new().name(String::from(THREAD)).spawn(run)?;
        Ok(Self { sender, thread: Some(thread) })
    }

    /// Returns a sender for updates.
    pub fn sender(&self) -> TermSender {
        self.sender.clone()
    }

    /// Prints the last lines and releases the terminal, even if its thread has panicked.
    pub fn end(mut self, farewell: Vec<String>) -> TerminalEnd {
        self.sender.news(UiUpdate::Farewell(farewell.clone()));
        let broke = self.thread.take().is_some_and(|it| it.join().is_err());
        tty::restore();
        if !broke {
            return TerminalEnd::Left;
        }
        for line in farewell {
            let words = format!("{}\n", crate::styled_text::SafeText::new(&line).as_str());
            rustix::io::write(io::stderr(), words.as_bytes()).ok();
        }
        TerminalEnd::Broke
    }
}

/// How a terminal ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TerminalEnd {
    /// Normally.
    Left,
    /// Its thread panicked; the message is on the screen.
    Broke,
}

impl Drop for OpenTerminal {
    fn drop(&mut self) {
        tty::restore();
    }
}

/// Name of the thread.
const THREAD: &str = "haft-terminal";
