use std::ops::Range;

use haft_workspace::text::Splice;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{
    find::Found,
    fold::{FoldRules, fold, indent, trim_end, trim_start},
};

/// The changes to make in the file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Rewrite {
    /// Replacements in ascending order.
    pub(crate) splices: Vec<Splice>,
    /// Descriptions of the differences that were ignored.
    pub(crate) ignored: Vec<&'static str>,
}

/// Turns "replace `old` by `new`" into the smallest replacements in the file.
///
/// The model's change is the difference between its two texts. That difference is applied to the file's
/// own text, so lines and characters the model did not mean to change keep their spelling, line endings
/// and invalid bytes.
pub(crate) fn rewrite(view: &str, found: &Found, new: &str) -> Rewrite {
    let new = found.transform.of_new(new);
    let mut rewrite = Rewrite::default();
    rewrite.ignored.extend(found.transform.name());
    for span in &found.spans {
        let place = Place { view, span: span.clone(), old: &found.old, folds: found.folds };
        place.note_differences(&mut rewrite.ignored);
        place.splices(&new, &mut rewrite.splices);
    }
    rewrite
}

struct Place<'a> {
    view: &'a str,
    span: Range<usize>,
    old: &'a str,
    folds: FoldRules,
}

/// One line of the result.
enum Line<'a> {
    /// Line number of a line of the file that stays unchanged.
    Kept(usize),
    /// Line number of a line of the file, and its new text.
    Changed(usize, &'a str),
    Fresh(&'a str),
}

impl Line<'_> {
    fn file_line(&self) -> Option<usize> {
        match self {
            Self::Kept(at) | Self::Changed(at, _) => Some(*at),
            Self::Fresh(_) => None,
        }
    }
}

impl Place<'_> {
    /// Returns the byte ranges of the file's lines at this place, without line ends.
    fn file_lines(&self) -> Vec<Range<usize>> {
        let mut at = self.span.start;
        let lines = self.view[self.span.clone()].split('\n');
        lines
            .map(|line| {
                let range = at..at + line.len();
                at = range.end + 1;
                range
            })
            .collect()
    }

    fn splices(&self, new: &str, out: &mut Vec<Splice>) {
        let files = self.file_lines();
        let old_lines: Vec<&str> = self.old.split('\n').collect();
        let new_lines: Vec<&str> = new.split('\n').collect();
        let indents = Indents::learn(self, &old_lines, &files);
        let mut writer = Writer { view: self.view, cursor: self.span.start, pending: String::new(), out };
        let mut last = None;
        for (index, line) in plan(&old_lines, &new_lines).into_iter().enumerate() {
            let current = line.file_line();
            let adjacent = matches!((last, current), (Some(a), Some(b)) if a + 1 == b);
            if index != 0 {
                if adjacent && writer.pending.is_empty() {
                    writer.cursor += 1;
                } else {
                    writer.pending.push('\n');
                }
            }
            match line {
                Line::Fresh(text) => writer.pending.push_str(&indents.adapt(text)),
                Line::Kept(at) => {
                    writer.flush(files[at].start);
                    writer.cursor = files[at].end;
                }
                Line::Changed(at, text) => {
                    writer.flush(files[at].start);
                    self.change_line(&files[at], old_lines[at], text, &indents, &mut writer);
                    writer.cursor = files[at].end;
                }
            }
            last = current;
        }
        writer.flush(self.span.end);
    }

    /// Changes one line; text around the difference keeps the file's spelling.
    fn change_line(
        &self,
        file: &Range<usize>,
        old: &str,
        new: &str,
        indents: &Indents,
        out: &mut Writer<'_>,
    ) {
        let text = &self.view[file.clone()];
        let (mut start, mut old_part, mut new_part) = (file.start, old, new);
        if self.folds.indentation && indents.is_line_start(self, file) {
            let (old_indent, new_indent) = (indent(old), indent(new));
            old_part = &old[old_indent.len()..];
            new_part = &new[new_indent.len()..];
            start = file.start + indent(text).len();
            if old_indent != new_indent {
                out.cursor = file.start;
                out.pending = indents.adapt_indent(new_indent);
                out.flush(start);
            }
        }
        if self.folds.line_ends && trailing(old_part) == trailing(new_part) {
            // The model did not change trailing whitespace, so the file's stays.
            (old_part, new_part) = (trim_end(old_part), trim_end(new_part));
        }
        let end = if self.folds.line_ends { file.start + trim_end(text).len() } else { file.end }.max(start);
        let aligned = Aligned::new(&self.view[start..end], start, old_part, self.folds);
        let same_start = common_prefix(old_part, new_part);
        let same_end = common_suffix(&old_part[same_start..], &new_part[same_start..]);
        let (kept_old, from) = aligned.before(same_start);
        let (kept_end_old, to) = aligned.after(old_part.len() - same_end, kept_old);
        out.cursor = from;
        out.pending = new_part[kept_old..new_part.len() - (old_part.len() - kept_end_old)].to_owned();
        out.flush(to);
    }

    /// Describes the differences between the searched text and the file's.
    fn note_differences(&self, ignored: &mut Vec<&'static str>) {
        let mut note = |what, differs: bool| {
            if differs && !ignored.contains(&what) {
                ignored.push(what);
            }
        };
        for (old, file) in self.old.split('\n').zip(self.file_lines()) {
            let file = &self.view[file];
            note("indentation", self.folds.indentation && indent(old) != indent(file));
            let (old, file) =
                if self.folds.indentation { (trim_start(old), trim_start(file)) } else { (old, file) };
            note("trailing white space", self.folds.line_ends && trailing(old) != trailing(file));
            let (old, file) =
                if self.folds.line_ends { (trim_end(old), trim_end(file)) } else { (old, file) };
            if old == file {
                continue;
            }
            let spacing = FoldRules { spacing: true, ..FoldRules::default() };
            let characters = FoldRules { characters: true, ..FoldRules::default() };
            let same = |folds| fold(old, 0, folds).text == fold(file, 0, folds).text;
            match (same(characters), same(spacing)) {
                (true, _) => note("how characters are written (quotes, dashes, spaces, accents)", true),
                (_, true) => note("spacing", true),
                _ => {
                    note("spacing", true);
                    note("how characters are written (quotes, dashes, spaces, accents)", true);
                }
            }
        }
    }
}

fn trailing(text: &str) -> &str {
    &text[trim_end(text).len()..]
}

/// Determines the origin of each line of the result.
fn plan<'a>(old: &[&str], new: &[&'a str]) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, old, new) {
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                lines.extend((old_index..old_index + len).map(Line::Kept));
            }
            DiffOp::Delete { .. } => (),
            DiffOp::Insert { new_index, new_len, .. } => {
                lines.extend(new[new_index..new_index + new_len].iter().map(|line| Line::Fresh(line)));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                for (at, line) in new[new_index..new_index + new_len].iter().enumerate() {
                    lines.push(if at < old_len {
                        Line::Changed(old_index + at, line)
                    } else {
                        Line::Fresh(line)
                    });
                }
            }
        }
    }
    lines
}

/// Collects replacements and minimises each.
struct Writer<'a> {
    view: &'a str,
    cursor: usize,
    pending: String,
    out: &'a mut Vec<Splice>,
}

impl Writer<'_> {
    /// Replaces everything from the cursor to `end` by the pending text.
    fn flush(&mut self, end: usize) {
        let text = std::mem::take(&mut self.pending);
        let there = &self.view[self.cursor..end];
        let prefix = common_prefix(there, &text);
        let suffix = common_suffix(&there[prefix..], &text[prefix..]);
        let range = self.cursor + prefix..end - suffix;
        self.cursor = end;
        if range.is_empty() && text.len() == prefix + suffix {
            return;
        }
        self.out.push(Splice { range, text: text[prefix..text.len() - suffix].to_owned() });
    }
}

fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let mut at = same;
    while !(a.is_char_boundary(at) && b.is_char_boundary(at)) {
        at -= 1;
    }
    at
}

fn common_suffix(a: &str, b: &str) -> usize {
    let mut same = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    while !(a.is_char_boundary(a.len() - same) && b.is_char_boundary(b.len() - same)) {
        same -= 1;
    }
    same
}

/// A line of the file aligned with the model's version of it, unit by unit.
struct Aligned {
    /// Positions in the old text and in the file, before each unit and at the end.
    before: Vec<(usize, usize)>,
    /// Positions in the old text and in the file, after each unit and at the beginning.
    after: Vec<(usize, usize)>,
}

impl Aligned {
    fn new(file: &str, offset: usize, old: &str, folds: FoldRules) -> Self {
        let (folded_file, folded_old) = (fold(file, offset, folds), fold(old, 0, folds));
        let ends = (old.len(), offset + file.len());
        let mut aligned = Self { before: Vec::new(), after: vec![(0, offset)] };
        if folded_file.text == folded_old.text {
            aligned.before.extend(common(folded_old.starts(), folded_file.starts()));
            aligned.after.extend(common(folded_old.ends(), folded_file.ends()));
        }
        aligned.before.push(ends);
        aligned
    }

    /// Returns the last aligned position at or before `limit` (an offset in the old text).
    fn before(&self, limit: usize) -> (usize, usize) {
        self.after.iter().rev().find(|it| it.0 <= limit).copied().unwrap_or(self.after[0])
    }

    /// Returns the first aligned position at or after both `limit` and `least`.
    fn after(&self, limit: usize, least: usize) -> (usize, usize) {
        let found = self.before.iter().find(|it| limit.max(least) <= it.0);
        found.or(self.before.last()).copied().unwrap_or((limit, limit))
    }
}

/// Returns the positions of both texts that correspond to the same position of the folded text. Both
/// inputs must be ascending.
fn common(
    old: impl Iterator<Item = (usize, usize)>,
    file: impl Iterator<Item = (usize, usize)>,
) -> Vec<(usize, usize)> {
    let mut file = file.peekable();
    let mut places = Vec::new();
    for (folded, in_old) in old {
        while file.next_if(|it| it.0 < folded).is_some() {}
        if let Some((_, in_file)) = file.next_if(|it| it.0 == folded) {
            places.push((in_old, in_file));
        }
    }
    places
}

/// Translates the model's indentation into the file's.
struct Indents {
    pairs: Vec<(String, String)>,
}

impl Indents {
    fn learn(place: &Place<'_>, old: &[&str], files: &[Range<usize>]) -> Self {
        let mut indents = Self { pairs: Vec::new() };
        if !place.folds.indentation {
            return indents;
        }
        for (old, file) in old.iter().zip(files) {
            let text = &place.view[file.clone()];
            if old.trim().is_empty() || !indents.is_line_start(place, file) {
                continue;
            }
            let pair = (indent(old).to_owned(), indent(text).to_owned());
            if !indents.pairs.iter().any(|it| it.0 == pair.0) {
                indents.pairs.push(pair);
            }
        }
        indents
    }

    /// Whether a line of the place begins at a line of the file.
    fn is_line_start(&self, place: &Place<'_>, file: &Range<usize>) -> bool {
        file.start == 0 || place.view.as_bytes()[file.start - 1] == b'\n'
    }

    fn adapt(&self, line: &str) -> String {
        if self.pairs.is_empty() || line.trim().is_empty() {
            return line.to_owned();
        }
        let own = indent(line);
        format!("{}{}", self.adapt_indent(own), &line[own.len()..])
    }

    /// Returns the file's form of an indentation: a known pair, or the longest known prefix plus the
    /// step between known indentations.
    fn adapt_indent(&self, own: &str) -> String {
        let known = self.pairs.iter().filter(|it| own.starts_with(&it.0)).max_by_key(|it| it.0.len());
        match known {
            Some((model, file)) => format!("{file}{}", self.adapt_rest(&own[model.len()..])),
            // Less than any known line: remove or add the difference at the front.
            None => match self.pairs.iter().min_by_key(|it| it.0.len()) {
                Some((model, file)) => match model.strip_suffix(own).or_else(|| model.strip_prefix(own)) {
                    Some(more) => {
                        let more = self.adapt_rest(more);
                        file.strip_suffix(&*more).unwrap_or(own).to_owned()
                    }
                    None => own.to_owned(),
                },
                None => own.to_owned(),
            },
        }
    }

    /// Translates additional indentation by the units in use.
    fn adapt_rest(&self, rest: &str) -> String {
        let Some((model, file)) = self.step() else { return rest.to_owned() };
        let steps = if model.is_empty() { 0 } else { rest.len() / model.len() };
        let whole = model.repeat(steps);
        match rest.strip_prefix(&whole) {
            Some(left) if steps != 0 => format!("{}{left}", file.repeat(steps)),
            _ => rest.to_owned(),
        }
    }

    /// Returns one indentation step in both forms: the difference between two known lines, else a guess
    /// from a line that mixes tabs and spaces.
    fn step(&self) -> Option<(String, String)> {
        let mut pairs: Vec<&(String, String)> = self.pairs.iter().collect();
        pairs.sort_by_key(|it| it.0.len());
        for pair in pairs.windows(2) {
            let model = pair[1].0.strip_prefix(&pair[0].0);
            let file = pair[1].1.strip_prefix(&pair[0].1);
            if let (Some(model), Some(file)) = (model, file)
                && !model.is_empty()
                && !file.is_empty()
            {
                return Some(reduce(model, file));
            }
        }
        let (model, file) = pairs.into_iter().find(|it| !it.0.is_empty() && !it.1.is_empty())?;
        Some(reduce(model, file))
    }
}

/// Reduces a step to the smallest: `(8 spaces, 2 tabs)` becomes `(4 spaces, 1 tab)`.
fn reduce(model: &str, file: &str) -> (String, String) {
    for parts in (2..=model.len().min(file.len())).rev() {
        if model.len().is_multiple_of(parts) && file.len().is_multiple_of(parts) {
            let (a, b) = (&model[..model.len() / parts], &file[..file.len() / parts]);
            if a.repeat(parts) == model && b.repeat(parts) == file {
                return (a.to_owned(), b.to_owned());
            }
        }
    }
    (model.to_owned(), file.to_owned())
}
