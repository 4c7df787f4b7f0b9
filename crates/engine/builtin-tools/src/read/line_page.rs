//! A page of lines that fits into a budget, and how to read on.

/// What fits into one page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadLimits {
    /// Tokens of one result, roughly.
    pub max_tokens: usize,
    /// Lines of one result when no limit is given and not all of them fit.
    pub max_lines: u64,
    /// Characters of one line that is shown alone.
    pub widest: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { max_tokens: 25_000, max_lines: 2000, widest: 10_000 }
    }
}

impl ReadLimits {
    /// As these variables say: `HAFT_FILE_READ_MAX_OUTPUT_TOKENS`, or
    /// the public name of the same setting.
    pub fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let names = ["HAFT_FILE_READ_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS"];
        let tokens = names.iter().find_map(|name| variable(name)?.trim().parse().ok());
        let default = Self::default();
        Self { max_tokens: tokens.filter(|it| 0 < *it).unwrap_or(default.max_tokens), ..default }
    }

    /// For a model that asked for more than usual.
    pub(super) fn large(self) -> Self {
        Self { max_tokens: self.max_tokens * 4, max_lines: u64::MAX, widest: usize::MAX }
    }

    /// Bytes that surely hold a page.
    pub(super) fn max_bytes(self) -> usize {
        self.max_tokens.saturating_mul(BYTES_PER_TOKEN).saturating_add(4096)
    }
}

/// No text has more bytes per token for long.
const BYTES_PER_TOKEN: usize = 8;

/// Characters of one line shown beside others. A longer line is read by column.
pub(super) const LINE_WIDTH: usize = 2000;

/// A rough count: code has about three ASCII characters per token, other
/// scripts about one.
pub(super) fn tokens(text: &str) -> usize {
    if text.is_ascii() {
        return text.len().div_ceil(3);
    }
    let narrow = text.bytes().filter(u8::is_ascii).count();
    text.chars().count() - narrow + narrow.div_ceil(3)
}

/// What one page shows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Page<'a> {
    /// The lines, without numbers; what is cut is cut.
    pub(super) lines: Vec<&'a str>,
    /// Lines of which only a part is shown, with how to see more.
    pub(super) cuts: Vec<PartialLine>,
    /// Where to go on; nothing when everything asked for is shown.
    pub(super) next: Option<NextPage>,
    /// Whether the budget ended the page.
    pub(super) over_budget: bool,
}

/// A line of which only a part is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PartialLine {
    pub(super) line: u64,
    /// Column after the last character shown, from one.
    pub(super) next_column: u64,
    /// Characters of the line that follow; nothing when nobody counted.
    pub(super) more: Option<u64>,
}

/// Where the next page starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NextPage {
    pub(super) line: u64,
    pub(super) column: Option<u64>,
}

/// Which page is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRequest {
    /// Number of the first line given.
    pub(super) first: u64,
    /// Lines wanted at most.
    pub(super) count: u64,
    /// Column of the first line to start at, from one.
    pub(super) column: u64,
    /// Whether a long line may fill the page.
    pub(super) alone: bool,
    pub(super) max_tokens: usize,
    /// Characters of a line that is alone.
    pub(super) widest: usize,
}

/// Puts lines on a page until it is full. The first line is taken from the
/// column asked for.
pub(super) fn fill<'a>(lines: impl Iterator<Item = &'a str>, ask: &PageRequest) -> Page<'a> {
    let mut page = Page::default();
    let mut left = ask.max_tokens;
    for (line, number) in lines.zip(ask.first..) {
        if ask.count <= page.lines.len() as u64 {
            page.next = Some(NextPage { line: number, column: None });
            break;
        }
        let skip = if number == ask.first { ask.column.saturating_sub(1) } else { 0 };
        let rest = after(line, skip);
        let is_alone = ask.alone && number == ask.first;
        let most = if is_alone { ask.widest.max(LINE_WIDTH) } else { LINE_WIDTH };
        let width = most.min(left.saturating_mul(3));
        let shown = if rest.len() <= width { rest } else { haft_types::text::head(rest, width) };
        let cost = tokens(shown) + 2;
        if left < cost && !page.lines.is_empty() {
            page.over_budget = true;
            page.next = Some(NextPage { line: number, column: None });
            break;
        }
        let shown = if left < cost { fit(shown, left) } else { shown };
        page.lines.push(shown);
        left = left.saturating_sub(cost);
        if shown.len() < rest.len() {
            let next_column = skip + shown.chars().count() as u64 + 1;
            page.cuts.push(PartialLine {
                line: number,
                next_column,
                more: Some(rest[shown.len()..].chars().count() as u64),
            });
            // A line that fills the page is continued before the next one.
            if left <= 2 || is_alone {
                page.over_budget = true;
                page.next = Some(NextPage { line: number, column: Some(next_column) });
                break;
            }
        }
    }
    page
}

/// The text after some characters.
fn after(text: &str, skip: u64) -> &str {
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    text.char_indices().nth(skip).map_or("", |(at, _)| &text[at..])
}

/// The longest beginning that fits.
pub(super) fn fit(text: &str, max_tokens: usize) -> &str {
    let mut narrow = 0;
    let mut wide = 0;
    for (at, character) in text.char_indices() {
        if character.is_ascii() {
            narrow += 1
        } else {
            wide += 1
        }
        if max_tokens < wide + usize::div_ceil(narrow, 3) {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(first: u64, column: u64, max_tokens: usize) -> PageRequest {
        PageRequest { first, count: u64::MAX, column, alone: 1 < column, max_tokens, widest: usize::MAX }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Following the continuations shows every character once.
        #[test]
        fn pages_have_no_gaps_and_no_overlaps(
            text in prop::collection::vec("[a日]{0,40}|x{2990,3100}", 1..8), budget in 4_usize..1500,
        ) {
            let mut seen = vec![String::new(); text.len()];
            let mut at = NextPage { line: 1, column: None };
            for _ in 0..100_000 {
                let lines = text[at.line as usize - 1..].iter().map(String::as_str);
                let page = fill(lines, &ask(at.line, at.column.unwrap_or(1), budget));
                prop_assert!(tokens(&page.lines.concat()) <= budget.max(4) + 2 * page.lines.len());
                for (offset, line) in page.lines.iter().enumerate() {
                    let number = at.line as usize + offset;
                    seen[number - 1].push_str(line);
                    // What is cut beside other lines is read on by column.
                    if let Some(cut) = page.cuts.iter().find(|it| it.line == number as u64)
                        && page.next.is_none_or(|next| next.line != cut.line)
                    {
                        let mut column = cut.next_column;
                        loop {
                            let more = fill([text[number - 1].as_str()].into_iter(), &ask(number as u64, column, budget));
                            seen[number - 1].push_str(&more.lines.concat());
                            match more.next.and_then(|it| it.column) {
                                Some(next) => column = next,
                                None => break,
                            }
                        }
                    }
                }
                match page.next {
                    Some(next) => at = next,
                    None => break,
                }
            }
            prop_assert_eq!(seen, text);
        }
    }
}
