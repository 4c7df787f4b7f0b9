//! Index of a tree: definitions and words by file.
//!
//! **Invariant:** an answer is never older than the query. Before each query every file is checked (`stat`), and changed files are read again. A file that changed less than two seconds before it was read counts as changed the next time too, because file system timestamps are too coarse.

mod bloom;
mod name_table;
mod refresh;

use std::collections::HashMap;

pub(crate) use bloom::{WordBloom, fingerprint, parts};
pub(crate) use name_table::{IndexedNames, NAMELESS, NameId};
pub use refresh::{IndexRefreshOptions, RefreshStats};

use crate::{SourceLanguage, SymbolKind};

/// Index of one tree.
#[derive(Debug, Default)]
pub struct TreeIndex {
    files: Vec<Option<IndexedFile>>,
    by_path: HashMap<Box<[u8]>, IndexedFileId>,
    free: Vec<IndexedFileId>,
    names: IndexedNames,
    /// Symbols removed since the names were last cleaned up.
    stale_symbols: usize,
    symbols: usize,
    bytes: usize,
}

pub(crate) type IndexedFileId = u32;

/// What is known about one file.
#[derive(Debug)]
pub(crate) struct IndexedFile {
    pub(crate) rel: Box<[u8]>,
    stamp: IndexStamp,
    pub(crate) lang: Option<&'static SourceLanguage>,
    pub(crate) symbols: Box<[IndexedSymbol]>,
    pub(crate) words: WordBloom,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedSymbol {
    pub(crate) name: NameId,
    pub(crate) container: NameId,
    pub(crate) line: u32,
    pub(crate) kind: SymbolKind,
}

/// Metadata that identifies a version of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct IndexStamp {
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
    /// Whether it was old enough when read that any later change shows in its timestamp.
    settled: bool,
}

impl TreeIndex {
    /// Number of indexed files.
    pub fn len(&self) -> usize {
        self.by_path.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// Number of definitions.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// Approximate memory use in bytes.
    pub fn size(&self) -> usize {
        self.bytes + self.names.size()
    }

    pub(crate) fn names(&self) -> &IndexedNames {
        &self.names
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (IndexedFileId, &IndexedFile)> {
        (0..).zip(&self.files).filter_map(|(id, file)| Some((id, file.as_ref()?)))
    }

    pub(crate) fn file(&self, id: IndexedFileId) -> Option<&IndexedFile> {
        self.files.get(id as usize)?.as_ref()
    }

    fn insert(&mut self, file: IndexedFile) {
        if let Some(id) = self.by_path.get(&file.rel).copied() {
            self.remove(id);
        }
        self.bytes += file.size();
        self.symbols += file.symbols.len();
        let rel = file.rel.clone();
        let id = match self.free.pop() {
            Some(id) => {
                self.files[id as usize] = Some(file);
                id
            }
            None => {
                let Ok(id) = IndexedFileId::try_from(self.files.len()) else { return };
                self.files.push(Some(file));
                id
            }
        };
        self.by_path.insert(rel, id);
    }

    fn remove(&mut self, id: IndexedFileId) {
        let Some(file) = self.files.get_mut(id as usize).and_then(Option::take) else { return };
        self.by_path.remove(&file.rel);
        self.bytes -= file.size();
        self.symbols -= file.symbols.len();
        self.stale_symbols += file.symbols.len();
        self.free.push(id);
    }

    /// Drops unused names once most are unused.
    fn tidy(&mut self) {
        const WORTH_IT: usize = 100_000;
        if self.stale_symbols < WORTH_IT.max(2 * self.symbols) {
            return;
        }
        let mut names = IndexedNames::default();
        for file in self.files.iter_mut().flatten() {
            for symbol in &mut file.symbols {
                symbol.name = names.id(self.names.text(symbol.name));
                if symbol.container != NAMELESS {
                    symbol.container = names.id(self.names.text(symbol.container));
                }
            }
        }
        self.names = names;
        self.stale_symbols = 0;
    }
}

impl IndexedFile {
    fn size(&self) -> usize {
        2 * self.rel.len() + self.symbols.len() * size_of::<IndexedSymbol>() + self.words.size() + 200
    }
}
