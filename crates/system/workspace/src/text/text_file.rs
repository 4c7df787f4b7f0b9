use std::{fmt, ops::Range};

use super::{
    Charset, Encoding, SampleExtent,
    char_units::{self, CarriageReturns},
    detect,
    detect::is_unmarked_text,
};

/// A text file: its bytes, and the view of them that tools work on.
#[derive(Clone, Debug)]
pub struct Text {
    pub(super) source: ViewSource,
    encoding: Encoding,
    pub(super) returns: CarriageReturns,
    strays: usize,
    breaks: LineBreaks,
}

#[derive(Clone, Debug)]
pub(super) enum ViewSource {
    /// The view is the file: UTF-8 and line feeds. A byte order mark is the
    /// first character.
    Plain(String),
    /// The view differs from the bytes.
    Mapped(MappedText),
}

#[derive(Clone, Debug)]
pub(super) struct MappedText {
    raw: Vec<u8>,
    view: String,
    marks: Vec<OffsetMark>,
}

/// A place in the view and the same place in the file. There is one every few
/// kilobytes; between them the bytes are stepped over again, which is cheaper
/// than a table as large as the file.
#[derive(Clone, Copy, Debug)]
struct OffsetMark {
    view: usize,
    raw: usize,
}

const MARK_DISTANCE: usize = 4096;

/// How many line breaks of each style a file has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LineBreaks {
    /// How many lines end with a line feed alone.
    pub lf: usize,
    /// Pairs of carriage return and line feed.
    pub crlf: usize,
    /// Lone carriage returns that end lines.
    pub cr: usize,
}

impl fmt::Display for LineBreaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { crlf: 0, cr: 0, .. } => f.write_str("LF"),
            Self { lf: 0, cr: 0, .. } => f.write_str("CRLF"),
            Self { lf: 0, crlf: 0, .. } => f.write_str("CR"),
            Self { lf, crlf, .. } => write!(f, "mixed line endings: {crlf} CRLF, {lf} LF"),
        }
    }
}

impl Text {
    /// Reads a file as text. Bytes that are no text come back as they are.
    pub fn decode(raw: Vec<u8>) -> Result<Self, Vec<u8>> {
        let raw = if is_unmarked_text(&raw) {
            // The usual case: a large file is looked through only once.
            match Self::decode_utf8(raw, Encoding::UTF_8) {
                Ok(text) => return Ok(text),
                Err(raw) => raw,
            }
        } else {
            raw
        };
        match detect(&raw, SampleExtent::Whole) {
            Some(encoding) => Ok(Self::decode_as(raw, encoding)),
            None => Err(raw),
        }
    }

    /// Reads the plainest kind of text: UTF-8 with line feeds, without a mark.
    pub fn decode_plain(raw: Vec<u8>) -> Option<Self> {
        is_unmarked_text(&raw).then(|| Self::decode_utf8(raw, Encoding::UTF_8).ok()).flatten()
    }

    /// Reads valid UTF-8 without carriage returns, whose view is the file.
    fn decode_utf8(raw: Vec<u8>, encoding: Encoding) -> Result<Self, Vec<u8>> {
        if memchr::memchr(b'\r', &raw).is_some() {
            return Err(raw);
        }
        let text = String::from_utf8(raw).map_err(std::string::FromUtf8Error::into_bytes)?;
        let lf = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let breaks = LineBreaks { lf, ..LineBreaks::default() };
        Ok(Self {
            source: ViewSource::Plain(text),
            encoding,
            returns: CarriageReturns::Paired,
            strays: 0,
            breaks,
        })
    }

    /// Reads a file whose encoding is known. Never fails: bytes that spell
    /// nothing are strays.
    pub fn decode_as(raw: Vec<u8>, encoding: Encoding) -> Self {
        let start = encoding.bom_bytes().len();
        let raw = match encoding.charset {
            Charset::Utf8 => match Self::decode_utf8(raw, encoding) {
                Ok(text) => return text,
                Err(raw) => raw,
            },
            Charset::Utf16Le | Charset::Utf16Be | Charset::Legacy(_) | Charset::Unknown => raw,
        };
        let returns = returns_of(encoding.charset, &raw[start..]);
        let mut builder = Builder { view: String::with_capacity(raw.len()), ..Builder::default() };
        builder.run(&raw, start, encoding.charset, returns);
        let Builder { view, marks, strays, breaks } = builder;
        Self {
            source: ViewSource::Mapped(MappedText { raw, view, marks }),
            encoding,
            returns,
            strays,
            breaks,
        }
    }

    /// The text, every line break as a line feed, without a byte order mark.
    pub fn view(&self) -> &str {
        match &self.source {
            ViewSource::Plain(text) => &text[self.encoding.bom_bytes().len()..],
            ViewSource::Mapped(mapped) => &mapped.view,
        }
    }

    /// The bytes of the file.
    pub fn raw(&self) -> &[u8] {
        match &self.source {
            ViewSource::Plain(text) => text.as_bytes(),
            ViewSource::Mapped(mapped) => &mapped.raw,
        }
    }

    /// How the file is spelt.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// How many places of the file spell nothing.
    pub fn strays(&self) -> usize {
        self.strays
    }

    /// How many line breaks of each style there are.
    pub fn line_breaks(&self) -> LineBreaks {
        self.breaks
    }

    /// How many lines there are; one without an end counts.
    pub fn line_count(&self) -> u64 {
        let LineBreaks { lf, crlf, cr } = self.breaks;
        let open = !self.view().is_empty() && !self.view().ends_with('\n');
        (lf + crlf + cr) as u64 + u64::from(open)
    }

    /// The bytes of the file behind a part of the view.
    pub fn raw_range(&self, view: &Range<usize>) -> Range<usize> {
        let mut locator = self.locator();
        locator.seek(view.start)..locator.seek(view.end)
    }

    /// A part of the file with its line breaks as they are.
    pub fn literal(&self, raw: &[u8]) -> String {
        literal(self.encoding.charset, raw)
    }

    pub(super) fn locator(&self) -> OffsetMapper<'_> {
        OffsetMapper { text: self, at: OffsetMark { view: 0, raw: self.encoding.bom_bytes().len() } }
    }
}

/// Some bytes as text, every character standing for itself.
pub(crate) fn literal(charset: Charset, raw: &[u8]) -> String {
    let mut builder = Builder::default();
    builder.run(raw, 0, charset, CarriageReturns::Literal);
    builder.view
}

fn returns_of(charset: Charset, bytes: &[u8]) -> CarriageReturns {
    match charset {
        // A byte search is enough to exclude line feeds, not to find them.
        Charset::Utf16Le | Charset::Utf16Be => {
            let mut at = 0;
            while at < bytes.len() {
                let unit = char_units::next(charset, CarriageReturns::Literal, &bytes[at..]);
                if unit.character == '\n' {
                    return CarriageReturns::Paired;
                }
                at += unit.len;
            }
            CarriageReturns::Alone
        }
        _ if memchr::memchr(b'\n', bytes).is_some() => CarriageReturns::Paired,
        Charset::Utf8 | Charset::Legacy(_) | Charset::Unknown => CarriageReturns::Alone,
    }
}

#[derive(Default)]
struct Builder {
    view: String,
    marks: Vec<OffsetMark>,
    strays: usize,
    breaks: LineBreaks,
}

impl Builder {
    fn run(&mut self, raw: &[u8], start: usize, charset: Charset, returns: CarriageReturns) {
        let mut at = start;
        let mut next_mark = 0;
        let one_byte_ascii = !matches!(charset, Charset::Utf16Le | Charset::Utf16Be);
        while at < raw.len() {
            if next_mark <= self.view.len() {
                self.marks.push(OffsetMark { view: self.view.len(), raw: at });
                next_mark = self.view.len() + MARK_DISTANCE;
            }
            if one_byte_ascii {
                let len = plain_ascii(&raw[at..raw.len().min(at + MARK_DISTANCE)]);
                if let Ok(run) = std::str::from_utf8(&raw[at..at + len])
                    && len != 0
                {
                    self.breaks.lf += memchr::memchr_iter(b'\n', run.as_bytes()).count();
                    self.view.push_str(run);
                    at += len;
                    continue;
                }
            }
            let unit = char_units::next(charset, returns, &raw[at..]);
            if unit.character == '\n' {
                self.count_break(&raw[at..at + unit.len], charset);
            }
            self.strays += usize::from(unit.stray);
            self.view.push(unit.character);
            at += unit.len;
        }
    }

    fn count_break(&mut self, raw: &[u8], charset: Charset) {
        let width = if matches!(charset, Charset::Utf16Le | Charset::Utf16Be) { 2 } else { 1 };
        match raw.len() / width {
            2 => self.breaks.crlf += 1,
            _ if raw.contains(&b'\r') => self.breaks.cr += 1,
            _ => self.breaks.lf += 1,
        }
    }
}

/// How many bytes at the start stand for themselves whatever the encoding.
fn plain_ascii(bytes: &[u8]) -> usize {
    bytes.iter().position(|it| !it.is_ascii() || *it == b'\r').unwrap_or(bytes.len())
}

/// Walks from places in the view to places in the file; quickest in ascending
/// order.
pub(super) struct OffsetMapper<'a> {
    text: &'a Text,
    at: OffsetMark,
}

impl OffsetMapper<'_> {
    /// The place in the file of a character boundary in the view.
    pub(super) fn seek(&mut self, view: usize) -> usize {
        let mapped = match &self.text.source {
            ViewSource::Plain(_) => return view + self.text.encoding.bom_bytes().len(),
            ViewSource::Mapped(mapped) => mapped,
        };
        if view < self.at.view || MARK_DISTANCE < view - self.at.view {
            let index = mapped.marks.partition_point(|mark| mark.view <= view);
            if let Some(mark) = index.checked_sub(1).and_then(|it| mapped.marks.get(it)) {
                self.at = *mark;
            }
        }
        while self.at.view < view && self.at.raw < mapped.raw.len() {
            let rest = &mapped.raw[self.at.raw..];
            let unit = char_units::next(self.text.encoding.charset, self.text.returns, rest);
            self.at.view += unit.character.len_utf8();
            self.at.raw += unit.len;
        }
        self.at.raw
    }
}
