//! Converts text styles to SGR sequences, emitting only changes.

use std::sync::Arc;

use crate::{
    styled_text::{StyledSpan, TextStyle},
    terminal_caps::{ColorSupport, TerminalCaps},
    theme::Theme,
};

/// Writes text and tracks the terminal's current style.
#[derive(Clone, Debug)]
pub(crate) struct Pen {
    colours: ColorSupport,
    theme: Theme,
    links: bool,
    ink: TextStyle,
    link: Option<Arc<str>>,
}

impl Pen {
    pub(crate) fn new(look: &TerminalCaps) -> Self {
        Self {
            colours: look.colours,
            theme: look.theme.clone(),
            links: look.links,
            ink: TextStyle::PLAIN,
            link: None,
        }
    }

    pub(crate) fn write(&mut self, out: &mut Vec<u8>, span: &StyledSpan) {
        self.write_text(out, span.text.as_str(), span.ink, span.link.as_ref());
    }

    pub(crate) fn write_text(
        &mut self,
        out: &mut Vec<u8>,
        text: &str,
        ink: TextStyle,
        link: Option<&Arc<str>>,
    ) {
        self.set_link(out, link);
        // The colour of spaces is invisible.
        if self.ink != ink && (!text.trim().is_empty() || self.shows_blanks(ink)) {
            self.set_ink(out, ink);
        }
        out.extend_from_slice(text.as_bytes());
    }

    /// Whether a style is visible on spaces.
    fn shows_blanks(&self, ink: TextStyle) -> bool {
        let seen = |it: TextStyle| it.underline || it.strike || it.reverse;
        seen(ink) || seen(self.ink)
    }

    /// Resets the style.
    pub(crate) fn lift(&mut self, out: &mut Vec<u8>) {
        self.set_link(out, None);
        self.set_ink(out, TextStyle::PLAIN);
    }

    fn set_link(&mut self, out: &mut Vec<u8>, link: Option<&Arc<str>>) {
        if !self.links || self.link.as_ref() == link {
            return;
        }
        out.extend_from_slice(b"\x1b]8;;");
        if let Some(link) = link {
            out.extend(link.bytes().filter(|it| (0x21..0x7f).contains(it)));
        }
        out.extend_from_slice(b"\x1b\\");
        self.link = link.cloned();
    }

    fn set_ink(&mut self, out: &mut Vec<u8>, ink: TextStyle) {
        if self.colours == ColorSupport::None || self.ink == ink {
            self.ink = ink;
            return;
        }
        let before = std::mem::replace(&mut self.ink, ink);
        let (old, new) = (self.codes(before), self.codes(ink));
        if old == new {
            return;
        }
        if old.iter().all(|code| new.contains(code)) {
            let added: Vec<&str> = new.iter().filter(|it| !old.contains(it)).copied().collect();
            return emit(out, &added);
        }
        if new.is_empty() {
            return out.extend_from_slice(b"\x1b[m");
        }
        let all: Vec<&str> = std::iter::once("0").chain(new).collect();
        emit(out, &all);
    }

    fn codes(&self, ink: TextStyle) -> Vec<&str> {
        let mut codes = Vec::new();
        let flags = [
            (ink.bold, "1"),
            (ink.dim, "2"),
            (ink.italic, "3"),
            (ink.underline, "4"),
            (ink.reverse, "7"),
            (ink.strike, "9"),
        ];
        codes.extend(flags.iter().filter(|it| it.0).map(|it| it.1));
        let colour = self.theme.code(ink.tone);
        codes.extend(colour.filter(|_| self.colours == ColorSupport::Palette));
        codes
    }
}

fn emit(out: &mut Vec<u8>, codes: &[&str]) {
    out.extend_from_slice(b"\x1b[");
    out.extend_from_slice(codes.join(";").as_bytes());
    out.push(b'm');
}
