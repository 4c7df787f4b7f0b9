//! Encodings, line breaks and invalid bytes survive every splice.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, GBK, ISO_8859_15, MACINTOSH, SHIFT_JIS, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252,
};
use haft_workspace::text::{Charset, Encoding, SampleExtent, Splice, Text, detect};
use proptest::prelude::*;

fn legacy(encoding: &'static encoding_rs::Encoding, text: &str) -> Vec<u8> {
    let (bytes, _, bad) = encoding.encode(text);
    assert!(!bad, "{text}");
    bytes.into_owned()
}

fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(to_bytes).collect()
}

#[test]
fn detect_recognises_encodings() {
    let french = "Café déjà vu, garçon naïf — à bientôt\n";
    let russian = "Привет, это обычный текст на русском языке\n";
    let czech = "Příliš žluťoučký kůň úpěl ďábelské ódy\n";
    let rows: Vec<(&str, Vec<u8>, Option<&str>)> = vec![
        ("ascii", b"plain\n".to_vec(), Some("UTF-8")),
        ("empty", Vec::new(), Some("UTF-8")),
        ("utf8", "日本 é\n".into(), Some("UTF-8")),
        ("utf8 bom", b"\xef\xbb\xbfx".to_vec(), Some("UTF-8 with BOM")),
        (
            "utf16le bom",
            [b"\xff\xfe".to_vec(), utf16("日本\r\n", u16::to_le_bytes)].concat(),
            Some("UTF-16LE with BOM"),
        ),
        (
            "utf16be bom",
            [b"\xfe\xff".to_vec(), utf16("é\n", u16::to_be_bytes)].concat(),
            Some("UTF-16BE with BOM"),
        ),
        ("utf16le", utf16("hello world\n", u16::to_le_bytes), Some("UTF-16LE")),
        ("utf16be", utf16("hello world\n", u16::to_be_bytes), Some("UTF-16BE")),
        ("latin1 word", legacy(WINDOWS_1252, "caf\u{e9}\n"), Some("windows-1252")),
        ("latin1", legacy(WINDOWS_1252, french), Some("windows-1252")),
        ("copyright", b"// \xa9 2024 Acme Corp.\nint main() { return 0; }\n".to_vec(), Some("windows-1252")),
        ("german", legacy(WINDOWS_1252, "// Größe der Straße in Metern\nint x = 1;\n"), Some("windows-1252")),
        ("one dash, often", legacy(WINDOWS_1252, &"naïve – word\n".repeat(40)), Some("windows-1252")),
        ("sjis word", legacy(SHIFT_JIS, "name = \"日本\"\n"), Some("Shift_JIS")),
        ("sjis", legacy(SHIFT_JIS, "# これは設定ファイルです。\n値 = 1\n"), Some("Shift_JIS")),
        ("sjis katakana", legacy(SHIFT_JIS, "print(\"テスト\")\n"), Some("Shift_JIS")),
        ("gbk word", legacy(GBK, "名称 = \"中国\"\n"), Some("GBK")),
        ("gbk", legacy(GBK, "// 这是一个配置文件\nint 值 = 1;\n"), Some("GBK")),
        ("euckr word", legacy(EUC_KR, "이름 = \"한국\"\n"), Some("EUC-KR")),
        ("euckr", legacy(EUC_KR, "# 이것은 설정 파일입니다\nx = 1\n"), Some("EUC-KR")),
        ("eucjp", legacy(EUC_JP, "# これは設定ファイルです。ありがとうございます。\n"), Some("EUC-JP")),
        ("big5", legacy(BIG5, "這是一個設定檔案，請不要修改。\n"), Some("Big5")),
        ("cp1251", legacy(WINDOWS_1251, russian), Some("windows-1251")),
        ("cp1250", legacy(WINDOWS_1250, czech), Some("windows-1250")),
        ("declared", b"# -*- coding: cp932 -*-\nx = '\x93\xfa'\n".to_vec(), Some("Shift_JIS")),
        ("stray", "naïve \u{e9}t\u{e9} ".bytes().chain(*b"\xe9\n").collect(), Some("UTF-8")),
        ("stray, german", b"Gr\xc3\xb6\xc3\x9fe f\xc3\xbcr \xff \xc3\x96l\n".to_vec(), Some("UTF-8")),
        ("stray, one of each", b"na\xc3\xafve \x96 text\n".to_vec(), Some("UTF-8")),
        ("stray, degrees", b"21 \xc2\xb0C or \xe9\n".to_vec(), Some("UTF-8")),
        ("stray, russian", [&[0xe9][..], "да, нет".as_bytes()].concat(), Some("UTF-8")),
        ("stray, japanese", ["値 = 日本".as_bytes(), b" \x80 x\n"].concat(), Some("UTF-8")),
        ("stray, emoji", ["ok 🚀 — ja".as_bytes(), b"\xc3 end\n"].concat(), Some("UTF-8")),
        ("stray, first", [b"\xa0", "été".as_bytes(), b" x\n"].concat(), Some("UTF-8")),
        ("png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0".to_vec(), None),
        ("elf", b"\x7fELF\x02\x01\x01\0\0\0".to_vec(), None),
        (
            "latin9",
            legacy(ISO_8859_15, "Prix : 12 € pour le cœur du garçon\nŠkoda à Žilina\n"),
            Some("ISO-8859-15"),
        ),
        ("latin9 word", legacy(ISO_8859_15, "# total\nprice = 12 €\n"), Some("ISO-8859-15")),
        (
            "latin9 in French",
            legacy(ISO_8859_15, &"Le cœur a déjà coûté 5 € à l'élève\n".repeat(30)),
            Some("ISO-8859-15"),
        ),
        ("fractions", legacy(WINDOWS_1252, "take 2½ cups, 1¼ spoons\n"), Some("windows-1252")),
        (
            "dos frame",
            b"\xda\xc4\xc4\xc4\xc4\xbf\n\xb3 M\x81ller \xb3\nkey = old\n".to_vec(),
            Some("unknown 8-bit encoding"),
        ),
        ("dos words", b"# J\x81rgen M\x81ller\nkey = old\n".to_vec(), Some("unknown 8-bit encoding")),
        (
            "mac",
            legacy(MACINTOSH, &"Café crème à la carte, façade, être\n".repeat(3)),
            Some("unknown 8-bit encoding"),
        ),
        ("iso-2022-jp", b"\x1b$B$3$l$O@_Dj$G$9\x1b(B\nkey = old\n".to_vec(), None),
        ("hz", b"~{UbJGR;8vEdVCND<~~}\nkey = old\n".to_vec(), None),
        ("utf32", b"\xff\xfe\0\0a\0\0\0".to_vec(), None),
        ("noise", (0..=255).chain(1..=31).cycle().take(4000).collect(), None),
    ];
    for (name, bytes, want) in rows {
        let got = detect(&bytes, SampleExtent::Whole).map(|it| it.to_string());
        assert_eq!(got.as_deref(), want, "{name}");
    }
}

/// One word suffices to detect real text.
#[test]
fn detect_recognises_encoding_from_single_words() {
    let japanese =
        "日本 設定 値 東京都 テスト あ 名前 説明：これは エラー 漢字とかな ﾃｽﾄ 開始 こんにちは世界";
    let chinese = "中国 设置 北京市 测试 你好 名称 说明：这是 错误 简体中文 开始 世界你好 配置";
    let korean = "한국 설정 값 서울 테스트 안녕 이름 설명 오류 안녕하세요 시작 세계";
    let western = "é café naïve über ñ © ° Größe ±5 façade señor £10 Æ ß § ½ à Ø µm «oui» ‘quote’ “x” – … €5";
    let contexts = ["# {}\nx = 1\n", "{}\n", "print(\"{}\")\n", "/* {} */ int main(void) { return 0; }\n"];
    for (encoding, words) in
        [(SHIFT_JIS, japanese), (GBK, chinese), (EUC_KR, korean), (WINDOWS_1252, western)]
    {
        for (word, context) in words.split(' ').flat_map(|word| contexts.map(|context| (word, context))) {
            let text = context.replace("{}", word);
            let raw = legacy(encoding, &text);
            let found = detect(&raw, SampleExtent::Whole).map(|it| it.charset);
            assert_eq!(found, Some(Charset::Legacy(encoding)), "{text}");
        }
    }
}

#[test]
fn truncated_last_character_of_sample_is_not_invalid() {
    let text = "日本".as_bytes();
    for end in 0..text.len() {
        let detected = detect(&text[..end], SampleExtent::Head);
        assert_eq!(detected, Some(Encoding::UTF_8), "{end}");
    }
}

/// Replaces the first `old` by `new`. Returns prefix, middle and suffix of the file.
fn edit(raw: &[u8], old: &str, new: &str) -> Result<Vec<u8>, String> {
    let text = Text::decode(raw.to_vec()).map_err(|_| "binary")?;
    let start = text.view().find(old).ok_or("not found")?;
    let splice = Splice { range: start..start + old.len(), text: new.to_owned() };
    text.splice(&[splice]).map(|it| it.to_vec()).map_err(|err| err.to_string())
}

#[test]
fn splice_preserves_other_bytes() {
    let le = |text: &str| [b"\xff\xfe".to_vec(), utf16(text, u16::to_le_bytes)].concat();
    let be = |text: &str| [b"\xfe\xff".to_vec(), utf16(text, u16::to_be_bytes)].concat();
    let sjis = |text: &str| legacy(SHIFT_JIS, text);
    let gbk = |text: &str| legacy(GBK, text);
    let korean = |text: &str| legacy(EUC_KR, text);
    let latin = |text: &str| legacy(WINDOWS_1252, text);
    let rows: Vec<(Vec<u8>, &str, &str, Vec<u8>)> = vec![
        (b"a\r\nb\nc".to_vec(), "c", "C\nD", b"a\r\nb\nC\nD".to_vec()),
        (b"a\r\nb\r\nc".to_vec(), "c", "C\nD", b"a\r\nb\r\nC\r\nD".to_vec()),
        (b"a\rb\rc".to_vec(), "c", "C\nD", b"a\rb\rC\rD".to_vec()),
        (b"\xef\xbb\xbfa\r\nc\r\n".to_vec(), "c", "C\nD", b"\xef\xbb\xbfa\r\nC\r\nD\r\n".to_vec()),
        (b"a\n\rx\rc\n".to_vec(), "c", "C", b"a\n\rx\rC\n".to_vec()),
        (b"a\nb".to_vec(), "b", "b\r\nd", b"a\nb\r\nd".to_vec()),
        (b"a\r\nb\r\nc\r\nd\ne\nf\ng\n".to_vec(), "f", "f\nF", b"a\r\nb\r\nc\r\nd\ne\nf\nF\ng\n".to_vec()),
        (b"a\r\nb\r\nc\r\nd\ne\nf\ng\n".to_vec(), "b", "b\nB", b"a\r\nb\r\nB\r\nc\r\nd\ne\nf\ng\n".to_vec()),
        (le("日本\r\nx=1\r\n"), "x=1", "x=é\ny", le("日本\r\nx=é\r\ny\r\n")),
        (be("日本\nx=1\n"), "x=1", "x=😀", be("日本\nx=😀\n")),
        (
            sjis("これはテスト\r\nx = 1\r\n設定\r\n"),
            "1",
            "日本",
            sjis("これはテスト\r\nx = 日本\r\n設定\r\n"),
        ),
        (gbk("这是一个文件\nx = 1\n"), "1", "日本", gbk("这是一个文件\nx = 日本\n")),
        (korean("이것은 파일입니다\nx = 1\n"), "1", "한국", korean("이것은 파일입니다\nx = 한국\n")),
        (latin("Café garçon\nx = 1\n"), "1", "é", latin("Café garçon\nx = é\n")),
    ];
    for (raw, old, new, want) in rows {
        let got = edit(&raw, old, new).unwrap();
        assert_eq!(got, want, "{old:?} -> {new:?} in {}", String::from_utf8_lossy(&raw));
    }
}

/// Complete UTF-8 characters are no accident in a short text, and insertions are encoded as UTF-8.
#[test]
fn single_invalid_byte_does_not_change_detected_encoding() {
    for raw in [
        &b"prix: 5 \xe2\x82\xac\nName: M\xfcller\nKEY\n"[..],
        b"caf\xc3\xa9 \xe8 KEY\n",
        b"# \xe2\x80\x93 dash \x93quoted\nKEY\n",
        b"\xc3\xb1and\xc3\xba KEY \xf1\n",
        b"\xe6\x97\xa5 \x96 KEY",
        b"\xc3\x9cn\xc3\xafc\xc3\xb6d\xc3\xa9 \x80 KEY\n",
        b"\xd0\x9f\xd1\x80\xd0\xb8 \xff \xd0\xbc\xd0\xb8\xd1\x80 KEY\n",
        b"\xe2\x80\xa2 item \xa0 KEY\n",
        b"KEY \xe2\x86\x92 \xe9\n",
        b"\xc2\xa9 2024 \xa9 KEY\n",
        b"na\xc3\xafve\xe9t\xc3\xa9 KEY\n",
        b"\xef\xbb\xbfmark \xe9 KEY\n",
        b"KEY \xc3\xa9t\xc3\xa9 \xc3",
        b"\xf0\x9f\x9a\x80 KEY \xdf\n",
        b"\xea\xb0\x92 KEY = 1\n# \xb0\n",
        b"<p>Gr\xc3\xbc\xc3\x9fe</p>\n<!-- \xdf KEY -->\n",
    ] {
        let at = raw.windows(3).position(|it| it == b"KEY").unwrap();
        let want = [&raw[..at], "\u{e9}\u{20ac}\u{df}".as_bytes(), &raw[at + 3..]].concat();
        let shown = String::from_utf8_lossy(raw);
        let done = edit(raw, "KEY", "\u{e9}\u{20ac}\u{df}").unwrap_or_else(|err| panic!("{shown}: {err}"));
        assert_eq!(done, want, "{shown}");
    }
}

#[test]
fn invalid_bytes_survive_and_replacement_characters_are_rejected() {
    let mut raw = "naïve été déjà\nkeep ".as_bytes().to_vec();
    raw.extend_from_slice(b"\xe9\xff here\nx = 1\n");
    let got = edit(&raw, "x = 1", "x = 日本").unwrap();
    let cut = raw.len() - "x = 1\n".len();
    assert_eq!(got[..cut], raw[..cut]);
    assert_eq!(&got[cut..], "x = 日本\n".as_bytes());
    assert!(edit(&raw, "x = 1", "x = \u{fffd}").unwrap_err().contains("U+FFFD"));
}

#[test]
fn unencodable_character_is_rejected_by_name() {
    let latin = legacy(WINDOWS_1252, "Café garçon\nx = 1\n");
    let sjis = legacy(SHIFT_JIS, "これはテストです\nx = 1\n");
    for (raw, new, want) in [
        (&latin, "日本", "U+65E5 '日' cannot be written in this file's encoding (windows-1252)"),
        (&sjis, "¥", "U+00A5 '¥' cannot be written in this file's encoding (Shift_JIS)"),
        (&sjis, "ok 😀", "U+1F600 '😀' cannot be written in this file's encoding (Shift_JIS)"),
    ] {
        assert_eq!(edit(raw, "1", new).unwrap_err(), want);
    }
}

fn any_encoding() -> impl Strategy<Value = Encoding> {
    prop_oneof![
        Just(Encoding::UTF_8),
        Just(Encoding { charset: Charset::Utf8, bom: true }),
        Just(Encoding { charset: Charset::Utf16Le, bom: true }),
        Just(Encoding { charset: Charset::Utf16Be, bom: true }),
        prop::sample::select(vec![SHIFT_JIS, GBK, EUC_KR, EUC_JP, BIG5, WINDOWS_1252, encoding_rs::GB18030])
            .prop_map(|it| Encoding { charset: Charset::Legacy(it), bom: false }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any bytes in any encoding, the view maps back to the file, and a splice preserves everything
    /// before and after it.
    #[test]
    fn splice_preserves_arbitrary_bytes(
        encoding in any_encoding(),
        parts in prop::collection::vec(prop_oneof![
            Just(b"\r\n".to_vec()), Just(b"\r".to_vec()), Just(b"\n".to_vec()), Just(b"ab".to_vec()),
            prop::collection::vec(any::<u8>(), 1..6),
            Just(b"x".repeat(5000)),
        ], 0..30),
        cut in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let raw = [encoding.bom_bytes().to_vec(), parts.concat()].concat();
        let text = Text::decode_as(raw.clone(), encoding);
        prop_assert_eq!(text.raw(), &raw[..]);
        prop_assert_eq!(text.splice(&[]).unwrap().to_vec(), raw.clone());
        let boundaries: Vec<usize> = text.view().char_indices().map(|it| it.0).chain([text.view().len()]).collect();
        let (a, b) = (*cut.0.get(&boundaries), *cut.1.get(&boundaries));
        let range = a.min(b)..a.max(b);
        let behind = text.raw_range(&range);
        let edited = text.splice(&[Splice { range: range.clone(), text: "Z".into() }]).unwrap().to_vec();
        prop_assert_eq!(&edited[..behind.start], &raw[..behind.start]);
        let suffix = &raw[behind.end..];
        prop_assert!(edited.ends_with(suffix));
        let middle = &edited[behind.start..edited.len() - suffix.len()];
        prop_assert_eq!(middle, &*encoding.charset.encode("Z").unwrap());
    }

    /// Decoding character by character gives the same text as the reference decoder.
    #[test]
    fn char_units_equal_reference_decoder(
        index in 0..6_usize,
        text in "[ -~\n]{0,5}([ぁ-んァ-ンｱ-ﾝ一-龠가-힣àéîõüß]{0,4}[ -~\n]{0,4}){0,12}",
    ) {
        let encoding = [SHIFT_JIS, GBK, EUC_KR, EUC_JP, BIG5, WINDOWS_1252][index];
        let kept: String = text.chars().filter(|it| {
            Charset::Legacy(encoding).encode(&it.to_string()).is_ok()
        }).collect();
        let raw = legacy(encoding, &kept);
        let view = Text::decode_as(raw, Encoding { charset: Charset::Legacy(encoding), bom: false });
        prop_assert_eq!(view.view(), kept);
    }
}
