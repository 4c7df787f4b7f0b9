//! Messages for the thread, and what wakes it.

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

/// Sends to the thread of the terminal. Never blocks.
#[derive(Clone)]
pub struct TermSender {
    messages: mpsc::Sender<LoopMessage>,
    wake: Arc<WakeEnd>,
}

struct WakeEnd {
    pipe: OwnedFd,
    /// Whether the thread was woken and has not looked yet.
    rung: AtomicBool,
}

/// Where messages arrive.
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
    /// Tells what the session tells.
    pub fn news(&self, news: UiUpdate) {
        self.send(LoopMessage::Event(TermEvent::News(news)));
    }

    /// The size of the screen may have changed.
    pub fn size_changed(&self) {
        self.send(LoopMessage::SizeChanged);
    }

    /// Somebody wants the program to stop for a while.
    pub fn suspended(&self) {
        self.send(LoopMessage::Suspended);
    }

    /// The program was stopped by somebody, and goes on.
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

    /// Takes the ring away, before messages are taken.
    pub(crate) fn hush(&self) {
        let mut bytes = [0; 64];
        rustix::io::read(&self.pipe, &mut bytes).ok();
        self.wake.rung.store(false, Ordering::Release);
    }

    pub(crate) fn next(&self) -> Option<LoopMessage> {
        self.messages.try_recv().ok()
    }
}
