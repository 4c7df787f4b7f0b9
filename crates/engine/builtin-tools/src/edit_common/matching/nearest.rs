//! Finds the place that a text which was not found most likely refers to.

use std::collections::HashMap;

use haft_workspace::text::describe_char;

use super::fold::{FoldRules, fold};

/// The place in a file most similar to a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NearestMatch {
    /// Number of its first line, counted from 1.
    pub(crate) first_line: usize,
    /// The lines of the file there.
    pub(crate) lines: Vec<String>,
    /// A description of the first difference.
    pub(crate) difference: Option<String>,
}

/// Ignores every difference that can be ignored.
const LOOSE: FoldRules = FoldRules { line_ends: true, characters: true, indentation: true, spacing: true };

/// Maximum bytes of a file that is searched for a similar place, because the search only improves an
/// error message.
const SEARCHABLE: usize = 8 * 1024 * 1024;

/// Returns the most similar place; `None` if nothing is similar or the file is too large.
pub(crate) fn nearest(view: &str, old: &str) -> Option<NearestMatch> {
    let old = old.trim_matches('\n');
    if SEARCHABLE < view.len() || old.trim().is_empty() {
        return None;
    }
    let file: Vec<&str> = view.lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    let start = by_lines(&file, &wanted).or_else(|| by_likeness(&file, &wanted))?;
    let end = (start + wanted.len()).min(file.len());
    let difference = first_difference(&file[start..end], &wanted, start);
    let lines = file[start..end].iter().map(|line| (*line).to_owned()).collect();
    Some(NearestMatch { first_line: start + 1, lines, difference })
}

fn loose(line: &str) -> String {
    fold(line, 0, LOOSE).text
}

/// Lets each matching line vote for the line at which the text would start.
fn by_lines(file: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, line) in wanted.iter().enumerate() {
        let folded = loose(line);
        // A line with only a brace says nothing about the place.
        if folded.chars().filter(|it| it.is_alphanumeric()).count() >= 3 {
            places.entry(folded).or_default().push(at);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (at, line) in file.iter().enumerate() {
        for offset in places.get(&loose(line)).into_iter().flatten() {
            if let Some(start) = at.checked_sub(*offset) {
                *votes.entry(start).or_default() += 1;
            }
        }
    }
    votes.into_iter().max_by_key(|(start, votes)| (*votes, std::cmp::Reverse(*start))).map(|it| it.0)
}

/// Finds the line most similar to the longest line of the text.
fn by_likeness(file: &[&str], wanted: &[&str]) -> Option<usize> {
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let grams = bigrams(&loose(longest));
    let mut best: Option<(usize, usize)> = None;
    for (at, line) in file.iter().enumerate() {
        if line.len() > 4 * longest.len() + 200 {
            continue;
        }
        let score = likeness(&grams, &bigrams(&loose(line)));
        if 55 <= score && best.is_none_or(|it| it.0 < score) {
            best = Some((score, at));
        }
    }
    best.map(|(_, at)| at.saturating_sub(offset))
}

fn bigrams(text: &str) -> Vec<(char, char)> {
    let characters: Vec<char> = text.chars().filter(|it| !it.is_whitespace()).collect();
    let mut grams: Vec<(char, char)> = characters.windows(2).map(|pair| (pair[0], pair[1])).collect();
    grams.sort_unstable();
    grams
}

/// Returns the overlap of two sorted lists in percent.
fn likeness(a: &[(char, char)], b: &[(char, char)]) -> usize {
    if a.is_empty() || b.is_empty() {
        return 0;
    }
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                common += 1;
                i += 1;
                j += 1;
            }
        }
    }
    200 * common / (a.len() + b.len())
}

/// Describes the first difference between the file and the text. Differences that matching ignores are
/// reported only if there is no other.
fn first_difference(file: &[&str], wanted: &[&str], start: usize) -> Option<String> {
    let pairs = || file.iter().zip(wanted).enumerate();
    let telling = pairs().find(|(_, (file, wanted))| loose(file) != loose(wanted));
    match telling.or_else(|| pairs().find(|(_, (file, wanted))| file != wanted)) {
        Some((at, (file, wanted))) => Some(describe(file, wanted, start + at + 1)),
        None if file.len() < wanted.len() => {
            let more = wanted.len() - file.len();
            Some(format!("the file ends after line {}, old_string has {more} more lines", start + file.len()))
        }
        None => None,
    }
}

fn describe(file: &str, wanted: &str, line: usize) -> String {
    // Ignore the indentation if the rest differs as well.
    let (file_part, wanted_part) =
        if file.trim() == wanted.trim() { (file, wanted) } else { (file.trim_start(), wanted.trim_start()) };
    let indentation = file.chars().count() - file_part.chars().count();
    let same = file_part.chars().zip(wanted_part.chars()).take_while(|(a, b)| a == b).count();
    let mut text = format!(
        "first difference at line {line}, column {}: the file has {}, old_string has {}",
        indentation + same + 1,
        show(file_part, same),
        show(wanted_part, same)
    );
    // Quotes and the like are ignored by matching, so another difference must have been decisive.
    if let Some((in_file, in_wanted)) = telling(file_part, wanted_part)
        && (in_file, in_wanted) != (same, same)
    {
        text.push_str(&format!(
            "; what prevents the match is at column {}: {} against {}",
            indentation + in_file + 1,
            show(file_part, in_file),
            show(wanted_part, in_wanted)
        ));
    }
    text
}

fn show(text: &str, at: usize) -> String {
    text.chars().nth(at).map_or("the end of the line".to_owned(), describe_char)
}

/// Returns where two lines first differ in something matching does not ignore, as character positions.
fn telling(file: &str, wanted: &str) -> Option<(usize, usize)> {
    let (a, b) = (fold(file, 0, LOOSE), fold(wanted, 0, LOOSE));
    if a.text == b.text {
        return None;
    }
    let same = a.text.bytes().zip(b.text.bytes()).take_while(|(a, b)| a == b).count();
    let place = |folded: &super::fold::FoldedText, text: &str| {
        let at = folded.starts().take_while(|it| it.0 <= same).last();
        let at = if same < folded.text.len() { at.map_or(0, |it| it.1) } else { text.trim_end().len() };
        text[..at].chars().count()
    };
    Some((place(&a, file), place(&b, wanted)))
}
