use std::collections::HashMap;

use super::{
    Finder, RankedDefinition,
    name_score::{self, SAME, coverage, fit, is_near, kinship},
    path_score,
};
use crate::{
    display_text,
    index::{IndexedFile, IndexedFileId, IndexedSymbol, NAMELESS, NameId, parts},
};

/// Maximum number of definitions of one name that are ranked.
const MAX_FOUND: usize = 2000;

impl Finder<'_> {
    /// Matching definitions, best first.
    pub(super) fn definitions(&self, weights: &[f64]) -> Vec<RankedDefinition> {
        let mut found = match &self.ask.name {
            Some(_) => self.by_name(),
            None => Vec::new(),
        };
        // If a single name among several words is not found, match the words instead.
        if found.is_empty() && 1 < self.ask.terms.len() {
            found = self.by_words(weights);
        }
        found.extend(self.file_names());
        found.sort_by(|a, b| {
            b.score.cmp(&a.score).then_with(|| a.rel.cmp(&b.rel)).then_with(|| a.line.cmp(&b.line))
        });
        let best = found.first().map_or(0, |best| best.score);
        // If there is an exact match, drop weak ones.
        let floor = if SAME - 200 <= best { best - 400 } else { best / 2 };
        found.retain(|definition| floor <= definition.score);
        found
    }

    fn by_name(&self) -> Vec<RankedDefinition> {
        let Some(wanted) = &self.ask.name else { return Vec::new() };
        let mut points: HashMap<NameId, i32> = HashMap::new();
        for (id, name) in self.index.names().iter() {
            let fit = fit(wanted, name);
            if 0 < fit {
                points.insert(id, fit);
            }
        }
        if points.is_empty() {
            let near = self.index.names().iter().filter(|(_, name)| is_near(name, &wanted.text));
            points.extend(near.map(|(id, _)| (id, 200)));
        }
        let best = points.values().copied().max().unwrap_or(0);
        // Partial name matches count only if there is no exact one.
        points.retain(|_, fit| if SAME <= best { SAME <= *fit } else { true });
        self.collect(|_, _, symbol| {
            let fit = *points.get(&symbol.name)?;
            let inside = wanted.inside.as_ref().map_or(0, |inside| {
                let container = self.index.names().text(symbol.container);
                match () {
                    () if container == inside => 300,
                    () if container.eq_ignore_ascii_case(inside) => 250,
                    // `module::function`: the module is the file.
                    () => 0,
                }
            });
            Some(fit + inside)
        })
    }

    fn by_words(&self, weights: &[f64]) -> Vec<RankedDefinition> {
        let terms = &self.ask.terms;
        let total: f64 = weights.iter().sum();
        let mut points: HashMap<NameId, (f64, u64, usize)> = HashMap::new();
        let starts: Vec<&[u8]> = terms.iter().map(|term| &term.as_bytes()[..term.len().min(4)]).collect();
        for (id, name) in self.index.names().iter() {
            // Most names are unrelated: a cheap check first.
            if !starts.iter().any(|start| name_score::holds(name.as_bytes(), start)) {
                continue;
            }
            let found = coverage(terms, weights, name);
            if found.terms != 0 {
                points.insert(id, (found.weight, found.terms, found.extra));
            }
        }
        let mut paths: HashMap<IndexedFileId, Vec<f64>> = HashMap::new();
        self.collect(|id, file, symbol| {
            let (mut weight, covered, extra) = *points.get(&symbol.name)?;
            // A word that occurs only in the path or container counts less.
            let around = paths.entry(id).or_insert_with(|| path_weights(terms, weights, &file.rel));
            let container = self.index.names().text(symbol.container);
            for (index, term) in terms.iter().enumerate().filter(|(index, _)| covered & (1 << index) == 0) {
                let in_container = parts(container).iter().any(|part| 0.0 < kinship(term, part));
                weight += if in_container { 0.5 * weights[index] } else { 0.4 * around[index] };
            }
            let share = weight / total;
            if share < 0.5 {
                return None;
            }
            #[expect(clippy::cast_possible_truncation, reason = "at most 700")]
            let points = (share * share * 700.0) as i32;
            Some(points - 10 * i32::try_from(extra.min(20)).unwrap_or(20))
        })
    }

    /// Adds the symbols that `points` gives a positive score.
    fn collect(
        &self,
        mut points: impl FnMut(IndexedFileId, &IndexedFile, &IndexedSymbol) -> Option<i32>,
    ) -> Vec<RankedDefinition> {
        let mut found = Vec::new();
        for (id, file) in self.index.files() {
            let mut penalty = None;
            for symbol in &file.symbols {
                let Some(points) = points(id, file, symbol) else { continue };
                let penalty = *penalty.get_or_insert_with(|| path_score::path_penalty(&file.rel));
                let score = points + path_score::kind_points(symbol.kind) - penalty;
                found.push((score, id, *symbol));
            }
        }
        found.sort_unstable_by(|(a, file_a, symbol_a), (b, file_b, symbol_b)| {
            b.cmp(a).then(file_a.cmp(file_b)).then(symbol_a.line.cmp(&symbol_b.line))
        });
        found.truncate(MAX_FOUND);
        let names = self.index.names();
        let define = |(score, id, symbol): (i32, IndexedFileId, IndexedSymbol)| {
            let file = self.index.file(id)?;
            (self.may_show)(&file.rel).then(|| RankedDefinition {
                rel: file.rel.to_vec(),
                line: symbol.line,
                name: names.text(symbol.name).to_owned(),
                kind: Some(symbol.kind),
                container: (symbol.container != NAMELESS).then(|| names.text(symbol.container).to_owned()),
                text: String::new(),
                score,
            })
        };
        found.into_iter().filter_map(define).collect()
    }

    /// Files whose name matches the query.
    fn file_names(&self) -> Vec<RankedDefinition> {
        const MAX_FILES: usize = 5;
        let wanted = self.ask.terms.concat();
        let mut found: Vec<RankedDefinition> = Vec::new();
        for (_, file) in self.index.files() {
            let name = file.rel.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name);
            let stem =
                name.split_once('.').filter(|(stem, _)| !stem.is_empty()).map_or(&*name, |(stem, _)| stem);
            let is_it = parts(stem).concat() == wanted || parts(&name).concat() == wanted;
            if is_it && (self.may_show)(&file.rel) {
                let score = 450 - path_score::path_penalty(&file.rel);
                let (rel, name) = (file.rel.to_vec(), name.into_owned());
                found.push(RankedDefinition {
                    rel,
                    line: 1,
                    name,
                    kind: None,
                    container: None,
                    text: String::new(),
                    score,
                });
            }
        }
        found.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.rel.cmp(&b.rel)));
        found.truncate(MAX_FILES);
        found
    }

    /// Reads the lines of definitions and drops those that no longer exist because the file changed.
    pub(super) fn show_definitions(&self, definitions: &mut Vec<RankedDefinition>) {
        let mut last: Option<(Vec<u8>, Option<Vec<u8>>)> = None;
        definitions.retain_mut(|definition| {
            if definition.kind.is_none() {
                return true;
            }
            if last.as_ref().is_none_or(|(rel, _)| *rel != definition.rel) {
                last = Some((definition.rel.clone(), self.text_of(&definition.rel)));
            }
            let Some((_, Some(text))) = &last else { return false };
            let line = (definition.line as usize).saturating_sub(1);
            let line = text.split(|byte| *byte == b'\n').nth(line).unwrap_or_default();
            let Some(at) = memchr::memmem::find(line, definition.name.as_bytes()) else { return false };
            definition.text = shown(line, &(at..at + definition.name.len()));
            true
        });
    }
}

/// A line without indentation.
pub(super) fn shown(line: &[u8], focus: &std::ops::Range<usize>) -> String {
    let trimmed = line.trim_ascii_start();
    let cut = line.len() - trimmed.len();
    let focus = focus.start.saturating_sub(cut)..focus.end.saturating_sub(cut);
    display_text::clipped(trimmed.trim_ascii_end(), &focus)
}

/// How well each word matches the path.
fn path_weights(terms: &[String], weights: &[f64], rel: &[u8]) -> Vec<f64> {
    let parts = parts(&String::from_utf8_lossy(rel));
    let best = |term: &String| parts.iter().map(|part| name_score::kinship(term, part)).fold(0.0, f64::max);
    terms.iter().zip(weights).map(|(term, weight)| best(term) * weight).collect()
}
