use super::*;

/// Parses keys: `<esc>`, `<cr>`, `<c-r>`, `<bs>`; other characters are themselves.
fn keys(written: &str) -> Vec<KeyPress> {
    let mut keys = Vec::new();
    let mut rest = written;
    while let Some(first) = rest.chars().next() {
        let named = [
            ("<esc>", KeyPress::plain(KeyCode::Esc)),
            ("<cr>", KeyPress::plain(KeyCode::Enter)),
            ("<bs>", KeyPress::plain(KeyCode::Backspace)),
            ("<c-r>", KeyPress::ctrl('r')),
        ];
        let found = named.iter().find(|(name, _)| rest.starts_with(name));
        let (length, key) =
            found.map_or((first.len_utf8(), KeyPress::plain(KeyCode::Char(first))), |it| (it.0.len(), it.1));
        keys.push(key);
        rest = &rest[length..];
    }
    keys
}

/// Types keys into a prompt whose caret is at `|`; returns the result in the same notation.
fn typed(text: &str, written: &str) -> String {
    let mut draft = Composer::default();
    let at = text.find('|').unwrap_or(0);
    draft.set(&text.replacen('|', "", 1));
    draft.go(CaretMove::To(at));
    let mut vi = ViKeys { mode: ViMode::Normal, ..ViKeys::default() };
    for key in keys(written) {
        let step = vi.key(key, &mut draft);
        match (step, key.typed(), key.code) {
            (ViStep::NotMine, Some(it), _) => draft.insert(&it.to_string()),
            (ViStep::NotMine, None, KeyCode::Backspace) => draft.delete(CaretMove::Left),
            (ViStep::Rows { down, count }, _, _) => {
                for _ in 0..count {
                    draft.move_row(down, 80);
                }
                vi.stay_on_character(&mut draft);
            }
            _ => (),
        }
    }
    let mut shown = draft.text().to_owned();
    shown.insert(draft.at(), '|');
    shown
}

/// Prompt with caret, keys, expected result; most were compared with vim.
const ORDERS: &[(&str, &str, &str)] = &[
    // Motions.
    ("|one two", "w", "one |two"),
    ("|one two three", "2w", "one two |three"),
    ("one |two three", "b", "|one two three"),
    ("|one.two three", "w", "one|.two three"),
    ("|one.two three", "W", "one.two |three"),
    ("|one two", "e", "on|e two"),
    ("one tw|o", "ge", "on|e two"),
    ("  on|e", "0", "|  one"),
    ("  on|e", "^", "  |one"),
    ("|one two", "$", "one tw|o"),
    ("|one two", "3|", "on|e two"),
    ("|a(b[c]d)e", "%", "a(b[c]d|)e"),
    ("a(b[c]d|)e", "%", "a|(b[c]d)e"),
    ("|one two", "fo", "one tw|o"),
    ("|one two", "fx", "|one two"),
    ("|one two", "ft", "one |two"),
    ("|one two", "tw", "one |two"),
    ("one tw|o", "Fn", "o|ne two"),
    ("one tw|o", "Tn", "on|e two"),
    ("|a.b.c.d", "f.;;", "a.b.c|.d"),
    ("|a.b.c.d", "f.;,", "a|.b.c.d"),
    ("|a.b.c.d", "t.;", "a.|b.c.d"),
    ("a\nb\n|c", "gg", "|a\nb\nc"),
    ("|a\nb\nc", "G", "a\nb\n|c"),
    ("|a\nb\nc", "2G", "a\n|b\nc"),
    ("|a\n\nb\n\nc", "}", "a\n|\nb\n\nc"),
    ("a\n\nb\n\n|c", "{", "a\n\nb\n|\nc"),
    ("|one two one", "/one<cr>", "one two |one"),
    ("|one two one", "/one<cr>n", "|one two one"),
    ("|one two one", "?two<cr>", "one |two one"),
    ("|one two one", "*", "one two |one"),
    ("|one two", "/none<cr>", "|one two"),
    ("|漢字 kana", "w", "漢字 |kana"),
    ("|abc", "9l", "ab|c"),
    // Operators.
    ("|one two", "dw", "|two"),
    ("one |two", "dw", "one| "),
    ("|one two three", "d2w", "|three"),
    ("|one two three four", "2d2w", "|"),
    ("|one two", "de", "| two"),
    ("one |two", "db", "|two"),
    ("one |two", "d0", "|two"),
    ("one |two", "D", "one| "),
    ("o|ne two", "dfw", "o|o"),
    ("o|ne two", "dtw", "o|wo"),
    ("o|ne two one", "d/one<cr>", "o|one"),
    ("one |two\nthree", "dw", "one| \nthree"),
    ("a\n|b\nc", "dd", "a\n|c"),
    ("a\nb\n|c", "dd", "a\n|b"),
    ("|a\nb\nc", "2dd", "|c"),
    ("|a\nb\nc", "dj", "|c"),
    ("a\nb\n|c", "dk", "|a"),
    ("|a", "dj", "|a"),
    ("a\n|b\nc", "dG", "|a"),
    ("a|bc", "x", "a|c"),
    ("a|bc", "5x", "|a"),
    ("ab|c", "X", "a|c"),
    ("|one two", "cwxx<esc>", "x|x two"),
    ("|a two", "cwxx<esc>", "x|x two"),
    ("one| two", "cwX<esc>", "one|Xtwo"),
    ("|one two", "Cxx<esc>", "x|x"),
    ("a\n|b b\nc", "ccnew<esc>", "a\nne|w\nc"),
    ("|abc", "sX<esc>", "|Xbc"),
    ("o|ne", "Snew<esc>", "ne|w"),
    ("|one two", "gUw", "|ONE two"),
    ("|One Two", "g~~", "|oNE tWO"),
    ("|ONE Two", "guu", "|one two"),
    ("|one", "~~", "ON|e"),
    ("|a\nb", ">j", "    |a\n    b"),
    ("    |a\nb", "<<", "|a\nb"),
    ("|abc", "rX", "|Xbc"),
    ("|abc", "2rX", "X|Xc"),
    ("|abc", "4rX", "|abc"),
    ("|a\n  b\nc", "J", "a| b\nc"),
    ("|a\nb\nc", "3J", "a b| c"),
    // Text objects.
    ("one tw|o three", "diw", "one | three"),
    ("one tw|o three", "daw", "one |three"),
    ("one tw|o", "daw", "on|e"),
    ("f(a, |b)", "di(", "f(|)"),
    ("f(a, |b) x", "da(", "f| x"),
    ("f(a, g(|b))", "2di(", "f(|)"),
    ("say \"hel|lo\" x", "ci\"hi<esc>", "say \"h|i\" x"),
    ("|say 'hello' x", "di'", "say '|' x"),
    ("{ a: |1 }", "di{", "{|}"),
    ("a[|1]", "ya[P", "a[1|][1]"),
    ("a\nb|\n\nc", "dip", "|\nc"),
    ("a\n|b\n\nc", "dap", "|c"),
    // Inserting.
    ("a|b", "ix<esc>", "a|xb"),
    ("a|b", "ax<esc>", "ab|x"),
    ("  a|b", "Ix<esc>", "  |xab"),
    ("|ab", "Ax<esc>", "ab|x"),
    ("|a\nb", "ox<esc>", "a\n|x\nb"),
    ("a\n|b", "Ox<esc>", "a\n|x\nb"),
    ("|ab", "ixy<bs>z<esc>", "x|zab"),
    // Registers.
    ("|one two", "dwwP", "twone| o"),
    ("|one two", "yw$p", "one twoone| "),
    ("|a\nb", "yyp", "a\n|a\nb"),
    ("|a\nb", "yyjP", "a\n|a\nb"),
    ("|a\nb", "yy2p", "a\n|a\na\nb"),
    ("|a\nb", "ddp", "b\n|a"),
    ("|one two", "\"ayw\"bdw\"ap", "tone| wo"),
    ("|one two", "\"_dwp", "|two"),
    ("|one two", "ywdw\"0P", "one| two"),
    ("|a b", "\"ayww\"Ayw\"ap", "a ba |b"),
    // Visual mode.
    ("|one two", "vly", "|one two"),
    ("|one two", "veyP", "on|eone two"),
    ("|one two", "ved", "| two"),
    ("one tw|o", "vbd", "one| "),
    ("|a\nb\nc", "Vjd", "|c"),
    ("|a\nb\nc", "Vy\u{47}p", "a\nb\nc\n|a"),
    ("|one two", "vecX<esc>", "|X two"),
    ("|one two", "veU", "|ONE two"),
    ("|one two", "vev", "on|e two"),
    ("o|ne two", "viwd", "| two"),
    ("f(|a b)", "vi(d", "f(|)"),
    ("|one two", "wveobd", "|"),
    ("|one two", "verX", "|XXX two"),
    ("|a\nb", "VjJ", "a| b"),
    ("|a\nb", "Vj>", "    |a\n    b"),
    ("|one two", "ywwvep", "one one| "),
    // Repeating.
    ("|one two three", "dw.", "|three"),
    ("|one two three", "cwX<esc>w.", "X |X three"),
    ("|a\nb\nc", "A!<esc>j.j.", "a!\nb!\nc|!"),
    ("|abcdef", "x2.", "|def"),
    ("|abcdef", "vld.", "|ef"),
    ("|one two one two", "d/two<cr>.", "|two"),
    // Undo of whole changes.
    ("|one two", "dwu", "|one two"),
    ("|one two", "cwthree words here<esc>u", "|one two"),
    ("|one two", "dwu<c-r>", "|two"),
    ("|a b c d", "dwdw2u", "|a b c d"),
    ("|one two", "dw.u", "|two"),
    ("|one two three", "dw.uu", "|one two three"),
    // Invalid commands do nothing.
    ("|one", "zq", "|one"),
    ("|one", "d<esc>w", "on|e"),
    ("|one", "diz", "|one"),
    ("|", "xddpu", "|"),
];

#[test]
fn vi_commands_match_vim() {
    let wrong: Vec<String> = ORDERS
        .iter()
        .map(|(text, written, want)| (typed(text, written), text, written, want))
        .filter(|(got, _, _, want)| got != *want)
        .map(|(got, text, written, want)| format!("{text:?} {written:?}: {got:?}, not {want:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest::proptest! {
    /// For any keys, the caret stays on a character boundary within the text, and in normal mode on a
    /// character.
    #[test]
    fn any_vi_keys_keep_caret_valid(
        text in "[a-zA-Z(){}\" .\n漢👩]{0,40}",
        at in 0_usize..40,
        written in "([a-zA-Z0-9$^%;,.~><\"'`(){}|*#_]|<esc>|/[a-z]<cr>|<c-r>|<bs>){0,40}",
    ) {
        let at = text.floor_char_boundary(at.min(text.len()));
        let mut draft = Composer::default();
        draft.set(&text);
        draft.go(CaretMove::To(at));
        let mut vi = ViKeys { mode: ViMode::Normal, ..ViKeys::default() };
        for key in keys(&written) {
            if vi.key(key, &mut draft) == ViStep::NotMine && let Some(it) = key.typed() {
                draft.insert(&it.to_string());
            }
            proptest::prop_assert!(draft.text().is_char_boundary(draft.at()));
            if let Some(range) = vi.selection(&draft) {
                proptest::prop_assert!(draft.text().get(range).is_some());
            }
        }
    }
}
