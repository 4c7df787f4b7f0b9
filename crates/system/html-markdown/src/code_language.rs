//! Determines the programming language of a code block from the class of the block or of an element
//! right around it.

use super::tags::OpenTag;

/// Maximum bytes between a tag that names a language and the code block it applies to.
const NEAR: usize = 300;

/// The last language named by a tag, and its position.
#[derive(Debug, Default)]
pub(super) struct LanguageHint(Option<(String, usize)>);

impl LanguageHint {
    /// Records the language named by a tag, if any. `at` is the position after the tag.
    pub(super) fn hear(&mut self, tag: &OpenTag<'_>, at: usize) {
        if let Some(language) = language_of(tag) {
            self.0 = Some((language, at));
        }
    }

    /// Records a language named at this position.
    pub(super) fn set(&mut self, language: String, at: usize) {
        self.0 = Some((language, at));
    }

    /// Returns the language of a block that begins at `at`, without consuming it.
    pub(super) fn near(&self, at: usize) -> Option<&str> {
        self.0.as_ref().filter(|(_, said)| at.saturating_sub(*said) < NEAR).map(|it| it.0.as_str())
    }

    /// Returns the language of a block that begins at `at`. It applies to this block only.
    pub(super) fn take(&mut self, at: usize) -> Option<String> {
        self.0.take().filter(|(_, said)| at.saturating_sub(*said) < NEAR).map(|it| it.0)
    }
}

/// Returns the language a tag names, in lower case.
pub(super) fn language_of(tag: &OpenTag<'_>) -> Option<String> {
    let plain = |name: &str| {
        let name = name.trim_end_matches(';').to_ascii_lowercase();
        let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '+' | '#' | '-' | '_' | '.');
        let none = matches!(
            name.as_str(),
            "" | "none" | "plaintext" | "text" | "default" | "nohighlight" | "highlight" | "plain"
        );
        (!none && name.len() <= 20 && name.chars().all(fits)).then_some(name)
    };
    if let Some(language) = tag.attribute("data-lang").or_else(|| tag.attribute("data-language")) {
        return plain(language);
    }
    let class = tag.attribute("class")?;
    let mut words = class.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let named = match word {
            "brush:" => words.next(),
            "sourceCode" => words.next(),
            // rustdoc and notebook converters use this class.
            "rust" if tag.name == "pre" => Some("rust"),
            _ => ["language-", "lang-", "highlight-source-", "brush:", "hl-"]
                .iter()
                .find_map(|it| word.strip_prefix(it))
                .or_else(|| word.strip_prefix("highlight-").filter(|_| tag.name == "div")),
        };
        if let Some(language) = named.and_then(plain) {
            return Some(language);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{
        super::tags::{HtmlToken, HtmlTokens},
        *,
    };

    #[test]
    fn language_is_read_from_class_names() {
        for (html, want) in [
            ("<code class='language-rust'>", Some("rust")),
            ("<pre class='lang-rs s-code-block'>", Some("rs")),
            ("<pre class='brush: js notranslate'>", Some("js")),
            ("<pre class='brush:c++;'>", Some("c++")),
            ("<div class='highlight highlight-source-shell'>", Some("shell")),
            ("<div class='highlight-python3 notranslate'>", Some("python3")),
            ("<pre class='sourceCode haskell'>", Some("haskell")),
            ("<pre class='rust item-decl'>", Some("rust")),
            ("<code data-lang=go>", Some("go")),
            ("<div class='highlight-default'>", None),
            ("<code class='language-plaintext highlighter-rouge'>", None),
            ("<pre class='highlight'>", None),
            ("<pre class='language-`x`'>", None),
            ("<div class='rust'>", None),
            ("<pre>", None),
        ] {
            let Some(HtmlToken::Open(tag)) = HtmlTokens::new(html).next() else { panic!("{html}") };
            assert_eq!(language_of(&tag).as_deref(), want, "{html}");
        }
    }
}
