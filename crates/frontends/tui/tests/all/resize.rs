//! At any screen size, every line appears exactly once.

use haft_tui::{TermEvent, UiUpdate};
use proptest::prelude::*;

use crate::rig::{Rig, ended, question, text};

const SIZES: [(usize, usize); 8] =
    [(60, 24), (120, 24), (40, 24), (100, 24), (100, 12), (100, 40), (100, 16), (80, 24)];

fn markers(rig: &Rig, count: usize) -> Vec<(usize, usize)> {
    let all = rig.lines().join("\n");
    let seen = |number: usize| all.matches(&format!("<{number:03}>")).count();
    (0..count).map(|number| (number, seen(number))).filter(|it| it.1 != 1).collect()
}

#[test]
fn lines_appear_once_through_eight_resizes() {
    let mut rig = Rig::new(80, 24);
    rig.typed("go");
    rig.key("enter");
    let mut sizes = SIZES.iter().cycle();
    for number in 0..80 {
        rig.news(text(&format!("Line <{number:03}> has some words behind it.\n\n")));
        rig.frame();
        if number % 5 == 4 {
            let (columns, rows) = sizes.next().unwrap();
            rig.resize(*columns, *rows);
        }
    }
    rig.news(ended());
    rig.frame();
    assert_eq!(markers(&rig, 80), [], "{}", rig.lines().join("\n"));
    let prompts = rig.screen().lines().filter(|line| line.starts_with('›')).count();
    assert_eq!(prompts, 1, "{}", rig.screen());
}

/// Also when the size changes at every step, in code, tables, lists and long lines.
#[test]
fn lines_appear_once_when_resized_at_every_step() {
    let mut rig = Rig::new(80, 24);
    rig.typed("go");
    rig.key("enter");
    let (mut sizes, mut number) = (SIZES.iter().cycle(), 0);
    let mut mark = || {
        number += 1;
        format!("<{:03}>", number - 1)
    };
    for round in 0..12 {
        let pieces = [
            format!("Words {} that go on for a while, {}", mark(), "long ".repeat(round * 3)),
            format!("and end {}.\n\n", mark()),
            format!("```rust\nlet a = \"{}\"; // why\n", mark()),
            format!("let b = 2; // {}\n```\n", mark()),
            format!("- item {}\n- item {}\n", mark(), mark()),
            format!("\n| a | b |\n|---|---|\n| {} | x |\n", mark()),
            String::from("\nAfter the table.\n\n"),
        ];
        for piece in pieces {
            rig.news(text(&piece));
            rig.frame();
            let (columns, rows) = sizes.next().unwrap();
            rig.resize(*columns, *rows);
        }
    }
    rig.news(ended());
    rig.frame();
    assert_eq!(markers(&rig, number), [], "{}", rig.lines().join("\n"));
}

/// A multiplexer wraps rows again and reports that some frames later.
#[test]
fn lines_appear_once_when_terminal_wraps_before_reporting() {
    let look = haft_tui::TerminalCaps { wraps_early: true, ..haft_tui::TerminalCaps::default() };
    let mut rig = Rig::opening(80, 24, look);
    rig.news(UiUpdate::Ready(Vec::new()));
    rig.frame();
    rig.typed("go");
    rig.key("enter");
    let mut sizes = SIZES.iter().cycle();
    for number in 0..240 {
        let words = "more of them, ".repeat(number % 11);
        for piece in [format!("Line <{number:03}> has some "), format!("words behind it, {words}ends.\n\n")] {
            rig.news(text(&piece));
            rig.frame();
        }
        let (columns, rows) = sizes.next().unwrap();
        rig.emulator.resize(*columns, *rows);
        if number % 3 == 2 {
            rig.follow(*columns, *rows);
        }
    }
    // The last size is reported before the cursor moves to the caret.
    rig.follow(80, 24);
    rig.news(ended());
    rig.frame();
    assert_eq!(markers(&rig, 240), [], "{}", rig.lines().join("\n"));
    let prompts = rig.screen().lines().filter(|line| line.starts_with('›')).count();
    assert_eq!(prompts, 1, "{}", rig.screen());
    assert!(rig.emulator.cursor().visible);
}

#[test]
fn earlier_terminal_content_is_never_touched() {
    let mut rig = Rig::opening(80, 24, haft_tui::TerminalCaps::default());
    for number in 0..20 {
        rig.emulator.feed(format!("shell <{number:03}>\r\n").as_str());
    }
    rig.news(UiUpdate::Ready(Vec::new()));
    rig.frame();
    for (columns, rows) in SIZES {
        rig.resize(columns, rows);
        rig.typed("x");
    }
    assert_eq!(markers(&rig, 20), []);
}

#[test]
fn wrapped_paragraph_copies_as_one_line() {
    let mut rig = Rig::new(80, 24);
    let words = "word ".repeat(80);
    rig.news(UiUpdate::TurnBegan);
    for piece in words.as_bytes().chunks(7) {
        rig.news(text(std::str::from_utf8(piece).unwrap()));
        rig.frame();
    }
    rig.news(ended());
    rig.frame();
    assert!(rig.lines().contains(&words.trim_end().to_owned()), "{:?}", rig.lines());
    // The terminal wraps by itself.
    rig.resize(50, 24);
    assert!(rig.lines().contains(&words.trim_end().to_owned()), "{:?}", rig.lines());
}

/// Streams a text at 200 tokens and 30 frames per second; returns the number of tokens.
fn stream(rig: &mut Rig, source: &str) -> usize {
    let chars: Vec<char> = source.chars().collect();
    let tokens: Vec<String> = chars.chunks(4).map(|it| it.iter().collect()).collect();
    for pieces in tokens.chunks(7) {
        for piece in pieces {
            rig.news(text(piece));
        }
        rig.pass(33);
    }
    tokens.len()
}

/// A table with this many rows and cells of very different lengths.
fn table(rows: usize) -> String {
    let mut source = String::from("| name | what it does | cost |\n|---|---|--:|\n");
    for number in 0..rows {
        let words = "some words ".repeat(1 + number * 7 % 5);
        source.push_str(&format!("| `row_{number}` | {words}| {} |\n", number * number * 37));
    }
    source + "\n"
}

#[test]
fn streaming_costs_at_most_thirteen_bytes_per_token() {
    let shell = include_str!("../../../../../docs/concepts/sandbox.md");
    let shell = shell.to_owned();
    let hooks = include_str!("../../../../../docs/reference/hooks.md").to_owned();
    let architecture = include_str!("../../../../../docs/architecture.md").to_owned();
    let code = format!("```rust\n{}\n```\n", include_str!("../../src/paint.rs"));
    for (name, source) in [
        ("prose and wide tables", shell),
        ("long tables", hooks),
        ("wide tables", architecture),
        ("code", code),
        ("small tables", (2..12).map(table).collect::<String>()),
        ("a table higher than the screen", table(120)),
    ] {
        let mut rig = Rig::new(120, 40);
        rig.news(UiUpdate::TurnBegan);
        rig.frame();
        rig.written.clear();
        let tokens = stream(&mut rig, &source);
        let tenths = 10 * rig.written.len() / tokens;
        assert!(tenths <= 130, "{name}: {tenths} tenths of a byte a token");
        assert!(30 < tenths, "{name}: something was written");
    }
}

#[test]
fn streaming_never_clears_and_idle_writes_nothing() {
    let mut rig = Rig::new(120, 40);
    rig.news(UiUpdate::TurnBegan);
    stream(&mut rig, &table(60));
    let all = String::from_utf8_lossy(&rig.written);
    for never in ["\x1b[2J", "\x1b[3J", "\x1b[H", "\x1b[1;1H"] {
        assert!(!all.contains(never), "{never:?}");
    }
    // When nothing happens, nothing is written.
    rig.news(ended());
    rig.frame();
    rig.written.clear();
    rig.event(TermEvent::Focus(false));
    rig.frame();
    assert_eq!((rig.written.len(), rig.model.deadline()), (0, None));
}

/// A full row that continued ends its line when another line comes below: a blank line after it stays
/// one, also when it is copied or the window becomes wider.
#[test]
fn full_row_ends_line_before_unrelated_row() {
    for (one, two) in [
        ("| a | b |\nxxb c123456789012345678", "| a | b |\nz\n"),
        ("| a | b |\n漢b c漢漢漢漢漢漢漢漢漢", "| a | b |\nz\n"),
    ] {
        let (mut often, mut once) = (Rig::new(21, 7), Rig::new(21, 7));
        often.news(text(one));
        often.frame();
        once.news(text(one));
        for rig in [&mut often, &mut once] {
            rig.news(text(two));
            rig.frame();
        }
        assert_eq!(often.lines(), once.lines(), "{one:?} {two:?}");
    }
}

/// Spaces at the margin do not form a row that could be continued.
#[test]
fn spaces_at_margin_form_no_row() {
    for piece in
        ["```\nםםשبם漢  שحä حäaaaaح👩äبحaםa 👩👩  a ", "```\n0123456789012345678901234567890123456   "]
    {
        let (mut often, mut once) = (Rig::new(36, 5), Rig::new(36, 5));
        often.compares = true;
        for at in piece.char_indices().map(|it| it.0).skip(1) {
            let before = piece[..at].chars().next_back().unwrap();
            often.news(text(&before.to_string()));
            once.news(text(&before.to_string()));
            often.frame();
        }
        for rig in [&mut often, &mut once] {
            rig.news(text(" \nz\n"));
            rig.frame();
        }
        assert_eq!(often.lines(), once.lines(), "{piece:?}");
    }
}

/// Any possible event.
#[derive(Clone, Debug)]
enum Step {
    Text(String),
    Thinking,
    Call(u8),
    Progress(u8),
    CallEnd(u8, bool),
    Typed(String),
    Key(&'static str),
    Ask(u8),
    Withdraw(u8),
    Notice,
    End,
    Begin,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let words = "([a-zä漢👩שםحب ]{1,30}\n?\n?|```\n|- [a-z]{1,9}\n|\\| a \\| b \\|\n|\\|---\\|---\\|\n|# [a-z]{1,9}\n){1,4}";
    prop_oneof![
        6 => words.prop_map(Step::Text),
        1 => Just(Step::Thinking),
        2 => any::<u8>().prop_map(|it| Step::Call(it % 4)),
        1 => any::<u8>().prop_map(|it| Step::Progress(it % 4)),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(it, failed)| Step::CallEnd(it % 4, failed)),
        2 => "[a-z漢שحם ]{1,60}".prop_map(Step::Typed),
        2 => prop::sample::select(vec!["enter", "esc", "up", "down", "backspace", "ctrl+k", "alt+enter", "tab"])
            .prop_map(Step::Key),
        1 => any::<u8>().prop_map(|it| Step::Ask(it % 3)),
        1 => any::<u8>().prop_map(|it| Step::Withdraw(it % 3)),
        1 => Just(Step::Notice),
        1 => Just(Step::End),
        1 => Just(Step::Begin),
        1 => (0_u64..900).prop_map(Step::Wait),
    ]
}

fn apply(rig: &mut Rig, step: &Step) {
    match step {
        Step::Text(piece) => rig.news(text(piece)),
        Step::Thinking => rig.news(UiUpdate::Thinking(String::from("hm "))),
        Step::Call(id) => rig.news(UiUpdate::CallBegan {
            id: id.to_string(),
            agent: None,
            name: String::from("Bash"),
            headline: String::from("$ make all"),
        }),
        Step::Progress(id) => rig.news(UiUpdate::CallProgress {
            id: id.to_string(),
            tail: vec![String::from("one"), String::from("two\u{1b}[2J")],
            note: String::from("2 lines"),
        }),
        Step::CallEnd(id, failed) => rig.news(UiUpdate::CallEnded(Box::new(haft_tui::FinishedCall {
            id: id.to_string(),
            agent: None,
            name: String::from("Bash"),
            headline: String::from("$ make all"),
            failed: *failed,
            rendered: haft_tool::Rendered::preview("a\nb\nc"),
            whole: None,
        }))),
        Step::Typed(words) => rig.event(TermEvent::Paste(words.clone())),
        Step::Key(label) => {
            rig.event(TermEvent::Key(haft_tui::KeyPress::of_label(label).unwrap()));
        }
        Step::Ask(id) => rig.news(question(&id.to_string())),
        Step::Withdraw(id) => rig.news(UiUpdate::Withdrawn(id.to_string())),
        Step::Notice => rig.news(UiUpdate::Notice(String::from("a notice\u{7}"))),
        Step::End => rig.news(ended()),
        Step::Begin => rig.news(UiUpdate::TurnBegan),
        Step::Wait(ms) => {
            rig.now += ms;
            rig.event(TermEvent::Tick);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// After any number of frames the screen equals one painted from scratch.
    #[test]
    fn screen_after_many_frames_equals_fresh_paint(
        steps in prop::collection::vec((step(), any::<bool>()), 0..60),
        columns in 20_usize..100,
        rows in 5_usize..30,
    ) {
        let (mut often, mut once) = (Rig::new(columns, rows), Rig::new(columns, rows));
        often.compares = true;
        for (step, draws) in &steps {
            apply(&mut often, step);
            apply(&mut once, step);
            if *draws {
                often.frame();
                // Visibility determines whether keys are accepted.
                once.model.shown(once.now);
            }
        }
        often.frame();
        once.frame();
        prop_assert_eq!(often.lines(), once.lines());
        prop_assert_eq!(often.emulator.cursor().col, once.emulator.cursor().col);
        let all = String::from_utf8_lossy(&often.written).into_owned();
        let clears = all.contains("\x1b[2J") || all.contains('\u{7}');
        prop_assert!(!clears, "something foreign came through");
    }

    /// The same when the size changes at every step: the region is as painted from scratch (the rig
    /// checks each frame), and every marker appears once.
    #[test]
    fn screen_is_correct_when_resized_at_every_step(
        steps in prop::collection::vec((step(), 20_usize..120, 8_usize..40), 0..16),
    ) {
        let mut rig = Rig::new(80, 24);
        rig.compares = true;
        rig.news(UiUpdate::TurnBegan);
        for (number, (step, columns, rows)) in steps.iter().enumerate() {
            rig.news(UiUpdate::Notice(format!("<{number:03}>")));
            apply(&mut rig, step);
            rig.frame();
            rig.resize(*columns, *rows);
        }
        prop_assert_eq!(markers(&rig, steps.len()), []);
    }

    /// No size causes a panic, however small.
    #[test]
    fn any_screen_size_paints_without_panic(
        steps in prop::collection::vec((step(), prop::option::weighted(0.2, (2_usize..120, 1_usize..40))), 0..40),
    ) {
        let mut rig = Rig::new(80, 24);
        for (step, size) in &steps {
            apply(&mut rig, step);
            rig.frame();
            if let Some((columns, rows)) = size {
                rig.resize(*columns, *rows);
            }
        }
    }
}
