//! Markup that foreign text cannot get into.

/// A page in the making.
#[derive(Default)]
pub(crate) struct Html(String);

impl Html {
    /// Markup of ours: only what stands in the source can be written this way.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text of anybody, between tags or between quotes of an attribute.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        for it in text.chars() {
            match it {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Terminals obey these, readers of pages only stumble over them.
                '\n' | '\t' => self.0.push(it),
                it if it.is_control() => self.0.push('\u{fffd}'),
                it => self.0.push(it),
            }
        }
        self
    }

    /// A number.
    pub(crate) fn number(&mut self, number: impl Into<f64>) -> &mut Self {
        let number: f64 = number.into();
        self.0.push_str(&format!("{:.2}", if number.is_finite() { number } else { 0.0 }));
        self
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}
