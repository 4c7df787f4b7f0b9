//! Cost of painting in bytes, frames and allocations, which do not depend on the machine's load. `cargo
//! bench -p haft-tui`.
#![allow(clippy::print_stdout, missing_docs, reason = "a bench prints")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

use haft_tui::{
    AppState, KeyPress, Painter, PromptHistory, ScreenSize, TermEvent, TerminalCaps, UiUpdate, view,
};

/// An allocator that counts allocations.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

#[expect(unsafe_code, reason = "an allocator is unsafe by nature; this one only counts")]
// SAFETY: forwards everything to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Screen {
    model: AppState,
    painter: Painter,
    now: u64,
    bytes: usize,
    frames: usize,
}

impl Screen {
    fn new() -> Self {
        let size = ScreenSize { columns: 120, rows: 40 };
        let mut model = AppState::new(TerminalCaps::default(), size, PromptHistory::none());
        model.update(TermEvent::News(UiUpdate::Ready(Vec::new())), 0);
        model.update(TermEvent::News(UiUpdate::TurnBegan), 0);
        Self { model, painter: Painter::new(TerminalCaps::default(), size), now: 0, bytes: 0, frames: 0 }
    }

    fn event(&mut self, event: TermEvent) {
        self.model.update(event, self.now);
    }

    fn frame(&mut self) {
        let frame = view(&self.model);
        let bytes = self.painter.paint(&frame.finished, &frame.region, frame.caret);
        self.model.drawn();
        self.bytes += bytes.len();
        self.frames += usize::from(!bytes.is_empty());
    }

    /// Streams a text at 200 tokens and 30 frames per second.
    fn stream(&mut self, source: &str) -> usize {
        let chars: Vec<char> = source.chars().collect();
        let tokens: Vec<String> = chars.chunks(4).map(|it| it.iter().collect()).collect();
        for pieces in tokens.chunks(7) {
            for piece in pieces {
                self.event(TermEvent::News(UiUpdate::Text(piece.clone())));
            }
            self.now += 33;
            self.event(TermEvent::Tick);
            self.frame();
        }
        tokens.len()
    }
}

fn report(what: &str, screen: &mut Screen, count: usize, allocations: u64) {
    let per = |number: f64| number / f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let bytes = f64::from(u32::try_from(screen.bytes).unwrap_or(u32::MAX));
    let allocations = f64::from(u32::try_from(allocations).unwrap_or(u32::MAX));
    println!(
        "{what}: {count}, {:.1} bytes each, {:.0} allocations each, {} frames",
        per(bytes),
        per(allocations),
        screen.frames
    );
    (screen.bytes, screen.frames) = (0, 0);
}

fn main() {
    let source = include_str!("../../../../docs/architecture.md");
    let mut screen = Screen::new();
    screen.frame();
    screen.bytes = 0;
    let before = COUNT.load(Ordering::Relaxed);
    let tokens = screen.stream(source);
    report("tokens of Markdown", &mut screen, tokens, COUNT.load(Ordering::Relaxed) - before);

    let code = format!("```rust\n{}\n```\n\n", include_str!("../src/paint.rs"));
    let before = COUNT.load(Ordering::Relaxed);
    let tokens = screen.stream(&code);
    report("tokens of Rust", &mut screen, tokens, COUNT.load(Ordering::Relaxed) - before);

    // Events that do not change the screen write nothing.
    let before = COUNT.load(Ordering::Relaxed);
    for _ in 0..1000 {
        screen.event(TermEvent::Focus(true));
        screen.frame();
    }
    report("events without effect", &mut screen, 1000, COUNT.load(Ordering::Relaxed) - before);

    let before = COUNT.load(Ordering::Relaxed);
    for letter in "the quick brown fox jumps over it ".repeat(3).chars() {
        let key = KeyPress::plain(haft_tui::KeyCode::Char(letter));
        screen.event(TermEvent::Key(key));
        screen.frame();
    }
    report("keys", &mut screen, 102, COUNT.load(Ordering::Relaxed) - before);

    screen.event(TermEvent::Paste("a line of a long paste\n".repeat(4500)));
    screen.frame();
    report("paste of 100 kB", &mut screen, 1, 0);

    // A long session costs no more than a short one.
    for _ in 0..100_000 {
        screen.event(TermEvent::News(UiUpdate::Text(String::from("a line of a long session\n\n"))));
        screen.model.drawn();
    }
    screen.frame();
    (screen.bytes, screen.frames) = (0, 0);
    let before = COUNT.load(Ordering::Relaxed);
    let tokens = screen.stream(source);
    report("tokens after 100,000 lines", &mut screen, tokens, COUNT.load(Ordering::Relaxed) - before);
}
