//! Ranked search over tools: BM25 over name, hint and description.
//!
//! Not a general text index: it needs no stemming tables, but camel case, `__` separators, prefixes and
//! exact names first.

use std::collections::HashMap;

use super::synonyms;

/// Factor for the score of a word that matches only through a synonym.
const SAME_MEANING: f64 = 0.35;

/// Weight of a word by the field it occurs in.
#[derive(Clone, Copy)]
enum FieldWeight {
    Name = 4,
    Hint = 2,
    Description = 1,
}

/// A searchable list of tools. Results are positions in the list.
pub(crate) struct ToolIndex {
    names: Vec<Name>,
    /// Weighted number of words of each document.
    lengths: Vec<f64>,
    average_length: f64,
    /// Word → (document, weighted count).
    postings: HashMap<String, Vec<(usize, f64)>>,
}

struct Name {
    folded: String,
    wire: String,
    words: Vec<String>,
}

/// The fields of a tool that are indexed.
pub(crate) struct ToolDocument<'a> {
    pub(crate) name: &'a str,
    /// Name of the tool in model requests (ASCII).
    pub(crate) wire_name: &'a str,
    pub(crate) hint: &'a str,
    pub(crate) description: &'a str,
}

impl ToolIndex {
    pub(crate) fn build<'a>(documents: impl Iterator<Item = ToolDocument<'a>>) -> Self {
        let mut index =
            Self { names: Vec::new(), lengths: Vec::new(), average_length: 1.0, postings: HashMap::new() };
        for (at, document) in documents.enumerate() {
            let mut counts: HashMap<String, f64> = HashMap::new();
            let mut length = 0.0;
            let fields = [
                (document.name, FieldWeight::Name),
                (document.hint, FieldWeight::Hint),
                (document.description, FieldWeight::Description),
            ];
            for (text, weight) in fields {
                for word in words(text) {
                    let weight = f64::from(weight as u32);
                    *counts.entry(word).or_default() += weight;
                    length += weight;
                }
            }
            for (word, count) in counts {
                index.postings.entry(word).or_default().push((at, count));
            }
            // The MCP client converts tool names to ASCII; the hint keeps the original, so its non-ASCII
            // words count as part of the name.
            let foreign = words(document.hint).filter(|word| !word.is_ascii());
            index.names.push(Name {
                folded: document.name.to_lowercase(),
                wire: document.wire_name.to_lowercase(),
                words: words(document.name).chain(foreign).collect(),
            });
            index.lengths.push(length);
        }
        let total: f64 = index.lengths.iter().sum();
        index.average_length = (total / (index.lengths.len().max(1) as f64)).max(1.0);
        index
    }

    /// Returns the positions of matching tools, best first, ties by position. Every word of `required`
    /// must occur in the name.
    pub(crate) fn search(&self, query: &str, required: &[String]) -> Vec<usize> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for word in words(query).chain(required.iter().flat_map(|it| words(it))) {
            let mut found = self.score(&word);
            // A synonym counts less than a literal match.
            for other in synonyms::others(&word) {
                for (at, score) in self.score(other) {
                    let entry = found.entry(at).or_default();
                    *entry = entry.max(score * SAME_MEANING);
                }
            }
            for (at, score) in found {
                *scores.entry(at).or_default() += score;
            }
        }
        let wanted = query.trim().to_lowercase();
        let suffix = format!("__{wanted}");
        for (at, name) in self.names.iter().enumerate() {
            let exact = !wanted.is_empty()
                && (name.folded == wanted || name.wire == wanted || name.folded.ends_with(&suffix));
            if exact {
                *scores.entry(at).or_default() += 1_000.0;
            }
        }
        scores.retain(|at, _| required.iter().all(|it| self.name_has(*at, it)));
        let mut ranked: Vec<(usize, f64)> = scores.into_iter().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked.into_iter().map(|(at, _)| at).collect()
    }

    fn name_has(&self, at: usize, required: &str) -> bool {
        words(required).all(|word| self.names[at].words.iter().any(|it| it.contains(&word)))
    }

    /// Returns the score of each document that contains the query word or a word similar to it (same
    /// beginning).
    fn score(&self, word: &str) -> HashMap<usize, f64> {
        let mut best: HashMap<usize, f64> = HashMap::new();
        for (indexed, postings) in &self.postings {
            let likeness = likeness(word, indexed);
            if likeness == 0.0 {
                continue;
            }
            let documents = self.lengths.len() as f64;
            let having = postings.len() as f64;
            let rarity = (1.0 + (documents - having + 0.5) / (having + 0.5)).ln();
            for &(at, count) in postings {
                let norm = 1.2 * (0.25 + 0.75 * self.lengths[at] / self.average_length);
                let score = likeness * rarity * count * 2.2 / (count + norm);
                let entry = best.entry(at).or_default();
                *entry = entry.max(score);
            }
        }
        best
    }
}

fn likeness(wanted: &str, indexed: &str) -> f64 {
    if wanted == indexed {
        return 1.0;
    }
    let long_enough = 3 <= wanted.chars().count() || !wanted.is_ascii();
    if long_enough && indexed.starts_with(wanted) {
        return 0.6;
    }
    // In languages without spaces between words, a substring is a match.
    if !wanted.is_ascii() && indexed.contains(wanted) {
        return 0.5;
    }
    // "listing" finds "list", "issues" finds "issue".
    if 4 <= indexed.chars().count() && wanted.starts_with(indexed) && wanted.len() <= indexed.len() + 4 {
        return 0.5;
    }
    0.0
}

/// Splits text into lower-case words at `camelCase` boundaries, underscores and punctuation. Digits do
/// not separate. Adds character pairs for languages without spaces.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for it in text.chars() {
        let boundary = !it.is_alphanumeric() || (it.is_uppercase() && before.is_lowercase());
        if boundary && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if it.is_alphanumeric() {
            word.extend(it.to_lowercase());
        }
        before = it;
    }
    words.push(word);
    let pairs: Vec<String> = words.iter().flat_map(|word| pairs(word)).collect();
    words.extend(pairs);
    words.into_iter().filter(|word| !word.is_empty())
}

/// Returns all pairs of adjacent characters of a word in a language without spaces, where they stand for
/// the words they are part of. Empty for other words.
fn pairs(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    if letters.len() < 3 || !letters.iter().any(|it| is_written_without_blanks(*it)) {
        return Vec::new();
    }
    letters.windows(2).map(|pair| pair.iter().collect()).collect()
}

/// Whether the character belongs to a script written without spaces (Thai and neighbours, Japanese,
/// Chinese) or to Korean, whose endings attach to words.
fn is_written_without_blanks(letter: char) -> bool {
    matches!(letter,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_ranks_the_expected_tool_first() {
        let tools = [
            ("CronCreate", "schedule a recurring job", "Creates a scheduled task."),
            ("CronList", "scheduled jobs", "Lists scheduled tasks."),
            ("NotebookEdit", "edit jupyter notebook cells", "Replaces, inserts or deletes a cell."),
            ("mcp__github__create_issue", "", "Create a new issue in a GitHub repository."),
            ("mcp__github__list_issues", "", "List issues of a repository, filtered by state."),
            ("mcp__база-данных__query", "", "Run a SQL query."),
            ("mcp__天気__今日の予報", "", "天気予報を返します。"),
            ("mcp__slack__postMessage", "", "Send a message to a channel."),
            ("mcp__office__write_to", "", "Composes mail for a recipient."),
            ("mcp__sky__outlook_for_city", "", "Returns the forecast of the next days."),
            ("mcp__pixels__resize", "", "Gives a picture another width."),
        ];
        let index = ToolIndex::build(tools.iter().map(|&(name, hint, description)| {
            let wire_name = name;
            ToolDocument { name, wire_name, hint, description }
        }));
        for (query, required, want) in [
            ("cron", vec![], vec!["CronList", "CronCreate"]),
            ("jupyter", vec![], vec!["NotebookEdit"]),
            ("create issue", vec!["github"], vec!["mcp__github__create_issue", "mcp__github__list_issues"]),
            ("list_issues", vec![], vec!["mcp__github__list_issues", "mcp__github__create_issue"]),
            ("данных", vec![], vec!["mcp__база-данных__query"]),
            ("予報", vec![], vec!["mcp__天気__今日の予報"]),
            ("post message slack", vec![], vec!["mcp__slack__postMessage"]),
            ("issue", vec!["slack"], vec!["mcp__slack__postMessage"]),
            // Found through synonyms only.
            ("email", vec!["office"], vec!["mcp__office__write_to"]),
            ("weather", vec![], vec!["mcp__sky__outlook_for_city"]),
            ("shrink image", vec![], vec!["mcp__pixels__resize"]),
            ("compress photo", vec![], vec!["mcp__pixels__resize"]),
            ("zzz", vec![], vec![]),
        ] {
            let required: Vec<String> = required.into_iter().map(str::to_owned).collect();
            let got: Vec<&str> =
                index.search(query, &required).into_iter().take(2).map(|at| tools[at].0).collect();
            assert_eq!(got.first(), want.first(), "{query}: {got:?}");
            assert_eq!(got.len().min(2), want.len(), "{query}: {got:?}");
        }
    }
}
