//! Guesses the commands in a text that cannot be parsed.
//!
//! Anything that could start a command starts one here, quoted or not. Used only to match deny rules; a
//! text that ends up here is never allowed.

/// Words that can precede a command.
const INTRODUCTIONS: &[&str] =
    &["!", "coproc", "do", "elif", "else", "function", "if", "then", "time", "until", "while", "{", "exec"];

/// Splits at separators into words without quotes.
pub(crate) fn guesses(source: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for fragment in source.split([';', '&', '|', '(', ')', '`', '\n', '{', '}']) {
        let bare: String = fragment.chars().filter(|c| !matches!(c, '\'' | '"' | '\\' | '\0')).collect();
        let words: Vec<String> = bare
            .split([' ', '\t', '\r', '\u{b}', '\u{c}'])
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .skip_while(|word| INTRODUCTIONS.contains(&word.as_str()) || is_assignment(word))
            .collect();
        if !words.is_empty() {
            out.push(words);
        }
    }
    out
}

pub(crate) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
    })
}
