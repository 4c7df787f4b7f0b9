use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{EUC_KR, GBK, IBM866, ISO_8859_15, SHIFT_JIS, WINDOWS_1252};
use memchr::memchr;

use super::{Charset, Encoding, guess_charset::plausibility, stateful_charsets::shifted, text_file::literal};

/// How much of the file the sample is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SampleExtent {
    /// The whole file.
    Whole,
    /// The beginning; the last character may be truncated.
    Head,
}

/// Detects the encoding of a file. `None` if it is binary.
pub fn detect(bytes: &[u8], extent: SampleExtent) -> Option<Encoding> {
    if let Some(by_mark) = from_bom(bytes) {
        return by_mark;
    }
    let head = &bytes[..bytes.len().min(8192)];
    if memchr(0, head).is_some() {
        return utf16_without_bom(head).map(|charset| Encoding { charset, bom: false });
    }
    // Encodings with shift sequences cannot be cut at arbitrary positions.
    if looks_binary(head) || shifted(bytes).is_some() {
        return None;
    }
    let charset = match Utf8Census::count(bytes, extent) {
        Utf8Census { strays: 0, .. } => Charset::Utf8,
        // Text in another encoding contains valid UTF-8 sequences only by accident, so a file in which
        // they outnumber invalid bytes is damaged UTF-8. Small numbers prove nothing.
        census if 8 <= census.sequences && census.strays * 2 <= census.sequences => Charset::Utf8,
        census => legacy(bytes, extent, &census),
    };
    Some(Encoding { charset, bom: false })
}

/// Whether a file has no byte order mark and looks like text. If it is also valid UTF-8, no further
/// detection is needed.
pub(super) fn is_unmarked_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(8192)];
    from_bom(bytes).is_none() && memchr(0, head).is_none() && !looks_binary(head) && shifted(bytes).is_none()
}

/// The outer `Option` is `None` if there is no mark, the inner one if its encoding is not supported.
fn from_bom(bytes: &[u8]) -> Option<Option<Encoding>> {
    let charset = match bytes {
        // UTF-32 is not supported.
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return Some(None),
        [0xef, 0xbb, 0xbf, ..] => Charset::Utf8,
        [0xff, 0xfe, ..] => Charset::Utf16Le,
        [0xfe, 0xff, ..] => Charset::Utf16Be,
        _ => return None,
    };
    Some(Some(Encoding { charset, bom: true }))
}

/// Western text in UTF-16 has a zero in every second byte, always on the same side. The statistical
/// detector does not handle this.
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

/// Text contains hardly any control characters.
fn looks_binary(head: &[u8]) -> bool {
    // Branch-free, so that the compiler vectorises it.
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

/// Whether further bytes could complete this character.
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

/// Bytes used for statistics.
const SAMPLE: usize = 256 * 1024;

/// Up to this many non-ASCII bytes, single words decide instead of statistics.
const FEW: usize = 48;

/// The same limit for distinct non-ASCII bytes.
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
    // A reading that nobody would write is worse than none.
    let damaged_utf8 = 0 < census.sequences && census.strays <= census.sequences;
    let otherwise = if damaged_utf8 { Charset::Utf8 } else { Charset::Unknown };
    // Several complete UTF-8 characters and few invalid bytes are no accident in any encoding.
    if 2 <= census.sequences && census.strays * 2 <= census.sequences {
        return Charset::Utf8;
    }
    if unusual <= FEW || is_monotonous(sample) {
        let best = likeliest(sample, unusual, guess, whole, otherwise);
        // In a single-byte encoding, UTF-8 characters would read as an accented capital followed by a
        // sign, repeatedly.
        let is_single = matches!(best, Charset::Legacy(encoding) if encoding.is_single_byte());
        return if damaged_utf8 && is_single { Charset::Utf8 } else { best };
    }
    // A guess that cannot decode the file is worse than one that decodes anything.
    let readable = decodes(guess, sample, whole);
    let guess = if readable { guess } else { WINDOWS_1252 };
    match () {
        () if !guess.is_single_byte() => Charset::Legacy(guess),
        () if guess == WINDOWS_1252 => western(sample, unusual),
        () if guess != IBM866 && has_frames(sample) => Charset::Unknown,
        () => Charset::Legacy(guess),
    }
}

/// What the detector calls Western: three encodings that share most letters, or one it does not know.
fn western(sample: &[u8], unusual: usize) -> Charset {
    // Bytes undefined in Windows-1252 (one may be damage), and DOS box drawing.
    let undefined = sample.iter().filter(|it| matches!(it, 0x81 | 0x8d | 0x8f | 0x90 | 0x9d)).count();
    if unusual < undefined * 20 || has_frames(sample) || has_no_letters(sample) {
        return Charset::Unknown;
    }
    let readings = [WINDOWS_1252, ISO_8859_15].map(Charset::Legacy);
    // Only Windows-1252 has printable characters in this range.
    if sample.iter().any(|it| matches!(it, 0x80..=0x9f)) {
        return readings[0];
    }
    let [windows, latin] = readings.map(|it| plausibility(&literal(it, sample), unusual));
    readings[usize::from(windows < latin)]
}

/// Runs of the same byte, such as DOS box drawing.
fn has_frames(sample: &[u8]) -> bool {
    sample.windows(4).any(|it| {
        matches!(it[0], 0xb0..=0xb2 | 0xb3 | 0xba | 0xc4 | 0xcd | 0xdb | 0xdc | 0xdf)
            && it.iter().all(|other| *other == it[0])
    })
}

/// Western text contains plain letters; without any it is something else, such as EBCDIC.
fn has_no_letters(sample: &[u8]) -> bool {
    let letters = sample.iter().filter(|it| it.is_ascii_alphabetic()).count();
    letters * 4 < sample.iter().filter(|it| !it.is_ascii()).count()
}

/// Whether the same few bytes repeat, which is no more evidence than one occurrence.
fn is_monotonous(sample: &[u8]) -> bool {
    let mut found = [false; 256];
    for byte in sample.iter().filter(|it| !it.is_ascii()) {
        found[usize::from(*byte)] = true;
    }
    found.iter().filter(|it| **it).count() <= DISTINCT
}

/// The most plausible decoding of a few non-ASCII bytes. The order breaks ties.
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

/// The part of the file around its first non-ASCII bytes.
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

/// Encoding declared in the first lines: `coding: cp932` in scripts, `encoding="…"` in XML, `charset=…`
/// in HTML.
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

/// Web labels, and those of Python and Vim that the web does not have.
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
