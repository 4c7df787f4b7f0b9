use super::*;

fn items(reads: &[&[u8]]) -> Vec<InputItem> {
    let mut decoder = InputDecoder::default();
    for read in reads {
        decoder.feed(read);
    }
    decoder.flush();
    std::iter::from_fn(|| decoder.next_item()).collect()
}

fn labels(reads: &[&[u8]]) -> String {
    let label = |item: InputItem| match item {
        InputItem::Key(key) => key.label(),
        InputItem::Paste(text) => format!("paste {text:?}"),
        InputItem::Focus(it) => format!("focus {it}"),
        InputItem::Background(it) => format!("{it:?}"),
    };
    items(reads).into_iter().map(label).collect::<Vec<_>>().join(" ")
}

#[test]
fn bytes_become_keys() {
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
    // A letter that comes later is a letter.
    check(&[b"\x1b", b"a"], "esc a");
    check(&[b"\x1b", b"[A"], "up");
    check(&[b"\x1b[A", b"\x1b[1;5C", b"\x1bOB"], "up ctrl+right down");
    check(&[b"\x1b[13;2u", b"\x1b[27;2;13~", b"\x1b\r"], "shift+enter shift+enter alt+enter");
    check(&[b"\x1b[27u", b"\x1b[97;5u", b"\x1b[97;2u"], "esc ctrl+a A");
    // Letting go of a key is no key.
    check(&[b"\x1b[97;1:3u"], "");
    check(&[b"\x1b[3~\x1b[Z\x1b[5~"], "delete shift+tab pageup");
    check(&[b"\x1b[I\x1b[O"], "focus true focus false");
    check(&[b"\x1b[200~a\rb\x1b[Ac\x1b[201~x"], "paste \"a\\nb\\u{1b}[Ac\" x");
    check(&[b"\x1b[200~a", b"b\x1b[2", b"01~"], "paste \"ab\"");
    // Without brackets: breaks inside of one read.
    check(&[b"one\rtwo\r"], "paste \"one\\ntwo\\n\"");
    check(&[b"one\rtwo", b"three\r"], "paste \"one\\ntwothree\\n\"");
    // Answers of the terminal are no keys.
    check(&[b"\x1b]11;rgb:0000/0000/0000\x07a"], "Dark a");
    check(&[b"\x1b[?62;c", b"\x1bP>|xterm\x1b\\b"], "b");
    check(&[b"\xff\xfe", b"a"], "a");
    check(&[b"\x1b[", b"\x1b[A"], "up");
}

#[test]
fn labels_are_read_back() {
    for label in ["a", "ctrl+r", "alt+enter", "shift+tab", "ctrl+alt+x", "space", "f12", "up", "+", "alt++"] {
        assert_eq!(KeyPress::of_label(label).map(|it| it.label()).as_deref(), Some(label));
    }
    assert_eq!(KeyPress::of_label("nothing"), None);
}

proptest::proptest! {
    /// Whatever comes, in whatever parts: nothing breaks, and nothing is held
    /// for ever.
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, at in 0_usize..64) {
        let (head, tail) = bytes.split_at(at.min(bytes.len()));
        items(&[head, tail]);
    }

    /// Where keys are split within their sequence makes no difference.
    #[test]
    fn splits_inside_sequences_change_nothing(at in 1_usize..6) {
        for whole in [&b"\x1b[1;5C"[..], b"\x1b[13;2u", b"\x1b[200~x\x1b[201~"] {
            let (head, tail) = whole.split_at(at);
            proptest::prop_assert_eq!(items(&[head, tail]), items(&[whole]));
        }
    }
}
