//! Cost of waiting and typing, and effects of settings.

use haft_tui::{TermEffect, TermPreferences, UiUpdate};

use crate::{
    rig::{Rig, text},
    scenarios::{call, written},
};

/// A running command causes one frame per second, and nothing else.
#[test]
fn waiting_costs_one_frame_per_second() {
    let mut rig = Rig::new(100, 30);
    rig.news(UiUpdate::TurnBegan);
    rig.news(UiUpdate::CallBegan {
        id: String::from("1"),
        agent: None,
        name: String::from("Bash"),
        headline: String::from("$ sleep 30"),
    });
    rig.frame();
    let (begun, mut frames, mut wakes) = (rig.now, 0, 0);
    rig.written.clear();
    while let Some(at) = rig.model.deadline().filter(|at| *at < begun + 30_000) {
        let before = rig.written.len();
        rig.wait(at - rig.now);
        wakes += 1;
        frames += usize::from(before < rig.written.len());
    }
    assert!((25..=33).contains(&frames) && wakes <= 33, "{frames} frames, {wakes} wake-ups");
    assert!(rig.written.len() < 33 * 120, "{} bytes", rig.written.len());
}

/// A key causes one frame of a few bytes, also during streaming, and none is delayed.
#[test]
fn keys_are_painted_at_once_during_streaming() {
    let mut rig = Rig::new(120, 40);
    rig.news(UiUpdate::TurnBegan);
    let source = include_str!("../../../../../docs/architecture.md");
    let chars: Vec<char> = source.chars().collect();
    let mut typed = String::new();
    for (number, piece) in chars.chunks(28).enumerate().take(300) {
        rig.news(text(&piece.iter().collect::<String>()));
        rig.frame();
        rig.written.clear();
        let key = if number % 9 == 8 { "space" } else { "k" };
        rig.key(key);
        typed.push_str(if key == "space" { " " } else { "k" });
        assert!(!rig.written.is_empty() && rig.written.len() < 80, "{:?}", written(&rig));
        assert_eq!(rig.model.draft().whole(), typed);
    }
}

#[test]
fn fold_settings_limit_call_lines() {
    for (tool, lines) in [("Bash", 3), ("mcp__x__y", 0), ("mcp__x__all", 30), ("Other", 12)] {
        let mut rig = Rig::new(80, 60);
        let folds = [("Bash", 3), ("mcp__*", 0), ("mcp__x__all", usize::MAX)];
        let folds = folds.map(|(name, lines)| (name.to_owned(), lines)).to_vec();
        rig.news(UiUpdate::Preferences(Box::new(TermPreferences { folds, ..TermPreferences::default() })));
        let UiUpdate::CallEnded(mut ended) = call("1", 30) else { unreachable!("it is a call") };
        ended.name = tool.to_owned();
        rig.news(UiUpdate::CallEnded(ended));
        rig.frame();
        assert_eq!(rig.screen().matches("out ").count(), lines, "{tool}\n{}", rig.screen());
        assert_eq!(rig.screen().contains("more lines"), lines < 30, "{tool}\n{}", rig.screen());
    }
}

#[test]
fn vi_mode_is_shown_and_esc_interrupts() {
    let mut rig = Rig::new(100, 24);
    rig.typed("/vim");
    rig.key("enter");
    rig.wait(4000);
    rig.typed("one two three");
    rig.key("esc");
    assert!(rig.screen().contains("NORMAL"), "{}", rig.screen());
    rig.typed("0d2");
    assert!(rig.screen().contains("NORMAL d2"), "{}", rig.screen());
    rig.key("w");
    assert_eq!(rig.model.draft().whole(), "three");
    rig.typed("viw");
    assert!(rig.screen().contains("VISUAL") && written(&rig).contains("\x1b[7m"), "{}", rig.screen());
    rig.key("esc");
    rig.typed("u");
    assert_eq!(rig.model.draft().whole(), "one two three");
    // The sent prompt is gone, and the next one starts in insert mode.
    rig.key("enter");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Send(String::from("one two three"))));
    rig.typed("dd");
    assert_eq!(rig.model.draft().whole(), "dd");
    rig.key("esc");
    rig.key("esc");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Interrupt), "twice: orders, then the work");
}
