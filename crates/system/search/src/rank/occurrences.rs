use memchr::memmem;

use super::{Finder, RankedAnswer, RankedDefinition, RankedLine, definitions::shown, path_score};
use crate::{
    SourceLanguage,
    index::{IndexedFile, fingerprint},
    symbols::{CommentPolicy, SourceToken, TokenKind, is_word, tokens},
};

/// Maximum lines returned per file.
const PER_FILE: usize = 3;

/// Occurrences of a name in one file.
struct NameOccurrences {
    rel: Vec<u8>,
    code: Vec<RankedLine>,
    code_lines: u64,
    text: Vec<RankedLine>,
    text_lines: u64,
    order: (i32, usize),
}

impl Finder<'_> {
    /// Finds a name in code and elsewhere. Files close to `best`, its definition, come first.
    pub(super) fn occurrences(&self, name: &str, best: Option<&RankedDefinition>, answer: &mut RankedAnswer) {
        let hash = fingerprint(words_of(name).next().unwrap_or_default().as_bytes());
        let mut files: Vec<&IndexedFile> =
            self.index.files().map(|(_, file)| file).filter(|file| file.words.may_hold(hash)).collect();
        files.sort_unstable_by(|a, b| a.rel.cmp(&b.rel));
        let id = self.index.names().iter().find(|(_, text)| *text == name).map(|(id, _)| id);
        let mut found = self.each(&files, |file| {
            let text = self.text_of(&file.rel)?;
            let own: Vec<u32> = file
                .symbols
                .iter()
                .filter(|symbol| Some(symbol.name) == id)
                .map(|symbol| symbol.line)
                .collect();
            let mut found = look(&text, file, name, &own)?;
            let from = best.map_or(&b""[..], |best| &best.rel);
            let penalty = path_score::path_penalty(&file.rel) / 30;
            found.order = (penalty, path_score::distance(&file.rel, from));
            (self.may_show)(&file.rel).then_some(found)
        });
        found.sort_by(|a, b| a.order.cmp(&b.order).then_with(|| a.rel.cmp(&b.rel)));
        answer.usage_files = found.iter().filter(|it| 0 < it.code_lines).count();
        answer.total_usages = found.iter().map(|it| it.code_lines).sum();
        answer.total_passages = found.iter().map(|it| it.text_lines).sum();
        let share = |count: usize, limit: usize| limit.div_ceil(count.max(1)).clamp(1, PER_FILE);
        let per_file = share(answer.usage_files, self.limits.usages);
        let code = found.iter().flat_map(|it| it.code.iter().take(per_file));
        answer.usages = code.take(self.limits.usages).cloned().collect();
        let text_files = found.iter().filter(|it| 0 < it.text_lines).count();
        let per_file = share(text_files, self.limits.passages);
        let text = found.iter().flat_map(|it| it.text.iter().take(per_file));
        answer.passages = text.take(self.limits.passages).cloned().collect();
    }
}

fn words_of(name: &str) -> impl Iterator<Item = &str> {
    name.split(|char: char| !(char.is_alphanumeric() || char == '_')).filter(|word| !word.is_empty())
}

/// Finds a name in a file as a whole word. Lines in `own` define it.
fn look(text: &[u8], file: &IndexedFile, name: &str, own: &[u32]) -> Option<NameOccurrences> {
    let finder = memmem::Finder::new(name.as_bytes());
    let is_whole = |at: &usize| {
        let before = at.checked_sub(1).is_none_or(|before| !is_word(text[before]));
        before && text.get(at + name.len()).is_none_or(|byte| !is_word(*byte))
    };
    let places: Vec<usize> = finder.find_iter(text).filter(is_whole).collect();
    if places.is_empty() {
        return None;
    }
    let mut lexed = Vec::new();
    if let Some(lang) = file.lang {
        tokens(lang.syntax, text, CommentPolicy::Keep, &mut lexed);
    }
    let mut found = NameOccurrences {
        rel: file.rel.to_vec(),
        code: Vec::new(),
        code_lines: 0,
        text: Vec::new(),
        text_lines: 0,
        order: (0, 0),
    };
    let (mut line, mut counted, mut last) = (1_u32, 0, 0);
    for at in places {
        line += u32::try_from(memchr::memchr_iter(b'\n', &text[counted..at]).count()).unwrap_or(0);
        counted = at;
        if line == last || own.contains(&line) {
            continue;
        }
        last = line;
        let is_code = is_code(file.lang, &lexed, at);
        let (places, lines) = if is_code {
            (&mut found.code, &mut found.code_lines)
        } else {
            (&mut found.text, &mut found.text_lines)
        };
        *lines += 1;
        if places.len() < PER_FILE {
            places.push(place(text, &file.rel, at, line, name.len()));
        }
    }
    (0 < found.code_lines + found.text_lines).then_some(found)
}

fn place(text: &[u8], rel: &[u8], at: usize, line: u32, len: usize) -> RankedLine {
    let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |found| found + 1);
    let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |found| at + found);
    RankedLine { rel: rel.to_vec(), line, text: shown(&text[start..end], &(at - start..at - start + len)) }
}

/// Whether a byte is in code, not in a comment or string.
fn is_code(lang: Option<&SourceLanguage>, lexed: &[SourceToken], at: usize) -> bool {
    if lang.is_none() {
        return false;
    }
    let after = lexed.partition_point(|token| token.start as usize <= at);
    match after.checked_sub(1).and_then(|index| lexed.get(index)) {
        Some(token) if at < token.end as usize => !matches!(token.kind, TokenKind::Comment | TokenKind::Text),
        // Between tokens: text that the lexer skips, such as a directive.
        _ => true,
    }
}
