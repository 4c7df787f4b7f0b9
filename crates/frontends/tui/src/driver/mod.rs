//! The thread that owns the terminal.
//!
//! It waits for keys, for news and for the moments the model asks for, and for
//! nothing else: what the session does cannot delay a key. Keys are drawn at
//! once, news at most thirty times a second, and when nothing moves, nothing
//! wakes it. What the terminal does not take is not queued: the next frame is
//! made when the last one is out.

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

/// Something the thread is told.
pub(crate) enum LoopMessage {
    /// For the model.
    Event(TermEvent),
    /// The size may have changed.
    SizeChanged,
    /// Somebody wants the program to stop for a while.
    Suspended,
    /// The program was stopped, and goes on.
    Resumed,
}

/// Lets a person edit a text; none when that failed.
pub type TextEditor = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a terminal is started with.
pub struct TerminalSetup {
    /// What it can show.
    pub look: TerminalCaps,
    /// What was sent before.
    pub history: PromptHistory,
    /// Keys of the settings, and what is wrong with them.
    pub keys: (KeyMap, Vec<String>),
    /// What it says first.
    pub greeting: Vec<StyledLine>,
    /// Lets the person edit a text; runs while the terminal is given back.
    pub editor: TextEditor,
    /// Takes what the face has to do.
    pub effects: Arc<dyn Fn(TermEffect) + Send + Sync>,
}

/// A terminal that runs. Dropped, it gives the terminal back.
pub struct OpenTerminal {
    sender: TermSender,
    thread: Option<JoinHandle<()>>,
}

impl OpenTerminal {
    /// Takes the terminal and shows the prompt. Nothing is waited for.
    pub fn start(setup: TerminalSetup) -> io::Result<Self> {
        let tty = tty::Tty::open()?;
        let (sender, mailbox) = mailbox::mailbox()?;
        tty::restore_on_panic();
        crash::give_back_before_death();
        let run = move || event_loop::EventLoop::new(tty, mailbox, setup).run();
        let thread = std::thread::Builder::new().name(String::from(THREAD)).spawn(run)?;
        Ok(Self { sender, thread: Some(thread) })
    }

    /// Where news go.
    pub fn sender(&self) -> TermSender {
        self.sender.clone()
    }

    /// Says the last lines, and gives the terminal back. If it broke, the lines are said
    /// all the same.
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
    /// It was left.
    Left,
    /// What draws it panicked; what happened is on the screen.
    Broke,
}

impl Drop for OpenTerminal {
    fn drop(&mut self) {
        tty::restore();
    }
}

/// The name of the thread.
const THREAD: &str = "haft-terminal";
