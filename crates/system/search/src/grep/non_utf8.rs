//! Text that is not UTF-8.
//!
//! When reading a file, a wrong encoding shows wrong characters. When searching, it hides matches; so if
//! the detected encoding finds nothing, other plausible ones are tried.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, SHIFT_JIS, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// How to decode a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CharsetReading {
    /// As UTF-8, possibly with some invalid bytes.
    Utf8,
    /// With this encoding.
    Through(&'static Encoding),
}

/// The encoding given by a byte order mark, and the mark's length.
pub(crate) fn marked(bytes: &[u8]) -> Option<(CharsetReading, usize)> {
    match bytes {
        // UTF-32 is not supported.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xef, 0xbb, 0xbf, ..] => Some((CharsetReading::Utf8, 3)),
        [0xff, 0xfe, ..] => Some((CharsetReading::Through(UTF_16LE), 2)),
        [0xfe, 0xff, ..] => Some((CharsetReading::Through(UTF_16BE), 2)),
        _ => None,
    }
}

/// UTF-16 without a byte order mark: western text has a zero in every second byte, always on the same
/// side.
pub(crate) fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(8192) & !1];
    let pairs = head.len() / 2;
    let zeros = |side: usize| head.iter().skip(side).step_by(2).filter(|it| **it == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    match () {
        () if pairs < 2 => None,
        () if pairs * 2 <= odd * 3 && even == 0 => Some(UTF_16LE),
        () if pairs * 2 <= even * 3 && odd == 0 => Some(UTF_16BE),
        () => None,
    }
}

/// Whether bytes that are not UTF-8 are text in another encoding rather than damaged UTF-8. Such text
/// contains valid multi-byte sequences only by accident.
fn is_legacy(bytes: &[u8]) -> bool {
    let (mut sequences, mut strays) = (0_usize, 0_usize);
    let sample = &bytes[..bytes.len().min(SAMPLE)];
    for chunk in sample.utf8_chunks() {
        sequences += chunk.valid().chars().filter(|it| !it.is_ascii()).count();
        strays += usize::from(!chunk.invalid().is_empty());
    }
    0 < strays && !(8 <= sequences && strays * 2 <= sequences)
}

/// Bytes used for statistics.
const SAMPLE: usize = 256 * 1024;

/// Detects the encoding of text that is not UTF-8; `None` means damaged UTF-8. A port, because the code
/// that reads files must agree with the search.
pub type CharsetGuess = fn(&[u8]) -> Option<&'static Encoding>;

/// The likeliest encoding, by statistics alone.
pub(crate) fn guess(bytes: &[u8]) -> Option<&'static Encoding> {
    if !is_legacy(bytes) {
        return None;
    }
    let first = bytes.iter().position(|it| !it.is_ascii()).unwrap_or(0);
    let start = first.saturating_sub(4096);
    let sample = &bytes[start..bytes.len().min(start + SAMPLE)];
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, /*last*/ true);
    Some(detector.guess(/*tld*/ None, Utf8Detection::Deny))
}

/// Encodings to try if the detected one finds nothing.
const OTHERS: [&Encoding; 6] = [SHIFT_JIS, GB18030, EUC_KR, BIG5, EUC_JP, WINDOWS_1252];

/// The text in each plausible encoding, likeliest first. Empty for damaged UTF-8.
pub(crate) fn readings(
    bytes: &[u8],
    guess: CharsetGuess,
    all: bool,
) -> impl Iterator<Item = (&'static Encoding, String)> {
    let guess = guess(bytes);
    let others = OTHERS.into_iter().filter(move |it| all && guess.is_some_and(|guess| guess != *it));
    guess.into_iter().chain(others).filter_map(move |encoding| {
        let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
        Some((encoding, text.into_owned()))
    })
}

/// The text of a file as UTF-8; `None` if it is binary. Invalid bytes stay.
pub(crate) fn to_text(bytes: &[u8], guess: CharsetGuess) -> Option<Cow<'_, [u8]>> {
    let decoded = |encoding: &'static Encoding, bytes| {
        let (text, _) = encoding.decode_without_bom_handling(bytes);
        Some(Cow::Owned(text.into_owned().into_bytes()))
    };
    match marked(bytes) {
        Some((CharsetReading::Through(encoding), mark)) => return decoded(encoding, &bytes[mark..]),
        Some((CharsetReading::Utf8, mark)) => return Some(Cow::Borrowed(&bytes[mark..])),
        None => (),
    }
    if memchr::memchr(0, &bytes[..bytes.len().min(64 * 1024)]).is_some() {
        return decoded(utf16_without_mark(bytes)?, bytes);
    }
    if std::str::from_utf8(bytes).is_err()
        && let Some(encoding) = guess(bytes)
    {
        return decoded(encoding, bytes);
    }
    Some(Cow::Borrowed(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_include_every_common_encoding() {
        for (label, text) in [
            ("shift_jis", "日本"),
            ("gbk", "中文内容"),
            ("euc-kr", "한국어"),
            ("big5", "繁體中文"),
            ("windows-1252", "café"),
            ("windows-1251", "Привет, как дела, мир?"),
        ] {
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            let (bytes, ..) = encoding.encode(text);
            assert!(is_legacy(&bytes), "{label}");
            assert!(readings(&bytes, guess, true).any(|(_, read)| read == text), "{label}");
        }
    }

    #[test]
    fn damaged_utf8_is_not_a_legacy_encoding() {
        let mut bytes = "größe über älter schön Öl für süß möglich".as_bytes().to_vec();
        bytes.push(0xe9);
        assert!(!is_legacy(&bytes));
    }
}
