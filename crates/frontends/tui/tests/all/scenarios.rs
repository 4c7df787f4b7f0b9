//! Known problems of other programs, one scenario each.

use haft_tool::{LineStyle, Rendered, RenderedLine, Rendering};
use haft_tui::{
    ColorSupport, FinishedCall, LinePrinter, PastedImage, PickerRow, SLASH_COMMANDS, TermBackground,
    TermEffect, TermEvent, TermPreferences, TerminalCaps, Theme, TurnPhase, UiUpdate,
};

use crate::rig::{Rig, ended, question, text};

pub(crate) fn written(rig: &Rig) -> String {
    String::from_utf8_lossy(&rig.written).into_owned()
}

/// An answer higher than the window is painted without clearing, one chunk per frame.
#[test]
fn long_answer_neither_flickers_nor_clears() {
    let mut rig = Rig::new(80, 24);
    rig.typed("go");
    rig.key("enter");
    rig.written.clear();
    for number in 0..500 {
        rig.news(text(&format!("line {number} of a long answer\n")));
        if number % 7 == 0 {
            rig.news(text("\n"));
        }
        rig.frame();
    }
    rig.news(ended());
    rig.frame();
    let all = written(&rig);
    for never in ["\x1b[2J", "\x1b[3J", "\x1b[H", "\x1b[?1000h", "\x1b[?1002h", "\x1b[?1003h", "\x1b[?1049h"]
    {
        assert!(!all.contains(never), "{never:?}");
    }
    let (begun, done) = (all.matches("\x1b[?2026h").count(), all.matches("\x1b[?2026l").count());
    assert_eq!(begun, done, "every frame is whole");
    assert!(all.starts_with("\x1b[?2026h") && all.ends_with("\x1b[?2026l"));
    let lines = rig.lines().join(" ");
    for number in 0..500 {
        let mark = format!("line {number} of a long answer");
        assert_eq!(lines.matches(&mark).count(), 1, "{mark}");
    }
}

#[test]
fn resize_burst_costs_no_more_than_region() {
    let mut rig = Rig::new(100, 40);
    for number in 0..200 {
        rig.news(text(&format!("line {number}\n\n")));
    }
    rig.news(ended());
    rig.frame();
    rig.written.clear();
    for step in 0..30 {
        rig.resize(100, 20 + step % 15);
    }
    let each = rig.written.len() / 30;
    assert!(each < 300, "{each} bytes for a height");
    assert!(!written(&rig).contains("line 1"), "history is not written again");
}

#[test]
fn resumed_session_counts_and_shows_earlier_items() {
    let mut rig = Rig::new(100, 30);
    let mut earlier = Vec::new();
    for number in 0..50 {
        earlier.push(UiUpdate::SaidBefore(format!("old prompt {number}")));
        earlier.push(UiUpdate::Text(format!("old answer {number}")));
        earlier.push(UiUpdate::BlockEnded);
    }
    rig.news(UiUpdate::Earlier(earlier));
    rig.news(UiUpdate::SaidBefore(String::from("newest prompt")));
    rig.frame();
    let screen = rig.screen();
    assert!(
        screen.contains("100 earlier messages and calls are not shown here; ctrl+o shows them"),
        "{screen}"
    );
    assert!(!screen.contains("old prompt") && screen.contains("newest prompt"), "{screen}");
    rig.key("ctrl+o");
    rig.key("g");
    assert!(
        rig.screen().contains("old prompt 0") && rig.screen().contains("old answer 0"),
        "{}",
        rig.screen()
    );
}

#[test]
fn long_session_costs_no_more_than_new_one() {
    let cost = |lines: usize| {
        let mut rig = Rig::new(100, 30);
        rig.news(UiUpdate::TurnBegan);
        for _ in 0..lines {
            rig.news(text("a line of a long session\n\n"));
            rig.model.drawn();
        }
        rig.frame();
        rig.written.clear();
        for _ in 0..200 {
            rig.news(text("word "));
            rig.wait(33);
        }
        rig.written.len()
    };
    let (new, old) = (cost(1), cost(20_000));
    assert!(old < new + new / 10, "{new} → {old} bytes");
}

#[test]
fn esc_never_loses_text() {
    for wait in [0, 1, 10, 100, 1000] {
        let mut rig = Rig::new(100, 30);
        rig.typed("the first");
        rig.key("enter");
        rig.news(UiUpdate::TurnBegan);
        rig.news(text("An answer "));
        rig.typed("the second");
        rig.key("enter");
        rig.typed("the third");
        rig.wait(wait);
        rig.key("esc");
        rig.news(UiUpdate::TurnEnded { problem: None, interrupted: true });
        rig.frame();
        let (draft, shown) = (rig.model.draft().whole(), rig.lines().join("\n"));
        assert!(shown.contains("› the first"), "{shown}");
        assert_eq!(draft, "the second\nthe third");
        assert_eq!(rig.effects.iter().filter(|it| matches!(it, TermEffect::Send(_))).count(), 1);
    }
}

/// Strings whose width terminals disagree about, and others.
fn odd_strings() -> Vec<String> {
    let pieces = [
        "a",
        "é",
        "e\u{301}",
        "漢字",
        "ｆｕｌｌ",
        "한국어",
        "ไทย",
        "مرحبا",
        "שלום",
        "👍",
        "👍🏽",
        "🇩🇪",
        "→",
        "…",
        "½",
        "ﬁ",
        "ñ",
        "Ω",
        "ß",
        "„“",
    ];
    let mut all: Vec<String> = pieces.iter().map(|it| (*it).to_owned()).collect();
    for first in pieces {
        for second in ["x", "漢", "é", "→", "b c", "ß ", "한", "ｆ", "12"] {
            all.push(format!("{first}{second}"));
        }
    }
    all
}

/// The caret is where the terminal's cursor is; the rig checks each frame.
#[test]
fn caret_matches_terminal_cursor() {
    let strings = odd_strings();
    assert!(200 <= strings.len());
    for it in strings {
        // Test emulators do not support flags and skin tones.
        if it.contains(['\u{1f3fd}', '\u{1f1e9}']) {
            continue;
        }
        let mut rig = Rig::new(60, 10);
        rig.event(TermEvent::Paste(it.clone()));
        rig.frame();
        assert_eq!(rig.model.draft().whole(), it);
    }
}

#[test]
fn right_to_left_text_keeps_order() {
    let words = "שלום עולם: قل مرحبا";
    let mut rig = Rig::new(60, 12);
    rig.news(UiUpdate::TurnBegan);
    rig.news(text(&format!("{words}\n\n")));
    rig.news(ended());
    rig.frame();
    assert!(written(&rig).contains(words), "in the order it was written");
    let row = rig.screen().lines().find(|line| line.contains("שלום")).unwrap().to_owned();
    assert_eq!(row.trim_end(), words);
}

#[test]
fn every_non_editing_key_has_a_command() {
    for (key, command) in [
        ("ctrl+r", "history"),
        ("ctrl+g", "editor"),
        ("ctrl+o", "transcript"),
        ("alt+j", "tasks"),
        ("alt+z", "background"),
        ("ctrl+l", "redraw"),
        ("ctrl+v", "paste"),
        ("shift+tab", "mode"),
        ("ctrl+d", "quit"),
    ] {
        assert!(haft_tui::key_table().contains(&format!("`{key}`")), "{key}");
        assert!(SLASH_COMMANDS.iter().any(|it| it.name == command), "/{command}");
    }
}

fn long_question() -> UiUpdate {
    let UiUpdate::Asked(mut card) = question("q") else { unreachable!("it is a question") };
    card.body =
        (0..400).map(|number| RenderedLine::new(LineStyle::Added, format!("+row {number}"))).collect();
    UiUpdate::Asked(card)
}

#[test]
fn long_question_is_readable_on_small_screen() {
    let mut rig = Rig::new(40, 12);
    rig.news(UiUpdate::TurnBegan);
    rig.news(long_question());
    rig.wait(500);
    let screen = rig.screen();
    for label in ["Yes, this once", "No, and stop", "rows are not shown"] {
        assert!(screen.contains(label), "{label}\n{screen}");
    }
    rig.key("ctrl+o");
    rig.key("G");
    assert!(rig.screen().contains("+row 399"), "{}", rig.screen());
    rig.key("q");
    rig.wait(500);
    // Page by page, beside the option rows.
    for _ in 0..80 {
        rig.key("pagedown");
        assert!(rig.screen().contains("No, and stop"), "{}", rig.screen());
    }
    assert!(rig.screen().contains("+row 399"), "{}", rig.screen());
    assert!(!rig.effects.iter().any(|it| matches!(it, TermEffect::Answer { .. })));
}

#[test]
fn unfocused_user_is_notified_once() {
    for (focused, want) in [(true, 0), (false, 1)] {
        let mut rig = Rig::new(80, 24);
        rig.event(TermEvent::Focus(focused));
        rig.news(UiUpdate::TurnBegan);
        rig.news(question("q"));
        let told = |rig: &Rig| rig.effects.iter().filter(|it| matches!(it, TermEffect::Alert(_))).count();
        assert_eq!(told(&rig), want);
        assert!(rig.model.title().starts_with('?'), "{}", rig.model.title());
        rig.news(UiUpdate::Withdrawn(String::from("q")));
        rig.wait(11_000);
        rig.news(ended());
        assert_eq!(told(&rig), 2 * want, "the end of long work");
    }
}

pub(crate) fn call(id: &str, lines: usize) -> UiUpdate {
    let body =
        (0..lines).map(|number| RenderedLine::new(LineStyle::Plain, format!("out {number}"))).collect();
    let rendered = Rendered { headline: String::from("exit 0"), lines: body, ..Rendered::default() };
    let whole = Rendering::new({
        let rendered = rendered.clone();
        move || rendered.clone()
    });
    UiUpdate::CallEnded(Box::new(FinishedCall {
        id: id.to_owned(),
        agent: None,
        name: String::from("Bash"),
        headline: String::from("$ seq"),
        failed: false,
        rendered,
        whole: Some(whole),
    }))
}

#[test]
fn long_output_is_folded_and_opens_with_one_key() {
    let mut rig = Rig::new(80, 40);
    rig.news(call("1", 20_000));
    rig.frame();
    let screen = rig.screen();
    assert_eq!(screen.matches("out ").count(), 12, "{screen}");
    assert!(screen.contains("… 19988 more lines (ctrl+o shows them)"), "{screen}");
    rig.key("ctrl+o");
    rig.key("/");
    rig.typed("out 1777");
    rig.key("enter");
    // The search wraps around at the end.
    assert!(rig.screen().contains("out 1777"), "{}", rig.screen());
}

#[test]
fn agent_opens_own_transcript() {
    let mut rig = Rig::new(100, 30);
    let own = |news: UiUpdate| UiUpdate::AgentNews { id: String::from("a1"), news: Box::new(news) };
    rig.news(UiUpdate::TurnBegan);
    rig.news(UiUpdate::AgentBegan { id: String::from("a1"), title: String::from("Explore: find it") });
    rig.news(own(UiUpdate::SaidBefore(String::from("find the needle"))));
    rig.news(own(text("I **look** for it.")));
    rig.news(own(call("c", 2)));
    rig.news(own(text("still looking")));
    rig.frame();
    assert!(!rig.screen().contains("needle"), "it is not the main conversation\n{}", rig.screen());
    rig.key("alt+j");
    let screen = rig.screen();
    assert!(screen.contains("Explore: find it") && screen.contains("I look for it."), "{screen}");
    rig.key("enter");
    let screen = rig.screen();
    for part in ["› find the needle", "I look for it.", "✓ Bash $ seq", "out 1", "still looking"] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
}

#[test]
fn background_tasks_can_be_viewed_and_stopped() {
    let mut rig = Rig::new(100, 30);
    rig.key("alt+j");
    assert!(rig.screen().contains("nothing runs in the background"), "{}", rig.screen());
    let row = PickerRow { id: String::from("b1"), title: String::from("make watch"), ..PickerRow::default() };
    rig.news(UiUpdate::Tasks(vec![row]));
    rig.typed("/tasks");
    rig.key("enter");
    let wish = TermEffect::Preview { purpose: String::from("task"), id: String::from("b1") };
    assert_eq!(rig.effects.last(), Some(&wish));
    let lines = vec![RenderedLine::new(LineStyle::Plain, "rebuilt in 3 s")];
    rig.news(UiUpdate::Preview { id: String::from("b1"), lines });
    rig.frame();
    assert!(
        rig.screen().contains("rebuilt in 3 s") && rig.screen().contains("ctrl+x stops it"),
        "{}",
        rig.screen()
    );
    rig.key("ctrl+x");
    let stop = TermEffect::Picked { purpose: String::from("task-stop"), id: String::from("b1") };
    assert_eq!(rig.effects.last(), Some(&stop));
}

#[test]
fn picker_previews_are_loaded_once() {
    let mut rig = Rig::new(80, 20);
    let row =
        |id: &str| PickerRow { id: id.to_owned(), title: format!("session {id}"), ..PickerRow::default() };
    rig.news(UiUpdate::Pick {
        purpose: String::from("session"),
        title: String::from("Go on with"),
        rows: vec![row("one"), row("two")],
        previewed: true,
    });
    rig.frame();
    let asked = |rig: &Rig| -> Vec<String> {
        let id = |it: &TermEffect| match it {
            TermEffect::Preview { id, .. } => Some(id.clone()),
            _ => None,
        };
        rig.effects.iter().filter_map(id).collect()
    };
    assert_eq!(asked(&rig), ["one"]);
    rig.key("down");
    rig.key("up");
    rig.key("down");
    assert_eq!(asked(&rig), ["one", "two"]);
    let lines = (0..40).map(|number| RenderedLine::new(LineStyle::Plain, format!("said {number}"))).collect();
    rig.news(UiUpdate::Preview { id: String::from("two"), lines });
    rig.frame();
    let screen = rig.screen();
    assert!(screen.contains("said 0") && screen.contains("more lines (shift+↓)"), "{screen}");
    // All rows are searched, and searching picks nothing.
    rig.typed("one");
    assert!(rig.screen().contains("1 of 2"), "{}", rig.screen());
    rig.key("esc");
    assert!(!rig.effects.iter().any(|it| matches!(it, TermEffect::Picked { .. })));
}

#[test]
fn pasted_image_is_placeholder_and_missing_file_is_reported() {
    let mut rig = Rig::new(100, 20);
    for (pasted, want) in [
        ("/tmp/a b.png", Some("/tmp/a b.png")),
        ("'/tmp/a b.png'", Some("/tmp/a b.png")),
        ("/tmp/a\\ b.png", Some("/tmp/a b.png")),
        ("file:///tmp/x.JPG", Some("/tmp/x.JPG")),
        ("see /tmp/x.png", None),
        ("x.png", None),
        ("/tmp/x.txt", None),
    ] {
        rig.effects.clear();
        rig.event(TermEvent::Paste(pasted.to_owned()));
        let path = rig.effects.iter().find_map(|it| match it {
            TermEffect::Picture(path) => Some(path.as_str()),
            _ => None,
        });
        assert_eq!(path, want, "{pasted}");
    }
    let mut rig = Rig::new(100, 20);
    let (path, label) = (String::from("/tmp/a b.png"), String::from("picture a b.png"));
    rig.news(UiUpdate::Picture(PastedImage::There { path, label }));
    rig.typed("what is it");
    assert!(rig.screen().contains("[picture a b.png] what is it"), "{}", rig.screen());
    assert_eq!(rig.model.draft().whole(), "@\"/tmp/a b.png\" what is it");
    let (text, why) = (String::from("/home/me/x.png"), String::from("it is not on this machine"));
    rig.news(UiUpdate::Picture(PastedImage::Missing { text, why }));
    rig.frame();
    assert!(rig.screen().contains("it is not on this machine"), "{}", rig.screen());
    assert!(rig.model.draft().whole().ends_with("/home/me/x.png"), "nothing is lost");
}

/// A discarded answer stays on the screen with a note, but is not logged, copied or executed.
#[test]
fn failed_answer_is_marked_and_discarded() {
    for is_complete in [true, false] {
        let mut rig = Rig::new(100, 30);
        rig.news(UiUpdate::TurnBegan);
        rig.news(UiUpdate::AnswerBegan);
        rig.news(text("The earlier answer.\n\n"));
        rig.news(UiUpdate::BlockEnded);
        rig.news(UiUpdate::AnswerBegan);
        rig.news(text("The lost words.\n\n"));
        if is_complete {
            rig.news(UiUpdate::BlockEnded);
        }
        let (id, name) = (String::from("early"), String::from("Read"));
        rig.news(UiUpdate::CallBegan { id, agent: None, name, headline: String::from("lost.rs") });
        rig.news(UiUpdate::AnswerBroke { calls: vec![String::from("early")] });
        rig.news(UiUpdate::AnswerBegan);
        rig.news(text("The words that count.\n\n"));
        rig.news(UiUpdate::BlockEnded);
        rig.frame();
        let screen = rig.screen();
        let (lost, mark) = (screen.find("The lost words.").unwrap(), screen.find("does not count").unwrap());
        assert!(lost < mark && mark < screen.find("The words that count.").unwrap(), "{screen}");
        assert!(!screen.contains("lost.rs"), "{screen}");
        rig.key("ctrl+o");
        rig.frame();
        let screen = rig.screen();
        assert!(
            screen.contains("The earlier answer.") && screen.contains("The words that count."),
            "{screen}"
        );
        assert!(!screen.contains("The lost words."), "{is_complete} {screen}");
    }
}

#[test]
fn retry_delay_is_counted_down() {
    let mut rig = Rig::new(100, 20);
    rig.news(UiUpdate::TurnBegan);
    let phase = TurnPhase::Retrying { why: String::from("overloaded"), in_ms: 3000, attempt: (1, 10) };
    rig.news(UiUpdate::Phase(phase));
    for want in
        ["asking again in 3 s (1 of 10)", "asking again in 2 s", "asking again in 1 s", "asking again (1 of"]
    {
        rig.frame();
        assert!(rig.screen().contains(want), "{want}\n{}", rig.screen());
        rig.wait(1000);
    }
}

/// Returns the RGB values of a colour of the 256-colour palette.
fn rgb(number: u16) -> (f64, f64, f64) {
    let level = |it: u16| if it == 0 { 0.0 } else { (f64::from(it) * 40.0 + 55.0) / 255.0 };
    let it = number - 16;
    (level(it / 36), level(it / 6 % 6), level(it % 6))
}

fn luminance((red, green, blue): (f64, f64, f64)) -> f64 {
    let linear = |it: f64| if it <= 0.03928 { it / 12.92 } else { ((it + 0.055) / 1.055).powf(2.4) };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

#[test]
fn light_background_gets_readable_colours() {
    let mut rig = Rig::new(80, 24);
    rig.event(TermEvent::Background(TermBackground::Light));
    let look = rig.model.look().clone();
    let source =
        "**x** `code` [l](https://a.test)\n\n```rust\nlet x: Vec<u8> = \"s\"; // c\nlet y = 42;\n```\n";
    let drawn = LinePrinter::new(look, 80).markdown(source);
    let mut seen = 0;
    for number in drawn.split("38;5;").skip(1) {
        let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
        let contrast = 1.05 / (luminance(rgb(digits.parse().unwrap())) + 0.05);
        assert!(4.5 <= contrast, "{digits} has {contrast:.1}:1 on white");
        seen += 1;
    }
    assert!(3 <= seen, "{drawn:?}");
    assert!(!drawn.contains("\x1b[33m") && !drawn.contains("\x1b[36m"), "no yellow or cyan on white");
    // An explicit theme stays, whatever the background is.
    let wanted = TermPreferences { theme: Some(String::from("dark")), ..TermPreferences::default() };
    rig.news(UiUpdate::Preferences(Box::new(wanted)));
    rig.event(TermEvent::Background(TermBackground::Light));
    assert_eq!(rig.model.look().theme, Theme::named("dark").unwrap());
}

#[test]
fn invalid_preferences_are_reported() {
    let mut rig = Rig::new(100, 20);
    let wanted = TermPreferences {
        theme: Some(String::from("pink")),
        colours: vec![
            (String::from("accent"), String::from("#00ff00")),
            (String::from("sky"), String::from("blue")),
        ],
        ..TermPreferences::default()
    };
    rig.news(UiUpdate::Preferences(Box::new(wanted)));
    rig.frame();
    let shown = rig.lines().join("\n");
    assert!(
        shown.contains("there is no theme `pink`") && shown.contains("there is no colour for `sky`"),
        "{shown}"
    );
    assert!(written(&rig).contains("38;2;0;255;0"), "the colour that makes sense counts");
}

#[test]
fn golden_colours_of_every_kind_of_block() {
    let source = "# Head\n\nWords with `code`, **bold**, *slanted* and a [link](https://a.test/b).\n\n- one\n- two\n\n> said\n\n```rust\n/// Adds.\nfn add(a: u32) -> Vec<u32> {\n    let s = \"text\"; // why\n    vec![a + 42]\n}\n```\n\n```json\n{\"a\": [1, true, null]}\n```\n\n| a | b |\n|---|--:|\n| 1 | 22 |\n";
    for (name, look) in [
        ("dark", TerminalCaps::default()),
        (
            "light",
            TerminalCaps { theme: Theme::of_background(TermBackground::Light), ..TerminalCaps::default() },
        ),
        ("none", TerminalCaps { colours: ColorSupport::None, links: false, ..TerminalCaps::default() }),
    ] {
        let drawn = LinePrinter::new(look, 80).markdown(source).replace('\x1b', "␛");
        insta::assert_snapshot!(format!("colours_{name}"), drawn);
    }
}

#[test]
fn user_command_is_shown_and_can_be_stopped() {
    let mut rig = Rig::new(80, 24);
    rig.typed("!sleep 100");
    rig.key("enter");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Shell(String::from("sleep 100"))));
    rig.news(UiUpdate::CallBegan {
        id: String::from("!1"),
        agent: None,
        name: String::from("$"),
        headline: String::from("sleep 100"),
    });
    rig.wait(3000);
    assert!(
        rig.screen().contains("$ sleep 100 · 3 s") && rig.screen().contains("esc stops"),
        "{}",
        rig.screen()
    );
    assert!(rig.model.deadline().is_some(), "the time goes on");
    // A turn that ends meanwhile does not close it.
    rig.news(UiUpdate::TurnBegan);
    rig.news(ended());
    rig.frame();
    assert!(rig.screen().contains("$ sleep 100"), "{}", rig.screen());
    rig.key("esc");
    assert_eq!(rig.effects.last(), Some(&TermEffect::Interrupt));
}

#[test]
fn long_list_is_shown_at_once_and_fully_searchable() {
    let row = |number: usize| PickerRow {
        id: number.to_string(),
        title: format!("Session {number} about ÄPFEL"),
        detail: format!("{number} d ago"),
        preview: Vec::new(),
    };
    let (purpose, title) = (String::from("session"), String::from("Go on with"));
    let rows: Vec<PickerRow> = (0..100).map(row).collect();
    let mut rig = Rig::new(80, 24);
    rig.news(UiUpdate::Pick { purpose: purpose.clone(), title, rows, previewed: false });
    rig.frame();
    assert!(rig.screen().contains("100 of 100"), "{}", rig.screen());
    rig.key("down");
    rig.news(UiUpdate::PickMore { purpose: purpose.clone(), rows: (100..10_000).map(row).collect() });
    // Rows for an earlier picker are ignored.
    rig.news(UiUpdate::PickMore { purpose: String::from("other"), rows: vec![row(7)] });
    rig.frame();
    let screen = rig.screen();
    assert!(screen.contains("10000 of 10000") && screen.contains("› Session 1 about"), "{screen}");
    rig.typed("äpfel session 4711");
    rig.frame();
    assert!(rig.screen().contains("1 of 10000"), "{}", rig.screen());
    rig.news(UiUpdate::PickMore { purpose, rows: vec![row(47_110), row(5)] });
    rig.frame();
    let screen = rig.screen();
    assert!(screen.contains("2 of 10002") && screen.contains("› Session 4711 about"), "{screen}");
    rig.wait(500);
    rig.key("down");
    rig.key("enter");
    let picked = rig.effects.iter().find_map(|it| match it {
        TermEffect::Picked { id, .. } => Some(id.as_str()),
        _ => None,
    });
    assert_eq!(picked, Some("47110"));
}
