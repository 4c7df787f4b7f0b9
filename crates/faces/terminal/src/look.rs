//! What the terminal can show, and how the person wants it.

/// Which colours may be used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Colours {
    /// None, and no other attributes either.
    None,
    /// No colours (`NO_COLOR`); bold, dim and underlined text is there.
    Mono,
    /// The sixteen of the terminal's own palette, so that they fit whatever
    /// background it has.
    #[default]
    Palette,
}

/// How prose meets the right margin.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WrapStyle {
    /// The terminal wraps it: what is copied is what was written, and the
    /// terminal wraps it anew when its width changes.
    #[default]
    Terminal,
    /// Between words.
    Words,
}

/// What the terminal can show, and how the person wants it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TermLook {
    /// Which colours.
    pub colours: Colours,
    /// How prose is wrapped.
    pub wrap: WrapStyle,
    /// Whether links may be marked as such (OSC 8).
    pub links: bool,
    /// Whether the terminal wraps old rows anew when its width changes.
    pub reflows: bool,
    /// Whether the terminal is told what the session is doing (title).
    pub titles: bool,
    /// Whether something moves while it works.
    pub motion: bool,
    /// Whether keys are those of vi.
    pub vi: bool,
}

impl Default for TermLook {
    fn default() -> Self {
        Self {
            colours: Colours::Palette,
            wrap: WrapStyle::Terminal,
            links: true,
            reflows: true,
            titles: true,
            motion: true,
            vi: false,
        }
    }
}

impl TermLook {
    /// What the variables of the environment say about the terminal. Nothing is
    /// asked of it: an unknown terminal may not answer.
    pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|it| !it.is_empty());
        let term = variable("TERM").unwrap_or_default();
        let is_dumb = term.is_empty() || term == "dumb";
        let colours = match (is_dumb, is_set("NO_COLOR")) {
            (true, _) => Colours::None,
            (false, true) => Colours::Mono,
            (false, false) => Colours::Palette,
        };
        let is_console = term == "linux";
        let reflows = !is_set("XTERM_VERSION") && !is_set("STY") && !is_console;
        Self {
            colours,
            links: !is_dumb && !is_console,
            reflows,
            titles: !is_dumb && !is_console,
            motion: !is_dumb,
            ..Self::default()
        }
    }

    /// Whether the terminal can move its cursor at all.
    pub fn can_draw(&self) -> bool {
        self.colours != Colours::None
    }
}
