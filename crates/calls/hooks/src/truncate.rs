use haft_types::text;

use crate::{HookId, TextStore};

/// Maximum characters of a hook's text for users and models.
pub const TEXT_LIMIT: usize = 10_000;

/// The text, or its beginning with a note about the rest.
pub(crate) fn fit(full: String, hook: &HookId, keep: Option<&dyn TextStore>) -> String {
    // Byte length is an upper bound for the number of characters, and cheaper.
    if full.len() <= TEXT_LIMIT {
        return full;
    }
    let total = full.chars().count();
    if total <= TEXT_LIMIT {
        return full;
    }
    let stored = match keep.and_then(|keep| keep.keep(hook, &full)) {
        Some(path) => format!("the full text is in {}", path.display()),
        None => "the rest was not kept".to_owned(),
    };
    let note = format!("\n[cut by Haft: {total} characters from hook {hook}; {stored}]");
    let room = TEXT_LIMIT.saturating_sub(note.chars().count());
    format!("{}{note}", text::head(&full, room))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Shelf;

    impl TextStore for Shelf {
        fn keep(&self, _: &HookId, text: &str) -> Option<PathBuf> {
            Some(PathBuf::from(format!("/kept/{}", text.len())))
        }
    }

    #[test]
    fn fit_truncates_long_text_with_note() {
        let id = HookId::new("h");
        for text in [String::new(), "é".repeat(TEXT_LIMIT)] {
            assert_eq!(fit(text.clone(), &id, None), text);
        }
        let cut = fit("é".repeat(TEXT_LIMIT + 1), &id, Some(&Shelf));
        assert_eq!(cut.chars().count(), TEXT_LIMIT);
        assert!(
            cut.ends_with("[cut by Haft: 10001 characters from hook h; the full text is in /kept/20002]")
        );
        assert!(fit("x".repeat(99_999), &id, None).ends_with("the rest was not kept]"));
    }
}
