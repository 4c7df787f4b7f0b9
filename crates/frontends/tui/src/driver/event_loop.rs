//! The event loop of the terminal thread.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use base64::Engine as _;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::{
    LoopMessage, Mailbox, TerminalSetup, TextEditor, crash,
    cursor_parking::{ASK_SIZE, CursorParking},
    full_screen::FullScreen,
    resize_debounce::{ResizeDebounce, SizeStep},
    stderr_capture,
    tty::Tty,
};
use crate::{
    alternate_screen::AlternatePainter,
    app_state::{AppState, ScreenSize},
    effect::TermEffect,
    event::TermEvent,
    input::{InputDecoder, InputItem},
    paint::Painter,
    terminal_caps::{AlertKind, ScreenKind, TerminalCaps},
    ui_update::UiUpdate,
    view::view,
};

/// Minimum interval between frames in milliseconds.
const FRAME_MS: u64 = 33;
/// Resume notifications within this time after a resume are duplicates.
const BACK_MS: u64 = 1000;
/// How long to wait on exit for the answer to a background query.
const ANSWER_MS: u64 = 60;
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
/// Maximum bytes of text copied through the terminal.
const LONGEST_COPY: usize = 100_000;

/// State of the terminal thread.
pub(super) struct EventLoop {
    tty: Tty,
    mailbox: Mailbox,
    model: AppState,
    painter: Painter,
    alternate: Option<AlternatePainter>,
    /// The conversation in full-screen mode.
    full: Option<FullScreen>,
    /// When the background was queried; `None` without a pending query.
    asked_at: Option<u64>,
    /// Bytes typed before the terminal was initialised.
    early: usize,
    decoder: InputDecoder,
    begun: Instant,
    /// Output the terminal has not accepted yet.
    out: Vec<u8>,
    dirty: bool,
    /// Whether a frame was not completely accepted yet.
    unseen: bool,
    /// Whether to paint at once, because the user typed.
    urgent: bool,
    painted_at: u64,
    /// When a lone escape byte counts as the Esc key.
    escape_at: Option<u64>,
    settler: ResizeDebounce,
    parking: CursorParking,
    /// When the size was queried; `None` without a pending query.
    size_asked_at: Option<u64>,
    title: String,
    editor: TextEditor,
    effects: Arc<dyn Fn(TermEffect) + Send + Sync>,
    gone: bool,
    /// Whether captured standard error output waits to be painted.
    has_errors: bool,
    /// When the program was resumed.
    back_at: u64,
}

impl EventLoop {
    pub(super) fn new(tty: Tty, mailbox: Mailbox, setup: TerminalSetup) -> Self {
        let (size, early) = (tty.size(), tty.type_ahead());
        let mut model = AppState::new(setup.look.clone(), size, setup.history);
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        model.set_epoch(u64::try_from(epoch.as_millis()).unwrap_or(0));
        model.greet(setup.greeting);
        model.set_keys(setup.keys.0, &setup.keys.1);
        Self {
            painter: asking_painter(setup.look, size),
            tty,
            mailbox,
            model,
            alternate: None,
            full: None,
            asked_at: None,
            early,
            decoder: InputDecoder::default(),
            begun: Instant::now(),
            out: Vec::new(),
            dirty: true,
            unseen: false,
            urgent: true,
            painted_at: 0,
            escape_at: None,
            settler: ResizeDebounce::default(),
            parking: CursorParking::default(),
            size_asked_at: None,
            title: String::new(),
            editor: setup.editor,
            effects: setup.effects,
            gone: false,
            has_errors: false,
            back_at: 0,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Runs until the program exits or the terminal is closed.
    pub(super) fn run(mut self) {
        let errors = stderr_capture::reader();
        self.ask_background();
        loop {
            self.paint();
            if self.has_errors && !self.dirty && self.out.is_empty() {
                self.has_errors = false;
                stderr_capture::drawn();
            }
            if self.gone || (self.model.has_ended() && !self.dirty && self.out.is_empty()) {
                break;
            }
            let woken = self.wait(errors.as_ref());
            self.read_keys(woken.keys);
            if woken.mail {
                self.read_mail();
            }
            if woken.errors {
                self.read_errors();
            }
            let now = self.now();
            if self.escape_at.is_some_and(|at| at <= now) {
                self.escape_at = None;
                self.decoder.flush();
                self.take_items();
            }
            if self.model.deadline().is_some_and(|at| at <= now) {
                self.update(TermEvent::Tick);
            }
            self.unpark(now);
        }
        if !self.gone {
            let bytes = self.painter.leave();
            self.tty.write_all(&bytes);
            self.await_answer();
        }
        self.tty.give_back();
    }

    /// Queries the background colour, if the terminal is known to answer or to ignore it. Does not wait.
    fn ask_background(&mut self) {
        let look = self.model.look();
        if look.follows_background && look.titles && look.can_draw() && look.reflows {
            self.tty.write_all(b"\x1b]11;?\x1b\\");
            self.decoder.expect_background();
            self.asked_at = Some(self.now());
        }
    }

    /// Waits for a pending answer, which would otherwise be typed into the shell.
    fn await_answer(&mut self) {
        let asked = self.painter.asked();
        let asked_at = [self.asked_at, self.size_asked_at, (0 < asked).then(|| self.now())];
        let until = asked_at.into_iter().flatten().max().map_or(0, |at| at + ANSWER_MS);
        let mut columns = asked;
        let is_due = |it: &Self, columns| it.asked_at.is_some() || it.size_asked_at.is_some() || 0 < columns;
        while is_due(self, columns) && self.now() < until {
            let wait = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            let mut fds = [PollFd::from_borrowed_fd(self.tty.fd(), PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&wait)).ok();
            let mut buffer = [0; 256];
            match self.tty.read(&mut buffer) {
                Ok(count) => self.decoder.feed(&buffer[..count]),
                Err(_) => return,
            }
            while let Some(item) = self.decoder.next_item() {
                match item {
                    InputItem::Background(_) => self.asked_at = None,
                    InputItem::Column(_) => columns = columns.saturating_sub(1),
                    InputItem::Size(_) => self.size_asked_at = None,
                    _ => (),
                }
            }
        }
    }

    fn update(&mut self, event: TermEvent) {
        let now = self.now();
        let effects = self.model.update(event, now);
        self.dirty = true;
        for effect in effects {
            self.carry_out(effect);
        }
    }

    /// Waits for the next event.
    fn wait(&self, errors: Option<&std::os::fd::OwnedFd>) -> WakeReasons {
        let now = self.now();
        let settles = self.settler.deadline();
        let frame =
            (self.dirty && self.out.is_empty()).then(|| settles.unwrap_or(self.painted_at + FRAME_MS));
        let parked = self.parking.deadline().filter(|_| !self.model.is_working());
        let deadlines = [self.model.deadline(), frame, self.escape_at, settles, parked];
        let soonest = deadlines.into_iter().flatten().min();
        let timeout = soonest.map(|at| {
            let wait = Duration::from_millis(at.saturating_sub(now));
            Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(0),
                tv_nsec: i64::from(wait.subsec_nanos()),
            }
        });
        let mut flags = PollFlags::IN;
        if !self.out.is_empty() {
            flags |= PollFlags::OUT;
        }
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.tty.fd(), flags),
            PollFd::from_borrowed_fd(self.mailbox.fd(), PollFlags::IN),
        ];
        fds.extend(errors.map(|fd| PollFd::new(fd, PollFlags::IN)));
        if rustix::event::poll(&mut fds, timeout.as_ref()).is_err() {
            return WakeReasons::default();
        }
        let is_ready = |at: usize| {
            let wanted = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
            fds.get(at).is_some_and(|fd| fd.revents().intersects(wanted))
        };
        WakeReasons { keys: is_ready(0), mail: is_ready(1), errors: is_ready(2) }
    }

    fn read_keys(&mut self, ready: bool) {
        if !ready {
            return;
        }
        let mut buffer = vec![0; 64 << 10];
        match self.tty.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                let early = count.min(std::mem::take(&mut self.early));
                buffer[..early].iter_mut().filter(|it| **it == b'\n').for_each(|it| *it = b'\r');
                self.decoder.feed(&buffer[..count]);
            }
            Err(_) => {
                // The terminal was closed.
                self.gone = true;
                (self.effects)(TermEffect::Quit);
                return;
            }
        }
        self.escape_at = self.decoder.patience_ms().map(|it| self.now() + it);
        self.take_items();
    }

    fn take_items(&mut self) {
        while let Some(item) = self.decoder.next_item() {
            self.urgent = true;
            if matches!(item, InputItem::Background(_)) {
                self.asked_at = None;
            }
            if let InputItem::Column(column) = item {
                self.dirty |= self.painter.cursor_was(column);
                continue;
            }
            if let InputItem::Size(size) = item {
                self.size_asked_at = None;
                self.dirty |= self.parking.is_confirmed(Some(size), self.painter.size(), self.now());
                continue;
            }
            self.update(match item {
                InputItem::Key(key) => TermEvent::Key(key),
                InputItem::Paste(text) => TermEvent::Paste(text),
                InputItem::PasteMore(text) => TermEvent::PasteMore(text),
                InputItem::Focus(focused) => TermEvent::Focus(focused),
                InputItem::Background(it) => TermEvent::Background(it),
                InputItem::Column(_) | InputItem::Size(_) => continue,
            });
        }
    }

    fn read_mail(&mut self) {
        self.mailbox.hush();
        while let Some(message) = self.mailbox.next() {
            match message {
                LoopMessage::Event(event) => self.update(event),
                LoopMessage::SizeChanged => {
                    self.painter.distrust_below();
                    self.dirty = true;
                }
                LoopMessage::Suspended => self.suspend(),
                // Already handled when Ctrl-Z was pressed.
                LoopMessage::Resumed if self.now() < self.back_at + BACK_MS => (),
                LoopMessage::Resumed => self.come_back(),
            }
        }
    }

    fn read_errors(&mut self) {
        let text = stderr_capture::take();
        if !text.trim().is_empty() {
            self.has_errors = true;
            self.update(TermEvent::News(UiUpdate::Notice(text)));
        }
    }

    fn carry_out(&mut self, effect: TermEffect) {
        match effect {
            TermEffect::Edit(text) => {
                self.leave_screen();
                self.tty.give_back();
                let edited = (self.editor)(&text);
                self.come_back();
                self.update(TermEvent::Edited(edited));
            }
            TermEffect::Suspend => self.suspend(),
            TermEffect::Copy(text) => self.copy(&text),
            TermEffect::Alert(why) => self.alert(&why),
            TermEffect::Redraw => self.redraw(),
            effect => (self.effects)(effect),
        }
    }

    /// Releases the terminal and suspends the program until it is resumed.
    fn suspend(&mut self) {
        self.leave_screen();
        self.tty.give_back();
        let stopped = crash::stop_job();
        self.wait_for_shell();
        drop(stopped);
        self.come_back();
    }

    /// Waits until the shell has resumed the program. The process runs on for a moment after sending
    /// itself the signal and must not touch the terminal then. Without a shell it continues after a
    /// timeout.
    fn wait_for_shell(&mut self) {
        let until = self.now() + BACK_MS;
        let mut others = Vec::new();
        let mut resumed = false;
        while !resumed && self.now() < until {
            let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let mut fds = [PollFd::from_borrowed_fd(self.mailbox.fd(), PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&wait)).ok();
            self.mailbox.hush();
            while let Some(message) = self.mailbox.next() {
                match message {
                    LoopMessage::Resumed => resumed = true,
                    message => others.push(message),
                }
            }
        }
        for message in others {
            if let LoopMessage::Event(event) = message {
                self.update(event);
            }
        }
    }

    fn alert(&mut self, why: &str) {
        let words = format!("haft: {why}");
        let safe: String = words.chars().filter(|it| !it.is_control() && *it != ';').take(200).collect();
        match self.model.look().alert {
            AlertKind::Silent => (),
            AlertKind::Bell => self.out.push(7),
            AlertKind::Notification => self.out.extend_from_slice(format!("\x1b]9;{safe}\x07").as_bytes()),
            AlertKind::Kitty => self.out.extend_from_slice(format!("\x1b]99;;{safe}\x1b\\").as_bytes()),
        }
    }

    fn copy(&mut self, text: &str) {
        // The frontend has other ways: multiplexers, long texts.
        (self.effects)(TermEffect::Copy(text.to_owned()));
        if LONGEST_COPY < text.len() {
            return;
        }
        let coded = base64::engine::general_purpose::STANDARD.encode(text);
        self.out.extend_from_slice(format!("\x1b]52;c;{coded}\x07").as_bytes());
    }

    fn leave_screen(&mut self) {
        self.leave_alternate();
        let bytes = self.painter.leave();
        self.out.extend(bytes);
        let out = std::mem::take(&mut self.out);
        self.tty.write_all(&out);
    }

    /// Takes over the terminal again, whatever is on it.
    fn come_back(&mut self) {
        if self.tty.take().is_err() {
            self.gone = true;
            (self.effects)(TermEffect::Quit);
        }
        self.back_at = self.now();
        self.alternate = None;
        self.out.clear();
        self.title.clear();
        self.painter = asking_painter(self.model.look().clone(), self.tty.size());
        let size = self.tty.size();
        self.model.update(TermEvent::Resize(size), self.now());
        (self.dirty, self.urgent) = (true, true);
    }

    fn redraw(&mut self) {
        self.out.extend_from_slice(b"\x1b[H\x1b[J");
        self.out.extend_from_slice(SHOW_CURSOR);
        self.painter = asking_painter(self.model.look().clone(), self.tty.size());
        self.model.show_last_screen();
        self.dirty = true;
    }

    fn leave_alternate(&mut self) {
        if self.alternate.take().is_some() {
            self.out.extend(AlternatePainter::leave());
            self.tty.set_alternate(false);
        }
    }

    /// Paints a frame, if it is due and the terminal has accepted the last one.
    fn paint(&mut self) {
        self.flush();
        let now = self.now();
        let is_due = self.urgent || self.painted_at + FRAME_MS <= now;
        if !self.dirty || !is_due || !self.out.is_empty() || !self.settle_size(now) {
            return;
        }
        self.painter.set_look(self.model.look());
        let is_full = self.model.look().screen == ScreenKind::Alternate && !self.model.has_ended();
        if self.model.overlay().is_some() {
            self.paint_overlay();
        } else if is_full {
            self.paint_full();
        } else {
            if self.full.take().is_some() {
                self.model.show_last_screen_first();
            }
            self.leave_alternate();
            let frame = view(&self.model);
            let may_park = self.model.can_park_cursor();
            let bytes = if self.parking.is_for_frame(may_park, self.model.is_working(), now) {
                self.painter.paint_parked(&frame.finished, &frame.region, frame.caret)
            } else {
                self.painter.paint(&frame.finished, &frame.region, frame.caret)
            };
            self.out.extend(bytes);
            self.model.drawn();
            self.decoder.expect_columns(self.painter.asked());
        }
        self.set_title();
        (self.dirty, self.urgent, self.painted_at, self.unseen) = (false, false, now, true);
        self.flush();
    }

    /// Paints conversation and prompt in full-screen mode.
    fn paint_full(&mut self) {
        let size = self.painter.size();
        if self.full.is_none() {
            self.out.extend(self.painter.leave());
            let mut full = FullScreen::default();
            full.lay_out(&self.model, size);
            self.full = Some(full);
            self.model.drawn();
        }
        if self.alternate.is_none() {
            let (painter, bytes) = AlternatePainter::enter_to_stay(self.model.look());
            self.out.extend(bytes);
            self.alternate = Some(painter);
            self.tty.set_alternate(true);
        }
        let mut frame = view(&self.model);
        let full = self.full.get_or_insert_with(FullScreen::default);
        full.take(std::mem::take(&mut frame.finished));
        let (rows, caret, scrolled) = full.screen(&frame, size, self.model.scrolled());
        self.model.scrolled_to(scrolled);
        self.model.drawn();
        if let Some(painter) = &mut self.alternate {
            painter.set_look(self.model.look());
            self.out.extend(painter.paint(rows, caret));
        }
    }

    fn paint_overlay(&mut self) {
        if self.alternate.is_none() {
            let (painter, bytes) = AlternatePainter::enter(self.model.look());
            self.out.extend(bytes);
            if self.painter.is_parked() {
                self.out.extend_from_slice(SHOW_CURSOR);
            }
            self.alternate = Some(painter);
            self.tty.set_alternate(true);
        }
        let size = self.painter.size();
        if let (Some(painter), Some(overlay)) = (&mut self.alternate, self.model.overlay()) {
            let (rows, caret) = overlay.rows(size);
            self.out.extend(painter.paint(rows, caret));
        }
    }

    /// After a turn, queries the terminal's size before the cursor leaves its parking position.
    fn unpark(&mut self, now: u64) {
        if self.model.is_working() {
            return;
        }
        self.dirty |= self.parking.is_confirmed(None, self.painter.size(), now);
        if self.parking.is_to_ask(now) {
            self.out.extend_from_slice(ASK_SIZE);
            self.size_asked_at = Some(now);
        }
    }

    /// Follows a resize; returns false while it is in progress and nothing may be painted.
    fn settle_size(&mut self, now: u64) -> bool {
        match self.settler.look(self.tty.size(), self.painter.size(), now) {
            SizeStep::Same => true,
            SizeStep::Wait => false,
            SizeStep::Changed(size) => {
                self.leave_alternate();
                let bytes = self.painter.resize(size);
                self.out.extend(bytes);
                self.model.update(TermEvent::Resize(size), now);
                if let Some(full) = &mut self.full {
                    full.lay_out(&self.model, size);
                    self.model.drawn();
                }
                true
            }
        }
    }

    fn set_title(&mut self) {
        let title = self.model.title();
        if self.model.look().titles && title != self.title {
            let safe: String = title.chars().filter(|it| !it.is_control()).collect();
            self.out.extend_from_slice(format!("\x1b]2;{safe}\x07").as_bytes());
            self.title = title;
        }
    }

    fn flush(&mut self) {
        if !self.out.is_empty() {
            match self.tty.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(_) => {
                    self.gone = true;
                    self.out.clear();
                    (self.effects)(TermEffect::Quit);
                }
            }
        }
        if self.out.is_empty() && std::mem::take(&mut self.unseen) {
            let now = self.now();
            self.model.shown(now);
        }
    }
}

/// Creates a painter that queries the terminal for the width of graphemes terminals disagree about. The
/// caller must pass each cursor position report to `Painter::cursor_was`.
fn asking_painter(look: TerminalCaps, size: ScreenSize) -> Painter {
    let mut painter = Painter::new(look, size);
    painter.ask_widths();
    painter
}

/// Events that ended the wait.
#[derive(Default)]
struct WakeReasons {
    keys: bool,
    mail: bool,
    errors: bool,
}
