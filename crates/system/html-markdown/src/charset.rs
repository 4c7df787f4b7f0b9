//! Determines the character encoding of a page: from the server, from the page, or by a guess.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Bytes at the beginning of a page that are searched for its encoding declaration.
const DECLARED_WITHIN: usize = 1024;

/// Decodes a page. The encoding comes from the byte order mark, else from the charset in `content_type`,
/// else from the page's own declaration, else from a guess. Text labelled UTF-8 that is probably not
/// UTF-8 is guessed too. Invalid sequences become U+FFFD. Returns the text and the name of the encoding.
pub fn decode<'a>(bytes: &'a [u8], content_type: &str) -> (Cow<'a, str>, &'static str) {
    let encoding = Encoding::for_bom(bytes)
        .map(|it| it.0)
        .or_else(|| parameter(content_type, "charset").and_then(|it| Encoding::for_label(it.as_bytes())))
        .or_else(|| declared(bytes))
        .unwrap_or_else(|| guessed(bytes));
    let encoding = if encoding == UTF_8 && is_something_else(bytes) { guessed(bytes) } else { encoding };
    let (text, encoding, _) = encoding.decode(bytes);
    (text, encoding.name())
}

/// Like [`decode`], but takes ownership, so that text that is already UTF-8 is not copied.
pub fn decode_all(bytes: Vec<u8>, content_type: &str) -> (String, &'static str) {
    let (text, encoding) = decode(&bytes, content_type);
    match text {
        Cow::Owned(text) => (text, encoding),
        Cow::Borrowed(text) => {
            let marked = bytes.len() - text.len();
            // A borrowed result means that the bytes are valid UTF-8.
            let mut text = String::from_utf8(bytes)
                .unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned());
            text.drain(..marked);
            (text, encoding)
        }
    }
}

/// Whether text labelled UTF-8 is probably in another encoding: it has more invalid sequences than valid
/// non-ASCII characters.
fn is_something_else(bytes: &[u8]) -> bool {
    let (mut good, mut bad) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        // Every non-ASCII character has exactly one lead byte.
        good += chunk.valid().bytes().filter(|it| 0xc0 <= *it).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good < bad
}

/// Returns a parameter of a `Content-Type` header, without quotes. The name is matched
/// case-insensitively.
pub fn parameter(content_type: &str, name: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    })
}

/// Returns the encoding a page declares in its first kilobyte: `<meta charset>`, `<meta http-equiv>` or
/// the XML declaration. UTF-16 is read as UTF-8, since a page in UTF-16 could not be parsed this way.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARED_WITHIN)];
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let is_xml = head.trim_start().starts_with("<?xml");
    let places = head.match_indices("charset").map(|it| it.0 + "charset".len());
    let xml = is_xml.then(|| head.find("encoding").map(|at| at + "encoding".len())).flatten();
    let found = xml.into_iter().chain(places.filter(|at| head[..*at].contains("<meta"))).find_map(|at| {
        let rest = head[at..].trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end = rest.find(['"', '\'', ';', '>', ' ', '/', '?']).unwrap_or(rest.len());
        Encoding::for_label(&rest.as_bytes()[..end])
    })?;
    Some(if found == UTF_16LE || found == UTF_16BE { UTF_8 } else { found })
}

fn guessed(bytes: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_declarations_apply_in_order() {
        let (sjis, _, _) = encoding_rs::SHIFT_JIS.encode("日本語のページ");
        let (gbk, _, _) = encoding_rs::GBK.encode("这是一个用来测试编码检测的中文网页,它有足够多的文字。");
        let page = |head: &str, body: &[u8]| [head.as_bytes(), body].concat();
        let utf16: Vec<u8> =
            [0xff, 0xfe].into_iter().chain("héé".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        for (bytes, content_type, want) in [
            (sjis.to_vec(), "text/html; charset=Shift_JIS", "日本語のページ"),
            (sjis.to_vec(), "text/html; Charset=\"sjis\"", "日本語のページ"),
            (page("<meta charset=shift_jis>", &sjis), "text/html", "日本語のページ"),
            (
                page("<meta http-equiv='Content-Type' content='text/html; charset=Shift_JIS'>", &sjis),
                "text/html",
                "日本語のページ",
            ),
            (page("<?xml version='1.0' encoding='Shift_JIS'?>", &sjis), "text/xml", "日本語のページ"),
            (gbk.to_vec(), "text/html", "这是一个用来测试编码检测的中文网页,它有足够多的文字。"),
            (utf16, "text/html; charset=Shift_JIS", "héé"),
            ("\u{feff}grün".as_bytes().to_vec(), "text/plain; charset=latin1", "grün"),
            ("<meta charset=utf-16>grün".as_bytes().to_vec(), "text/html", "grün"),
            (b"caf\xe9 au lait".to_vec(), "text/plain; charset=ISO-8859-1", "café au lait"),
            ("plain".as_bytes().to_vec(), "text/plain; charset=nonsense", "plain"),
            (b"d\xe9j\xe0 vu, for\xeat".to_vec(), "text/plain; charset=utf-8", "déjà vu, forêt"),
            ("déjà vu \u{fffd} forêt".as_bytes().to_vec(), "text/plain; charset=utf-8", "forêt"),
            (
                b"caf\xc3\xa9, th\xc3\xa9, one bad \xff byte".to_vec(),
                "text/html; charset=utf-8",
                "café, thé, one bad \u{fffd} byte",
            ),
        ] {
            let (text, name) = decode(&bytes, content_type);
            assert!(text.ends_with(want), "{content_type}: {text} ({name})");
            assert_eq!(decode_all(bytes.clone(), content_type), (text.into_owned(), name));
        }
    }
}
