use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{EUC_KR, GBK, IBM866, ISO_8859_15, SHIFT_JIS, WINDOWS_1252};
use memchr::memchr;

use super::{Charset, Encoding, guess_charset::plausibility, stateful_charsets::shifted, text_file::literal};

/// How much of a file the bytes at hand are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SampleExtent {
    /// All of it.
    Whole,
    /// Its beginning: the last character may be cut.
    Head,
}

/// Finds out how a file is spelt. `None` means that it is no text.
pub fn detect(bytes: &[u8], extent: SampleExtent) -> Option<Encoding> {
    if let Some(by_mark) = from_bom(bytes) {
        return by_mark;
    }
    let head = &bytes[..bytes.len().min(8192)];
    if memchr(0, head).is_some() {
        return utf16_without_bom(head).map(|charset| Encoding { charset, bom: false });
    }
    // Text that changes its meaning by shift sequences cannot be cut anywhere.
    if looks_binary(head) || shifted(bytes).is_some() {
        return None;
    }
    let charset = match Utf8Census::count(bytes, extent) {
        Utf8Census { strays: 0, .. } => Charset::Utf8,
        // Text of another encoding contains a valid sequence only by accident,
        // so a file where they are more common than strays is damaged UTF-8. A
        // few of either prove nothing.
        census if 8 <= census.sequences && census.strays * 2 <= census.sequences => Charset::Utf8,
        census => legacy(bytes, extent, &census),
    };
    Some(Encoding { charset, bom: false })
}

/// Whether a file has no byte order mark and does not look like anything but
/// text. If it is valid UTF-8 as well, nothing else needs to be asked.
pub(super) fn is_unmarked_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(8192)];
    from_bom(bytes).is_none() && memchr(0, head).is_none() && !looks_binary(head) && shifted(bytes).is_none()
}

/// The outer `Option` says whether there is a mark, the inner one whether it is
/// of an encoding we can handle.
fn from_bom(bytes: &[u8]) -> Option<Option<Encoding>> {
    let charset = match bytes {
        // UTF-32 is not spelt by anything we know.
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return Some(None),
        [0xef, 0xbb, 0xbf, ..] => Charset::Utf8,
        [0xff, 0xfe, ..] => Charset::Utf16Le,
        [0xfe, 0xff, ..] => Charset::Utf16Be,
        _ => return None,
    };
    Some(Some(Encoding { charset, bom: true }))
}

/// Western text in UTF-16 has a zero in every second byte, always on the same
/// side. The detector below does not know this case.
fn utf16_without_bom(head: &[u8]) -> Option<Charset> {
    let pairs = head.len() / 2;
    let zeros = |side: usize| head.iter().skip(side).step_by(2).filter(|it| **it == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    if pairs < 2 || !head.len().is_multiple_of(2) {
        return None;
    }
    match () {
        () if pairs * 2 <= odd * 3 && even == 0 => Some(Charset::Utf16Le),
        () if pairs * 2 <= even * 3 && odd == 0 => Some(Charset::Utf16Be),
        () => None,
    }
}

/// Text has hardly any control characters.
fn looks_binary(head: &[u8]) -> bool {
    // Without branches, so that the compiler takes many bytes at a time.
    let is_control = |it: u8| {
        (it.wrapping_sub(1) < 6) | (it.wrapping_sub(14) < 13) | (it.wrapping_sub(28) < 4) | (it == 127)
    };
    let in_part = |part: &[u8]| part.iter().map(|it| u8::from(is_control(*it))).sum::<u8>();
    let controls: usize = head.chunks(255).map(|part| usize::from(in_part(part))).sum();
    head.len() / 10 < controls
}

struct Utf8Census {
    sequences: usize,
    strays: usize,
}

impl Utf8Census {
    fn count(bytes: &[u8], extent: SampleExtent) -> Self {
        if std::str::from_utf8(bytes).is_ok() {
            return Self { sequences: 0, strays: 0 };
        }
        let mut census = Self { sequences: 0, strays: 0 };
        let mut done = 0;
        for chunk in bytes.utf8_chunks() {
            census.sequences += chunk.valid().chars().filter(|it| !it.is_ascii()).count();
            done += chunk.valid().len() + chunk.invalid().len();
            let cut = extent == SampleExtent::Head && done == bytes.len() && could_continue(chunk.invalid());
            census.strays += usize::from(!chunk.invalid().is_empty() && !cut);
        }
        census
    }
}

/// Whether more bytes could have made this a character.
fn could_continue(invalid: &[u8]) -> bool {
    match invalid {
        [] => false,
        [first, ..] => {
            let wanted = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 0,
            };
            invalid.len() < wanted
        }
    }
}

/// How much of a file the statistics look at.
const SAMPLE: usize = 256 * 1024;

/// Up to how many unusual bytes single words decide instead of statistics.
const FEW: usize = 48;

/// Up to how many different unusual bytes they do.
const DISTINCT: usize = 6;

fn legacy(bytes: &[u8], extent: SampleExtent, census: &Utf8Census) -> Charset {
    let sample = telling_part(bytes);
    let whole = extent == SampleExtent::Whole && sample.len() == bytes.len();
    if let Some(encoding) = declared(bytes)
        && decodes(encoding, sample, whole)
    {
        return Charset::Legacy(encoding);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(sample, /*last*/ whole);
    let guess = detector.guess(/*tld*/ None, Utf8Detection::Deny);
    let unusual = sample.iter().filter(|it| !it.is_ascii()).count();
    // Whatever reads like nothing that people write is better left alone.
    let damaged_utf8 = 0 < census.sequences && census.strays <= census.sequences;
    let otherwise = if damaged_utf8 { Charset::Utf8 } else { Charset::Unknown };
    // Several whole characters and hardly a stray: that is no accident in any
    // encoding.
    if 2 <= census.sequences && census.strays * 2 <= census.sequences {
        return Charset::Utf8;
    }
    if unusual <= FEW || is_monotonous(sample) {
        let best = likeliest(sample, unusual, guess, whole, otherwise);
        // Where every byte is a character, whole ones of UTF-8 would be a capital
        // with an accent and a sign behind it, again and again.
        let is_single = matches!(best, Charset::Legacy(encoding) if encoding.is_single_byte());
        return if damaged_utf8 && is_single { Charset::Utf8 } else { best };
    }
    // A guess that cannot read the file is worse than the one that reads
    // anything.
    let readable = decodes(guess, sample, whole);
    let guess = if readable { guess } else { WINDOWS_1252 };
    match () {
        () if !guess.is_single_byte() => Charset::Legacy(guess),
        () if guess == WINDOWS_1252 => western(sample, unusual),
        () if guess != IBM866 && has_frames(sample) => Charset::Unknown,
        () => Charset::Legacy(guess),
    }
}

/// What the detector calls Western: three encodings that share most letters, or
/// one of the many it does not know.
fn western(sample: &[u8], unusual: usize) -> Charset {
    // Bytes to which Windows gives no character (one may be damage), and the
    // frames of DOS.
    let undefined = sample.iter().filter(|it| matches!(it, 0x81 | 0x8d | 0x8f | 0x90 | 0x9d)).count();
    if unusual < undefined * 20 || has_frames(sample) || has_no_letters(sample) {
        return Charset::Unknown;
    }
    let readings = [WINDOWS_1252, ISO_8859_15].map(Charset::Legacy);
    // The range where only Windows has characters decides by itself.
    if sample.iter().any(|it| matches!(it, 0x80..=0x9f)) {
        return readings[0];
    }
    let [windows, latin] = readings.map(|it| plausibility(&literal(it, sample), unusual));
    readings[usize::from(windows < latin)]
}

/// Lines and shades, as the code pages of DOS have them: the same byte again and
/// again.
fn has_frames(sample: &[u8]) -> bool {
    sample.windows(4).any(|it| {
        matches!(it[0], 0xb0..=0xb2 | 0xb3 | 0xba | 0xc4 | 0xcd | 0xdb | 0xdc | 0xdf)
            && it.iter().all(|other| *other == it[0])
    })
}

/// A Western text without a single plain letter is none: EBCDIC, for example.
fn has_no_letters(sample: &[u8]) -> bool {
    let letters = sample.iter().filter(|it| it.is_ascii_alphabetic()).count();
    letters * 4 < sample.iter().filter(|it| !it.is_ascii()).count()
}

/// Whether the same few bytes come again and again: however often, they are no
/// more evidence than once.
fn is_monotonous(sample: &[u8]) -> bool {
    let mut found = [false; 256];
    for byte in sample.iter().filter(|it| !it.is_ascii()) {
        found[usize::from(*byte)] = true;
    }
    found.iter().filter(|it| **it).count() <= DISTINCT
}

/// The best reading of a few unusual bytes. The order breaks ties.
fn likeliest(
    sample: &[u8],
    unusual: usize,
    guess: &'static encoding_rs::Encoding,
    whole: bool,
    otherwise: Charset,
) -> Charset {
    let mut readings = vec![Charset::Legacy(guess), Charset::Utf8];
    readings.extend([SHIFT_JIS, GBK, EUC_KR, ISO_8859_15].map(Charset::Legacy));
    if has_frames(sample) && guess != IBM866 {
        return Charset::Unknown;
    }
    let mut best = (otherwise, -1);
    for charset in [Charset::Legacy(WINDOWS_1252)].into_iter().chain(readings) {
        if let Charset::Legacy(encoding) = charset
            && !decodes(encoding, sample, whole)
        {
            continue;
        }
        let score = plausibility(&literal(charset, sample), unusual);
        if best.1 < score {
            best = (charset, score);
        }
    }
    best.0
}

/// A part of the file that holds its first unusual bytes.
fn telling_part(bytes: &[u8]) -> &[u8] {
    let first = bytes.iter().position(|it| !it.is_ascii()).unwrap_or(0);
    let start = memchr::memrchr(b'\n', &bytes[..first]).map_or(0, |it| it + 1);
    let start = if first - start < 4096 { start } else { first };
    &bytes[start..bytes.len().min(start + SAMPLE)]
}

fn decodes(encoding: &'static encoding_rs::Encoding, sample: &[u8], whole: bool) -> bool {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let Some(size) = decoder.max_utf8_buffer_length_without_replacement(sample.len()) else { return false };
    let mut out = vec![0; size];
    let (result, ..) = decoder.decode_to_utf8_without_replacement(sample, &mut out, whole);
    !matches!(result, encoding_rs::DecoderResult::Malformed(..))
}

/// What the first lines say about themselves: `coding: cp932` of scripts,
/// `encoding="…"` of XML, `charset=…` of HTML.
fn declared(bytes: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    let head = &bytes[..bytes.len().min(1024)];
    for key in [b"coding".as_slice(), b"charset"] {
        for found in memchr::memmem::find_iter(head, key) {
            let rest = &head[found + key.len()..];
            let skip = rest.iter().take_while(|it| matches!(it, b':' | b'=' | b' ' | b'"' | b'\'')).count();
            let label: &[u8] = &rest[skip..];
            let len =
                label.iter().take_while(|it| it.is_ascii_alphanumeric() || b"-_.:".contains(it)).count();
            if let Some(encoding) = for_label(&label[..len])
                && skip != 0
                && encoding.is_ascii_compatible()
                && encoding != encoding_rs::UTF_8
            {
                return Some(encoding);
            }
        }
    }
    None
}

/// Labels of the web, and those of Python and Vim that the web does not know.
fn for_label(label: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    let lower = label.to_ascii_lowercase();
    let label: &[u8] = match lower.as_slice() {
        b"cp932" | b"ms932" => b"shift_jis",
        b"cp936" | b"euc-cn" => b"gbk",
        b"cp949" | b"uhc" | b"euckr" => b"euc-kr",
        b"cp950" => b"big5",
        b"eucjp" => b"euc-jp",
        b"iso8859-1" | b"latin-1" => b"latin1",
        other => other,
    };
    encoding_rs::Encoding::for_label(label)
}
