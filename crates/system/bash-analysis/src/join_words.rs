//! Joins words into one line.

/// Collapses runs of white space into one space.
pub(crate) fn squeeze(text: &str) -> String {
    text.split([' ', '\t', '\n']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
