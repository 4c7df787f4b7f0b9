//! Colour themes.
//!
//! The default themes use the terminal's palette, which users adapt to their background. Where a palette
//! colour is known to be unreadable on white, the light theme uses another one.

use std::sync::Arc;

use crate::styled_text::ColorRole;

/// Background of the terminal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TermBackground {
    /// Dark, or unknown.
    #[default]
    Dark,
    Light,
}

impl TermBackground {
    /// Parses `COLORFGBG`: its last number is the palette index of the background.
    pub fn of_variable(value: &str) -> Option<Self> {
        let number = value.rsplit(';').next()?.trim().parse::<u8>().ok()?;
        Some(if matches!(number, 7 | 9..=15) { Self::Light } else { Self::Dark })
    }

    /// Parses the answer to a background query: `rgb:ffff/ffff/ffff`.
    pub fn of_answer(answer: &str) -> Option<Self> {
        let mut parts = answer.strip_prefix("rgb:").or_else(|| answer.strip_prefix("rgba:"))?.split('/');
        let mut part = || -> Option<f64> {
            let hex = parts.next()?.trim();
            let most = 16_u32.checked_pow(u32::try_from(hex.len()).ok()?)?.checked_sub(1)?;
            Some(f64::from(u32::from_str_radix(hex, 16).ok()?) / f64::from(most.max(1)))
        };
        let (red, green, blue) = (part()?, part()?, part()?);
        Some(if 0.5 < 0.299 * red + 0.587 * green + 0.114 * blue { Self::Light } else { Self::Dark })
    }
}

/// SGR codes by semantic colour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Theme {
    name: Arc<str>,
    codes: [Arc<str>; TONES.len()],
}

/// Semantic colours and their names in settings.
const TONES: [(ColorRole, &str); 10] = [
    (ColorRole::Accent, "accent"),
    (ColorRole::Good, "good"),
    (ColorRole::Bad, "bad"),
    (ColorRole::Warn, "warn"),
    (ColorRole::Info, "info"),
    (ColorRole::Code, "code"),
    (ColorRole::Keyword, "keyword"),
    (ColorRole::Text, "text"),
    (ColorRole::Number, "number"),
    (ColorRole::Name, "name"),
];

/// Built-in themes: names, and SGR codes in the order of [`TONES`].
const THEMES: [(&str, [&str; TONES.len()]); 4] = [
    ("dark", ["36", "32", "31", "33", "34", "35", "35", "32", "36", "34"]),
    (
        "light",
        ["38;5;24", "38;5;22", "38;5;124", "38;5;94", "34", "38;5;90", "38;5;90", "38;5;22", "38;5;24", "34"],
    ),
    // Blue and orange in place of green and red.
    ("dark-daltonized", ["36", "38;5;75", "38;5;208", "33", "34", "35", "35", "38;5;75", "36", "34"]),
    (
        "light-daltonized",
        ["38;5;24", "38;5;25", "38;5;130", "38;5;94", "34", "38;5;90", "38;5;90", "38;5;25", "38;5;24", "34"],
    ),
];

/// Names of the palette colours.
const PALETTE: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

impl Default for Theme {
    fn default() -> Self {
        Self::of_background(TermBackground::Dark)
    }
}

impl Theme {
    /// Returns the default theme for a background.
    pub fn of_background(background: TermBackground) -> Self {
        let at = usize::from(background == TermBackground::Light);
        let (name, codes) = THEMES[at];
        Self { name: Arc::from(name), codes: codes.map(Arc::from) }
    }

    /// Returns a built-in theme by name.
    pub fn named(name: &str) -> Option<Self> {
        let (name, codes) = THEMES.iter().find(|it| it.0 == name)?;
        Some(Self { name: Arc::from(*name), codes: codes.map(Arc::from) })
    }

    /// Returns the names of built-in themes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        THEMES.iter().map(|it| it.0)
    }

    /// Overrides a colour; the error says what is invalid.
    pub fn set(&mut self, tone: &str, colour: &str) -> Result<(), String> {
        let Some(at) = TONES.iter().position(|it| it.1 == tone) else {
            let known: Vec<&str> = TONES.iter().map(|it| it.1).collect();
            return Err(format!("there is no colour for `{tone}`; there are {}", known.join(", ")));
        };
        let code = code_of(colour)
            .ok_or_else(|| format!("`{colour}` is no colour: a name (bright-blue), 0 to 255, or #rrggbb"))?;
        self.codes[at] = Arc::from(code);
        Ok(())
    }

    /// Returns the SGR code of a colour; `None` for the terminal's default.
    pub(crate) fn code(&self, tone: ColorRole) -> Option<&str> {
        let at = TONES.iter().position(|it| it.0 == tone)?;
        Some(&*self.codes[at]).filter(|it| !it.is_empty())
    }
}

fn code_of(colour: &str) -> Option<String> {
    let colour = colour.trim().to_ascii_lowercase();
    if colour == "default" || colour == "none" {
        return Some(String::new());
    }
    if let Some(hex) = colour.strip_prefix('#').filter(|it| it.len() == 6 && it.is_ascii()) {
        let part = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        return Some(format!("38;2;{};{};{}", part(0)?, part(2)?, part(4)?));
    }
    if let Ok(number) = colour.parse::<u8>() {
        return Some(format!("38;5;{number}"));
    }
    let (base, name) = match colour.strip_prefix("bright-") {
        Some(name) => (90, name),
        None if colour == "gray" || colour == "grey" => return Some(String::from("90")),
        None => (30, colour.as_str()),
    };
    PALETTE.iter().position(|it| *it == name).map(|at| (base + at).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_answers_are_parsed() {
        for (answer, want) in [
            ("rgb:ffff/ffff/ffff", Some(TermBackground::Light)),
            ("rgb:1e1e/1e1e/2e2e", Some(TermBackground::Dark)),
            ("rgb:fd/f6/e3", Some(TermBackground::Light)),
            ("rgb:zz/f6/e3", None),
            ("rgb:ff/ff", None),
            ("", None),
        ] {
            assert_eq!(TermBackground::of_answer(answer), want, "{answer}");
        }
        for (value, want) in [
            ("15;0", Some(TermBackground::Dark)),
            ("0;15", Some(TermBackground::Light)),
            ("0;default;7", Some(TermBackground::Light)),
            ("x", None),
        ] {
            assert_eq!(TermBackground::of_variable(value), want, "{value}");
        }
    }

    #[test]
    fn colour_names_are_parsed() {
        let mut theme = Theme::default();
        for (colour, want) in [
            ("red", Some("31")),
            ("bright-blue", Some("94")),
            ("GRAY", Some("90")),
            ("208", Some("38;5;208")),
            ("#ff8000", Some("38;2;255;128;0")),
            ("default", None),
        ] {
            assert_eq!(theme.set("accent", colour), Ok(()), "{colour}");
            assert_eq!(theme.code(ColorRole::Accent), want, "{colour}");
        }
        assert!(theme.set("accent", "#ff80zz").is_err());
        assert!(theme.set("sky", "blue").is_err_and(|it| it.contains("accent")));
        assert!(Theme::named("light").is_some() && Theme::named("pink").is_none());
    }
}
