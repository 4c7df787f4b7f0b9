//! Languages whose definitions start a line.

use super::{Grammar, SourceSymbol, SymbolKind, SymbolView};

struct Finder<'a> {
    view: SymbolView<'a>,
    found: Vec<SourceSymbol>,
    /// Enclosing types and modules, each with its indentation.
    around: Vec<(u16, usize)>,
}

impl Finder<'_> {
    fn add(&mut self, name: usize, kind: SymbolKind) {
        let range = |at: usize| {
            let token = self.view.tokens[at];
            token.start as usize..token.end as usize
        };
        let container = self.around.last().map(|(_, name)| range(*name));
        self.found.push(SourceSymbol {
            name: range(name),
            kind,
            line: self.view.tokens[name].line,
            container,
        });
    }

    /// Closes the blocks that a line with this indentation is not in.
    fn leave(&mut self, indent: u16) {
        while self.around.last().is_some_and(|(around, _)| indent <= *around) {
            self.around.pop();
        }
    }
}

/// Python, Ruby, Elixir: nesting follows the indentation.
pub(crate) fn indented(grammar: Grammar, view: SymbolView<'_>) -> Vec<SourceSymbol> {
    let mut finder = Finder { view, found: Vec::new(), around: Vec::new() };
    for at in 0..view.tokens.len() {
        if !view.is_first(at) {
            continue;
        }
        let indent = view.tokens[at].column;
        match grammar {
            Grammar::Python => python(&mut finder, at, indent),
            Grammar::Ruby => ruby(&mut finder, at, indent),
            _ => elixir(&mut finder, at, indent),
        }
    }
    finder.found
}

fn python(finder: &mut Finder<'_>, at: usize, indent: u16) {
    let view = finder.view;
    let is_async = view.word(at) == b"async";
    let at = if is_async { at + 1 } else { at };
    match view.word(at) {
        b"def" if view.is_word(at + 1) => {
            finder.leave(indent);
            let kind = if finder.around.is_empty() { SymbolKind::Function } else { SymbolKind::Method };
            finder.add(at + 1, kind);
        }
        b"class" if view.is_word(at + 1) => {
            finder.leave(indent);
            finder.add(at + 1, SymbolKind::Class);
            finder.around.push((indent, at + 1));
        }
        b"type" if view.is_word(at + 1) && matches!(view.mark(at + 2), b'=' | b'[') && indent == 0 => {
            finder.add(at + 1, SymbolKind::Type);
        }
        word if !word.is_empty() && is_assigned(&view, at) => {
            let in_class =
                finder.around.last().is_some_and(|(around, _)| *around < indent && indent - around <= 8);
            if indent == 0 {
                finder.leave(0);
                finder.add(at, constant_or(word, SymbolKind::Variable));
            } else if in_class && view.word_before(at) != b"self" && is_class_level(finder, indent) {
                finder.add(at, constant_or(word, SymbolKind::Field));
            }
        }
        word if !word.is_empty()
            && indent == 0
            && !matches!(word, b"else" | b"elif" | b"except" | b"finally") =>
        {
            finder.leave(0);
        }
        _ => (),
    }
}

/// Whether the indentation is that of a class body, not of a method's.
fn is_class_level(finder: &Finder<'_>, indent: u16) -> bool {
    let Some((class, name)) = finder.around.last() else { return false };
    // The first line of the class body determines its indentation.
    let line = finder.view.tokens[*name].line;
    let first = (*name..finder.view.tokens.len()).find(|at| {
        line < finder.view.tokens[*at].line
            && finder.view.is_first(*at)
            && *class < finder.view.tokens[*at].column
    });
    first.is_some_and(|at| finder.view.tokens[at].column == indent)
}

/// `name = …` or `name: Type = …`, but not `name == …` or `name += …`.
fn is_assigned(view: &SymbolView<'_>, at: usize) -> bool {
    match view.mark(at + 1) {
        b'=' => view.mark(at + 2) != b'=',
        b':' => {
            let line = view.tokens[at].line;
            (at + 2..(at + 40).min(view.tokens.len()))
                .take_while(|index| view.tokens[*index].line == line)
                .any(|index| view.mark(index) == b'=')
        }
        _ => false,
    }
}

fn constant_or(word: &[u8], other: SymbolKind) -> SymbolKind {
    if word.iter().any(u8::is_ascii_uppercase) && !word.iter().any(u8::is_ascii_lowercase) {
        SymbolKind::Constant
    } else {
        other
    }
}

fn ruby(finder: &mut Finder<'_>, at: usize, indent: u16) {
    let view = finder.view;
    match view.word(at) {
        b"def" => {
            finder.leave(indent);
            // `def self.name`, `def Type.name`.
            let name = if view.mark(at + 2) == b'.' { at + 3 } else { at + 1 };
            if view.is_word(name) {
                let kind = if finder.around.is_empty() { SymbolKind::Function } else { SymbolKind::Method };
                finder.add(name, kind);
            }
        }
        word @ (b"class" | b"module") if view.is_word(at + 1) => {
            finder.leave(indent);
            let mut name = at + 1;
            while view.marks(name + 1, b"::") && view.is_word(name + 3) {
                name += 3;
            }
            let kind = if word == b"class" { SymbolKind::Class } else { SymbolKind::Module };
            finder.add(name, kind);
            finder.around.push((indent, name));
        }
        b"attr_accessor" | b"attr_reader" | b"attr_writer" => {
            finder.leave(indent);
            let mut name = at + 1;
            while view.mark(name) == b':' && view.is_word(name + 1) {
                finder.add(name + 1, SymbolKind::Field);
                name += if view.mark(name + 2) == b',' { 3 } else { 2 };
            }
        }
        word if word.first().is_some_and(u8::is_ascii_uppercase) && view.mark(at + 1) == b'=' => {
            finder.leave(indent);
            finder.add(at, SymbolKind::Constant);
        }
        _ => (),
    }
}

fn elixir(finder: &mut Finder<'_>, at: usize, indent: u16) {
    let view = finder.view;
    let kind = match view.word(at) {
        b"def" | b"defp" | b"defdelegate" => SymbolKind::Function,
        b"defmacro" | b"defmacrop" => SymbolKind::Macro,
        b"defmodule" | b"defprotocol" => SymbolKind::Module,
        _ => return,
    };
    finder.leave(indent);
    let mut name = at + 1;
    while kind == SymbolKind::Module && view.mark(name + 1) == b'.' && view.is_word(name + 2) {
        name += 2;
    }
    if view.is_word(name) {
        finder.add(name, kind);
        if kind == SymbolKind::Module {
            finder.around.push((indent, name));
        }
    }
}

/// Lua, Perl, shell, SQL, make.
pub(crate) fn flat(grammar: Grammar, view: SymbolView<'_>) -> Vec<SourceSymbol> {
    let mut finder = Finder { view, found: Vec::new(), around: Vec::new() };
    for at in 0..view.tokens.len() {
        match grammar {
            Grammar::Lua => lua(&mut finder, at),
            Grammar::Sql => sql(&mut finder, at),
            _ if !view.is_first(at) => (),
            Grammar::Perl => perl(&mut finder, at),
            Grammar::Shell => shell(&mut finder, at),
            _ => make(&mut finder, at),
        }
    }
    finder.found
}

fn lua(finder: &mut Finder<'_>, at: usize) {
    let view = finder.view;
    if view.word(at) == b"function" {
        let mut name = at + 1;
        while matches!(view.mark(name + 1), b'.' | b':') && view.is_word(name + 2) {
            name += 2;
        }
        if view.is_word(name) {
            finder.add(name, SymbolKind::Function);
        }
    } else if view.is_word(at) && view.mark(at + 1) == b'=' && view.word(at + 2) == b"function" {
        finder.add(at, SymbolKind::Function);
    }
}

fn perl(finder: &mut Finder<'_>, at: usize) {
    let view = finder.view;
    match view.word(at) {
        b"sub" if view.is_word(at + 1) => finder.add(at + 1, SymbolKind::Function),
        b"package" if view.is_word(at + 1) => {
            let mut name = at + 1;
            while view.marks(name + 1, b"::") && view.is_word(name + 3) {
                name += 3;
            }
            finder.add(name, SymbolKind::Module);
            finder.around = vec![(0, name)];
        }
        _ => (),
    }
}

fn shell(finder: &mut Finder<'_>, at: usize) {
    let view = finder.view;
    match view.word(at) {
        b"" => (),
        b"function" if view.is_word(at + 1) => finder.add(at + 1, SymbolKind::Function),
        b"alias" if view.mark(at + 2) == b'=' && view.is_word(at + 1) => {
            finder.add(at + 1, SymbolKind::Function)
        }
        b"export" | b"readonly" | b"declare" if view.mark(at + 2) == b'=' && view.is_word(at + 1) => {
            finder.add(at + 1, SymbolKind::Variable);
        }
        _ if view.marks(at + 1, b"()") => finder.add(at, SymbolKind::Function),
        word if view.mark(at + 1) == b'=' && view.tokens[at].column == 0 => {
            finder.add(at, constant_or(word, SymbolKind::Variable));
        }
        _ => (),
    }
}

fn sql(finder: &mut Finder<'_>, at: usize) {
    let view = finder.view;
    if !view.word(at).eq_ignore_ascii_case(b"create") {
        return;
    }
    let is = |at: usize, words: &[&[u8]]| words.iter().any(|word| view.word(at).eq_ignore_ascii_case(word));
    let mut index = at + 1;
    while is(
        index,
        &[b"or", b"replace", b"temporary", b"temp", b"unique", b"materialized", b"unlogged", b"external"],
    ) {
        index += 1;
    }
    let kind = match () {
        () if is(index, &[b"table", b"view", b"index", b"sequence", b"trigger", b"schema", b"database"]) => {
            SymbolKind::Other
        }
        () if is(index, &[b"type", b"domain"]) => SymbolKind::Type,
        () if is(index, &[b"function", b"procedure"]) => SymbolKind::Function,
        () => return,
    };
    index += 1;
    while is(index, &[b"if", b"not", b"exists", b"concurrently"]) {
        index += 1;
    }
    // Names may be quoted and qualified.
    let skip_quote = |at: usize| if matches!(view.mark(at), b'"' | b'`' | b'[') { at + 1 } else { at };
    let mut name = skip_quote(index);
    loop {
        let behind = if matches!(view.mark(name + 1), b'"' | b'`' | b']') { name + 2 } else { name + 1 };
        if view.mark(behind) != b'.' {
            break;
        }
        name = skip_quote(behind + 1);
    }
    if view.is_word(name) {
        finder.add(name, kind);
    }
}

fn make(finder: &mut Finder<'_>, at: usize) {
    let view = finder.view;
    if view.tokens[at].column != 0 || !view.is_word(at) {
        return;
    }
    match view.mark(at + 1) {
        b':' if view.mark(at + 2) == b'=' => finder.add(at, SymbolKind::Variable),
        b':' => finder.add(at, SymbolKind::Other),
        b'=' | b'?' => finder.add(at, SymbolKind::Variable),
        _ => (),
    }
}
