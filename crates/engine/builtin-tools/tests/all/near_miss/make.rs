//! Generates the table: every sample, with the model's text deviating from the file's.
//!
//! The expected result does not come from the tool: the change is known in the file's own spelling, and
//! the expected file is built from it.

use serde::{Deserialize, Serialize};

use super::samples::{SAMPLES, Sample};

/// One edit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Name of the sample, and the deviation.
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) old: String,
    pub(crate) new: String,
    /// First and last line of the intended place.
    pub(crate) lines: (usize, usize),
    /// The file after the edit, if the place is unambiguous.
    pub(crate) want: String,
    pub(crate) verdict: Verdict,
}

/// The expected outcome.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The edit is made; its result names what was ignored.
    Applies { ignoring: Vec<String> },
    /// Two places match, and nothing changes.
    Ambiguous,
    /// No place matches, and nothing changes; the error shows this line.
    NotFound { line: usize },
}

/// A deviation between the file and the model's text.
struct Miss {
    name: &'static str,
    in_file: fn(&str) -> String,
    by_model: fn(&str) -> String,
    ignoring: &'static [&'static str],
}

fn same(text: &str) -> String {
    text.to_owned()
}

fn each_line(text: &str, change: impl Fn(&str) -> String) -> String {
    text.split('\n').map(change).collect::<Vec<_>>().join("\n")
}

/// Returns the smallest indentation in a text.
fn unit(text: &str) -> usize {
    let indents = text.split('\n').filter(|line| line.starts_with(' '));
    indents.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(4).max(1)
}

fn to_tabs(text: &str) -> String {
    let unit = unit(text);
    each_line(text, |line| {
        let rest = line.trim_start_matches(' ');
        let width = line.len() - rest.len();
        format!("{}{}{rest}", "\t".repeat(width / unit), " ".repeat(width % unit))
    })
}

fn to_spaces(text: &str) -> String {
    each_line(text, |line| {
        let rest = line.trim_start_matches('\t');
        format!("{}{rest}", "    ".repeat(line.len() - rest.len()))
    })
}

/// Removes the indentation common to all lines.
fn dedented(text: &str) -> String {
    let lines = || text.split('\n').filter(|line| !line.trim().is_empty());
    let shared = lines().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    each_line(text, |line| line.get(shared..).unwrap_or("").to_owned())
}

fn straight(text: &str) -> String {
    text.replace(['’', '‘'], "'").replace(['“', '”'], "\"").replace(['–', '—'], "-").replace('…', "...")
}

fn curly(text: &str) -> String {
    text.replace('\'', "’").replace('"', "”")
}

fn decomposed(text: &str) -> String {
    let pairs = [
        ("é", "e\u{301}"),
        ("É", "E\u{301}"),
        ("ü", "u\u{308}"),
        ("ö", "o\u{308}"),
        ("ä", "a\u{308}"),
        ("ï", "i\u{308}"),
        ("ë", "e\u{308}"),
        ("ñ", "n\u{303}"),
        ("ガ", "カ\u{3099}"),
        ("ド", "ト\u{3099}"),
    ];
    pairs.iter().fold(text.to_owned(), |text, (composed, parts)| text.replace(composed, parts))
}

/// Replaces the last space of each line by a no-break space.
fn no_break(text: &str) -> String {
    each_line(text, |line| match line.trim().rfind(' ') {
        Some(at) => {
            let at = at + line.len() - line.trim_start().len();
            format!("{}\u{a0}{}", &line[..at], &line[at + 1..])
        }
        None => line.to_owned(),
    })
}

/// Inserts an invisible character after the first character of each line.
fn zero_width(text: &str) -> String {
    each_line(text, |line| {
        let start = line.len() - line.trim_start().len();
        match line[start..].chars().next() {
            Some(first) => {
                let at = start + first.len_utf8();
                format!("{}\u{200b}{}", &line[..at], &line[at..])
            }
            None => line.to_owned(),
        }
    })
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t").replace('"', "\\\"")
}

const CHARACTERS: &str = "how characters are written (quotes, dashes, spaces, accents)";

const MISSES: &[Miss] = &[
    Miss { name: "exact", in_file: same, by_model: same, ignoring: &[] },
    Miss { name: "tabs for spaces", in_file: same, by_model: to_tabs, ignoring: &["indentation"] },
    Miss { name: "spaces for tabs", in_file: same, by_model: to_spaces, ignoring: &["indentation"] },
    Miss { name: "the file has tabs", in_file: to_tabs, by_model: same, ignoring: &["indentation"] },
    Miss { name: "lost indentation", in_file: same, by_model: dedented, ignoring: &["indentation"] },
    Miss {
        name: "lost trailing spaces",
        in_file: |it| it.replace('\n', "  \n"),
        by_model: same,
        ignoring: &["trailing white space"],
    },
    Miss {
        name: "added trailing spaces",
        in_file: same,
        by_model: |it| it.replace('\n', " \n"),
        ignoring: &["trailing white space"],
    },
    Miss { name: "straight for curly", in_file: same, by_model: straight, ignoring: &[CHARACTERS] },
    Miss { name: "curly for straight", in_file: same, by_model: curly, ignoring: &[CHARACTERS] },
    Miss { name: "NFD for NFC", in_file: same, by_model: decomposed, ignoring: &[CHARACTERS] },
    Miss { name: "NFC for NFD", in_file: decomposed, by_model: same, ignoring: &[CHARACTERS] },
    Miss { name: "no-break space", in_file: same, by_model: no_break, ignoring: &[CHARACTERS] },
    Miss { name: "the file has no-break spaces", in_file: no_break, by_model: same, ignoring: &[CHARACTERS] },
    Miss {
        name: "the file has zero-width spaces",
        in_file: zero_width,
        by_model: same,
        ignoring: &[CHARACTERS],
    },
    Miss { name: "escaped once too often", in_file: same, by_model: escaped, ignoring: &["extra escaping"] },
    Miss {
        name: "tabs, curly and trailing",
        in_file: same,
        by_model: |it| curly(&to_tabs(it)).replace('\n', "  \n"),
        ignoring: &["indentation", "trailing white space", CHARACTERS],
    },
    Miss {
        name: "wide spacing",
        in_file: |it| it.replace(" = ", "   = "),
        by_model: same,
        ignoring: &["spacing"],
    },
];

/// Returns the whole table, deterministically.
pub(crate) fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    for sample in SAMPLES {
        for miss in MISSES {
            rows.extend(missed(sample, miss));
        }
        rows.extend(numbered(sample));
        rows.extend(with_a_new_line(sample));
        rows.push(returns(sample));
        rows.push(one_wrong_character(sample));
        rows.push(two_candidates(sample));
    }
    rows
}

fn changed(sample: &Sample) -> String {
    let (from, to) = sample.change;
    assert_eq!(sample.block.matches(from).count(), 1, "{}", sample.name);
    sample.block.replace(from, to)
}

fn first_line(sample: &Sample) -> usize {
    sample.before.matches('\n').count() + 1
}

fn row(
    sample: &Sample,
    miss: &str,
    block: &str,
    old: String,
    new: String,
    wanted: &str,
    verdict: Verdict,
) -> Row {
    let first = first_line(sample);
    let around = |block: &str| format!("{}{block}{}", sample.before, sample.after);
    Row {
        name: format!("{}: {miss}", sample.name),
        file: around(block),
        old,
        new,
        lines: (first, first + block.matches('\n').count()),
        want: around(wanted),
        verdict,
    }
}

fn applies(ignoring: &[&str]) -> Verdict {
    Verdict::Applies { ignoring: ignoring.iter().map(ToString::to_string).collect() }
}

fn missed(sample: &Sample, miss: &Miss) -> Option<Row> {
    let (block, wanted) = ((miss.in_file)(sample.block), (miss.in_file)(&changed(sample)));
    let (old, new) = ((miss.by_model)(sample.block), (miss.by_model)(&changed(sample)));
    // A sample without tabs cannot lose any, and deviations in new text are intended.
    let meant = [(&old, &new), (&block, &wanted)].iter().any(|(a, b)| differing(a, b).contains('\u{a0}'));
    let ignoring: Vec<&str> = miss.ignoring.iter().copied().filter(|it| shows(it, &block, &old)).collect();
    ((miss.name == "exact" || old != block) && !meant)
        .then(|| row(sample, miss.name, &block, old, new, &wanted, applies(&ignoring)))
}

/// Returns the part of the second text that the first lacks.
fn differing<'a>(a: &str, b: &'a str) -> &'a str {
    let same = |(a, b): &(char, char)| a == b;
    let start: usize = a.chars().zip(b.chars()).take_while(same).map(|it| it.1.len_utf8()).sum();
    let rest = a.get(start..).unwrap_or("").chars().rev().zip(b[start..].chars().rev());
    let end: usize = rest.take_while(same).map(|it| it.1.len_utf8()).sum();
    &b[start..b.len() - end]
}

/// Whether two versions of a block differ in this respect.
fn shows(what: &str, file: &str, model: &str) -> bool {
    let lines = || file.split('\n').zip(model.split('\n')).filter(|(line, _)| !line.trim().is_empty());
    let any = |differ: fn(&str, &str) -> bool| lines().any(|(a, b)| differ(a, b));
    match what {
        "indentation" => {
            any(|a, b| a[..a.len() - a.trim_start().len()] != b[..b.len() - b.trim_start().len()])
        }
        CHARACTERS => any(|a, b| a.trim() != b.trim()),
        _ => true,
    }
}

/// Adds line numbers of a listing, in all known formats.
fn numbered(sample: &Sample) -> Vec<Row> {
    type Form = (&'static str, fn(usize) -> String);
    let forms: [Form; 2] =
        [("numbers with arrows", |it| format!("{it:>6}→")), ("numbers with tabs", |it| format!("{it}\t"))];
    let first = first_line(sample);
    let with = |text: &str, form: fn(usize) -> String| {
        let lines = text.split('\n').zip(first..);
        lines.map(|(line, number)| format!("{}{line}", form(number))).collect::<Vec<_>>().join("\n")
    };
    let make = |(name, form): Form| {
        let (old, new) = (with(sample.block, form), with(&changed(sample), form));
        row(sample, name, sample.block, old, new, &changed(sample), applies(&["copied line numbers"]))
    };
    forms.into_iter().map(make).collect()
}

/// Adds a line with the indentation of its neighbour, in the model's form; the file must get its own
/// form. New text is written as given.
fn with_a_new_line(sample: &Sample) -> Option<Row> {
    let tabs = sample.block.contains('\t');
    let by_model: fn(&str) -> String = if tabs { to_spaces } else { to_tabs };
    let mut lines: Vec<&str> = sample.block.split('\n').collect();
    let at = lines.iter().position(|line| line.starts_with([' ', '\t']))?;
    let indent = &lines[at][..lines[at].len() - lines[at].trim_start().len()];
    let fresh = format!("{indent}a “new” line, isn’t it");
    lines.insert(at + 1, &fresh);
    let wanted = lines.join("\n");
    let (old, new) = (by_model(sample.block), by_model(&wanted));
    let name = "a new line in the model's indentation";
    Some(row(sample, name, sample.block, old, new, &wanted, applies(&["indentation"])))
}

/// The file has carriage returns and the model's text does not, or vice versa.
fn returns(sample: &Sample) -> Row {
    let both = |text: &str| text.replace('\n', "\r\n");
    let plain = row(
        sample,
        "the file has CRLF",
        sample.block,
        sample.block.to_owned(),
        changed(sample),
        &changed(sample),
        applies(&[]),
    );
    if sample.name.len().is_multiple_of(2) {
        return Row { file: both(&plain.file), want: both(&plain.want), ..plain };
    }
    let name = format!("{}: the model has CRLF", sample.name);
    Row { name, old: both(&plain.old), new: both(&plain.new), ..plain }
}

/// The first letter of the middle line is wrong.
fn one_wrong_character(sample: &Sample) -> Row {
    let lines: Vec<&str> = sample.block.split('\n').collect();
    let is_wordy = |line: &&str| 3 <= line.chars().filter(|it| it.is_alphanumeric()).count();
    let middle =
        (lines.len() / 2..lines.len()).chain(0..lines.len()).find(|at| is_wordy(&lines[*at])).unwrap_or(0);
    let wrong = |text: &str| {
        let spoil = |(at, line): (usize, &str)| match line.char_indices().find(|(_, it)| it.is_alphanumeric())
        {
            Some((from, it)) if at == middle => {
                let other = if it == 'q' { 'z' } else { 'q' };
                format!("{}{other}{}", &line[..from], &line[from + it.len_utf8()..])
            }
            _ => line.to_owned(),
        };
        text.split('\n').enumerate().map(spoil).collect::<Vec<_>>().join("\n")
    };
    let verdict = Verdict::NotFound { line: first_line(sample) + middle };
    let (old, new) = (wrong(sample.block), format!("{}\nmore", wrong(sample.block)));
    row(sample, "one wrong character", sample.block, old, new, sample.block, verdict)
}

/// The same block occurs twice; the second is meant.
fn two_candidates(sample: &Sample) -> Row {
    let once = row(
        sample,
        "two candidates",
        sample.block,
        curly(&to_tabs(sample.block)),
        curly(&to_tabs(&changed(sample))),
        &changed(sample),
        Verdict::Ambiguous,
    );
    let skipped = once.file.matches('\n').count();
    Row {
        want: format!("{}{}", once.file, once.want),
        lines: (once.lines.0 + skipped, once.lines.1 + skipped),
        file: once.file.repeat(2),
        ..once
    }
}
