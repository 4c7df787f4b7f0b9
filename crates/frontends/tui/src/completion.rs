//! Completion: commands after a slash, files after an at sign.

use crate::{
    composer::{CaretMove, Composer},
    slash_commands,
    ui_update::SlashName,
};

/// The list of completions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Completions {
    pub(crate) kind: CompletionKind,
    pub(crate) rows: Vec<SlashName>,
    pub(crate) selected: usize,
    /// Start of the completed word in the prompt.
    from: usize,
    /// The typed part of the word.
    pub(crate) typed: String,
    /// The word for which the user has closed the list.
    dismissed: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum CompletionKind {
    #[default]
    None,
    Command,
    File,
}

impl Completions {
    pub(crate) fn is_open(&self) -> bool {
        self.kind != CompletionKind::None && !self.rows.is_empty()
    }

    /// Closes the list until the word changes.
    pub(crate) fn dismiss(&mut self) {
        self.dismissed = Some(self.typed.clone());
        self.rows.clear();
        self.kind = CompletionKind::None;
    }

    /// Updates the list after a change of the prompt. Returns the file query, if files are to be
    /// searched.
    pub(crate) fn look(&mut self, composer: &Composer, others: &[SlashName]) -> Option<String> {
        let (kind, from, typed) = wanted(composer);
        if self.dismissed.as_deref() == Some(&typed) && kind != CompletionKind::None {
            return None;
        }
        self.dismissed = None;
        let changed = kind != self.kind || typed != self.typed;
        self.from = from;
        if !changed {
            return None;
        }
        (self.kind, self.selected) = (kind, 0);
        self.typed.clone_from(&typed);
        match kind {
            CompletionKind::None => self.rows.clear(),
            CompletionKind::Command => self.rows = slash_commands::fitting(&typed, others),
            // Keep previous files until new results arrive.
            CompletionKind::File => return Some(typed),
        }
        None
    }

    pub(crate) fn files(&mut self, query: &str, found: Vec<String>) {
        if self.kind == CompletionKind::File && self.typed == query {
            let row = |name: String| SlashName { name, ..SlashName::default() };
            self.rows = found.into_iter().map(row).collect();
            self.selected = 0;
        }
    }

    pub(crate) fn step(&mut self, back: bool) {
        let count = self.rows.len().max(1);
        self.selected = if back { (self.selected + count - 1) % count } else { (self.selected + 1) % count };
    }

    /// Inserts the selected completion.
    pub(crate) fn accept(&mut self, composer: &mut Composer) {
        let Some(row) = self.rows.get(self.selected) else { return };
        let text = match self.kind {
            CompletionKind::Command => format!("/{} ", row.name),
            CompletionKind::File if row.name.contains(char::is_whitespace) => format!("@\"{}\" ", row.name),
            CompletionKind::File => format!("@{} ", row.name),
            CompletionKind::None => return,
        };
        let at = composer.at();
        composer.go(CaretMove::To(at));
        composer.delete(CaretMove::To(self.from));
        composer.insert(&text);
        self.rows.clear();
        self.kind = CompletionKind::None;
        self.typed.clear();
    }

    /// Whether the selected command equals what was typed.
    pub(crate) fn is_exact(&self) -> bool {
        self.kind == CompletionKind::Command && slash_commands::find(&self.typed).is_some()
            || self.rows.get(self.selected).is_some_and(|it| it.name == self.typed)
    }
}

/// Returns kind, start and text of the word before the caret.
fn wanted(composer: &Composer) -> (CompletionKind, usize, String) {
    let head = composer.text().get(..composer.at()).unwrap_or_default();
    if let Some(name) = head.strip_prefix('/')
        && !name.contains(char::is_whitespace)
        && !name.contains('/')
    {
        return (CompletionKind::Command, 0, name.to_owned());
    }
    let begin = head
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
    match head[begin..].strip_prefix('@') {
        Some(name) => (CompletionKind::File, begin, name.trim_start_matches('"').to_owned()),
        None => (CompletionKind::None, 0, String::new()),
    }
}
