//! Scores how well a name matches the query.

use crate::index::parts;

use super::rank_query::QueryName;

/// Score of a perfect match.
pub(crate) const EXACT: i32 = 1000;
/// Minimum score of a name that counts as the requested one.
pub(crate) const SAME: i32 = 800;

/// Scores `name` against the requested one; 0 for no match.
pub(crate) fn fit(wanted: &QueryName, name: &str) -> i32 {
    let text = wanted.text.as_str();
    if name == text {
        return EXACT;
    }
    if name.len() == text.len() && name.eq_ignore_ascii_case(text) {
        return 850;
    }
    // Most names differ in the first letter.
    let (a, b) = (name.as_bytes(), text.as_bytes());
    if a.is_empty() || b.is_empty() || a.len() + 2 < b.len() {
        return 0;
    }
    if same_but_marks(a, b) {
        return SAME;
    }
    let extra = i32::try_from(a.len().saturating_sub(b.len()).min(100)).unwrap_or(100);
    if starts_with(a, b) {
        let ends = a.get(b.len()).is_some_and(|byte| !byte.is_ascii_lowercase());
        return if ends { 600 - extra } else { 500 - extra };
    }
    if b.len() < 3 {
        return 0;
    }
    match find(a, b) {
        // A match at a word boundary: `config` in `load_config`, `loadConfig`.
        Some(at) if a[at].is_ascii_uppercase() || !a[at - 1].is_ascii_alphanumeric() => 450 - extra,
        Some(_) if 4 <= b.len() => 250 - extra,
        _ => 0,
    }
}

fn starts_with(name: &[u8], text: &[u8]) -> bool {
    text.len() <= name.len() && name[..text.len()].eq_ignore_ascii_case(text)
}

/// Equal except for case and separators: `parse_config` and `parseConfig`.
fn same_but_marks(a: &[u8], b: &[u8]) -> bool {
    let letters = |text: &[u8]| {
        let letters =
            text.iter().filter(|byte| !matches!(byte, b'_' | b'-' | b'$')).map(u8::to_ascii_lowercase);
        letters.collect::<Vec<u8>>()
    };
    a[0].eq_ignore_ascii_case(&b[0]) && letters(a) == letters(b)
}

/// First case-insensitive occurrence after the start.
fn find(name: &[u8], text: &[u8]) -> Option<usize> {
    (1..=name.len().checked_sub(text.len())?)
        .find(|at| name[*at..*at + text.len()].eq_ignore_ascii_case(text))
}

/// Whether a name contains `text` (lower case), ignoring case.
pub(crate) fn holds(name: &[u8], text: &[u8]) -> bool {
    let Some((first, rest)) = text.split_first() else { return true };
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), name)
        .any(|at| name[at + 1..].get(..rest.len()).is_some_and(|it| it.eq_ignore_ascii_case(rest)))
}

/// Whether one letter is wrong, missing, extra or transposed.
pub(crate) fn is_near(name: &str, text: &str) -> bool {
    let (a, b) = (name.as_bytes(), text.as_bytes());
    if b.len() < 5 || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let same = |(x, y): &(&u8, &u8)| x.eq_ignore_ascii_case(y);
    let front = a.iter().zip(b).take_while(same).count();
    let back = a.iter().rev().zip(b.iter().rev()).take_while(same).count();
    let longest = a.len().max(b.len());
    if longest <= front + back + 1 {
        return true;
    }
    // Two letters transposed.
    a.len() == b.len() && longest == front + back + 2 && a[front] == b[front + 1] && a[front + 1] == b[front]
}

/// How well a name covers several words, weighted by their rarity.
pub(crate) struct NameCoverage {
    /// Weight of the words in the name.
    pub(crate) weight: f64,
    /// Bit set of these words.
    pub(crate) terms: u64,
    /// Number of parts of the name that match no word.
    pub(crate) extra: usize,
}

/// Matches words with the parts of a name.
pub(crate) fn coverage(terms: &[String], weights: &[f64], name: &str) -> NameCoverage {
    let parts = parts(name);
    let mut found = NameCoverage { weight: 0.0, terms: 0, extra: parts.len() };
    for (index, (term, weight)) in terms.iter().zip(weights).enumerate() {
        let best = parts.iter().map(|part| kinship(term, part)).fold(0.0, f64::max);
        if 0.0 < best {
            found.weight += weight * best;
            found.terms |= 1 << index;
            found.extra = found.extra.saturating_sub(1);
        }
    }
    found
}

/// Similarity of two words, such as `parse` and `parsing`, `config` and `configuration`.
pub(crate) fn kinship(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let common = short.bytes().zip(long.bytes()).take_while(|(x, y)| x == y).count();
    if common < 4 {
        return 0.0;
    }
    match () {
        () if common == short.len() => 0.7,
        () if short.len() <= common + 1 && long.len() <= common + 3 => 0.7,
        () => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_score_ranks_closer_names_higher() {
        let wanted = QueryName { text: String::from("loadConfig"), inside: None };
        let points: Vec<i32> = [
            "loadConfig",
            "LoadConfig",
            "load_config",
            "loadConfig2",
            "loadConfigFile",
            "loadConfigurations",
            "reloadConfig",
            "load",
            "other",
        ]
        .iter()
        .map(|name| fit(&wanted, name))
        .collect();
        assert!(points.windows(2).all(|pair| pair[1] <= pair[0]), "{points:?}");
        assert_eq!((points[0], points[7], points[8]), (EXACT, 0, 0));
    }

    #[test]
    fn is_near_accepts_one_typing_mistake() {
        for (name, text, want) in [
            ("parse_config", "parse_confg", true),
            ("parse_config", "parse_cofnig", true),
            ("parse_config", "parse_konfig", true),
            ("parse_config", "parse_konfik", false),
            ("abcd", "abce", false),
        ] {
            assert_eq!(is_near(name, text), want, "{name} {text}");
        }
    }

    #[test]
    fn kinship_recognises_inflected_words() {
        for (a, b, want) in [
            ("parse", "parsing", true),
            ("parse", "parser", true),
            ("config", "configuration", true),
            ("file", "files", true),
            ("log", "logic", false),
            ("session", "selection", false),
        ] {
            assert_eq!(0.0 < kinship(a, b), want, "{a} {b}");
        }
    }
}
