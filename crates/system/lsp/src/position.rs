//! Converts positions between callers (lines and characters from 1) and servers (lines from 0, columns
//! in the negotiated encoding).

/// Unit of a server's column numbers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ColumnEncoding {
    /// UTF-8 bytes.
    Utf8,
    /// UTF-16 code units, the default.
    #[default]
    Utf16,
    /// Characters (UTF-32).
    Utf32,
}

impl ColumnEncoding {
    /// Parses the server's `positionEncoding`; UTF-16 for anything unknown.
    pub fn named(name: Option<&str>) -> Self {
        match name {
            Some("utf-8") => Self::Utf8,
            Some("utf-32") => Self::Utf32,
            _ => Self::Utf16,
        }
    }

    fn width(self, character: char) -> usize {
        match self {
            Self::Utf8 => character.len_utf8(),
            Self::Utf16 => character.len_utf16(),
            Self::Utf32 => 1,
        }
    }

    /// Column of the character at byte offset `byte` of a line.
    pub fn column(self, line: &str, byte: usize) -> usize {
        line.char_indices().take_while(|(at, _)| *at < byte).map(|(_, it)| self.width(it)).sum()
    }

    /// Byte offset of a column; the end of the line if it is beyond.
    pub fn byte(self, line: &str, column: usize) -> usize {
        let mut passed = 0;
        for (at, character) in line.char_indices() {
            passed += self.width(character);
            if column < passed {
                return at;
            }
        }
        line.len()
    }
}

/// A position in a text: line from 0, and byte offset in that line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TextPosition {
    pub line: usize,
    pub byte: usize,
}

/// A resolved position.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolvedPosition {
    pub place: TextPosition,
    /// Identifier at the position, if there is one.
    pub name: Option<String>,
    /// Explains a deviation from the requested position.
    pub note: Option<String>,
}

/// A line by its number from 0, without its line ending.
pub fn line_at(text: &str, line: usize) -> Option<&str> {
    text.lines().nth(line)
}

/// Character number, from 1, of a server's column.
pub fn character_of(line: &str, column: usize, encoding: ColumnEncoding) -> usize {
    let byte = encoding.byte(line, column);
    line[..byte].chars().count() + 1
}

/// Keywords, which are never the symbol that a request about a line means.
const KEYWORDS: &[&str] = &[
    "pub",
    "fn",
    "let",
    "mut",
    "const",
    "static",
    "async",
    "await",
    "unsafe",
    "impl",
    "for",
    "struct",
    "enum",
    "trait",
    "type",
    "use",
    "mod",
    "return",
    "if",
    "else",
    "match",
    "while",
    "loop",
    "where",
    "def",
    "class",
    "import",
    "from",
    "as",
    "in",
    "is",
    "not",
    "and",
    "or",
    "with",
    "yield",
    "lambda",
    "pass",
    "raise",
    "try",
    "except",
    "function",
    "var",
    "new",
    "export",
    "default",
    "interface",
    "extends",
    "implements",
    "public",
    "private",
    "protected",
    "final",
    "void",
    "this",
    "self",
    "Self",
    "super",
    "crate",
    "package",
    "func",
    "go",
    "defer",
    "local",
    "then",
    "fi",
    "do",
    "done",
    "extern",
    "inline",
    "namespace",
    "template",
    "typename",
    "using",
    "virtual",
    "override",
    "readonly",
    "declare",
    "abstract",
    "throw",
    "catch",
    "switch",
    "case",
    "break",
    "continue",
];

/// Resolves a position given as line and character (both from 1), line and symbol, or symbol alone. If
/// it does not match exactly, the nearest identifier is used and `note` says so.
pub fn resolve(
    text: &str,
    line: Option<u32>,
    character: Option<u32>,
    symbol: Option<&str>,
) -> Result<ResolvedPosition, String> {
    let count = text.lines().count();
    let index = match line {
        Some(0) => return Err(String::from("line counts from 1")),
        Some(line) if count < line as usize => {
            return Err(format!("line {line} is beyond the end: the file has {count} lines"));
        }
        Some(line) => Some(line as usize - 1),
        None => None,
    };
    // `a::b`, `a.b` and `a->b` refer to the last part.
    let symbol = symbol.map(|it| it.rsplit([':', '.', '>']).next().unwrap_or(it).trim());
    match (index, symbol.filter(|it| !it.is_empty())) {
        (None, None) => Err(String::from("give line and character, line and symbol, or symbol")),
        (None, Some(symbol)) => anywhere(text, symbol),
        (Some(index), Some(symbol)) => near_line(text, index, character, symbol),
        (Some(index), None) => on_line(text, index, character),
    }
}

/// First occurrence of a symbol in a text.
fn anywhere(text: &str, symbol: &str) -> Result<ResolvedPosition, String> {
    let mut all = text.lines().enumerate().flat_map(|(line, content)| {
        named(content, symbol).into_iter().map(move |byte| TextPosition { line, byte })
    });
    let place = all.next().ok_or_else(|| format!("`{symbol}` does not occur in the file"))?;
    let more = all.count();
    let note = match more {
        0 => format!("`{symbol}` is on line {}", place.line + 1),
        more => format!(
            "`{symbol}` first occurs on line {} ({more} more times below); give line for another one",
            place.line + 1
        ),
    };
    Ok(ResolvedPosition { place, name: Some(symbol.to_owned()), note: Some(note) })
}

/// The symbol on a line, or on the nearest line that has it.
fn near_line(
    text: &str,
    index: usize,
    character: Option<u32>,
    symbol: &str,
) -> Result<ResolvedPosition, String> {
    let wanted = character.unwrap_or(1).saturating_sub(1) as usize;
    let on = |line: usize, content: &str| {
        let places = named(content, symbol).into_iter();
        let byte = places.min_by_key(|byte| content[..*byte].chars().count().abs_diff(wanted))?;
        Some(TextPosition { line, byte })
    };
    if let Some(place) = line_at(text, index).and_then(|content| on(index, content)) {
        return Ok(ResolvedPosition { place, name: Some(symbol.to_owned()), note: None });
    }
    let nearest = text
        .lines()
        .enumerate()
        .filter_map(|(line, content)| on(line, content))
        .min_by_key(|place| place.line.abs_diff(index));
    match nearest {
        Some(place) => {
            let note = format!(
                "`{symbol}` is not on line {} but on line {}, which was used",
                index + 1,
                place.line + 1
            );
            Ok(ResolvedPosition { place, name: Some(symbol.to_owned()), note: Some(note) })
        }
        None => Err(format!("`{symbol}` does not occur in the file")),
    }
}

/// The identifier at a character of a line, or the nearest one.
fn on_line(text: &str, index: usize, character: Option<u32>) -> Result<ResolvedPosition, String> {
    let content = line_at(text, index).unwrap_or_default();
    let names = names_in(content);
    let wanted = match character {
        Some(0) => return Err(String::from("character counts from 1")),
        Some(character) => Some(character as usize - 1),
        None => None,
    };
    let chars = |byte: usize| content[..byte].chars().count();
    let Some(wanted) = wanted else {
        let name = names.iter().find(|(_, name)| !KEYWORDS.contains(name)).or(names.first());
        let Some((byte, name)) = name else {
            return Err(format!("line {} holds no name; give another line, or symbol", index + 1));
        };
        let note = format!("no character was given; `{name}` at character {} was used", chars(*byte) + 1);
        let place = TextPosition { line: index, byte: *byte };
        return Ok(ResolvedPosition { place, name: Some((*name).to_owned()), note: Some(note) });
    };
    let distance = |(byte, name): &(usize, &str)| {
        let (start, length) = (chars(*byte), name.chars().count());
        match wanted {
            it if it < start => start - it,
            it if start + length < it => it - start - length,
            _ => 0,
        }
    };
    match names.iter().min_by_key(|it| distance(it)) {
        Some(found) if distance(found) == 0 => {
            // Between two adjacent identifiers, the one that starts there wins.
            let begins = names.iter().find(|it| chars(it.0) == wanted).unwrap_or(found);
            let place = TextPosition { line: index, byte: begins.0 };
            Ok(ResolvedPosition { place, name: Some(begins.1.to_owned()), note: None })
        }
        Some((byte, name)) => {
            let note = format!(
                "there is no name at character {}; `{name}` at character {} was used",
                wanted + 1,
                chars(*byte) + 1
            );
            let place = TextPosition { line: index, byte: *byte };
            Ok(ResolvedPosition { place, name: Some((*name).to_owned()), note: Some(note) })
        }
        None => {
            let byte = content.char_indices().nth(wanted).map_or(content.len(), |it| it.0);
            Ok(ResolvedPosition { place: TextPosition { line: index, byte }, name: None, note: None })
        }
    }
}

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// All identifiers of a line with their byte offsets.
fn names_in(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut begin = None;
    for (at, character) in line.char_indices().chain([(line.len(), ' ')]) {
        match (is_part(character), begin) {
            (true, None) => begin = Some(at),
            (false, Some(start)) => {
                let name = &line[start..at];
                if !name.starts_with(|it: char| it.is_ascii_digit()) {
                    found.push((start, name));
                }
                begin = None;
            }
            _ => (),
        }
    }
    found
}

/// Byte offsets of a symbol as a whole word; of any occurrence if it is not an identifier.
fn named(line: &str, symbol: &str) -> Vec<usize> {
    let is_name = symbol.chars().all(is_part);
    let whole = |at: usize| {
        let before = line[..at].chars().next_back();
        let after = line[at + symbol.len()..].chars().next();
        !is_name || (!before.is_some_and(is_part) && !after.is_some_and(is_part))
    };
    line.match_indices(symbol).map(|(at, _)| at).filter(|at| whole(*at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_encoding_converts_columns_and_bytes() {
        let line = "a🦀ü b";
        for (encoding, columns) in [
            (ColumnEncoding::Utf8, [0, 1, 5, 7, 8]),
            (ColumnEncoding::Utf16, [0, 1, 3, 4, 5]),
            (ColumnEncoding::Utf32, [0, 1, 2, 3, 4]),
        ] {
            for ((at, _), column) in line.char_indices().zip(columns) {
                assert_eq!(encoding.column(line, at), column, "{encoding:?} {at}");
                assert_eq!(encoding.byte(line, column), at, "{encoding:?} {column}");
            }
            assert_eq!(encoding.byte(line, 99), line.len());
        }
        // A column inside a character means that character.
        assert_eq!(ColumnEncoding::Utf16.byte(line, 2), 1);
        assert_eq!(ColumnEncoding::Utf8.byte(line, 3), 1);
        assert_eq!(character_of(line, 3, ColumnEncoding::Utf16), 3);
    }

    #[track_caller]
    fn check(line: Option<u32>, character: Option<u32>, symbol: Option<&str>, want: &str) {
        let text =
            "use std::fs;\n\npub fn größe(größe: u32) -> u32 {\n    größe + other(größe)\n}\n// done\n\n";
        let got = match resolve(text, line, character, symbol) {
            Ok(it) => {
                let content = line_at(text, it.place.line).unwrap();
                let character = content[..it.place.byte].chars().count() + 1;
                format!(
                    "{}:{character} {} {}",
                    it.place.line + 1,
                    it.name.as_deref().unwrap_or("-"),
                    it.note.as_deref().unwrap_or("")
                )
            }
            Err(err) => err,
        };
        assert_eq!(got.trim_end(), want);
    }

    #[test]
    fn resolve_finds_symbol_by_position_or_name() {
        check(Some(3), Some(8), None, "3:8 größe");
        check(Some(3), Some(10), None, "3:8 größe");
        check(Some(3), Some(13), None, "3:8 größe");
        check(Some(3), Some(14), None, "3:14 größe");
        check(
            Some(4),
            Some(1),
            None,
            "4:5 größe there is no name at character 1; `größe` at character 5 was used",
        );
        check(
            Some(4),
            Some(500),
            None,
            "4:19 größe there is no name at character 500; `größe` at character 19 was used",
        );
        check(Some(3), None, None, "3:8 größe no character was given; `größe` at character 8 was used");
        check(Some(4), None, Some("other"), "4:13 other");
        check(Some(4), Some(19), Some("größe"), "4:19 größe");
        check(
            Some(1),
            None,
            Some("other"),
            "4:13 other `other` is not on line 1 but on line 4, which was used",
        );
        check(None, None, Some("std::fs"), "1:10 fs `fs` is on line 1");
        check(
            None,
            None,
            Some("größe"),
            "3:8 größe `größe` first occurs on line 3 (3 more times below); give line for another one",
        );
        check(None, None, Some("gr"), "`gr` does not occur in the file");
        check(Some(7), Some(3), None, "7:1 -");
        check(Some(7), None, None, "line 7 holds no name; give another line, or symbol");
        check(Some(9), Some(1), None, "line 9 is beyond the end: the file has 7 lines");
        check(Some(0), Some(1), None, "line counts from 1");
        check(Some(1), Some(0), None, "character counts from 1");
        check(None, None, None, "give line and character, line and symbol, or symbol");
    }

    proptest::proptest! {
        #[test]
        fn resolved_position_is_always_inside_the_line(text in "[a-z üß🦀(.\n]{0,60}", line in 0_u32..8, character in 0_u32..40) {
            if let Ok(found) = resolve(&text, Some(line), Some(character), None) {
                let content = line_at(&text, found.place.line).unwrap_or_default();
                proptest::prop_assert!(content.is_char_boundary(found.place.byte));
                for encoding in [ColumnEncoding::Utf8, ColumnEncoding::Utf16, ColumnEncoding::Utf32] {
                    let column = encoding.column(content, found.place.byte);
                    proptest::prop_assert_eq!(encoding.byte(content, column), found.place.byte);
                }
            }
        }
    }
}
