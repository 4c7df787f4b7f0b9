use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use grep_searcher::{BinaryDetection, Encoding, MmapChoice, Searcher, SearcherBuilder};

use super::{
    GrepQuery, Mode,
    grep_query::PatternAlphabet,
    long_lines::{self, FileWindows},
    non_utf8::{self, CharsetReading},
    sink::{LineCollector, MatchedLines},
};
use crate::SearchStop;

/// Files up to this many bytes are read at once. Larger ones are streamed, which also bounds the time
/// until a cancellation takes effect.
const SMALL: usize = 1 << 20;

/// Bytes of a large file used to detect its encoding.
const HEAD: usize = 64 * 1024;

/// Maximum memory for a line; files with longer lines are searched in windows.
const MAX_LINE_MEMORY: usize = 32 << 20;

/// Maximum bytes of a file for multi-line search, which needs the whole file in memory.
const MAX_MULTILINE: usize = 64 << 20;

/// How a file came to be searched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum GrepOrigin {
    /// Found on a walk: a NUL byte ends the search.
    Walk,
    /// Named in the request: searched to its end, even if it is binary.
    Named,
}

/// Result of one file.
#[derive(Debug)]
pub(crate) enum Searched {
    /// Searched as text.
    Text(MatchedLines),
    /// Binary and not searched.
    Binary,
}

/// Searches files one after the other.
pub(crate) struct FileSearch<'a> {
    query: &'a GrepQuery,
    stop: &'a SearchStop,
    slices: Searcher,
    /// Searcher for files whose lines are not needed; counting line numbers costs time.
    counts: Searcher,
    bytes: Vec<u8>,
}

impl<'a> FileSearch<'a> {
    pub(crate) fn new(query: &'a GrepQuery, stop: &'a SearchStop) -> Self {
        let mut builder = builder(query);
        builder.bom_sniffing(false).binary_detection(BinaryDetection::none());
        let slices = builder.build();
        let counts = builder.line_number(false).build();
        Self { query, stop, slices, counts, bytes: Vec::new() }
    }

    /// Searches a file and keeps at most `keep` lines.
    pub(crate) fn search(
        &mut self,
        mut file: File,
        len: u64,
        origin: GrepOrigin,
        keep: usize,
    ) -> io::Result<Searched> {
        self.bytes.clear();
        let expected = usize::try_from(len).unwrap_or(usize::MAX);
        let limit = if expected <= SMALL { SMALL } else { HEAD };
        read_up_to(&mut file, &mut self.bytes, limit, expected)?;
        if self.bytes.len() <= limit {
            let bytes = std::mem::take(&mut self.bytes);
            let searched = self.small(&bytes, origin, keep);
            self.bytes = bytes;
            return searched;
        }
        self.large(file, origin, keep)
    }

    fn small(&mut self, bytes: &[u8], origin: GrepOrigin, keep: usize) -> io::Result<Searched> {
        match non_utf8::marked(bytes) {
            Some((CharsetReading::Through(encoding), mark)) => {
                let (text, _) = encoding.decode_without_bom_handling(&bytes[mark..]);
                self.decoded(&text, encoding, keep).map(Searched::Text)
            }
            Some((CharsetReading::Utf8, mark)) => self.small_unmarked(&bytes[mark..], origin, keep),
            None => self.small_unmarked(bytes, origin, keep),
        }
    }

    fn small_unmarked(&mut self, bytes: &[u8], origin: GrepOrigin, keep: usize) -> io::Result<Searched> {
        let nul = memchr::memchr(0, bytes);
        if let Some(nul) = nul {
            if let Some(encoding) = non_utf8::utf16_without_mark(bytes) {
                let (text, _) = encoding.decode_without_bom_handling(bytes);
                return self.decoded(&text, encoding, keep).map(Searched::Text);
            }
            return self.small_binary(bytes, nul, origin, keep);
        }
        let raw = self.slice(bytes, keep)?;
        self.small_legacy(bytes, raw, keep).map(Searched::Text)
    }

    /// Searches again, decoded from other likely encodings.
    fn small_legacy(&mut self, bytes: &[u8], raw: MatchedLines, keep: usize) -> io::Result<MatchedLines> {
        let alphabet = self.query.alphabet;
        let pointless = match alphabet {
            PatternAlphabet::Bytes => true,
            PatternAlphabet::Ascii => raw.count == 0,
            PatternAlphabet::Any | PatternAlphabet::Wide => false,
        };
        if pointless || std::str::from_utf8(bytes).is_ok() {
            return Ok(raw);
        }
        let mut readable = false;
        for (encoding, text) in
            non_utf8::readings(bytes, self.query.guess, /*all*/ alphabet == PatternAlphabet::Wide)
        {
            readable = true;
            let found = self.decoded(&text, encoding, keep)?;
            if 0 < found.count {
                return Ok(found);
            }
        }
        // A match only in the raw bytes, such as an `A` that is half of a Japanese character, is not in
        // the text.
        Ok(if readable { MatchedLines::default() } else { raw })
    }

    fn decoded(
        &mut self,
        text: &str,
        encoding: &'static encoding_rs::Encoding,
        keep: usize,
    ) -> io::Result<MatchedLines> {
        let mut found = self.slice(text.as_bytes(), keep)?;
        found.encoding = Some(encoding.name());
        Ok(found)
    }

    fn slice(&mut self, bytes: &[u8], keep: usize) -> io::Result<MatchedLines> {
        let mut taker = LineCollector::new(self.query, self.stop, keep);
        let searcher = if keep == 0 { &mut self.counts } else { &mut self.slices };
        searcher.search_slice(&self.query.matcher, bytes, &mut taker)?;
        Ok(taker.found)
    }

    /// A file found on a walk is binary if a NUL byte is in its first part. If one comes later, the
    /// lines before it are shown. A named file is searched to its end, and matches after the NUL are
    /// counted.
    fn small_binary(
        &mut self,
        bytes: &[u8],
        nul: usize,
        origin: GrepOrigin,
        keep: usize,
    ) -> io::Result<Searched> {
        let mut found = match origin {
            GrepOrigin::Walk if nul < HEAD || !self.shows_before_nul() => return Ok(Searched::Binary),
            GrepOrigin::Walk => self.slice(&bytes[..line_start(bytes, nul)], keep)?,
            GrepOrigin::Named => {
                let mut taker = LineCollector::new(self.query, self.stop, keep);
                taker.show_until = line_start(bytes, nul) as u64;
                let mut searcher = builder(self.query).binary_detection(BinaryDetection::convert(0)).build();
                searcher.search_reader(&self.query.matcher, bytes, &mut taker)?;
                taker.found
            }
        };
        if found.count == 0 {
            return Ok(if origin == GrepOrigin::Walk { Searched::Binary } else { Searched::Text(found) });
        }
        let is_cut = origin == GrepOrigin::Walk || 0 < found.beyond_binary;
        found.binary_at = is_cut.then_some(nul as u64);
        Ok(Searched::Text(found))
    }

    fn shows_before_nul(&self) -> bool {
        self.query.options.mode == Mode::Content && !self.query.options.multiline
    }

    fn large(&mut self, mut file: File, origin: GrepOrigin, keep: usize) -> io::Result<Searched> {
        let head = std::mem::take(&mut self.bytes);
        let reading = self.reading_of_large(&head, &mut file)?;
        let binary = matches!(reading, CharsetReading::Utf8);
        let nul = if binary { memchr::memchr(0, &head) } else { None };
        if nul.is_some() && origin == GrepOrigin::Walk {
            self.bytes = head;
            return Ok(Searched::Binary);
        }
        let mut taker = LineCollector::new(self.query, self.stop, keep);
        taker.show_until = nul.map_or(u64::MAX, |nul| line_start(&head, nul) as u64);
        let mut searcher = self.large_searcher(reading, origin);
        file.seek(SeekFrom::Start(head.len() as u64))?;
        let reader = CancellableReader { stop: self.stop, inner: head.as_slice().chain(&mut file) };
        let outcome = searcher.search_reader(&self.query.matcher, reader, &mut taker);
        self.bytes = head;
        match outcome {
            Err(_) if self.stop.is_over() => (),
            Err(error) if is_out_of_memory(&error) && !self.query.options.multiline => {
                file.seek(SeekFrom::Start(0))?;
                let found = long_lines::search(self.query, self.stop, &mut file, keep, FileWindows::USUAL)?;
                return Ok(Searched::Text(found));
            }
            Err(error) if is_out_of_memory(&error) => {
                let message = format!("larger than {} MB: too large for multiline", MAX_MULTILINE >> 20);
                return Err(io::Error::other(message));
            }
            other => other?,
        }
        let mut found = taker.found;
        if let CharsetReading::Through(encoding) = reading {
            found.encoding = Some(encoding.name());
        }
        if origin == GrepOrigin::Named && found.beyond_binary == 0 {
            found.binary_at = None;
        }
        let squash = found.binary_at.is_some() && origin == GrepOrigin::Walk;
        if squash && (!self.shows_before_nul() || found.count == 0) {
            return Ok(Searched::Binary);
        }
        Ok(Searched::Text(found))
    }

    fn reading_of_large(&self, head: &[u8], file: &mut File) -> io::Result<CharsetReading> {
        if let Some((reading, _)) = non_utf8::marked(head) {
            return Ok(reading);
        }
        if memchr::memchr(0, head).is_some() {
            return Ok(
                non_utf8::utf16_without_mark(head).map_or(CharsetReading::Utf8, CharsetReading::Through)
            );
        }
        if self.query.alphabet == PatternAlphabet::Bytes {
            return Ok(CharsetReading::Utf8);
        }
        let telling = match std::str::from_utf8(head) {
            Err(error) if error.error_len().is_some() => Some(head.to_vec()),
            // Only a pattern that needs decoding is worth reading the file twice.
            _ if self.query.alphabet == PatternAlphabet::Wide => self.first_strays(file)?,
            _ => None,
        };
        let encoding = telling.and_then(|bytes| (self.query.guess)(&bytes));
        Ok(encoding.map_or(CharsetReading::Utf8, CharsetReading::Through))
    }

    /// The first block with invalid UTF-8.
    fn first_strays(&self, file: &mut File) -> io::Result<Option<Vec<u8>>> {
        file.seek(SeekFrom::Start(0))?;
        let mut block = Vec::new();
        loop {
            let carried = block.len();
            let read = read_up_to(file, &mut block, HEAD + carried, usize::MAX)?;
            if read == 0 || self.stop.is_over() {
                return Ok((carried != 0).then_some(block));
            }
            match std::str::from_utf8(&block) {
                Ok(_) => block.clear(),
                // A truncated last character continues in the next block.
                Err(error) if error.error_len().is_none() => {
                    block.drain(..error.valid_up_to());
                }
                Err(_) => return Ok(Some(block)),
            }
        }
    }

    fn large_searcher(&self, reading: CharsetReading, origin: GrepOrigin) -> Searcher {
        let mut builder = builder(self.query);
        builder.binary_detection(match (reading, origin) {
            (CharsetReading::Through(_), _) => BinaryDetection::none(),
            (CharsetReading::Utf8, GrepOrigin::Walk) => BinaryDetection::quit(0),
            (CharsetReading::Utf8, GrepOrigin::Named) => BinaryDetection::convert(0),
        });
        if let CharsetReading::Through(encoding) = reading {
            builder.encoding(Encoding::new(encoding.name()).ok());
        }
        let limit = if self.query.options.multiline { MAX_MULTILINE } else { MAX_LINE_MEMORY };
        builder.heap_limit(Some(limit)).build()
    }
}

fn builder(query: &GrepQuery) -> SearcherBuilder {
    let options = query.options;
    let mut builder = SearcherBuilder::new();
    builder.line_number(options.mode == Mode::Content).multi_line(options.multiline);
    builder.memory_map(MmapChoice::never());
    if options.mode == Mode::Content {
        builder.before_context(options.before).after_context(options.after);
    }
    builder
}

/// Reads until `bytes` is longer than `limit` or the file ends. `expected` saves a system call for small
/// files.
fn read_up_to(file: &mut File, bytes: &mut Vec<u8>, limit: usize, expected: usize) -> io::Result<usize> {
    let before = bytes.len();
    let want = limit.min(expected.saturating_add(before)).saturating_add(1);
    loop {
        let len = bytes.len();
        let goal = if len < want { want } else { limit + 1 };
        if goal <= len {
            break;
        }
        bytes.resize(goal, 0);
        match file.read(&mut bytes[len..]) {
            Ok(read) => {
                bytes.truncate(len + read);
                // A short read from a regular file means its end.
                if bytes.len() < goal {
                    break;
                }
            }
            Err(error) => {
                bytes.truncate(len);
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(bytes.len() - before)
}

fn line_start(bytes: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |found| found + 1)
}

pub(super) fn is_out_of_memory(error: &io::Error) -> bool {
    error.to_string().contains("allocation limit")
}

/// Returns an I/O error once the search is cancelled.
struct CancellableReader<'a, R> {
    stop: &'a SearchStop,
    inner: R,
}

impl<R: Read> Read for CancellableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_over() {
            return Err(io::Error::other("stopped"));
        }
        self.inner.read(buffer)
    }
}
