use super::{Finder, RankedAnswer, RankedLine, definitions::shown, name_score::kinship, path_score};
use crate::{
    index::{IndexedFile, fingerprint, parts},
    symbols::is_word,
};

/// Maximum number of files read for passages.
const MAX_READ: usize = 400;

/// Number of lines in one passage.
const WINDOW: usize = 4;

/// A passage that contains words of the query.
struct MatchingPassage {
    place: RankedLine,
    score: f64,
}

impl Finder<'_> {
    /// Finds the passages that contain most of the words.
    pub(super) fn passages(&self, weights: &[f64], answer: &mut RankedAnswer) {
        let hashes: Vec<u64> = self.ask.terms.iter().map(|term| fingerprint(term.as_bytes())).collect();
        let total: f64 = weights.iter().sum();
        let mut files: Vec<(f64, &IndexedFile)> = Vec::new();
        for (_, file) in self.index.files() {
            let held = |(hash, weight): (&u64, &f64)| if file.words.may_hold(*hash) { *weight } else { 0.0 };
            let score: f64 = hashes.iter().zip(weights).map(held).sum();
            if total * 0.5 <= score {
                files.push((score - f64::from(path_score::path_penalty(&file.rel)) / 100.0, file));
            }
        }
        files.sort_by(|(a, file_a), (b, file_b)| b.total_cmp(a).then_with(|| file_a.rel.cmp(&file_b.rel)));
        files.truncate(MAX_READ);
        let mut passages = self.each(&files, |(_, file)| {
            let passage = self.best_passage(file, weights)?;
            (total * 0.5 <= passage.score && (self.may_show)(&file.rel)).then_some(passage)
        });
        for passage in &mut passages {
            passage.score -= f64::from(path_score::path_penalty(&passage.place.rel)) / 100.0;
        }
        passages.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then_with(|| a.place.rel.cmp(&b.place.rel))
                .then(a.place.line.cmp(&b.place.line))
        });
        answer.total_passages = passages.len() as u64;
        answer.passages = passages.into_iter().take(self.limits.passages).map(|it| it.place).collect();
    }

    /// The best passage of a file.
    fn best_passage(&self, file: &IndexedFile, weights: &[f64]) -> Option<MatchingPassage> {
        let text = self.text_of(&file.rel)?;
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let held: Vec<u64> = lines.iter().map(|line| self.terms_in(line)).collect();
        let weigh = |terms: u64| -> f64 {
            weights
                .iter()
                .enumerate()
                .filter(|(index, _)| terms & (1 << index) != 0)
                .map(|(_, weight)| weight)
                .sum()
        };
        let mut best: Option<(f64, usize)> = None;
        for start in (0..lines.len()).filter(|at| held[*at] != 0) {
            let window = &held[start..(start + WINDOW).min(lines.len())];
            let all = window.iter().fold(0, |all, terms| all | terms);
            // The first line counts most.
            let score = weigh(all) + 0.3 * weigh(held[start]);
            if best.is_none_or(|(other, _)| other < score) {
                best = Some((score, start));
            }
        }
        let (score, at) = best?;
        let line = u32::try_from(at + 1).ok()?;
        Some(MatchingPassage {
            place: RankedLine { rel: file.rel.to_vec(), line, text: shown(lines[at], &(0..0)) },
            score,
        })
    }

    /// Bit set of the words in a line, whole or as parts of names.
    fn terms_in(&self, line: &[u8]) -> u64 {
        let mut terms = 0;
        for word in line.split(|byte| !is_word(*byte)).filter(|word| 2 <= word.len() && word.len() <= 80) {
            let Ok(word) = std::str::from_utf8(word) else { continue };
            for part in parts(word) {
                for (index, term) in self.ask.terms.iter().enumerate() {
                    if 0.0 < kinship(term, &part) {
                        terms |= 1 << index;
                    }
                }
            }
        }
        terms
    }
}
