//! Counts the pages of a PDF from its bytes.

use std::sync::LazyLock;

use regex::bytes::Regex;

static PAGE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"/Type\s*/Page(?-u:[^s\w])").ok());
static COUNT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"/Count\s+(\d{1,9})").ok());

/// Returns the number of pages: page objects if visible, else the largest count of a page tree. `None`
/// if it is not a PDF.
pub(crate) fn pages(bytes: &[u8]) -> Option<usize> {
    bytes.starts_with(b"%PDF-").then(|| {
        let seen = PAGE.as_ref().map_or(0, |regex| regex.find_iter(bytes).count());
        let counted = COUNT.as_ref().and_then(|regex| {
            let numbers = regex.captures_iter(bytes).filter_map(|found| {
                std::str::from_utf8(found.get(1)?.as_bytes()).ok()?.parse::<usize>().ok()
            });
            numbers.max()
        });
        seen.max(counted.unwrap_or(0)).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pdf_pages_are_counted() {
        assert_eq!(pages(b"<html>"), None);
        assert_eq!(pages(b"%PDF-1.4\n1 0 obj<</Type/Page/X 1>>endobj 2 0 obj<</Type /Page>>"), Some(2));
        assert_eq!(pages(b"%PDF-1.5\n<</Type/Pages/Count 101/Kids[]>>"), Some(101));
        assert_eq!(pages(b"%PDF-1.5\n"), Some(1));
    }
}
