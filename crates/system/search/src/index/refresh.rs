use std::{
    collections::HashSet,
    io::Read,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::Stat;

use super::{
    IndexStamp, IndexedFile, IndexedFileId, IndexedSymbol, NAMELESS, TreeIndex,
    bloom::{WordBloom, WordSet},
};
use crate::{
    CharsetGuess, SearchRoot, SearchStop, SearchStopReason, SourceLanguage, SourceSymbol, SymbolKind,
    SymbolScratch, TreeWalk, WalkEntry, WalkFilter, WalkLimits, WalkStats, WalkVisitor, grep, symbols,
};

/// Options for refreshing an index.
pub struct IndexRefreshOptions<'a> {
    /// Working directory, to which git's global ignore rules are relative.
    pub cwd: &'a Path,
    /// Which files are indexed.
    pub filter: &'a WalkFilter,
    /// Threads and file system limits.
    pub limits: WalkLimits,
    /// Detects the encoding of files that are not UTF-8.
    pub guess: CharsetGuess,
    /// Cancellation and deadline.
    pub stop: &'a SearchStop,
}

/// Result of a refresh.
#[derive(Debug, Default)]
pub struct RefreshStats {
    /// Files that were read.
    pub read: u64,
    /// Files that no longer exist.
    pub gone: u64,
    /// Files that exceed the index's limits.
    pub left_out: u64,
    /// Why the index is incomplete or outdated, if it is.
    pub stopped: Option<SearchStopReason>,
    /// What the walk visited and skipped.
    pub tally: WalkStats,
}

/// Maximum bytes of an indexed file; larger ones are data or generated, and only searched as text.
const MAX_FILE: u64 = 2 << 20;

/// Maximum number of files in an index.
const MAX_FILES: usize = 500_000;

/// Maximum memory of an index in bytes.
const MAX_BYTES: usize = 768 << 20;

/// A file read this soon after a change may change again with the same timestamp.
const SETTLING_SECONDS: i64 = 2;

impl IndexRefreshOptions<'_> {
    /// Checks every file and reads those that changed. Blocks.
    pub fn run(&self, index: &mut TreeIndex, root: &SearchRoot) -> RefreshStats {
        let mut filter = self.filter.clone();
        let mut walk = TreeWalk::new(root, &filter, self.cwd, self.limits, self.stop);
        if walk.root_is_ignored() {
            filter.respect_ignore = false;
            walk = TreeWalk::new(root, &filter, self.cwd, self.limits, self.stop);
        }
        let known = &*index;
        let (readers, tally) = walk.run((), || IndexReader::new(known, self.guess));
        let stopped = self.stop.reason();
        let mut refreshed = RefreshStats { stopped, tally, ..RefreshStats::default() };
        let mut seen: HashSet<IndexedFileId> = HashSet::new();
        let mut read = Vec::new();
        for reader in readers {
            seen.extend(reader.same);
            read.extend(reader.read);
        }
        if stopped.is_none() {
            // Files to be read again are removed here and added below.
            let gone: Vec<IndexedFileId> =
                index.by_path.values().copied().filter(|id| !seen.contains(id)).collect();
            refreshed.gone = gone.len() as u64;
            for id in gone {
                index.remove(id);
            }
        }
        for file in read {
            if MAX_FILES <= index.len() || MAX_BYTES < index.size() {
                refreshed.left_out += 1;
                continue;
            }
            refreshed.read += 1;
            let file = file.into_indexed(index);
            index.insert(file);
        }
        refreshed.gone = refreshed.gone.saturating_sub(refreshed.read);
        index.tidy();
        refreshed
    }
}

/// Reads files on one thread.
struct IndexReader<'a> {
    known: &'a TreeIndex,
    guess: CharsetGuess,
    now: i64,
    same: Vec<IndexedFileId>,
    read: Vec<ReadFile>,
    bytes: Vec<u8>,
    words: WordSet,
    scratch: SymbolScratch,
}

/// A file that was read, before its names are interned.
struct ReadFile {
    rel: Vec<u8>,
    stamp: IndexStamp,
    lang: Option<&'static SourceLanguage>,
    /// All names, concatenated.
    names: String,
    symbols: Vec<ReadSymbol>,
    words: WordBloom,
}

struct ReadSymbol {
    name: std::ops::Range<u32>,
    container: Option<std::ops::Range<u32>>,
    line: u32,
    kind: SymbolKind,
}

impl<'a> IndexReader<'a> {
    fn new(known: &'a TreeIndex, guess: CharsetGuess) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Self {
            known,
            guess,
            now: i64::try_from(now).unwrap_or(i64::MAX),
            same: Vec::new(),
            read: Vec::new(),
            bytes: Vec::new(),
            words: WordSet::default(),
            scratch: SymbolScratch::default(),
        }
    }

    fn read(&mut self, entry: &WalkEntry<'_, ()>, rel: Vec<u8>) -> std::io::Result<()> {
        let (file, stat) = entry.open()?;
        let mut read = ReadFile {
            rel,
            stamp: IndexStamp::new(&stat, self.now),
            lang: None,
            names: String::new(),
            symbols: Vec::new(),
            words: WordBloom::any(),
        };
        self.bytes.clear();
        file.take(MAX_FILE + 1).read_to_end(&mut self.bytes)?;
        if self.bytes.len() as u64 <= MAX_FILE {
            match grep::to_text(&self.bytes, self.guess) {
                Some(text) => {
                    self.words.collect(&text);
                    read.words = WordBloom::from_words(&self.words);
                    read.lang = SourceLanguage::detect(entry.name(), &text);
                    if let Some(lang) = read.lang {
                        let found = symbols(lang, &text, &mut self.scratch);
                        read.take_symbols(&text, &found);
                    }
                }
                None => {
                    // Binary: no words.
                    self.words.collect(b"");
                    read.words = WordBloom::from_words(&self.words);
                }
            }
        }
        self.read.push(read);
        Ok(())
    }
}

impl WalkVisitor for IndexReader<'_> {
    type Mark = ();

    fn enter(&mut self, _above: &(), _name: &[u8]) -> Option<()> {
        Some(())
    }

    fn file(&mut self, entry: &WalkEntry<'_, ()>, tally: &mut WalkStats) {
        let rel = entry.rel();
        if let Some(id) = self.known.by_path.get(&*rel)
            && let Some(file) = self.known.file(*id)
            && let Ok(stat) = entry.stat()
            && file.stamp.is_of(&stat)
        {
            self.same.push(*id);
            return;
        }
        if let Err(error) = self.read(entry, rel) {
            tally.unreadable.note(&entry.rel(), &error);
        }
    }
}

impl ReadFile {
    fn take_symbols(&mut self, text: &[u8], found: &[SourceSymbol]) {
        let mut last: Option<(std::ops::Range<usize>, std::ops::Range<u32>)> = None;
        for symbol in found {
            let name = self.name(text, &symbol.name);
            let container = symbol.container.as_ref().map(|container| match &last {
                // Neighbouring symbols are mostly in the same container.
                Some((range, stored)) if range == container => stored.clone(),
                _ => {
                    let stored = self.name(text, container);
                    last = Some((container.clone(), stored.clone()));
                    stored
                }
            });
            self.symbols.push(ReadSymbol { name, container, line: symbol.line, kind: symbol.kind });
        }
    }

    fn name(&mut self, text: &[u8], range: &std::ops::Range<usize>) -> std::ops::Range<u32> {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let start = self.names.len();
        self.names.push_str(&String::from_utf8_lossy(&text[range.clone()]));
        place(start)..place(self.names.len())
    }

    fn into_indexed(self, index: &mut TreeIndex) -> IndexedFile {
        let names = &mut index.names;
        let mut id = |range: &std::ops::Range<u32>| {
            names.id(self.names.get(range.start as usize..range.end as usize).unwrap_or_default())
        };
        let symbols = self.symbols.iter().map(|symbol| IndexedSymbol {
            name: id(&symbol.name),
            container: symbol.container.as_ref().map_or(NAMELESS, &mut id),
            line: symbol.line,
            kind: symbol.kind,
        });
        IndexedFile {
            symbols: symbols.collect(),
            rel: self.rel.into(),
            stamp: self.stamp,
            lang: self.lang,
            words: self.words,
        }
    }
}

impl IndexStamp {
    #[expect(clippy::unnecessary_cast, reason = "the width differs by platform")]
    fn new(stat: &Stat, now: i64) -> Self {
        let last = (stat.st_mtime as i64).max(stat.st_ctime as i64);
        Self {
            size: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            inode: stat.st_ino as u64,
            settled: last < now - SETTLING_SECONDS,
        }
    }

    fn is_of(&self, stat: &Stat) -> bool {
        self.settled && *self == Self { settled: true, ..Self::new(stat, 0) }
    }
}
