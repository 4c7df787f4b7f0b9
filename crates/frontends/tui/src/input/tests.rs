use super::*;

fn items(reads: &[&[u8]]) -> Vec<InputItem> {
    let mut decoder = InputDecoder::default();
    for read in reads {
        decoder.feed(read);
    }
    decoder.flush();
    std::iter::from_fn(|| decoder.next_item()).collect()
}

fn label(item: InputItem) -> String {
    match item {
        InputItem::Key(key) => key.label(),
        InputItem::Paste(text) => format!("paste {text:?}"),
        InputItem::PasteMore(text) => format!("more {text:?}"),
        InputItem::Focus(it) => format!("focus {it}"),
        InputItem::Background(it) => format!("{it:?}"),
        InputItem::Column(column) => format!("column {column}"),
        InputItem::Size(size) => format!("{} by {}", size.columns, size.rows),
    }
}

fn labels(reads: &[&[u8]]) -> String {
    items(reads).into_iter().map(label).collect::<Vec<_>>().join(" ")
}

#[test]
fn bytes_decode_to_keys() {
    let check = |reads: &[&[u8]], want: &str| assert_eq!(labels(reads), want, "{reads:?}");
    check(&[b"a"], "a");
    check(&["ä漢".as_bytes()], "ä 漢");
    check(&["漢".as_bytes().split_at(1).0, "漢".as_bytes().split_at(1).1], "漢");
    check(&[b"\r"], "enter");
    check(&[b"hello\r"], "h e l l o enter");
    check(&[b"\n"], "ctrl+j");
    check(&[b"\x1b"], "esc");
    check(&[b"a\x1b]11;rgb:ffff/ffff", b"/ffff\x1b\\b"], "a Light b");
    check(&[b"\x1b]11;rgb:0000/0000/0000\x07"], "Dark");
    check(&[b"\x1ba"], "alt+a");
    // A letter that comes later is a plain letter.
    check(&[b"\x1b", b"a"], "esc a");
    check(&[b"\x1b", b"[A"], "up");
    check(&[b"\x1b[A", b"\x1b[1;5C", b"\x1bOB"], "up ctrl+right down");
    check(&[b"\x1b[13;2u", b"\x1b[27;2;13~", b"\x1b\r"], "shift+enter shift+enter alt+enter");
    check(&[b"\x1b[27u", b"\x1b[97;5u", b"\x1b[97;2u"], "esc ctrl+a A");
    // Key releases are ignored.
    check(&[b"\x1b[97;1:3u"], "");
    check(&[b"\x1b[3~\x1b[Z\x1b[5~"], "delete shift+tab pageup");
    check(&[b"\x1b[I\x1b[O"], "focus true focus false");
    check(&[b"\x1b[200~a\rb\x1b[Ac\x1b[201~x"], "paste \"a\\nb\\u{1b}[Ac\" x");
    check(&[b"\x1b[200~a", b"b\x1b[2", b"01~"], "paste \"ab\"");
    // Without bracketed paste: line breaks inside of one read.
    check(&[b"one\rtwo\r"], "paste \"one\\ntwo\\n\"");
    check(&[b"one\rtwo", b"three\r"], "paste \"one\\ntwothree\\n\"");
    // Answers of the terminal are not keys.
    check(&[b"\x1b]11;rgb:0000/0000/0000\x07a"], "Dark a");
    check(&[b"a\x1b[8;24;", b"80tb\x1b[8;1t\x1b[3;1;2t"], "a 80 by 24 b");
    check(&[b"\x1b[?62;c", b"\x1bP>|xterm\x1b\\b"], "b");
    check(&[b"\xff\xfe", b"a"], "a");
    check(&[b"\x1b[", b"\x1b[A"], "up");
    // An incomplete sequence is an Alt key; the rest of a sequence that never arrives is dropped.
    check(&[b"\x1b["], "alt+[");
    check(&[b"\x1b[1;5"], "");
}

/// Feeds reads with a pause after each; pending input is flushed if its timeout is shorter.
fn slowly(reads: &[&[u8]], pause_ms: u64) -> String {
    let mut decoder = InputDecoder::default();
    decoder.expect_background();
    for read in reads {
        decoder.feed(read);
        if decoder.patience_ms().is_some_and(|it| it <= pause_ms) {
            decoder.flush();
        }
    }
    decoder.flush();
    std::iter::from_fn(|| decoder.next_item()).map(label).collect::<Vec<_>>().join(" ")
}

#[test]
fn terminal_answer_is_never_typed() {
    let whole = b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\";
    // Split anywhere, with a pause after which a lone escape is the Esc key.
    for at in 1..whole.len() {
        let (head, tail) = whole.split_at(at);
        assert_eq!(slowly(&[head, &[tail, b"b"].concat()], 100), "Light b", "{at}");
    }
    // Byte by byte.
    let bytes: Vec<&[u8]> = whole.chunks(1).collect();
    assert_eq!(slowly(&bytes, 100), "Light");
    // So late that its escape byte was taken for Esc: none of its letters are typed.
    assert_eq!(slowly(&[b"\x1b", b"]11;rgb:ffff/ffff/ffff\x07x"], 5000), "esc Light x");
    // An incomplete answer, followed by typing.
    assert_eq!(slowly(&[b"\x1b]11;rgb:ffff/ff", b"hello", b"\r"], 100), "h e l l o enter");
    assert_eq!(slowly(&[b"\x1b]11;rgb:ffff/ff", b"\x1b[A"], 100), "up");
    assert_eq!(slowly(&[b"\x1b]11;rgb:ffff/ff", b"f"], 5000), "f");
    // An answer without terminator is accepted.
    assert_eq!(slowly(&[b"\x1b]11;rgb:ffff/ffff/ffff", b"x"], 5000), "Light x");
    // Keys typed while an answer is pending are decoded normally.
    assert_eq!(slowly(&[b"a", b"\x1b", b"b"], 200), "a esc b");
}

/// The kernel delivers long texts in pieces, and may split characters and line breaks.
#[test]
fn unbracketed_long_text_is_one_paste_at_any_split() {
    let text = "ä漢 words and 👍 signs\r\nmore of it\r".repeat(40);
    for size in [7, 64, 65, 66, 67, 255, 1024] {
        let mut decoder = InputDecoder::default();
        let mut got = String::new();
        // The first piece contains a line break, so the paste is recognised from the start.
        let (head, tail) = text.as_bytes().split_at(40);
        for read in std::iter::once(head).chain(tail.chunks(size)) {
            decoder.feed(read);
            while let Some(item) = decoder.next_item() {
                match item {
                    InputItem::Paste(it) | InputItem::PasteMore(it) => got.push_str(&it),
                    other => unreachable!("{size}: {other:?}"),
                }
            }
        }
        decoder.flush();
        assert_eq!(decoder.next_item(), None);
        assert_eq!(got, text.replace("\r\n", "\n").replace('\r', "\n"), "{size}");
    }
}

#[test]
fn key_labels_round_trip() {
    for label in ["a", "ctrl+r", "alt+enter", "shift+tab", "ctrl+alt+x", "space", "f12", "up", "+", "alt++"] {
        assert_eq!(KeyPress::of_label(label).map(|it| it.label()).as_deref(), Some(label));
    }
    assert_eq!(KeyPress::of_label("nothing"), None);
}

proptest::proptest! {
    /// Any bytes in any split: no panic, and nothing is held for ever.
    #[test]
    fn any_input_bytes_decode_without_panic(bytes: Vec<u8>, at in 0_usize..64) {
        let (head, tail) = bytes.split_at(at.min(bytes.len()));
        items(&[head, tail]);
    }

    /// Splitting a key sequence makes no difference.
    #[test]
    fn key_sequence_decodes_at_any_split(at in 1_usize..6) {
        for whole in [&b"\x1b[1;5C"[..], b"\x1b[13;2u", b"\x1b[200~x\x1b[201~"] {
            let (head, tail) = whole.split_at(at);
            proptest::prop_assert_eq!(items(&[head, tail]), items(&[whole]));
        }
    }
}

/// A cursor position answer looks like a function key; it is one unless a query is pending.
#[test]
fn cursor_report_is_distinguished_from_function_key() {
    let mut decoder = InputDecoder::default();
    decoder.expect_columns(1);
    decoder.feed(b"a\x1b[1;5Rb\x1b[1;5R");
    let items: Vec<InputItem> = std::iter::from_fn(|| decoder.next_item()).collect();
    let key = |code, ctrl| InputItem::Key(KeyPress { ctrl, ..KeyPress::plain(code) });
    assert_eq!(
        items,
        [
            key(KeyCode::Char('a'), false),
            InputItem::Column(4),
            key(KeyCode::Char('b'), false),
            key(KeyCode::F(3), true)
        ]
    );
}
