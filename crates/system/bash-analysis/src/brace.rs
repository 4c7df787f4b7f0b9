//! Brace expansion of plain groups: `{a,b}` and `{1..5}`.
//!
//! Brace expansion is textual and full of corner cases, so only groups of plain characters are expanded;
//! a word with any other group is `Unclear`.

use super::syntax::WordPiece;

/// Result of brace expansion.
pub(crate) enum Braces {
    /// No braces, or only literal ones.
    None,
    /// Expands to these words.
    Words(Vec<String>),
    /// Expands to words that are not computed.
    Unclear,
    /// Expands to more than `HUGE` words.
    Huge,
}

/// Maximum number of words computed.
const MAX_WORDS: usize = 64;

/// Number of words from which the expansion is a risk of its own.
const HUGE: u64 = 10_000;

pub(crate) fn expand(pieces: &[WordPiece]) -> Braces {
    let active = pieces.iter().any(|piece| match piece {
        WordPiece::Text { text, quoted: false } => text.contains('{'),
        _ => false,
    });
    if !active {
        return Braces::None;
    }
    let unquoted: String = pieces
        .iter()
        .map(|piece| match piece {
            WordPiece::Text { text, quoted: false } => text.as_str(),
            _ => "\u{1}",
        })
        .collect();
    let Some(open) = unquoted.find('{') else { return Braces::None };
    let group = &unquoted[open..];
    if !group.contains('}') || !(group.contains(',') || group.contains("..")) {
        return Braces::None;
    }
    if is_huge(&unquoted) {
        return Braces::Huge;
    }
    match words(&unquoted) {
        Some(words) if !unquoted.contains('\u{1}') => Braces::Words(words),
        _ => Braces::Unclear,
    }
}

/// Whether the word contains a sequence such as `{1..1000000000}`.
fn is_huge(text: &str) -> bool {
    let mut product: u64 = 1;
    for group in text.split('{').skip(1) {
        let body = group.split('}').next().unwrap_or_default();
        let size = sequence(body).map_or_else(
            || u64::try_from(body.split(',').count()).unwrap_or(u64::MAX),
            |(from, to)| from.abs_diff(to).saturating_add(1),
        );
        // Bounds with more digits than fit are huge.
        let odd = body.contains("..") && body.bytes().filter(u8::is_ascii_digit).count() > 12;
        product = product.saturating_mul(if odd { u64::MAX } else { size });
    }
    HUGE < product
}

/// Expands all groups. `None` if one of them is not plain.
fn words(text: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = text.split_once('{') else { return Some(vec![text.to_owned()]) };
    let (body, after) = rest.split_once('}')?;
    if before.contains('}') || body.contains(['{', '\u{1}']) {
        return None;
    }
    let middles = group(body)?;
    let tails = words(after)?;
    if MAX_WORDS < middles.len() * tails.len() {
        return None;
    }
    let mut out = Vec::with_capacity(middles.len() * tails.len());
    for middle in &middles {
        for tail in &tails {
            out.push(format!("{before}{middle}{tail}"));
        }
    }
    Some(out)
}

fn group(body: &str) -> Option<Vec<String>> {
    if let Some((from, to)) = sequence(body) {
        let step: i64 = if from <= to { 1 } else { -1 };
        let count = usize::try_from(from.abs_diff(to)).ok()?;
        return (count < MAX_WORDS).then(|| {
            std::iter::successors(Some(from), |n| Some(n + step))
                .take(count + 1)
                .map(|n| n.to_string())
                .collect()
        });
    }
    if let Some((from, to)) = letters(body) {
        let all = if from <= to { from..=to } else { to..=from };
        // The ASCII characters between upper and lower case have a meaning of their own.
        let plain = all.clone().all(|it| it.is_ascii_alphabetic());
        return plain.then(|| all.map(|it| char::from(it).to_string()).collect());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,*?@%+=:".contains(c);
    let list = body.contains(',') && !body.contains("..") && body.chars().all(plain);
    list.then(|| body.split(',').map(str::to_owned).collect())
}

/// Parses `a..f`, in either order.
fn letters(body: &str) -> Option<(u8, u8)> {
    let one = |text: &str| match text.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => Some(*letter),
        _ => None,
    };
    let (from, to) = body.split_once("..")?;
    Some((one(from)?, one(to)?))
}

/// Parses `1..5`. Not with leading zeros, which bash would keep.
fn sequence(body: &str) -> Option<(i64, i64)> {
    let (from, to) = body.split_once("..")?;
    let number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let plain = !digits.is_empty() && (digits == "0" || !digits.starts_with('0'));
        text.parse::<i64>().ok().filter(|_| plain)
    };
    Some((number(from)?, number(to)?))
}
