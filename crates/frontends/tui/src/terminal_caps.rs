//! What the terminal can show, and how the person wants it.

use crate::theme::{TermBackground, Theme};

/// Which colours may be used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ColorSupport {
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
pub struct TerminalCaps {
    /// Which colours.
    pub colours: ColorSupport,
    /// How prose is wrapped.
    pub wrap: WrapStyle,
    /// Whether links may be marked as such (OSC 8).
    pub links: bool,
    /// Whether the terminal wraps old rows anew when its width changes.
    pub reflows: bool,
    /// Whether the terminal wraps old rows anew some time before it says that its size
    /// has changed, as multiplexers do.
    pub wraps_early: bool,
    /// Whether the terminal is told what the session is doing (title).
    pub titles: bool,
    /// Whether something moves while it works.
    pub motion: bool,
    /// Whether keys are those of vi.
    pub vi: bool,
    /// Which colour a meaning has.
    pub theme: Theme,
    /// Whether the theme follows the background.
    pub follows_background: bool,
    /// Where the conversation is drawn.
    pub screen: ScreenKind,
    /// How somebody who does not look is told.
    pub alert: AlertKind,
}

/// Where the conversation is drawn.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ScreenKind {
    /// In the terminal's own scrollback.
    #[default]
    Inline,
    /// On a screen of its own, which is gone afterwards.
    Alternate,
}

/// How somebody who does not look is told.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AlertKind {
    /// The bell.
    #[default]
    Bell,
    /// A notification of the desktop, as iTerm, WezTerm and others show it.
    Notification,
    /// A notification of the desktop, as kitty shows it.
    Kitty,
    /// Not at all.
    Silent,
}

impl AlertKind {
    /// As settings call it; `auto` is what the terminal can do.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "terminal_bell" | "bell" => Self::Bell,
            "iterm2" | "iterm2_with_bell" | "ghostty" | "notification" => Self::Notification,
            "kitty" => Self::Kitty,
            "notifications_disabled" | "none" => Self::Silent,
            _ => return None,
        })
    }

    fn of_variables(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|it| !it.is_empty());
        // A multiplexer hands the bell on, and nothing else.
        if is_set("TMUX") || is_set("STY") || is_set("ZELLIJ") {
            return Self::Bell;
        }
        if is_set("KITTY_WINDOW_ID") {
            return Self::Kitty;
        }
        match variable("TERM_PROGRAM").as_deref() {
            Some("iTerm.app" | "WezTerm" | "ghostty") => Self::Notification,
            _ if is_set("WT_SESSION") => Self::Notification,
            _ => Self::Bell,
        }
    }
}

impl Default for TerminalCaps {
    fn default() -> Self {
        Self {
            colours: ColorSupport::Palette,
            wrap: WrapStyle::Terminal,
            links: true,
            reflows: true,
            wraps_early: false,
            titles: true,
            motion: true,
            vi: false,
            theme: Theme::default(),
            follows_background: true,
            screen: ScreenKind::Inline,
            alert: AlertKind::Bell,
        }
    }
}

impl TerminalCaps {
    /// What the variables of the environment say about the terminal. Nothing is
    /// asked of it: an unknown terminal may not answer.
    pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|it| !it.is_empty());
        let term = variable("TERM").unwrap_or_default();
        let is_dumb = term.is_empty() || term == "dumb";
        let colours = match (is_dumb, is_set("NO_COLOR")) {
            (true, _) => ColorSupport::None,
            (false, true) => ColorSupport::Mono,
            (false, false) => ColorSupport::Palette,
        };
        let is_console = term == "linux";
        let reflows = !is_set("XTERM_VERSION") && !is_set("STY") && !is_console;
        Self {
            colours,
            links: !is_dumb && !is_console,
            reflows,
            wraps_early: reflows && (is_set("TMUX") || is_set("ZELLIJ")),
            titles: !is_dumb && !is_console,
            motion: !is_dumb,
            theme: Theme::of_background(
                variable("COLORFGBG").and_then(|it| TermBackground::of_variable(&it)).unwrap_or_default(),
            ),
            alert: AlertKind::of_variables(&variable),
            ..Self::default()
        }
    }

    /// Whether the terminal can move its cursor at all.
    pub fn can_draw(&self) -> bool {
        self.colours != ColorSupport::None
    }
}
