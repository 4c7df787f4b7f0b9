use super::*;

/// Returns the text with `|` at the caret.
fn shown(composer: &Composer) -> String {
    let mut text = composer.text.clone();
    text.insert(composer.at, '|');
    text
}

fn of(text: &str) -> Composer {
    let mut composer = Composer::default();
    let at = text.find('|').unwrap_or(text.len());
    composer.set(&text.replace('|', ""));
    composer.go(CaretMove::To(at));
    composer
}

#[test]
fn caret_movement_and_deletion() {
    let check = |text: &str, act: fn(&mut Composer), want: &str| {
        let mut composer = of(text);
        act(&mut composer);
        assert_eq!(shown(&composer), want, "{text}");
    };
    check("ab|c", |it| it.insert("X"), "abX|c");
    check("a👩\u{200d}👧|", |it| it.delete(CaretMove::Left), "a|");
    check("e\u{301}|", |it| it.go(CaretMove::Left), "|e\u{301}");
    check("one two|", |it| it.delete(CaretMove::WordLeft), "one |");
    check("one two  |", |it| it.go(CaretMove::WordLeft), "one |two  ");
    check("|one two", |it| it.go(CaretMove::WordRight), "one| two");
    check("a\nb|c\nd", |it| it.kill(CaretMove::LineEnd), "a\nb|\nd");
    check("a|\nb", |it| it.kill(CaretMove::LineEnd), "a|b");
    check("ab|c", |it| it.kill(CaretMove::LineStart), "|c");
    check("ab|cd", Composer::transpose, "acb|d");
    check("ab|", Composer::transpose, "ba|");
    check(
        "one two three|",
        |it| {
            it.kill(CaretMove::WordLeft);
            it.kill(CaretMove::WordLeft);
            it.yank();
        },
        "one two three|",
    );
    check(
        "a b|",
        |it| {
            it.kill(CaretMove::WordLeft);
            it.go(CaretMove::Start);
            it.kill(CaretMove::LineEnd);
            it.yank();
            it.yank_pop();
        },
        "b|",
    );
    check(
        "|",
        |it| {
            it.insert("a");
            it.insert(" ");
            it.insert("b");
            it.undo();
            it.undo();
            it.redo();
        },
        "a|",
    );
}

#[test]
fn caret_moves_by_rows() {
    let mut composer = of("0123456789\nab|");
    assert!(composer.move_row(false, 7), "to the wrapped rest of the first line");
    assert_eq!(shown(&composer), "0123456|789\nab");
    assert!(composer.move_row(false, 7));
    assert_eq!(shown(&composer), "01|23456789\nab");
    assert!(!composer.move_row(false, 7));
    assert!(composer.move_row(true, 7));
    assert!(composer.move_row(true, 7));
    assert_eq!(shown(&composer), "0123456789\nab|");
    assert!(!composer.move_row(true, 7));
}

#[test]
fn long_paste_is_placeholder_and_sent_whole() {
    let mut composer = Composer::default();
    let long = "line\n".repeat(40);
    composer.insert("see ");
    composer.paste(&long);
    composer.insert(" end");
    let (rows, caret) = composer.rows(80, "> ", TextStyle::PLAIN);
    assert_eq!(rows[0].to_text(), "> see [pasted text 1, 40 lines] end");
    assert_eq!(caret.column, rows[0].width());
    assert_eq!(composer.whole(), format!("see {long} end"));
    assert!(composer.expand_paste());
    assert_eq!(composer.text(), format!("see {long} end"));
    composer.undo();
    assert_eq!(composer.whole(), format!("see {long} end"));
}

proptest::proptest! {
    /// The caret is always within its rows, and rows are never too wide.
    #[test]
    fn caret_stays_within_rows(text in "[a-z漢👩\n ]{0,60}", at in 0_usize..80, width in 6_usize..30) {
        let mut composer = Composer::default();
        composer.set(&text);
        composer.go(CaretMove::To(at));
        let (rows, caret) = composer.rows(width, "> ", TextStyle::PLAIN);
        proptest::prop_assert!(caret.row < rows.len());
        proptest::prop_assert!(caret.column <= width);
        proptest::prop_assert!(rows.iter().all(|row| row.width() <= width), "{rows:?}");
    }
}

#[test]
fn paste_in_pieces_is_one_placeholder() {
    let line = "a line of some words\n";
    let mut composer = Composer::default();
    composer.insert("x ");
    composer.paste(&line.repeat(3));
    for _ in 0..500 {
        composer.paste_more(&line.repeat(40));
    }
    composer.insert(" y");
    assert_eq!(composer.whole(), format!("x {} y", line.repeat(20_003)));
    assert_eq!(composer.text().chars().count(), "x m y".len());
    let (rows, _) = composer.rows(80, "› ", TextStyle::PLAIN);
    assert_eq!(rows[0].to_text(), "› x [pasted text 1, 20003 lines] y");
    // A placeholder is deleted as a whole, and undo restores it.
    composer.undo();
    composer.undo();
    assert_eq!(composer.whole(), "x ");
    composer.redo();
    assert_eq!(composer.whole(), format!("x {}", line.repeat(20_003)));
    // Text typed in between is not part of the paste.
    let mut composer = Composer::default();
    composer.paste("short");
    composer.insert(" typed");
    composer.paste_more(" more");
    assert_eq!(composer.text(), "short typed more");
}
