//! Selects a page of lines that fits the token budget, and where the next one starts.

/// Limits of one Read result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadLimits {
    /// Maximum tokens of a result, estimated. Default 25,000.
    pub max_tokens: usize,
    /// Maximum lines of a result if the call gives no limit and the file does not fit. Default 2,000.
    pub max_lines: u64,
    /// Maximum characters of a line that is read alone. Default 10,000.
    pub widest: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { max_tokens: 25_000, max_lines: 2000, widest: 10_000 }
    }
}

impl ReadLimits {
    /// Reads `HAFT_FILE_READ_MAX_OUTPUT_TOKENS`, else `CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS`. Invalid
    /// values are ignored.
    pub fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let names = ["HAFT_FILE_READ_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS"];
        let tokens = names.iter().find_map(|name| variable(name)?.trim().parse().ok());
        let default = Self::default();
        Self { max_tokens: tokens.filter(|it| 0 < *it).unwrap_or(default.max_tokens), ..default }
    }

    /// Returns the limits for a call that asks for a large result: four times the tokens, any number of
    /// lines.
    pub(super) fn large(self) -> Self {
        Self { max_tokens: self.max_tokens * 4, max_lines: u64::MAX, widest: usize::MAX }
    }

    /// Returns a number of bytes that certainly contains a page.
    pub(super) fn max_bytes(self) -> usize {
        self.max_tokens.saturating_mul(BYTES_PER_TOKEN).saturating_add(4096)
    }
}

/// Upper bound of the average bytes per token.
const BYTES_PER_TOKEN: usize = 8;

/// Maximum characters of a line shown with others. The rest of a longer line is read by column.
pub(super) const LINE_WIDTH: usize = 2000;

/// Estimates tokens: three ASCII characters per token, or one other character.
pub(super) fn tokens(text: &str) -> usize {
    if text.is_ascii() {
        return text.len().div_ceil(3);
    }
    let narrow = text.bytes().filter(u8::is_ascii).count();
    text.chars().count() - narrow + narrow.div_ceil(3)
}

/// The content of one page.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Page<'a> {
    /// The lines, without numbers; long ones are cut.
    pub(super) lines: Vec<&'a str>,
    /// The lines that are cut, and where they continue.
    pub(super) cuts: Vec<PartialLine>,
    /// Start of the next page; `None` if everything requested is shown.
    pub(super) next: Option<NextPage>,
    /// Whether the page ended early, because of the token budget or a long line.
    pub(super) over_budget: bool,
}

/// A line of which only a part is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PartialLine {
    pub(super) line: u64,
    /// Column after the last character shown, counted from 1.
    pub(super) next_column: u64,
    /// Number of characters that follow in the line; `None` if unknown.
    pub(super) more: Option<u64>,
}

/// Where the next page starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NextPage {
    pub(super) line: u64,
    pub(super) column: Option<u64>,
}

/// A requested page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRequest {
    /// Number of the first line, counted from 1.
    pub(super) first: u64,
    /// Maximum number of lines.
    pub(super) count: u64,
    /// Column of the first line to start at, counted from 1.
    pub(super) column: u64,
    /// Whether the first line may fill the page.
    pub(super) alone: bool,
    pub(super) max_tokens: usize,
    /// Maximum characters of the first line if it may fill the page.
    pub(super) widest: usize,
}

/// Fills a page with lines. The first line starts at the requested column.
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
            // A line that fills the page is continued before the next line.
            if left <= 2 || is_alone {
                page.over_budget = true;
                page.next = Some(NextPage { line: number, column: Some(next_column) });
                break;
            }
        }
    }
    page
}

/// Skips the first `skip` characters.
fn after(text: &str, skip: u64) -> &str {
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    text.char_indices().nth(skip).map_or("", |(at, _)| &text[at..])
}

/// Returns the longest prefix of at most `max_tokens` tokens.
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

        /// Following the continuation notes shows every character exactly once.
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
                    // A line cut next to others is continued by column.
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
