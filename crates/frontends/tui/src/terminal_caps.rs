//! Capabilities of the terminal, and the user's preferences.

use crate::theme::{TermBackground, Theme};

/// Which colours are used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ColorSupport {
    /// No colours and no other attributes.
    None,
    /// No colours (`NO_COLOR`), but bold, dim and underline.
    Mono,
    /// The terminal's 16-colour palette, which fits its background.
    #[default]
    Palette,
}

/// How prose is wrapped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WrapStyle {
    /// By the terminal: copied text has no extra line breaks, and is wrapped again after a resize.
    #[default]
    Terminal,
    /// Between words.
    Words,
}

/// Capabilities of the terminal, and the user's preferences.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TerminalCaps {
    pub colours: ColorSupport,
    pub wrap: WrapStyle,
    /// Whether hyperlinks (OSC 8) are emitted.
    pub links: bool,
    /// Whether the terminal wraps existing rows again after a resize.
    pub reflows: bool,
    /// Whether the terminal wraps existing rows again some time before it reports a resize, as
    /// multiplexers do.
    pub wraps_early: bool,
    /// Whether the window title shows the session's state.
    pub titles: bool,
    /// Whether animations are shown.
    pub motion: bool,
    /// Whether vi keys are used.
    pub vi: bool,
    pub theme: Theme,
    /// Whether the theme follows the terminal's background.
    pub follows_background: bool,
    /// Where the conversation is shown.
    pub screen: ScreenKind,
    /// How the user is notified when not looking.
    pub alert: AlertKind,
}

/// Where the conversation is shown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ScreenKind {
    /// In the terminal's own scrollback.
    #[default]
    Inline,
    /// On the alternate screen, which disappears on exit.
    Alternate,
}

/// How the user is notified when not looking.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AlertKind {
    #[default]
    Bell,
    /// A desktop notification by OSC 9 (iTerm, WezTerm and others).
    Notification,
    /// A desktop notification by OSC 99 (kitty).
    Kitty,
    /// Not at all.
    Silent,
}

impl AlertKind {
    /// Parses a name from the settings; `auto` selects by terminal.
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
        // Multiplexers only pass the bell on.
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
    /// Detects capabilities from environment variables. Does not query the terminal, because an unknown
    /// one may not answer.
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

    /// Whether the terminal supports cursor movement.
    pub fn can_draw(&self) -> bool {
        self.colours != ColorSupport::None
    }
}
