//! Which language a block of code is in, as the makers of pages say it: in a class
//! of the block, or of one of the boxes right around it.

use super::tags::OpenTag;

/// A box that says a language counts for a block that begins so many bytes later.
const NEAR: usize = 300;

/// The last language that was named, and where.
#[derive(Debug, Default)]
pub(super) struct LanguageHint(Option<(String, usize)>);

impl LanguageHint {
    /// Hears what a tag says that ends at this place of the page.
    pub(super) fn hear(&mut self, tag: &OpenTag<'_>, at: usize) {
        if let Some(language) = language_of(tag) {
            self.0 = Some((language, at));
        }
    }

    /// A language that was named here.
    pub(super) fn set(&mut self, language: String, at: usize) {
        self.0 = Some((language, at));
    }

    /// The language of a block that begins here, without taking it.
    pub(super) fn near(&self, at: usize) -> Option<&str> {
        self.0.as_ref().filter(|(_, said)| at.saturating_sub(*said) < NEAR).map(|it| it.0.as_str())
    }

    /// The language of a block that begins here. It counts for one block.
    pub(super) fn take(&mut self, at: usize) -> Option<String> {
        self.0.take().filter(|(_, said)| at.saturating_sub(*said) < NEAR).map(|it| it.0)
    }
}

/// The language a tag names.
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
            // What documentation of Rust and notebooks call their own.
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
    fn languages_by_their_makers() {
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
