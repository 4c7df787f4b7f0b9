//! Screens as the user sees them.

use haft_tool::{LineStyle, Rendered, RenderedLine};
use haft_tui::{
    ColorSupport, FinishedCall, PickerRow, SlashName, StatusUpdate, TermEffect, TerminalCaps, TurnPhase,
    UiUpdate,
};

use crate::rig::{Rig, ended, question, text};

const SIZES: [(usize, usize); 5] = [(40, 12), (60, 24), (80, 24), (120, 40), (200, 60)];

fn meter() -> UiUpdate {
    UiUpdate::Meter(StatusUpdate {
        model: Some(String::from("claude-opus-5")),
        mode: Some(String::from("acceptEdits")),
        context_percent: Some(12),
        usd: Some(0.0314),
        ..StatusUpdate::default()
    })
}

fn edit() -> UiUpdate {
    let lines = vec![
        RenderedLine::new(LineStyle::Hunk, "@@ -1,2 +1,2 @@"),
        RenderedLine::new(LineStyle::Removed, "-let x = 1;"),
        RenderedLine::new(LineStyle::Added, "+let x = 2;"),
    ];
    UiUpdate::CallEnded(Box::new(FinishedCall {
        id: String::from("1"),
        agent: None,
        name: String::from("Edit"),
        headline: String::from("src/main.rs"),
        failed: false,
        rendered: Rendered {
            headline: String::from("Edited src/main.rs (+1 -1)"),
            lines,
            ..Rendered::default()
        },
        whole: None,
    }))
}

fn conversation(rig: &mut Rig) {
    rig.news(meter());
    rig.typed("Fix the bug");
    rig.key("enter");
    rig.news(UiUpdate::TurnBegan);
    rig.news(text("I will look at **main.rs** first.\n\n- one `thing`\n- another\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"));
    rig.news(UiUpdate::BlockEnded);
    rig.news(edit());
    rig.news(UiUpdate::CallBegan {
        id: String::from("2"),
        agent: None,
        name: String::from("Bash"),
        headline: String::from("$ cargo test"),
    });
    rig.news(UiUpdate::CallProgress {
        id: String::from("2"),
        tail: vec![String::from("running 3 tests"), String::from("test a ... ok")],
        note: String::from("2 lines"),
    });
    rig.wait(2500);
}

#[test]
fn golden_screens_of_every_size() {
    for (columns, rows) in SIZES {
        let mut rig = Rig::new(columns, rows);
        conversation(&mut rig);
        insta::assert_snapshot!(format!("working_{columns}x{rows}"), rig.screen());
        rig.news(question("q"));
        rig.wait(500);
        insta::assert_snapshot!(format!("asked_{columns}x{rows}"), rig.screen());
        rig.key("y");
        rig.wait(200);
        rig.news(ended());
        rig.typed("/co");
        insta::assert_snapshot!(format!("offered_{columns}x{rows}"), rig.screen());
    }
}

#[test]
fn golden_screens_of_every_view() {
    for (columns, rows) in [(40, 12), (80, 24)] {
        let mut rig = Rig::new(columns, rows);
        conversation(&mut rig);
        rig.key("ctrl+o");
        insta::assert_snapshot!(format!("transcript_{columns}x{rows}"), rig.screen());
        rig.key("q");
        let row = |id: &str, detail: &str| PickerRow {
            id: id.to_owned(),
            title: format!("session {id}"),
            detail: detail.to_owned(),
            preview: Vec::new(),
        };
        rig.news(UiUpdate::Pick {
            purpose: String::from("session"),
            title: String::from("Go on with"),
            rows: vec![row("one", "3 min ago"), row("two", "2 d ago")],
            previewed: true,
        });
        let lines =
            (0..9).map(|number| RenderedLine::new(LineStyle::Added, format!("+line {number}"))).collect();
        rig.news(UiUpdate::Preview { id: String::from("one"), lines });
        rig.wait(500);
        insta::assert_snapshot!(format!("picker_{columns}x{rows}"), rig.screen());
        rig.key("esc");
        rig.news(ended());
        rig.key("?");
        insta::assert_snapshot!(format!("help_{columns}x{rows}"), rig.screen());
    }
}

#[test]
fn tiny_screen_shows_prompt() {
    let mut rig = Rig::new(20, 5);
    conversation(&mut rig);
    assert!(rig.screen().contains('›'), "{}", rig.screen());
}

#[test]
fn untrusted_text_is_shown_escaped() {
    let evil = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}3J\u{202e}abc\0\r";
    let mut rig = Rig::new(100, 30);
    rig.news(UiUpdate::TurnBegan);
    rig.news(text(&format!(
        "{evil}\n\n`{evil}`\n\n[{evil}](http://x/{evil})\n\n| {evil} |\n|---|\n| b |\n\n"
    )));
    rig.news(UiUpdate::CallBegan {
        id: String::from("1"),
        agent: Some(evil.to_owned()),
        name: evil.to_owned(),
        headline: evil.to_owned(),
    });
    rig.news(UiUpdate::CallProgress {
        id: String::from("1"),
        tail: vec![evil.to_owned()],
        note: evil.to_owned(),
    });
    rig.frame();
    rig.news(UiUpdate::Notice(evil.to_owned()));
    rig.news(UiUpdate::Meter(StatusUpdate { model: Some(evil.to_owned()), ..StatusUpdate::default() }));
    rig.frame();
    let written = String::from_utf8_lossy(&rig.written).into_owned();
    for never in ["\u{1b}[2J", "\u{1b}]0", "\u{7}", "\u{9b}", "\u{202e}", "\0"] {
        assert!(!written.contains(never), "{never:?}");
    }
}

#[test]
fn queued_message_can_be_edited_and_is_never_lost() {
    let mut rig = Rig::new(80, 24);
    for word in ["first", "second", "third"] {
        rig.typed(word);
        rig.key("enter");
    }
    assert_eq!(rig.effects, [TermEffect::Send(String::from("first"))]);
    assert!(rig.screen().contains("↳ second") && rig.screen().contains("↳ third"), "{}", rig.screen());
    rig.key("up");
    assert_eq!(rig.model.draft().whole(), "third");
    // Nothing is sent while it is being edited.
    rig.news(edit());
    assert_eq!(rig.effects.len(), 1);
    rig.key("ctrl+u");
    rig.key("enter");
    assert!(!rig.screen().contains("third"), "{}", rig.screen());
    // Between two steps of the agent.
    rig.news(edit());
    assert_eq!(rig.effects.last(), Some(&TermEffect::Send(String::from("second"))));
    // Esc: queued messages go back to the prompt.
    rig.typed("fourth");
    rig.key("enter");
    rig.typed("fif");
    rig.key("esc");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Interrupt));
    assert_eq!(rig.model.draft().whole(), "fourth\nfif");
}

/// Esc interrupts the turn and leaves background agents running; a second Esc stops them, and only then
/// does a double Esc open the rewind list.
#[test]
fn esc_interrupts_turn_then_background_agents() {
    let row = |id: &str| PickerRow { id: id.to_owned(), title: String::from("t"), ..PickerRow::default() };
    let agents = |rig: &mut Rig, ids: &[&str]| {
        for id in ids {
            rig.news(UiUpdate::AgentBegan { id: (*id).to_owned(), title: String::from("looks") });
        }
        // A background command is not an agent.
        rig.news(UiUpdate::Tasks(ids.iter().chain(&["b1"]).map(|it| row(it)).collect()));
    };
    let interrupted = UiUpdate::TurnEnded { problem: None, interrupted: true };
    let mut rig = Rig::new(80, 24);
    agents(&mut rig, &["a1", "a2"]);
    rig.typed("go");
    rig.key("enter");
    rig.key("esc");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Interrupt));
    assert!(rig.screen().contains("esc again stops 2 agents in the background"), "{}", rig.screen());
    rig.news(interrupted.clone());
    rig.key("esc");
    assert_eq!(rig.effects.last(), Some(&TermEffect::StopAgents));
    // Too late: two presses are needed again, also while idle.
    rig.key("esc");
    rig.wait(2500);
    let before = rig.effects.len();
    rig.key("esc");
    assert_eq!(rig.effects.len(), before, "{:?}", rig.effects.last());
    rig.key("esc");
    assert_eq!(rig.effects.last(), Some(&TermEffect::StopAgents));
    // No agents are running any more.
    agents(&mut rig, &[]);
    rig.wait(2500);
    rig.key("esc");
    rig.key("esc");
    let rewind = TermEffect::Command { name: String::from("rewind"), arguments: String::new() };
    assert_eq!(rig.effects.last(), Some(&rewind));
}

#[test]
fn ctrl_c_clears_prompt_then_interrupts_then_exits() {
    let mut rig = Rig::new(80, 24);
    rig.typed("go");
    rig.key("enter");
    rig.typed("draft");
    rig.key("ctrl+c");
    assert!(rig.model.draft().is_empty());
    rig.key("ctrl+c");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Interrupt));
    rig.news(UiUpdate::TurnEnded { problem: None, interrupted: true });
    rig.key("ctrl+c");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Interrupt));
    assert!(rig.screen().contains("ctrl+c again"), "{}", rig.screen());
    rig.wait(2500);
    rig.key("ctrl+c");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Interrupt), "too late");
    rig.key("ctrl+c");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Quit));
    rig.key("up");
    assert_eq!(rig.model.draft().whole(), "draft", "it is in the history");
}

#[test]
fn prompt_before_session_opens_is_queued() {
    let mut rig = Rig::opening(80, 24, TerminalCaps::default());
    rig.typed("early");
    rig.key("enter");
    assert!(rig.screen().contains("↳ early"), "{}", rig.screen());
    assert_eq!(rig.effects, []);
    rig.news(UiUpdate::Ready(vec![SlashName::default()]));
    assert_eq!(rig.effects, [TermEffect::Send(String::from("early"))]);
    // If the session cannot be opened, the prompt gets it back.
    let mut rig = Rig::opening(80, 24, TerminalCaps::default());
    rig.typed("early");
    rig.key("enter");
    rig.news(UiUpdate::CannotOpen(vec![String::from("There is no key")]));
    rig.frame();
    assert_eq!(rig.model.draft().whole(), "early");
    assert!(rig.screen().contains("There is no key"), "{}", rig.screen());
}

#[test]
fn no_colour_mode_emits_no_colours() {
    for (colours, never) in
        [(ColorSupport::Mono, &["3"][..]), (ColorSupport::None, &["1", "2", "3", "7", "9"])]
    {
        let mut rig = Rig::opening(80, 24, TerminalCaps { colours, ..TerminalCaps::default() });
        rig.news(UiUpdate::Ready(Vec::new()));
        conversation(&mut rig);
        let written = String::from_utf8_lossy(&rig.written).into_owned();
        let codes = written.split("\x1b[").skip(1).filter_map(|it| it.split_once('m')).map(|it| it.0);
        for code in codes.filter(|it| it.chars().all(|it| it.is_ascii_digit() || it == ';')) {
            for part in code.split(';') {
                assert!(
                    !never.iter().any(|it| part.starts_with(it) && (1 < part.len() || *it != "3")),
                    "{colours:?} {code}"
                );
            }
        }
    }
}

#[test]
fn activity_line_names_current_phase() {
    let mut rig = Rig::new(80, 24);
    rig.news(UiUpdate::TurnBegan);
    let phases = [
        (TurnPhase::Waiting, "waiting for the model"),
        (TurnPhase::Thinking, "thinking"),
        (TurnPhase::Calling(String::from("Edit")), "writing a call of Edit"),
        (
            TurnPhase::Retrying { why: String::from("overloaded"), in_ms: 1000, attempt: (2, 10) },
            "asking again in 1 s (2 of 10): overloaded",
        ),
        (TurnPhase::Compacting, "summing the conversation up"),
    ];
    for (phase, want) in phases {
        rig.news(UiUpdate::Phase(phase));
        rig.frame();
        assert!(rig.screen().contains(want), "{want}\n{}", rig.screen());
    }
}
