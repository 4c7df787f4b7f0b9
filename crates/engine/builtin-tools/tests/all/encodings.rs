//! Files in many encodings, most of them undeclared: no byte outside an edit changes, and inserted text
//! is encoded like the file or rejected.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "test code")]

use crate::file_rig;

use file_rig::Rig;
use serde_json::json;

/// Encoding, text around the edit, and words of the same language to insert. Every file contains `key =
/// old`.
const ROWS: &[(&str, &str, &str)] = &[
    ("utf-8", "Größe: 日本語 ©\n", "é日本"),
    ("windows-1252", "Café crème à la carte, garçon\n", "déjà"),
    ("windows-1252", "“Smart” quotes – and dashes…\n", "‘x’"),
    ("windows-1252", "// \u{a9} 2024 Acme\n", "é"),
    ("iso-8859-15", "Prix : 12 € pour le cœur\nŠkoda à Žilina\n", "5 €"),
    ("iso-8859-15", "# total\nprice = 12 €\n", "œuvre"),
    ("windows-1250", "Žluťoučký kůň úpěl ďábelské ódy\n", "ďáblík"),
    ("iso-8859-2", "Žluťoučký kůň úpěl ďábelské ódy\n", "ďáblík"),
    ("windows-1251", "Это файл настроек программы\nконец файла\n", "привет"),
    ("koi8-r", "Это файл настроек программы\nконец файла\n", "привет"),
    ("ibm866", "Это файл настроек программы\nконец файла\n", "привет"),
    ("iso-8859-5", "Это файл настроек программы\nконец файла\n", "привет"),
    ("windows-1253", "Αυτό είναι ένα αρχείο ρυθμίσεων\n", "τέλος"),
    ("windows-1254", "Bu bir yapılandırma dosyasıdır, şey\n", "şey"),
    ("windows-1255", "זהו קובץ הגדרות\n", "סוף"),
    ("windows-1256", "هذا ملف الإعدادات\n", "نهاية"),
    ("windows-1257", "Šis yra nustatymų failas, ąčęėįšųūž\n", "ąžuolas"),
    ("windows-874", "นี่คือไฟล์การตั้งค่า\n", "จบ"),
    ("macintosh", "Café crème à la carte, être, façade\n", "é"),
    ("shift_jis", "これは設定です\n終わり\n", "日本"),
    ("shift_jis", "表示の設定 ﾃｽﾄ\n", "能力"),
    ("euc-jp", "これは設定ファイルです\n終わり\n", "日本"),
    ("gbk", "这是一个配置文件\n结束\n", "日本"),
    ("gb18030", "这是一个配置文件\n结束\n", "𠀀"),
    ("big5", "這是一個設定檔案\n結束\n", "日本"),
    ("euc-kr", "이것은 설정 파일입니다\n끝\n", "日本"),
];

/// Bytes in encodings that no library here supports.
const RAW: &[(&str, &[u8])] = &[
    ("CP437 frame", b"\xda\xc4\xc4\xc4\xc4\xc4\xbf\n\xb3 M\x81ller \xb3\n\xc0\xc4\xc4\xc4\xc4\xc4\xd9\n"),
    ("CP437 words", b"# J\x81rgen M\x81ller, \x84hnlich gr\x94\xe1er\n"),
    ("CP850 words", b"# fa\x87ade, Jos\x82, \x85 la carte\n"),
    ("Mac Roman", b"# Caf\x8e cr\x8fme \x88 la carte\n"),
    ("noise", b"# \xff\xfe\xfd \x80\x81 \xc0\xc1\xf5 \xe0\x80\n"),
    ("ISO-2022-JP", b"\x1b$B$3$l$O@_Dj$G$9\x1b(B\n"),
    ("ISO-2022-KR", b"\x1b$)C\x0eGQ1[\x0f text\n"),
    ("HZ", b"~{UbJGR;8vEdVCND<~~}\n"),
    ("UTF-7", b"Caf+AOk- cr+AOg-me\n"),
    ("EBCDIC", b"\x88\x85\x93\x93\x96\x40\xa6\x96\x99\x93\x84\x25\x25"),
];

fn file(around: &[u8]) -> (Vec<u8>, usize) {
    let before = [around, b"key = "].concat();
    ([&before, &b"old\n"[..], around].concat(), before.len())
}

/// Returns the bytes in the place of `old`, if everything else is unchanged.
fn middle<'a>(before: &[u8], after: &'a [u8], at: usize) -> &'a [u8] {
    let suffix = &before[at + 3..];
    assert_eq!(&before[..at], &after[..at], "bytes before the edit");
    assert_eq!(suffix, &after[after.len() - suffix.len()..], "bytes after the edit");
    &after[at..after.len() - suffix.len()]
}

/// Replaces `old` and returns the resulting file; `None` if the edit was rejected, which must leave the
/// file unchanged.
async fn replace(around: &[u8], with: &str) -> Option<Vec<u8>> {
    let rig = Rig::new(&[]);
    let (raw, at) = file(around);
    rig.put("f", &raw);
    rig.read("f").await;
    let input = json!({ "file_path": "f", "old_string": "old", "new_string": with });
    let done = rig.run("Edit", input).await;
    let now = rig.get("f");
    match done {
        Ok(_) => {
            let put = middle(&raw, &now, at).to_vec();
            rig.undo();
            assert_eq!(rig.get("f"), raw, "undo");
            Some(put)
        }
        Err(_) => {
            assert_eq!(now, raw, "a refused edit changes nothing");
            None
        }
    }
}

#[tokio::test]
async fn inserted_text_uses_the_encoding_of_the_file() {
    let mut refused = Vec::new();
    for (label, text, words) in ROWS {
        let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
        let spell = |text: &str| encoding.encode(text).0.into_owned();
        assert_eq!(replace(&spell(text), "new").await.as_deref(), Some(&b"new"[..]), "{label}");
        match replace(&spell(text), words).await {
            Some(put) => assert_eq!(put, spell(words), "{label}: {text}"),
            None => refused.push(*label),
        }
    }
    // Rejecting is safe, but only these encodings may be rejected.
    let excused = ["macintosh", "windows-1254", "windows-1257", "gb18030"];
    assert!(refused.iter().all(|it| excused.contains(it)), "{refused:?}");
}

#[tokio::test]
async fn files_in_unknown_encodings_keep_their_bytes() {
    for (name, around) in RAW {
        let plain = replace(around, "new").await;
        assert!(plain.is_none() || plain.as_deref() == Some(b"new"), "{name}");
        // ASCII text may be taken for UTF-8, unless it contains shift sequences.
        match replace(around, "é日本").await {
            None => (),
            Some(_) => assert_eq!(*name, "UTF-7", "{name}"),
        }
    }
}

/// Tries every byte value, alone and in pairs, in a file that is otherwise ASCII.
#[tokio::test]
async fn edit_preserves_every_byte_value() {
    for byte in 0x80..=0xff_u8 {
        for around in
            [vec![b'#', b' ', byte, b'\n'], [b"a ".as_slice(), &[byte, byte, b'x', byte], b" b\n"].concat()]
        {
            assert_eq!(replace(&around, "new").await.as_deref(), Some(&b"new"[..]), "{byte:02x}");
        }
    }
}
