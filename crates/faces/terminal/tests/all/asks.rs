//! Nothing is decided by accident.

use haft_terminal::{AskAnswer, AskChoice, AskKind, ChoiceRow, SessionNews, TermEffect, TermEvent};

use crate::rig::{Rig, question};

fn answers(rig: &Rig) -> Vec<AskAnswer> {
    let answer = |effect: &TermEffect| match effect {
        TermEffect::Answer { answer, .. } => Some(answer.clone()),
        _ => None,
    };
    rig.effects.iter().filter_map(answer).collect()
}

fn choice(row: usize, words: &str) -> AskAnswer {
    AskAnswer::Choice(AskChoice { row, words: words.to_owned() })
}

fn working() -> Rig {
    let mut rig = Rig::new(80, 24);
    rig.news(SessionNews::TurnBegan);
    rig.frame();
    rig
}

#[test]
fn keys_hammered_into_a_question_decide_nothing() {
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

#[test]
fn a_word_that_begins_with_a_letter_of_the_question_is_a_word() {
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

#[test]
fn whoever_waits_and_means_it_is_heard() {
    let check = |keys: &[&str], want: Option<AskAnswer>| {
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
    // Nothing is selected at first.
    check(&["enter"], None);
    check(&["down", "enter"], Some(choice(0, "")));
    check(&["up", "enter"], Some(choice(3, "")));
    // What allows more than the call has to be said twice.
    check(&["a"], None);
    check(&["a", "a"], Some(choice(1, "")));
    check(&["down", "down", "enter"], None);
    check(&["down", "down", "enter", "enter"], Some(choice(1, "")));
    // A no with words, and without.
    check(&["n", "t", "r", "y", "enter"], Some(choice(2, "try")));
    check(&["n", "enter"], Some(choice(2, "")));
    // Keys of the field change or leave the field only.
    check(&["n", "y", "backspace", "delete", "left", "up", "esc"], None);
    check(&["x"], Some(choice(3, "")));
    // Later.
    check(&["esc"], None);
    check(&["esc", "tab", "esc"], None);
}

#[test]
fn a_question_that_is_taken_back_goes_and_the_next_begins_anew() {
    let mut rig = working();
    rig.news(question("one"));
    rig.news(question("two"));
    rig.wait(500);
    assert!(rig.screen().contains("1 more wait"), "{}", rig.screen());
    rig.key("down");
    rig.news(SessionNews::Withdrawn(String::from("one")));
    // The key was for the first one.
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
fn the_rows_that_decide_are_always_there_and_the_rest_is_counted() {
    for (columns, rows) in [(40, 12), (80, 24), (120, 40)] {
        let mut rig = Rig::new(columns, rows);
        rig.news(SessionNews::TurnBegan);
        let SessionNews::Asked(mut card) = question("q") else { return };
        let line = |number| haft_tool::Line::new(haft_tool::LineStyle::Added, format!("+line {number}"));
        card.body = (0..2000).map(line).collect();
        rig.news(SessionNews::Asked(card));
        rig.wait(500);
        let screen = rig.screen();
        for needed in ["y Yes, this once", "x No, and stop", "rows are not shown", "›"] {
            assert!(screen.contains(needed), "{columns}×{rows}: {needed}\n{screen}");
        }
        // All of it is reachable before anything is decided.
        rig.key("ctrl+o");
        rig.key("G");
        assert!(rig.screen().contains("+line 1999"), "{}", rig.screen());
        rig.key("q");
        // Keys of the pager do not reach the question.
        rig.key("y");
        rig.wait(300);
        assert_eq!(answers(&rig), []);
    }
}

#[test]
fn pastes_and_type_ahead_are_the_draft_while_a_question_is_open() {
    let mut rig = working();
    rig.news(question("q"));
    rig.event(TermEvent::Paste(String::from("y\ny\n")));
    rig.wait(100);
    assert_eq!(answers(&rig), []);
    assert_eq!(rig.model.draft().whole(), "y\ny\n");
}

#[test]
fn a_rule_is_narrowed_before_it_is_kept_and_a_bad_one_is_refused() {
    let mut rig = working();
    let SessionNews::Asked(mut card) = question("q") else { unreachable!("it is a question") };
    let AskKind::Choice(rows) = &mut card.kind else { unreachable!("it has rows") };
    rows[1] = ChoiceRow {
        key: 'r',
        label: String::from("Yes, with a rule of your own"),
        words: true,
        given: String::from("Bash(rm:*)"),
        ..ChoiceRow::default()
    };
    rig.news(SessionNews::Asked(card));
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
    // It stays until somebody takes it away.
    let why = String::from("that is no rule");
    rig.news(SessionNews::AnswerRefused { id: String::from("q"), why });
    rig.frame();
    assert!(rig.screen().contains("that is no rule"), "{}", rig.screen());
    rig.news(SessionNews::Withdrawn(String::from("q")));
    rig.frame();
    assert!(!rig.screen().contains("Bash wants to run"), "{}", rig.screen());
}
