//! A terminal without a session that crashes in the way its input says, for tests of what remains on the
//! screen.

use std::sync::{Arc, mpsc};

use haft_tui::{
    KeyMap, PromptHistory, TermEffect, TerminalCaps, UiUpdate,
    driver::{OpenTerminal, TerminalEnd, TerminalSetup},
};

fn main() -> std::process::ExitCode {
    let (sender, effects) = mpsc::channel();
    let setup = TerminalSetup {
        look: TerminalCaps::default(),
        history: PromptHistory::none(),
        keys: (KeyMap::default(), Vec::new()),
        greeting: Vec::new(),
        editor: Arc::new(|_| None),
        // Runs on the terminal thread.
        effects: Arc::new(move |effect| match &effect {
            TermEffect::Send(text) if text == "thread" => panic!("broken-4711 in the thread"),
            _ => drop(sender.send(effect)),
        }),
    };
    let Ok(terminal) = OpenTerminal::start(setup) else { return 2.into() };
    terminal.sender().news(UiUpdate::Ready(Vec::new()));
    while let Ok(effect) = effects.recv() {
        match effect {
            TermEffect::Send(text) if text == "main" => panic!("broken-4711 in main"),
            TermEffect::Send(text) if text == "abort" => {
                rustix::io::write(std::io::stderr(), b"broken-4711 by a library\n").ok();
                std::process::abort();
            }
            TermEffect::Send(text) if text == "stack" => drop(deeper(&[0; 64])),
            TermEffect::Quit => break,
            _ => (),
        }
    }
    match terminal.end(vec![String::from("farewell-4712")]) {
        TerminalEnd::Left => 0.into(),
        TerminalEnd::Broke => 101.into(),
    }
}

/// Recurses until the stack overflows.
fn deeper(room: &[u8; 64]) -> u64 {
    let mut more = *room;
    if std::hint::black_box(false) {
        return 0;
    }
    more[0] = more[0].wrapping_add(1);
    deeper(std::hint::black_box(&more)).wrapping_add(u64::from(more[63]))
}
