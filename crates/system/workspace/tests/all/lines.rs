//! Line ranges of files of any size, compared with a simple implementation.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::type_complexity,
    missing_docs,
    reason = "test code"
)]

use std::io::Write;

use haft_workspace::{LineEnd, LineQuery, Lines, OpenFile, lines_before, read_lines, tail_start};
use proptest::prelude::*;

fn open(bytes: &[u8]) -> (tempfile::TempDir, OpenFile) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("f");
    std::fs::write(&path, bytes).unwrap();
    let file = OpenFile::open(&path).unwrap();
    (dir, file)
}

fn read(file: &OpenFile, first: u64, count: u64, max_bytes: usize, line_end: LineEnd) -> Lines {
    read_lines(file, &LineQuery { first, count, max_bytes, line_end }, &|| false).unwrap()
}

#[test]
fn read_lines_returns_requested_ranges() {
    let lf = LineEnd::Byte(b'\n');
    let rows: [(&[u8], u64, u64, usize, &[u8], u64, u64, bool); 10] = [
        (b"", 1, 10, 100, b"", 0, 0, false),
        (b"a", 1, 10, 100, b"a", 0, 1, false),
        (b"a\nb\nc\n", 2, 1, 100, b"b\n", 2, 3, false),
        (b"a\nb\nc", 3, 5, 100, b"c", 4, 3, false),
        (b"a\nb\nc\n", 4, 5, 100, b"", 6, 3, false),
        (b"a\nb\nc\n", 9, 5, 100, b"", 6, 3, false),
        (b"\n\n\n", 1, 2, 100, b"\n\n", 0, 3, false),
        (b"a\nbbbbbb\nc\n", 1, 3, 4, b"a\nbb", 0, 3, true),
        (b"a\nb", 1, 2, 3, b"a\nb", 0, 2, false),
        (b"a\nb\n", 1, u64::MAX, 100, b"a\nb\n", 0, 2, false),
    ];
    for (bytes, first, count, max, want, start, total, cut) in rows {
        let (_dir, file) = open(bytes);
        let want = Lines { bytes: want.to_vec(), start, total, cut };
        assert_eq!(read(&file, first, count, max, lf), want, "{first}+{count}");
    }
}

#[test]
fn read_lines_is_correct_across_block_borders() {
    let mut bytes = Vec::new();
    for n in 0..60_000 {
        writeln!(bytes, "line {n} {}", "x".repeat(n % 37)).unwrap();
    }
    let (_dir, file) = open(&bytes);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|it| *it == b'\n').collect();
    for first in (1..60_000).step_by(997) {
        let got = read(&file, first as u64, 50, usize::MAX, LineEnd::Byte(b'\n'));
        let want = lines[first - 1..(first + 49).min(lines.len())].concat();
        assert_eq!(got.bytes, want);
        assert_eq!(got.total, 60_000);
        let start: usize = lines[..first - 1].iter().map(|it| it.len()).sum();
        assert_eq!(got.start, start as u64);
        let before = lines_before(&file, got.start, LineEnd::Byte(b'\n'), &|| false).unwrap();
        assert_eq!(before, first as u64 - 1);
    }
}

#[test]
fn cancelled_read_lines_returns_an_error() {
    let (_dir, file) = open(b"a\n");
    let query = LineQuery { first: 1, count: 1, max_bytes: 10, line_end: LineEnd::Byte(b'\n') };
    assert!(read_lines(&file, &query, &|| true).unwrap_err().to_string().contains("interrupted"));
}

fn naive_tail(text: &str, count: usize) -> usize {
    let mut starts: Vec<usize> = text.match_indices('\n').map(|it| it.0 + 1).collect();
    starts.insert(0, 0);
    if text.ends_with('\n') {
        starts.pop();
    }
    starts[starts.len().saturating_sub(count.max(1))]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn tail_start_equals_reference(text in "[ab\n]{1,60}", count in 1_usize..20, wide in any::<bool>()) {
        let want = naive_tail(&text, count);
        let bytes = if wide { text.encode_utf16().flat_map(u16::to_le_bytes).collect() } else { text.clone().into_bytes() };
        let (_dir, file) = open(&bytes);
        let end = if wide { LineEnd::WideLe } else { LineEnd::Byte(b'\n') };
        let got = tail_start(&file, count as u64, end).unwrap();
        prop_assert_eq!(got, want as u64 * if wide { 2 } else { 1 });
    }

    #[test]
    fn read_lines_supports_utf16(text in "[aĊ\u{a0a}\n]{0,60}", first in 1_u64..10, count in 1_u64..5, little in any::<bool>()) {
        let spell = |text: &str| -> Vec<u8> {
            text.encode_utf16().flat_map(if little { u16::to_le_bytes } else { u16::to_be_bytes }).collect()
        };
        let (_dir, file) = open(&spell(&text));
        let end = if little { LineEnd::WideLe } else { LineEnd::WideBe };
        let want: String = text.split_inclusive('\n').skip(first as usize - 1).take(count as usize).collect();
        let got = read(&file, first, count, usize::MAX, end);
        prop_assert_eq!(got.bytes, spell(&want));
        prop_assert_eq!(got.total, text.split_inclusive('\n').count() as u64);
    }
}
