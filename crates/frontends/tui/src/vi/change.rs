//! Orders carried out on the draft.

use super::{
    ViKeys, ViMode, ViStep,
    char_buffer::{CharBuffer, GlyphClass, WordSize},
    motion::{self, MotionKind, ViMotion},
    parse::{ViCommand, ViInput, ViInsert, ViOperator, ViTarget},
    register::ViText,
};
use crate::composer::{CaretMove, Composer};

/// Lines are moved in by so much.
const INDENT: &str = "    ";

/// The places that are selected, without the last one. Whole lines are without
/// their last break.
pub(super) fn selected(glyphs: &CharBuffer<'_>, anchor: usize, at: usize, lines: bool) -> (usize, usize) {
    let (anchor, at) = (glyphs.place(anchor), glyphs.place(at));
    let (from, to) = (anchor.min(at), anchor.max(at));
    if lines { (glyphs.line_start(from), glyphs.line_end(to)) } else { (from, (to + 1).min(glyphs.count())) }
}

/// Where an operator works.
struct ViRange {
    from: usize,
    to: usize,
    lines: bool,
}

impl ViKeys {
    /// Carries out what concerns the draft.
    pub(super) fn change(&mut self, order: ViInput, draft: &mut Composer) -> ViStep {
        let count = order.count.unwrap_or(1);
        match order.command {
            ViCommand::Go(target) => self.go(target, order.count, draft),
            ViCommand::Operate(operator, target) => {
                let text = draft.text().to_owned();
                let glyphs = CharBuffer::new(&text);
                let range = self.range(&glyphs, glyphs.place(draft.at()), operator, target, order.count);
                let Some(range) = range else { return ViStep::Taken };
                if operator != ViOperator::Yank {
                    self.remember(order);
                }
                return self.operate(order, operator, &glyphs, range, draft);
            }
            ViCommand::OperateSelected(operator) => return self.operate_selected(order, operator, draft),
            ViCommand::Insert(place) => {
                self.remember(order);
                self.begin_insert(place, draft);
            }
            ViCommand::Put { before } => self.put(order, before, count, draft),
            ViCommand::Replace(with) => self.replace(order, with, count, draft),
            ViCommand::SwapCaseHere => {
                let target = ViTarget::Way(ViMotion::Right);
                let text = draft.text().to_owned();
                let glyphs = CharBuffer::new(&text);
                let at = glyphs.place(draft.at());
                if let Some(range) = self.range(&glyphs, at, ViOperator::SwapCase, target, order.count) {
                    self.remember(order);
                    let end = glyphs.byte(range.to);
                    self.operate(order, ViOperator::SwapCase, &glyphs, range, draft);
                    draft.go(CaretMove::To(end));
                }
            }
            ViCommand::Join => self.join(order, count, draft),
            ViCommand::Undo => (0..count).for_each(|_| draft.undo()),
            ViCommand::Redo => (0..count).for_each(|_| draft.redo()),
            ViCommand::Select { lines } => {
                self.mode = match self.mode {
                    ViMode::Visual { lines: same, .. } if same == lines => ViMode::Normal,
                    ViMode::Visual { anchor, .. } => ViMode::Visual { anchor, lines },
                    _ => ViMode::Visual { anchor: draft.at(), lines },
                };
            }
            ViCommand::OtherEnd => {
                if let ViMode::Visual { anchor, lines } = self.mode {
                    self.mode = ViMode::Visual { anchor: draft.at(), lines };
                    draft.go(CaretMove::To(anchor));
                }
            }
            ViCommand::Repeat => (),
        }
        ViStep::Taken
    }

    fn go(&mut self, target: ViTarget, count: Option<usize>, draft: &mut Composer) {
        let text = draft.text().to_owned();
        let glyphs = CharBuffer::new(&text);
        let at = glyphs.place(draft.at());
        let to = match target {
            ViTarget::Way(way) => motion::go(&glyphs, at, way, count, &mut self.memory).map(|it| it.0),
            ViTarget::Object(object) => object.range(&glyphs, at, count.unwrap_or(1)).map(|(from, to, _)| {
                if let ViMode::Visual { anchor, lines } = &mut self.mode {
                    (*anchor, *lines) = (glyphs.byte(from), *lines);
                }
                to.saturating_sub(1).max(from)
            }),
            _ => None,
        };
        if let Some(to) = to {
            draft.go(CaretMove::To(glyphs.byte(to)));
        }
    }

    /// Where an operator works, if its target is there.
    fn range(
        &mut self,
        glyphs: &CharBuffer<'_>,
        at: usize,
        operator: ViOperator,
        target: ViTarget,
        count: Option<usize>,
    ) -> Option<ViRange> {
        let times = count.unwrap_or(1);
        let lines = |from: usize, to: usize| ViRange {
            from: glyphs.line_start(from),
            to: glyphs.line_end(to),
            lines: true,
        };
        let way = match target {
            ViTarget::Lines => return Some(lines(at, glyphs.lines_away(at, times - 1, true))),
            ViTarget::Selected(lines_below, true) => {
                return Some(lines(at, glyphs.lines_away(at, lines_below, true)));
            }
            ViTarget::Selected(count, false) => {
                return Some(ViRange { from: at, to: (at + count).min(glyphs.count()), lines: false });
            }
            ViTarget::Object(object) => {
                let (from, to, reach) = object.range(glyphs, at, times)?;
                return Some(ViRange { from, to, lines: reach == MotionKind::Lines });
            }
            ViTarget::Search(_) => return None,
            ViTarget::Way(way) => way,
        };
        // To change a word is to change it without the blank behind it.
        let is_on_word = |size| glyphs.class(at, size) != GlyphClass::Blank;
        let way = match way {
            ViMotion::Word(size) if operator == ViOperator::Change && is_on_word(size) => {
                let to = (0..times).fold(at, |place, number| match number {
                    0 if is_last_of_word(glyphs, place, size) => place,
                    _ => motion::word_end(glyphs, place, size),
                });
                return Some(ViRange { from: at, to: to + 1, lines: false });
            }
            way => way,
        };
        let (to, reach) = motion::go(glyphs, at, way, count, &mut self.memory)?;
        if reach == MotionKind::Lines {
            let stays = glyphs.line_start(at) == glyphs.line_start(to);
            let moves = matches!(way, ViMotion::Up | ViMotion::Down);
            return (!moves || !stays).then(|| lines(at.min(to), at.max(to)));
        }
        let mut range = ViRange { from: at.min(to), to: at.max(to), lines: false };
        if reach == MotionKind::Inclusive && range.to < glyphs.count() && !glyphs.is_break(range.to) {
            range.to += 1;
        }
        // The last word of a line does not take the break with it.
        if matches!(way, ViMotion::Word(_)) {
            let is_blank = |it: &usize| glyphs.class(*it, WordSize::Big) == GlyphClass::Blank;
            let end =
                (range.from..range.to).rev().take_while(is_blank).filter(|it| glyphs.is_break(*it)).last();
            range.to = end.filter(|it| range.from < *it).unwrap_or(range.to);
        }
        (range.from < range.to).then_some(range)
    }

    fn operate(
        &mut self,
        order: ViInput,
        operator: ViOperator,
        glyphs: &CharBuffer<'_>,
        range: ViRange,
        draft: &mut Composer,
    ) -> ViStep {
        let bytes = glyphs.byte(range.from)..glyphs.byte(range.to);
        let taken = draft.text().get(bytes.clone()).unwrap_or_default().to_owned();
        match operator {
            ViOperator::Delete | ViOperator::Change | ViOperator::Yank => {
                let text = if range.lines { format!("{taken}\n") } else { taken.clone() };
                let is_yank = operator == ViOperator::Yank;
                self.registers.keep(order.register, ViText { text, lines: range.lines }, is_yank);
            }
            _ => (),
        }
        match operator {
            ViOperator::Yank => {
                // A caret in lines stays in its column.
                if !range.lines || draft.at() < bytes.start {
                    draft.go(CaretMove::To(bytes.start));
                }
            }
            ViOperator::Delete if range.lines => delete_lines(draft, bytes),
            ViOperator::Delete => draft.replace(bytes.clone(), "", bytes.start),
            ViOperator::Change => {
                draft.begin_group();
                draft.replace(bytes.clone(), "", bytes.start);
                (self.mode, self.records) = (ViMode::Insert, true);
            }
            ViOperator::Indent | ViOperator::Outdent => shift(draft, glyphs, &range, operator),
            ViOperator::SwapCase | ViOperator::Lower | ViOperator::Upper => {
                draft.replace(bytes.clone(), &cased(&taken, operator), bytes.start);
            }
        }
        match order.register {
            Some('+' | '*') if operator == ViOperator::Yank => ViStep::Copied(taken),
            _ => ViStep::Taken,
        }
    }

    /// What is selected is operated on, and can be again: as much of it.
    fn operate_selected(&mut self, order: ViInput, operator: ViOperator, draft: &mut Composer) -> ViStep {
        let ViMode::Visual { anchor, lines } = self.mode else { return ViStep::Taken };
        let text = draft.text().to_owned();
        let glyphs = CharBuffer::new(&text);
        let (from, to) = selected(&glyphs, anchor, draft.at(), lines);
        self.mode = ViMode::Normal;
        draft.go(CaretMove::To(glyphs.byte(from)));
        let size = if lines { (from..to).filter(|it| glyphs.is_break(*it)).count() } else { to - from };
        let command = ViCommand::Operate(operator, ViTarget::Selected(size, lines));
        if operator != ViOperator::Yank {
            self.remember(ViInput { command, ..order });
        }
        self.operate(order, operator, &glyphs, ViRange { from, to, lines }, draft)
    }

    fn begin_insert(&mut self, place: ViInsert, draft: &mut Composer) {
        draft.begin_group();
        let text = draft.text().to_owned();
        let glyphs = CharBuffer::new(&text);
        let at = glyphs.place(draft.at());
        let (start, end) = (glyphs.line_start(at), glyphs.line_end(at));
        let to = match place {
            ViInsert::Here => at,
            ViInsert::Behind => (at + 1).min(end),
            ViInsert::FirstWord => glyphs.first_word_of_line(at),
            ViInsert::LineEnd | ViInsert::LineBelow => end,
            ViInsert::LineAbove => start,
        };
        let byte = glyphs.byte(to);
        draft.go(CaretMove::To(byte));
        match place {
            ViInsert::LineBelow => draft.replace(byte..byte, "\n", byte + 1),
            ViInsert::LineAbove => draft.replace(byte..byte, "\n", byte),
            _ => (),
        }
        (self.mode, self.records) = (ViMode::Insert, true);
    }

    /// Puts back what was taken: lines as lines, in the place of what is selected.
    fn put(&mut self, order: ViInput, before: bool, count: usize, draft: &mut Composer) {
        let held = self.registers.get(order.register);
        if held.text.is_empty() {
            self.mode = ViMode::Normal;
            return;
        }
        draft.begin_group();
        let mut before = before;
        if matches!(self.mode, ViMode::Visual { .. }) {
            let at_end = draft.at() + 1 >= draft.text().len();
            self.operate_selected(ViInput { register: None, ..order }, ViOperator::Delete, draft);
            before = !at_end || held.lines;
        } else {
            self.remember(order);
        }
        let text = draft.text().to_owned();
        let glyphs = CharBuffer::new(&text);
        let at = glyphs.place(draft.at());
        let whole = held.text.repeat(count);
        if held.lines {
            let body = whole.trim_end_matches('\n');
            let (byte, put, caret) = if before {
                (glyphs.byte(glyphs.line_start(at)), format!("{body}\n"), 0)
            } else {
                (glyphs.byte(glyphs.line_end(at)), format!("\n{body}"), 1)
            };
            draft.replace(byte..byte, &put, byte + caret);
            let text = draft.text().to_owned();
            let glyphs = CharBuffer::new(&text);
            let first = glyphs.first_word_of_line(glyphs.place(byte + caret));
            return draft.go(CaretMove::To(glyphs.byte(first)));
        }
        let byte = glyphs.byte(if before { at } else { (at + 1).min(glyphs.line_end(at)) });
        draft.replace(byte..byte, &whole, byte + whole.len());
        draft.go(CaretMove::Left);
    }

    fn replace(&mut self, order: ViInput, with: char, count: usize, draft: &mut Composer) {
        let text = draft.text().to_owned();
        let glyphs = CharBuffer::new(&text);
        let at = glyphs.place(draft.at());
        let (from, to) = match self.mode {
            ViMode::Visual { anchor, lines } => selected(&glyphs, anchor, draft.at(), lines),
            // A count that is more than the line has replaces nothing.
            _ if glyphs.line_end(at) < at + count => return,
            _ => (at, at + count),
        };
        let is_selected = self.mode != ViMode::Normal;
        self.mode = ViMode::Normal;
        if !is_selected {
            self.remember(order);
        }
        let put: String = (from..to).map(|it| if glyphs.is_break(it) { '\n' } else { with }).collect();
        let start = glyphs.byte(from);
        let caret = if is_selected { start } else { (start + put.len()).saturating_sub(with.len_utf8()) };
        draft.replace(start..glyphs.byte(to), &put, caret);
    }

    /// Puts lines behind each other, one blank between them.
    fn join(&mut self, order: ViInput, count: usize, draft: &mut Composer) {
        let joins = match self.mode {
            ViMode::Visual { anchor, .. } => {
                let text = draft.text().to_owned();
                let glyphs = CharBuffer::new(&text);
                let (from, to) = selected(&glyphs, anchor, draft.at(), /*lines*/ true);
                draft.go(CaretMove::To(glyphs.byte(from)));
                (from..to).filter(|it| glyphs.is_break(*it)).count().max(1)
            }
            _ => count.saturating_sub(1).max(1),
        };
        self.mode = ViMode::Normal;
        self.remember(order);
        draft.begin_group();
        for _ in 0..joins {
            let text = draft.text().to_owned();
            let glyphs = CharBuffer::new(&text);
            let end = glyphs.line_end(glyphs.place(draft.at()));
            if end == glyphs.count() {
                break;
            }
            let next = glyphs.first_word_of_line(end + 1);
            let needs_blank = next < glyphs.line_end(end + 1) && 0 < end && !glyphs.is_empty_line(end);
            let blank = if needs_blank && glyphs.first(end - 1) != Some(' ') { " " } else { "" };
            draft.replace(glyphs.byte(end)..glyphs.byte(next), blank, glyphs.byte(end));
        }
    }
}

fn is_last_of_word(glyphs: &CharBuffer<'_>, at: usize, size: WordSize) -> bool {
    glyphs.count() <= at + 1 || glyphs.class(at, size) != glyphs.class(at + 1, size)
}

/// Lines go with a break: the one behind them, or the one before if they are the
/// last.
fn delete_lines(draft: &mut Composer, bytes: std::ops::Range<usize>) {
    let (mut from, mut to) = (bytes.start, bytes.end);
    if to < draft.text().len() {
        to += 1;
    } else {
        from = from.saturating_sub(1);
    }
    draft.replace(from..to, "", from);
    let text = draft.text().to_owned();
    let glyphs = CharBuffer::new(&text);
    let at = glyphs.place(from.min(text.len()));
    // Behind the last line the caret goes to the line that is the last now.
    let first = glyphs.first_word_of_line(at);
    draft.go(CaretMove::To(glyphs.byte(first)));
}

fn shift(draft: &mut Composer, glyphs: &CharBuffer<'_>, range: &ViRange, operator: ViOperator) {
    let (from, to) = (glyphs.line_start(range.from), glyphs.line_end(range.to.max(range.from)));
    let bytes = glyphs.byte(from)..glyphs.byte(to);
    let moved = |line: &str| match operator {
        ViOperator::Indent if line.is_empty() => String::new(),
        ViOperator::Indent => format!("{INDENT}{line}"),
        _ => {
            let blanks = line.bytes().take_while(|it| *it == b' ').count().min(INDENT.len());
            line.get(blanks..).unwrap_or_default().to_owned()
        }
    };
    let lines: Vec<String> =
        draft.text().get(bytes.clone()).unwrap_or_default().split('\n').map(moved).collect();
    let start = bytes.start;
    let blanks = lines.first().map_or(0, |it| it.len() - it.trim_start_matches(' ').len());
    draft.replace(bytes, &lines.join("\n"), start + blanks);
}

fn cased(text: &str, operator: ViOperator) -> String {
    let swap = |it: char| -> String {
        if it.is_uppercase() { it.to_lowercase().collect() } else { it.to_uppercase().collect() }
    };
    match operator {
        ViOperator::Lower => text.to_lowercase(),
        ViOperator::Upper => text.to_uppercase(),
        _ => text.chars().map(swap).collect(),
    }
}
