//! Parses keys to commands: `"a2d3w`, `ci(`, `gUiw`, `.`.

use super::{
    char_buffer::WordSize,
    motion::{CharFind, ViMotion},
    text_object::ViObject,
};

/// An operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ViOperator {
    Delete,
    Change,
    Yank,
    Indent,
    Outdent,
    SwapCase,
    Lower,
    Upper,
}

/// The target of an operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ViTarget {
    Way(ViMotion),
    Object(ViObject),
    /// This line and those below it, `count` in total.
    Lines,
    /// A search, forwards or backwards.
    Search(bool),
    /// A previous selection: length, and whether it is linewise.
    Selected(usize, bool),
}

/// Where insert mode starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ViInsert {
    Here,
    Behind,
    FirstWord,
    LineEnd,
    LineBelow,
    LineAbove,
}

/// A command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ViCommand {
    Go(ViTarget),
    Operate(ViOperator, ViTarget),
    /// Apply an operator to the selection.
    OperateSelected(ViOperator),
    Insert(ViInsert),
    Put {
        before: bool,
    },
    Replace(char),
    SwapCaseHere,
    Join,
    Undo,
    Redo,
    Repeat,
    Select {
        lines: bool,
    },
    OtherEnd,
}

/// A command with register and count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ViInput {
    pub(super) register: Option<char>,
    pub(super) count: Option<usize>,
    pub(super) command: ViCommand,
}

/// Result of parsing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ParsedKeys {
    /// An incomplete command.
    More,
    /// Not a command.
    Unknown,
    /// A complete command.
    Order(ViInput),
}

/// Maximum count; larger ones are limited to it, so that nothing hangs.
const MAX_TIMES: usize = 9999;

/// Keys that are not parsed yet.
struct Rest<'a>(&'a [char]);

impl Rest<'_> {
    fn next(&mut self) -> Option<char> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn count(&mut self) -> Option<usize> {
        let mut count = None;
        while let Some(digit) = self.0.first().and_then(|it| it.to_digit(10)) {
            if count.is_none() && digit == 0 {
                break;
            }
            let digit = usize::try_from(digit).unwrap_or(0);
            count = Some((count.unwrap_or(0) * 10 + digit).min(MAX_TIMES));
            self.next();
        }
        count
    }
}

/// Parses keys; `selected`: visual mode is active.
pub(super) fn parse(keys: &[char], selected: bool) -> ParsedKeys {
    let mut rest = Rest(keys);
    let mut register = None;
    if keys.first() == Some(&'"') {
        rest.next();
        match rest.next() {
            None => return ParsedKeys::More,
            Some(it) => register = Some(it),
        }
    }
    let count = rest.count();
    let Some(first) = rest.next() else { return ParsedKeys::More };
    let parsed = if selected { selected_command(first, &mut rest) } else { command(first, &mut rest) };
    match parsed {
        Ok((command, inner)) => {
            let times = count.unwrap_or(1).saturating_mul(inner.unwrap_or(1)).min(MAX_TIMES);
            let count = (count.is_some() || inner.is_some()).then_some(times);
            ParsedKeys::Order(ViInput { register, count, command })
        }
        Err(KeysEnd::More) => ParsedKeys::More,
        Err(KeysEnd::Unknown) => ParsedKeys::Unknown,
    }
}

/// Why keys are not a complete command.
enum KeysEnd {
    More,
    Unknown,
}

type CommandRead = Result<(ViCommand, Option<usize>), KeysEnd>;

fn command(first: char, rest: &mut Rest<'_>) -> CommandRead {
    let way = |motion| ViTarget::Way(motion);
    let command = match first {
        'x' => ViCommand::Operate(ViOperator::Delete, way(ViMotion::Right)),
        'X' => ViCommand::Operate(ViOperator::Delete, way(ViMotion::Left)),
        'D' => ViCommand::Operate(ViOperator::Delete, way(ViMotion::LineEnd)),
        'C' => ViCommand::Operate(ViOperator::Change, way(ViMotion::LineEnd)),
        's' => ViCommand::Operate(ViOperator::Change, way(ViMotion::Right)),
        'S' => ViCommand::Operate(ViOperator::Change, ViTarget::Lines),
        'Y' => ViCommand::Operate(ViOperator::Yank, ViTarget::Lines),
        'i' => ViCommand::Insert(ViInsert::Here),
        'a' => ViCommand::Insert(ViInsert::Behind),
        'I' => ViCommand::Insert(ViInsert::FirstWord),
        'A' => ViCommand::Insert(ViInsert::LineEnd),
        'o' => ViCommand::Insert(ViInsert::LineBelow),
        'O' => ViCommand::Insert(ViInsert::LineAbove),
        'p' => ViCommand::Put { before: false },
        'P' => ViCommand::Put { before: true },
        'r' => ViCommand::Replace(rest.next().ok_or(KeysEnd::More)?),
        '~' => ViCommand::SwapCaseHere,
        'J' => ViCommand::Join,
        'u' => ViCommand::Undo,
        '.' => ViCommand::Repeat,
        'v' => ViCommand::Select { lines: false },
        'V' => ViCommand::Select { lines: true },
        _ => return operated(first, rest),
    };
    Ok((command, None))
}

/// Parses an operator with its target, or a motion.
fn operated(first: char, rest: &mut Rest<'_>) -> CommandRead {
    let Some((operator, doubled)) = operator(first, rest)? else {
        return Ok((ViCommand::Go(target(first, rest)?), None));
    };
    let inner = rest.count();
    let next = rest.next().ok_or(KeysEnd::More)?;
    let target = match next {
        it if it == doubled => ViTarget::Lines,
        // `gUgU` is a line, like `gUU`.
        'g' if rest.0.first() == Some(&doubled) => ViTarget::Lines,
        'i' | 'a' => {
            let key = rest.next().ok_or(KeysEnd::More)?;
            ViTarget::Object(ViObject::parse(key, next == 'a').ok_or(KeysEnd::Unknown)?)
        }
        _ => target(next, rest)?,
    };
    Ok((ViCommand::Operate(operator, target), inner))
}

fn operator(first: char, rest: &mut Rest<'_>) -> Result<Option<(ViOperator, char)>, KeysEnd> {
    let plain = match first {
        'd' => Some(ViOperator::Delete),
        'c' => Some(ViOperator::Change),
        'y' => Some(ViOperator::Yank),
        '>' => Some(ViOperator::Indent),
        '<' => Some(ViOperator::Outdent),
        _ => None,
    };
    if let Some(operator) = plain {
        return Ok(Some((operator, first)));
    }
    if first != 'g' {
        return Ok(None);
    }
    let second = rest.0.first().ok_or(KeysEnd::More)?;
    let operator = match second {
        '~' => ViOperator::SwapCase,
        'u' => ViOperator::Lower,
        'U' => ViOperator::Upper,
        _ => return Ok(None),
    };
    let second = *second;
    rest.next();
    Ok(Some((operator, second)))
}

fn target(first: char, rest: &mut Rest<'_>) -> Result<ViTarget, KeysEnd> {
    let motion = match first {
        'h' => ViMotion::Left,
        'l' | ' ' => ViMotion::Right,
        'j' => ViMotion::Down,
        'k' => ViMotion::Up,
        '0' => ViMotion::LineStart,
        '^' | '_' => ViMotion::FirstWord,
        '$' => ViMotion::LineEnd,
        '|' => ViMotion::Column,
        'w' => ViMotion::Word(WordSize::Small),
        'W' => ViMotion::Word(WordSize::Big),
        'e' => ViMotion::WordEnd(WordSize::Small),
        'E' => ViMotion::WordEnd(WordSize::Big),
        'b' => ViMotion::WordBack(WordSize::Small),
        'B' => ViMotion::WordBack(WordSize::Big),
        'G' => ViMotion::LastLine,
        '}' => ViMotion::Paragraph,
        '{' => ViMotion::ParagraphBack,
        '%' => ViMotion::Bracket,
        ';' => ViMotion::FindAgain(false),
        ',' => ViMotion::FindAgain(true),
        'n' => ViMotion::SearchAgain(false),
        'N' => ViMotion::SearchAgain(true),
        '*' => ViMotion::SearchWord(false),
        '#' => ViMotion::SearchWord(true),
        '/' => return Ok(ViTarget::Search(false)),
        '?' => return Ok(ViTarget::Search(true)),
        'f' | 'F' | 't' | 'T' => {
            let target = rest.next().ok_or(KeysEnd::More)?;
            let (back, before) = (first.is_uppercase(), matches!(first, 't' | 'T'));
            ViMotion::Find(CharFind { target, back, before })
        }
        'g' => match rest.next().ok_or(KeysEnd::More)? {
            'g' => ViMotion::FirstLine,
            'e' => ViMotion::WordEndBack(WordSize::Small),
            'E' => ViMotion::WordEndBack(WordSize::Big),
            _ => return Err(KeysEnd::Unknown),
        },
        _ => return Err(KeysEnd::Unknown),
    };
    Ok(ViTarget::Way(motion))
}

/// Parses a command in visual mode.
fn selected_command(first: char, rest: &mut Rest<'_>) -> CommandRead {
    let command = match first {
        'd' | 'x' | 'X' | 'D' => ViCommand::OperateSelected(ViOperator::Delete),
        'c' | 's' | 'S' | 'C' => ViCommand::OperateSelected(ViOperator::Change),
        'y' | 'Y' => ViCommand::OperateSelected(ViOperator::Yank),
        '>' => ViCommand::OperateSelected(ViOperator::Indent),
        '<' => ViCommand::OperateSelected(ViOperator::Outdent),
        '~' => ViCommand::OperateSelected(ViOperator::SwapCase),
        'u' => ViCommand::OperateSelected(ViOperator::Lower),
        'U' => ViCommand::OperateSelected(ViOperator::Upper),
        'p' | 'P' => ViCommand::Put { before: first == 'P' },
        'r' => ViCommand::Replace(rest.next().ok_or(KeysEnd::More)?),
        'J' => ViCommand::Join,
        'o' | 'O' => ViCommand::OtherEnd,
        'v' => ViCommand::Select { lines: false },
        'V' => ViCommand::Select { lines: true },
        'i' | 'a' => {
            let key = rest.next().ok_or(KeysEnd::More)?;
            let object = ViObject::parse(key, first == 'a').ok_or(KeysEnd::Unknown)?;
            ViCommand::Go(ViTarget::Object(object))
        }
        _ => ViCommand::Go(target(first, rest)?),
    };
    Ok((command, None))
}
