//! Questions are never answered by accident.

use haft_tui::{
    CardAnswer, ChoiceOption, ChosenOption, KeyPress, PickerRow, QuestionField, QuestionKind, TermEffect,
    TermEvent, UiUpdate,
};
use proptest::prelude::ProptestConfig;

use crate::rig::{Rig, question};

fn answers(rig: &Rig) -> Vec<CardAnswer> {
    let answer = |effect: &TermEffect| match effect {
        TermEffect::Answer { answer, .. } => Some(answer.clone()),
        _ => None,
    };
    rig.effects.iter().filter_map(answer).collect()
}

fn choice(row: usize, words: &str) -> CardAnswer {
    CardAnswer::Choice(ChosenOption { row, words: words.to_owned() })
}

fn working() -> Rig {
    let mut rig = Rig::new(80, 24);
    rig.news(UiUpdate::TurnBegan);
    rig.frame();
    rig
}

#[test]
fn hammered_keys_do_not_answer_question() {
    for key in ["y", "a", "1", "n", "enter", "space", "x", "tab", "down"] {
        let mut rig = working();
        for step in 0..60 {
            if step == 15 {
                rig.news(question("q"));
            }
            rig.key(key);
            rig.wait(60);
        }
        assert_eq!(answers(&rig), [], "{key}");
        if key.len() == 1 {
            assert_eq!(rig.model.draft().whole(), key.repeat(60), "{key} is in the draft");
        }
    }
}

/// A question of each kind.
fn question_of(kind: usize) -> UiUpdate {
    let UiUpdate::Asked(mut card) = question("q") else { unreachable!("it is a question") };
    let row = |key, label: &str| ChoiceOption { key, label: label.to_owned(), ..ChoiceOption::default() };
    let field = |name: &str| QuestionField {
        name: name.to_owned(),
        label: name.to_owned(),
        ..QuestionField::default()
    };
    card.kind = match kind {
        0 => card.kind,
        1 => QuestionKind::Many(vec![row('1', "red"), row('2', "blue"), row('d', "Done")]),
        2 => QuestionKind::Form(vec![field("name"), field("age")]),
        3 => QuestionKind::Choice(vec![
            ChoiceOption { words: true, given: String::from("Bash(rm:*)"), ..row('r', "Yes, by a rule") },
            ChoiceOption { edits: Some(String::from("{}")), ..row('e', "Yes, but edit it first") },
            row('y', "Yes"),
        ]),
        _ => QuestionKind::Choice(vec![row('y', "Yes, start it from now on"), row('n', "No")]),
    };
    UiUpdate::Asked(card)
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// A user who is typing when a question appears answers nothing and loses no character, whatever the
    /// question and the keys are.
    #[test]
    fn typing_when_question_appears_does_not_answer(
        kind in 0_usize..5,
        before in 0_usize..10,
        all in proptest::bool::ANY,
        keys in proptest::collection::vec((0_usize..HAMMERED.len(), 0_u64..400), 1..60),
    ) {
        let letters_only = if all { HAMMERED.len() } else { 12 };
        let keys: Vec<(&str, u64)> = keys.iter().map(|(at, gap)| (HAMMERED[at % letters_only], *gap)).collect();
        let mut rig = working();
        let mut letters = String::new();
        for (number, (key, gap)) in keys.iter().enumerate() {
            if number == before {
                rig.news(question_of(kind));
            }
            rig.key(key);
            letters.push_str(if *key == "space" { " " } else { key });
            rig.wait(*gap);
        }
        proptest::prop_assert_eq!(answers(&rig), []);
        if keys.iter().all(|(key, _)| key.len() == 1 || *key == "space") {
            proptest::prop_assert_eq!(rig.model.draft().whole(), letters);
        }
    }

    /// After any waiting time, Enter alone allows nothing.
    #[test]
    fn enter_alone_never_approves(kind in 0_usize..5, gaps in proptest::collection::vec(0_u64..3000, 1..10)) {
        let mut rig = working();
        rig.news(question_of(kind));
        for gap in gaps {
            rig.wait(gap);
            rig.key("enter");
        }
        proptest::prop_assert_eq!(answers(&rig), []);
    }
}

/// Keys with a meaning for questions, and others.
const HAMMERED: &[&str] = &[
    "y",
    "n",
    "a",
    "s",
    "r",
    "e",
    "x",
    "d",
    "1",
    "2",
    "space",
    "3",
    "enter",
    "tab",
    "up",
    "down",
    "alt+y",
    "alt+1",
    "backspace",
    "pagedown",
    "left",
    "z",
];

fn press(rig: &mut Rig, label: &str) {
    rig.event(TermEvent::Key(KeyPress::of_label(label).unwrap()));
}

/// A question is not visible while the terminal accepts no output: it is not answered, however long ago
/// it was asked.
#[test]
fn invisible_question_ignores_keys() {
    for kind in 0..5 {
        for key in ["y", "1", "alt+y", "alt+1"] {
            let mut rig = working();
            rig.news(question_of(kind));
            for _ in 0..20 {
                rig.now += 1000;
                rig.event(TermEvent::Tick);
                press(&mut rig, key);
                press(&mut rig, "down");
                press(&mut rig, "enter");
            }
            assert_eq!(answers(&rig), [], "{kind} {key}");
            // Once visible, it accepts keys as usual.
            rig.wait(500);
            assert!(rig.screen().contains("esc later"), "{}", rig.screen());
        }
    }
}

/// Keys that waited in the input queue are older than the time at which they are read.
#[test]
fn queued_keys_do_not_answer_question() {
    for key in ["y", "1", "alt+y"] {
        let mut rig = working();
        rig.news(question("q"));
        rig.frame();
        // The program was stopped, so the input queue was never found empty.
        rig.now += 5000;
        press(&mut rig, key);
        rig.wait(300);
        assert_eq!(answers(&rig), [], "{key}");
        rig.wait(500);
        rig.key("y");
        rig.wait(300);
        assert_eq!(answers(&rig), [choice(0, "")], "{key}");
    }
}

/// The same for a question behind an overlay.
#[test]
fn hidden_question_ignores_keys_until_visible() {
    let mut rig = working();
    rig.key("ctrl+o");
    rig.news(question("q"));
    rig.wait(5000);
    rig.event(TermEvent::Key(KeyPress::of_label("q").unwrap()));
    // Not painted yet.
    rig.now += 5000;
    rig.event(TermEvent::Tick);
    press(&mut rig, "y");
    rig.now += 500;
    rig.event(TermEvent::Tick);
    assert_eq!(answers(&rig), []);
    assert_eq!(rig.model.draft().whole(), "y");
}

fn picker() -> UiUpdate {
    let row =
        |id: &str| PickerRow { id: id.to_owned(), title: format!("model {id}"), ..PickerRow::default() };
    UiUpdate::Pick {
        purpose: String::from("model"),
        title: String::from("Model"),
        rows: vec![row("a"), row("b"), row("n")],
        previewed: false,
    }
}

fn picked(rig: &Rig) -> Vec<String> {
    let id = |effect: &TermEffect| match effect {
        TermEffect::Picked { id, .. } => Some(id.clone()),
        _ => None,
    };
    rig.effects.iter().filter_map(id).collect()
}

#[test]
fn picker_ignores_keys_until_visible() {
    let mut rig = Rig::new(80, 24);
    rig.news(picker());
    // Keys typed before it is visible go to the prompt.
    press(&mut rig, "x");
    assert_eq!(rig.model.draft().whole(), "x");
    rig.frame();
    assert!(!rig.screen().contains("enter chooses"), "{}", rig.screen());
    rig.key("enter");
    rig.wait(150);
    rig.key("enter");
    assert_eq!(picked(&rig), [""; 0]);
    rig.wait(500);
    assert!(rig.screen().contains("enter chooses"), "{}", rig.screen());
    // Typing a search text and Enter directly after it.
    rig.typed("b");
    rig.key("enter");
    assert_eq!(picked(&rig), ["b"]);
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A user who is typing when a picker appears picks nothing.
    #[test]
    fn typing_when_picker_appears_picks_nothing(
        before in 0_usize..5,
        keys in proptest::collection::vec((0_usize..HAMMERED.len(), 0_u64..190), 5..60),
    ) {
        let mut rig = Rig::new(80, 24);
        for (number, (key, gap)) in keys.iter().enumerate() {
            if number == before {
                rig.news(picker());
            }
            rig.key(HAMMERED[*key]);
            rig.wait(*gap);
        }
        proptest::prop_assert_eq!(picked(&rig), [""; 0]);
    }
}

#[test]
fn word_starting_with_option_key_is_text() {
    let mut rig = working();
    rig.news(question("q"));
    rig.wait(2000);
    for letter in ["y", "e", "s"] {
        rig.key(letter);
        rig.wait(90);
    }
    rig.wait(2000);
    assert_eq!(answers(&rig), []);
    assert_eq!(rig.model.draft().whole(), "yes");
}

/// A user who is writing a prompt beside an open question can go on, with any pauses.
#[test]
fn prompt_can_be_edited_and_sent_beside_question() {
    let mut rig = working();
    rig.news(question("q"));
    rig.wait(2000);
    for key in ["l", "o", "k", "backspace", "left", "end", "g", "enter"] {
        rig.key(key);
        let footer = rig.screen().lines().last().unwrap_or_default().to_owned();
        assert_eq!(footer.contains("enter queues"), key != "enter", "{footer}");
        assert!(!footer.contains("esc stops"), "{footer}");
        rig.wait(2000);
    }
    assert_eq!(answers(&rig), []);
    assert!(rig.screen().contains("↳ log"), "{}", rig.screen());
}

#[test]
fn deliberate_keys_answer_question() {
    let check = |keys: &[&str], want: Option<CardAnswer>| {
        let mut rig = working();
        rig.news(question("q"));
        rig.wait(500);
        for key in keys {
            rig.key(key);
            rig.wait(200);
        }
        assert_eq!(answers(&rig), want.into_iter().collect::<Vec<_>>(), "{keys:?}\n{}", rig.screen());
    };
    check(&["y"], Some(choice(0, "")));
    check(&["1"], Some(choice(0, "")));
    check(&["alt+y"], Some(choice(0, "")));
    // Nothing is selected initially.
    check(&["enter"], None);
    check(&["down", "enter"], Some(choice(0, "")));
    check(&["up", "enter"], Some(choice(3, "")));
    // An option that allows more than the call has to be confirmed.
    check(&["a"], None);
    check(&["a", "a"], Some(choice(1, "")));
    check(&["down", "down", "enter"], None);
    check(&["down", "down", "enter", "enter"], Some(choice(1, "")));
    // A denial with and without text.
    check(&["n", "t", "r", "y", "enter"], Some(choice(2, "try")));
    check(&["n", "enter"], Some(choice(2, "")));
    // Keys in the text field only edit or leave it.
    check(&["n", "y", "backspace", "delete", "left", "up", "esc"], None);
    check(&["x"], Some(choice(3, "")));
    // Postponed.
    check(&["esc"], None);
    check(&["esc", "tab", "esc"], None);
}

#[test]
fn withdrawn_question_is_replaced_by_next() {
    let mut rig = working();
    rig.news(question("one"));
    rig.news(question("two"));
    rig.wait(500);
    assert!(rig.screen().contains("1 more wait"), "{}", rig.screen());
    rig.key("down");
    rig.news(UiUpdate::Withdrawn(String::from("one")));
    // The key was for the first question.
    rig.key("enter");
    rig.wait(1000);
    assert_eq!(answers(&rig), []);
    rig.key("y");
    rig.wait(200);
    assert_eq!(
        rig.effects.last(),
        Some(&TermEffect::Answer { id: String::from("two"), answer: choice(0, "") })
    );
    assert!(!rig.screen().contains("rm -rf"), "{}", rig.screen());
}

#[test]
fn option_rows_are_always_shown_and_hidden_lines_counted() {
    for (columns, rows) in [(40, 12), (80, 24), (120, 40)] {
        let mut rig = Rig::new(columns, rows);
        rig.news(UiUpdate::TurnBegan);
        let UiUpdate::Asked(mut card) = question("q") else { return };
        let line =
            |number| haft_tool::RenderedLine::new(haft_tool::LineStyle::Added, format!("+line {number}"));
        card.body = (0..2000).map(line).collect();
        rig.news(UiUpdate::Asked(card));
        rig.wait(500);
        let screen = rig.screen();
        for needed in ["y Yes, this once", "x No, and stop", "rows are not shown", "›"] {
            assert!(screen.contains(needed), "{columns}×{rows}: {needed}\n{screen}");
        }
        // The whole question can be read before answering.
        rig.key("ctrl+o");
        rig.key("G");
        assert!(rig.screen().contains("+line 1999"), "{}", rig.screen());
        rig.key("q");
        // Keys for the pager do not reach the question.
        rig.key("y");
        rig.wait(300);
        assert_eq!(answers(&rig), []);
    }
}

/// On any screen size and with any number of options, the effect is shown, hidden lines are counted, and
/// everything is one key away.
#[test]
fn question_subject_is_shown_on_smallest_screen() {
    let row = |at: u32| ChoiceOption {
        key: char::from_u32(u32::from(b'a') + at).unwrap(),
        label: format!("Answer {at} of many, which is a rather long one"),
        detail: vec![String::from("some more about it")],
        ..ChoiceOption::default()
    };
    for (columns, rows, answers) in
        [(40, 12, 7), (40, 10, 7), (40, 8, 7), (60, 24, 20), (80, 12, 9), (40, 6, 3)]
    {
        let mut rig = Rig::new(columns, rows);
        rig.news(UiUpdate::TurnBegan);
        let UiUpdate::Asked(mut card) = question("q") else { unreachable!("it is a question") };
        card.headline = String::from("$ rm -rf build && make all the rest of it, too, please-4711");
        card.kind = QuestionKind::Choice((0..answers).map(row).collect());
        rig.news(UiUpdate::Asked(card));
        // Queued messages leave room for it too.
        for word in ["one", "two", "three", "four", "five", "six"] {
            rig.typed(word);
            rig.key("enter");
        }
        rig.wait(500);
        let screen = rig.screen();
        assert!(screen.contains("rm -rf"), "{columns}×{rows}\n{screen}");
        assert!(screen.contains("esc later"), "{columns}×{rows}\n{screen}");
        let shown = (0..answers).filter(|at| screen.contains(&format!("Answer {at} "))).count();
        assert!(shown == usize::try_from(answers).unwrap() || screen.contains("more answers"), "{screen}");
        if !screen.contains("please-4711") {
            assert!(screen.contains("ctrl+o shows"), "{columns}×{rows}\n{screen}");
        }
        rig.key("ctrl+o");
        assert!(rig.screen().replace('\n', "").contains("please-4711"), "{}", rig.screen());
        rig.key("q");
        // Every option can be reached with arrow keys.
        rig.wait(500);
        for at in 0..answers {
            rig.key("down");
            let wanted = format!("Answer {at} ");
            assert!(rig.screen().contains(&wanted), "{columns}×{rows} {wanted}\n{}", rig.screen());
        }
    }
}

#[test]
fn paste_during_question_goes_to_prompt() {
    let mut rig = working();
    rig.news(question("q"));
    rig.event(TermEvent::Paste(String::from("y\ny\n")));
    rig.wait(100);
    assert_eq!(answers(&rig), []);
    assert_eq!(rig.model.draft().whole(), "y\ny\n");
}

#[test]
fn rule_text_is_edited_and_invalid_one_rejected() {
    let mut rig = working();
    let UiUpdate::Asked(mut card) = question("q") else { unreachable!("it is a question") };
    let QuestionKind::Choice(rows) = &mut card.kind else { unreachable!("it has rows") };
    rows[1] = ChoiceOption {
        key: 'r',
        label: String::from("Yes, with a rule of your own"),
        words: true,
        given: String::from("Bash(rm:*)"),
        ..ChoiceOption::default()
    };
    rig.news(UiUpdate::Asked(card));
    rig.wait(500);
    rig.key("r");
    rig.wait(200);
    assert!(rig.screen().contains("› Bash(rm:*)"), "{}", rig.screen());
    for _ in 0..3 {
        rig.key("backspace");
    }
    rig.typed(" build)");
    rig.key("enter");
    assert_eq!(answers(&rig), [choice(1, "Bash(rm build)")]);
    // It stays open until it is withdrawn.
    let why = String::from("that is no rule");
    rig.news(UiUpdate::AnswerRefused { id: String::from("q"), why });
    rig.frame();
    assert!(rig.screen().contains("that is no rule"), "{}", rig.screen());
    rig.news(UiUpdate::Withdrawn(String::from("q")));
    rig.frame();
    assert!(!rig.screen().contains("Bash wants to run"), "{}", rig.screen());
}
