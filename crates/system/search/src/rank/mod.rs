//! Answers to "where is this defined, where is it used, where is it written
//! about".

mod definitions;
mod name_score;
mod occurrences;
mod passages;
mod path_score;
mod rank_query;

use std::sync::atomic::{AtomicUsize, Ordering};

pub use rank_query::RankQuery;

use crate::{
    CharsetGuess, SearchRoot, SearchStop, SearchStopReason, SymbolKind, TreeIndex, WalkLimits,
    index::fingerprint,
};

/// Looks things up in an index and in the files behind it.
pub struct Finder<'a> {
    /// An index that was just brought up to date.
    pub index: &'a TreeIndex,
    /// The tree it is of.
    pub root: &'a SearchRoot,
    /// What to find.
    pub ask: &'a RankQuery,
    /// How many definitions, lines of usage and passages to hand back.
    pub limits: AnswerLimits,
    /// How many threads read files.
    pub walk: WalkLimits,
    /// Whether a file may be shown, by its place below the root.
    pub may_show: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// Tells encodings, as it did for the index.
    pub guess: CharsetGuess,
    /// When to give up.
    pub stop: &'a SearchStop,
}

/// How long an answer may be.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimits {
    /// How many definitions an answer holds at most.
    pub definitions: usize,
    /// Lines in which a name is used.
    pub usages: usize,
    /// Lines of text.
    pub passages: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct RankedAnswer {
    /// Definitions, best first.
    pub definitions: Vec<RankedDefinition>,
    /// How many definitions fit about as well.
    pub total_definitions: usize,
    /// The name usages were looked for, when it is not the one asked for.
    pub instead: Option<String>,
    /// Places in code, best file first.
    pub usages: Vec<RankedLine>,
    /// How many there are.
    pub total_usages: u64,
    /// In how many files.
    pub usage_files: usize,
    /// Places in comments, texts and documents, best first.
    pub passages: Vec<RankedLine>,
    /// How many there are.
    pub total_passages: u64,
    /// There was no time for all of it.
    pub stopped: Option<SearchStopReason>,
}

/// Something that is defined.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RankedDefinition {
    /// The file, by its place below the root.
    pub rel: Vec<u8>,
    /// Counted from 1.
    pub line: u32,
    /// The name that is defined, as it is written there.
    pub name: String,
    /// What it is; `None` for a file of that name.
    pub kind: Option<SymbolKind>,
    /// What it is in.
    pub container: Option<String>,
    /// Its line, safe to show.
    pub text: String,
    pub(crate) score: i32,
}

/// A line in a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RankedLine {
    /// The file, by its place below the root.
    pub rel: Vec<u8>,
    /// Counted from 1.
    pub line: u32,
    /// The line, safe to show.
    pub text: String,
}

impl Finder<'_> {
    /// Searches until the answer is full, the tree is done or the stop says so.
    pub fn run(&self) -> RankedAnswer {
        let weights = self.weights();
        let mut answer = RankedAnswer::default();
        let found = self.definitions(&weights);
        answer.total_definitions = found.len();
        let best = found.first().cloned();
        answer.definitions = found.into_iter().take(self.limits.definitions).collect();
        self.show_definitions(&mut answer.definitions);
        if let Some(name) = &self.ask.name {
            self.look_for_name(&name.text, best.as_ref(), &mut answer);
        } else {
            self.passages(&weights, &mut answer);
        }
        answer.stopped = self.stop.reason();
        answer
    }

    /// Usages and mentions of the name; if there are none, of the one that fits
    /// best.
    fn look_for_name(&self, name: &str, best: Option<&RankedDefinition>, answer: &mut RankedAnswer) {
        let own = best.filter(|best| best.name == name);
        self.occurrences(name, own.or(best), answer);
        let is_nowhere = own.is_none() && answer.total_usages == 0 && answer.total_passages == 0;
        if let Some(best) = best
            && is_nowhere
            && best.kind.is_some()
        {
            answer.instead = Some(best.name.clone());
            self.occurrences(&best.name, Some(best), answer);
        }
    }

    /// How much each word tells: rare ones more.
    fn weights(&self) -> Vec<f64> {
        let total = self.index.len().max(1);
        let weight = |term: &String| {
            let hash = fingerprint(term.as_bytes());
            let files = self.index.files().filter(|(_, file)| file.words.may_hold(hash)).count();
            #[expect(clippy::cast_precision_loss, reason = "a weight")]
            let ratio = (total + 1) as f64 / (files + 1) as f64;
            (1.0 + ratio).ln()
        };
        self.ask.terms.iter().map(weight).collect()
    }

    /// Does something with each item on a few threads; results in order.
    fn each<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let run = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return done };
                if self.stop.is_over() {
                    return done;
                }
                done.extend(work(item).map(|result| (index, result)));
            }
        };
        let threads = self.walk.threads.get().min(items.len().div_ceil(8)).max(1);
        let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            let mut results = run();
            for other in others {
                results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            results
        });
        results.sort_unstable_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// The text of a file as it is now.
    fn text_of(&self, rel: &[u8]) -> Option<Vec<u8>> {
        /// Larger files are for Grep.
        const MAX: u64 = 16 << 20;
        let (file, _) = self.root.open_file(rel).ok()?;
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX), &mut bytes).ok()?;
        match crate::grep::to_text(&bytes, self.guess)? {
            std::borrow::Cow::Owned(text) => Some(text),
            std::borrow::Cow::Borrowed(text) if text.len() == bytes.len() => Some(bytes),
            std::borrow::Cow::Borrowed(text) => Some(text.to_vec()),
        }
    }
}
