//! Words as one line.

/// Runs of blanks as one blank.
pub(crate) fn squeeze(text: &str) -> String {
    text.split([' ', '\t', '\n']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
