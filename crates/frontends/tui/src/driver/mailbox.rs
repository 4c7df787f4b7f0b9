//! Messages to the terminal thread, and its wake-up.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use rustix::pipe::PipeFlags;

use super::LoopMessage;
use crate::{event::TermEvent, ui_update::UiUpdate};

/// Sends messages to the terminal thread. Never blocks.
#[derive(Clone)]
pub struct TermSender {
    messages: mpsc::Sender<LoopMessage>,
    wake: Arc<WakeEnd>,
}

struct WakeEnd {
    pipe: OwnedFd,
    /// Whether the thread was woken and has not processed its messages yet.
    rung: AtomicBool,
}

/// Receives messages.
pub(crate) struct Mailbox {
    messages: mpsc::Receiver<LoopMessage>,
    pipe: OwnedFd,
    wake: Arc<WakeEnd>,
}

pub(crate) fn mailbox() -> io::Result<(TermSender, Mailbox)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let (sender, messages) = mpsc::channel();
    let wake = Arc::new(WakeEnd { pipe: write, rung: AtomicBool::new(false) });
    Ok((TermSender { messages: sender, wake: Arc::clone(&wake) }, Mailbox { messages, pipe: read, wake }))
}

impl TermSender {
    /// Sends an update from the session.
    pub fn news(&self, news: UiUpdate) {
        self.send(LoopMessage::Event(TermEvent::News(news)));
    }

    /// Reports that the screen size may have changed.
    pub fn size_changed(&self) {
        self.send(LoopMessage::SizeChanged);
    }

    /// Reports a request to suspend the program.
    pub fn suspended(&self) {
        self.send(LoopMessage::Suspended);
    }

    /// Reports that the program was resumed.
    pub fn resumed(&self) {
        self.send(LoopMessage::Resumed);
    }

    pub(crate) fn send(&self, message: LoopMessage) {
        self.messages.send(message).ok();
        if !self.wake.rung.swap(true, Ordering::AcqRel) {
            rustix::io::write(&self.wake.pipe, &[1]).ok();
        }
    }
}

impl Mailbox {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Clears the wake-up, before messages are taken.
    pub(crate) fn hush(&self) {
        let mut bytes = [0; 64];
        rustix::io::read(&self.pipe, &mut bytes).ok();
        self.wake.rung.store(false, Ordering::Release);
    }

    pub(crate) fn next(&self) -> Option<LoopMessage> {
        self.messages.try_recv().ok()
    }
}
