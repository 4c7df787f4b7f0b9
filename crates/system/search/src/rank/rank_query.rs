use crate::index::parts;

/// A parsed query.
#[derive(Clone, Debug)]
pub struct RankQuery {
    /// The requested name, if the query contains one.
    pub(crate) name: Option<QueryName>,
    /// Words of the query in lower case.
    pub(crate) terms: Vec<String>,
}

/// A name, possibly qualified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct QueryName {
    pub(crate) text: String,
    /// `Config` of `Config::load`.
    pub(crate) inside: Option<String>,
}

/// Stop words.
const FILLERS: [&str; 48] = [
    "a",
    "an",
    "and",
    "are",
    "at",
    "be",
    "by",
    "called",
    "calls",
    "can",
    "code",
    "defined",
    "definition",
    "definitions",
    "do",
    "does",
    "find",
    "for",
    "from",
    "function",
    "get",
    "happen",
    "happens",
    "how",
    "implementation",
    "implemented",
    "in",
    "is",
    "it",
    "me",
    "of",
    "on",
    "or",
    "show",
    "that",
    "the",
    "this",
    "to",
    "usage",
    "usages",
    "used",
    "uses",
    "what",
    "where",
    "which",
    "who",
    "with",
    "use",
];

impl RankQuery {
    /// Parses a query. `None` if it contains no word.
    pub fn parse(text: &str) -> Option<Self> {
        let is_part = |char: char| {
            char.is_alphanumeric()
                || matches!(char, '_' | ':' | '.' | '#' | '-' | '>' | '/' | '$' | '!' | '?')
        };
        let mut words: Vec<&str> = text
            .split(|char: char| !is_part(char))
            .map(|word| word.trim_matches(|char: char| !char.is_alphanumeric() && char != '_' && char != '$'))
            .filter(|word| word.chars().any(char::is_alphanumeric))
            .collect();
        let telling: Vec<&str> =
            words.iter().copied().filter(|word| !FILLERS.contains(&word.to_lowercase().as_str())).collect();
        if !telling.is_empty() {
            words = telling;
        }
        let looks_like_code = |word: &&&str| {
            word.contains(['_', ':', '.', '#', '$']) || word.chars().skip(1).any(char::is_uppercase)
        };
        let name = match words.as_slice() {
            [] => return None,
            [only] => Some(QueryName::parse(only)),
            // One name among words, as in "where is parseConfig called".
            several => {
                let mut names = several.iter().filter(looks_like_code);
                match (names.next(), names.next()) {
                    (Some(name), None) => Some(QueryName::parse(name)),
                    _ => None,
                }
            }
        };
        let mut terms: Vec<String> = Vec::new();
        for term in words.iter().flat_map(|word| parts(word)) {
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        terms.truncate(MAX_TERMS);
        (!terms.is_empty()).then_some(Self { name: name.flatten(), terms })
    }
}

/// Maximum number of words.
const MAX_TERMS: usize = 12;

impl QueryName {
    fn parse(text: &str) -> Option<Self> {
        let mut segments = text
            .split(|char: char| !(char.is_alphanumeric() || matches!(char, '_' | '$' | '-')))
            .filter(|segment| !segment.is_empty());
        let segments: Vec<&str> = segments.by_ref().collect();
        let text = (*segments.last()?).trim_matches('-').to_owned();
        let inside = segments.len().checked_sub(2).and_then(|at| segments.get(at)).map(|it| (*it).to_owned());
        Some(Self { text, inside })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_query_parses_names_and_terms() {
        for (text, name, terms) in [
            ("parse_config", "parse_config", "parse config"),
            ("where is parseConfig defined?", "parseConfig", "parse config"),
            ("Config::load", "Config/load", "config load"),
            ("who calls `obj.method()`", "obj/method", "obj method"),
            ("retry with backoff", "", "retry backoff"),
            ("where is the session log written", "", "session log written"),
            ("usages of HTTPClient", "HTTPClient", "httpclient"),
            ("function", "function", "function"),
            ("Foo Bar_x baz", "Bar_x", "foo bar x baz"),
        ] {
            let ask = RankQuery::parse(text).unwrap();
            let told = ask.name.map_or_else(String::new, |name| match name.inside {
                Some(inside) => format!("{inside}/{}", name.text),
                None => name.text,
            });
            assert_eq!((told.as_str(), ask.terms.join(" ").as_str()), (name, terms), "{text}");
        }
        for text in ["", "  ", "{}()", "--"] {
            assert!(RankQuery::parse(text).is_none(), "{text}");
        }
    }
}
