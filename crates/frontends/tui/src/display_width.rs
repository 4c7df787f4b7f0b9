//! Width of text in columns. Terminals disagree about some graphemes (a heart with a variation selector,
//! a hand with a skin tone, combining signs): their width is guessed until the terminal has reported the
//! cursor position after one.

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Widths reported by the terminal; a program has only one.
static LEARNED: RwLock<Option<HashMap<Box<str>, usize>>> = RwLock::new(None);
/// Whether any reported width differs from the guess.
static HAS_LEARNED: AtomicBool = AtomicBool::new(false);
/// Maximum stored widths.
const MAX_LEARNED: usize = 2000;

/// Returns the columns of a text.
pub fn width_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(grapheme_width).sum() }
}

/// Returns the columns of a grapheme.
pub(crate) fn grapheme_width(grapheme: &str) -> usize {
    if HAS_LEARNED.load(Ordering::Relaxed)
        && is_disputed(grapheme)
        && let Some(width) = learned(grapheme)
    {
        return width;
    }
    guessed(grapheme)
}

/// Guesses the columns of a grapheme, at most two.
fn guessed(grapheme: &str) -> usize {
    grapheme.width().min(2)
}

fn learned(grapheme: &str) -> Option<usize> {
    LEARNED.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(grapheme).copied()
}

/// Whether terminals disagree about the width, because some draw the code points separately.
pub(crate) fn is_disputed(grapheme: &str) -> bool {
    let mut chars = grapheme.chars();
    let (Some(_), Some(second)) = (chars.next(), chars.next()) else { return false };
    let one_by_one: usize = grapheme.chars().map(|it| it.width().unwrap_or(0)).sum();
    second == '\u{fe0f}' || one_by_one != guessed(grapheme)
}

/// Whether the terminal has to be asked for the width of a grapheme.
pub(crate) fn is_to_be_asked(grapheme: &str) -> bool {
    is_disputed(grapheme) && learned(grapheme).is_none()
}

/// Stores the reported width of a grapheme. Returns whether the guess was wrong.
pub(crate) fn learn(grapheme: &str, width: usize) -> bool {
    let mut learned = LEARNED.write().unwrap_or_else(PoisonError::into_inner);
    let learned = learned.get_or_insert_default();
    if learned.len() < MAX_LEARNED {
        learned.insert(grapheme.into(), width);
    }
    let is_news = width != guessed(grapheme);
    if is_news {
        HAS_LEARNED.store(true, Ordering::Relaxed);
    }
    is_news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disputed_width_is_queried_once() {
        for (grapheme, disputed) in [
            ("a", false),
            ("漢", false),
            ("e\u{301}", false),
            ("👍", false),
            ("🇩🇪", false),
            ("👍🏽", true),
            ("❤\u{fe0f}", true),
            ("👩\u{200d}👧", true),
        ] {
            assert_eq!(is_disputed(grapheme), disputed, "{grapheme}");
        }
        // No other test uses this grapheme (the table is global).
        let hand = "🤙🏿";
        assert!(is_to_be_asked(hand));
        assert_eq!(width_of(hand), 2);
        assert!(learn(hand, 4));
        assert!(!is_to_be_asked(hand));
        assert_eq!(width_of(&format!("a{hand}b")), 6);
    }
}
