use super::*;

fn rendered(source: &str) -> Vec<StyledLine> {
    let mut stream = MarkdownStream::new(&TerminalCaps::default(), 60);
    stream.feed(source);
    stream.end();
    stream.take_finished()
}

fn text(source: &str) -> String {
    rendered(source).iter().map(StyledLine::to_text).collect::<Vec<_>>().join("\n")
}

#[test]
fn markdown_blocks_are_rendered() {
    for (source, want) in [
        ("plain", "plain"),
        ("one\ntwo", "one two"),
        ("one\n\n\n\ntwo", "one\n\ntwo"),
        ("# Head\ntext", "Head\ntext"),
        ("text\n# Head", "text\n\nHead"),
        ("Head\n====\ntext", "Head\ntext"),
        ("- a\n- b\n  - c\n- d", "• a\n• b\n  • c\n• d"),
        ("- a\n\n- b", "• a\n\n• b"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("- a\n\n  more\n- b", "• a\n\n  more\n• b"),
        ("> said\n> so", "│ said so"),
        ("a\n```rust\nfn x() {}\n```\nb", "a\n\nfn x() {}\n\nb"),
        ("```\n  kept\n", "  kept"),
        ("[x] **bold** `code` ~~no~~", "[x] bold code no"),
        ("[words](https://a.test/b)", "words (https://a.test/b)"),
        ("<https://a.test/b>", "https://a.test/b"),
        ("| a | b |\n|---|--:|\n| 1 | 22 |\nx", "a   b\n1  22\n\nx"),
        ("- [x] done\n- [ ] not", "• ☑ done\n• ☐ not"),
        ("a  \nb", "a\nb"),
        ("***\na", "───\na"),
    ] {
        assert_eq!(text(source), want, "{source:?}");
    }
}

#[test]
fn wide_tables_become_lists() {
    let long = "x".repeat(70);
    let source = format!("| name | value |\n|---|---|\n| a | {long} |\n| b | {long} |\n");
    assert_eq!(text(&source), format!("name: a\nvalue: {long}\n\nname: b\nvalue: {long}"));
}

#[test]
fn unfinished_markdown_renders_like_final() {
    for (source, want) in [
        ("a `co", "a `co`"),
        ("a `", "a "),
        ("a `b` c", "a `b` c"),
        ("a **bo", "a **bo**"),
        ("a **bo ", "a **bo**"),
        ("a **", "a "),
        ("a **b*", "a **b**"),
        ("a **b** c", "a **b** c"),
        ("a `x**y", "a `x**y`"),
    ] {
        assert_eq!(closed_for_now(source), want, "{source:?}");
    }
}

const WORDS: &str =
    "[a-z]{1,6}|\\*\\*|`|```|```rust\n|\n|\n\n|- |1\\. |# |\\| |\\|---\\||> |==|--|  | |\\[x\\]\\(y\\)";

proptest::proptest! {
    /// The finished lines of a prefix are a prefix of the finished lines of the whole.
    #[test]
    fn finished_markdown_lines_never_change(parts in proptest::collection::vec(WORDS, 0..40), cut in 0_usize..40) {
        let source: String = parts.concat();
        let cut = source.char_indices().nth(cut).map_or(source.len(), |it| it.0);
        let whole = rendered(&source);
        let mut stream = MarkdownStream::new(&TerminalCaps::default(), 60);
        stream.feed(&source[..cut]);
        let head = stream.take_finished();
        stream.tail();
        proptest::prop_assert!(whole.starts_with(&head), "{head:?}\n{whole:?}");
        stream.feed(&source[cut..]);
        stream.end();
        let rest = stream.take_finished();
        let joined: Vec<StyledLine> = head.into_iter().chain(rest).collect();
        proptest::prop_assert_eq!(joined, whole);
    }
}
