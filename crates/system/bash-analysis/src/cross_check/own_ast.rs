//! The shape of our own syntax tree.

use super::{CommandShape, HOLE};
use crate::syntax::{
    AssignedValue, Assignment, CommandKind, CommandList, ParsedCommand, Redirect, RedirectOperator,
    ShellScript, Word, WordPiece,
};

pub(super) fn shape(script: &ShellScript) -> CommandShape {
    let mut shape = CommandShape::default();
    shape.list(&script.list);
    shape
}

impl CommandShape {
    fn list(&mut self, list: &CommandList) {
        for item in &list.items {
            for command in &item.first.commands {
                self.command(command);
            }
            for command in item.rest.iter().flat_map(|(_, pipeline)| &pipeline.commands) {
                self.command(command);
            }
        }
    }

    fn command(&mut self, command: &ParsedCommand) {
        for redirect in &command.redirects {
            self.redirect(redirect);
        }
        match &command.kind {
            CommandKind::Simple { assignments, words } => self.simple(assignments, words),
            CommandKind::Subshell(list) | CommandKind::Group(list) => self.list(list),
            CommandKind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    self.list(condition);
                    self.list(body);
                }
                otherwise.iter().for_each(|list| self.list(list));
            }
            CommandKind::Loop { condition, body } => {
                self.list(condition);
                self.list(body);
            }
            CommandKind::For { name, words, body } => {
                let mut shape = vec!["for".to_owned(), name.clone()];
                shape.extend(words.iter().flatten().map(|word| self.word(word)));
                self.commands.push(shape);
                self.list(body);
            }
            CommandKind::ForArithmetic { header, body } => {
                self.commands.push(vec!["((".to_owned()]);
                self.word(header);
                self.list(body);
            }
            CommandKind::Case { subject, arms } => {
                let subject = self.word(subject);
                self.commands.push(vec!["case".to_owned(), subject]);
                for arm in arms {
                    arm.patterns.iter().for_each(|word| drop(self.word(word)));
                    self.list(&arm.body);
                }
            }
            CommandKind::Function { name, body } => {
                self.commands.push(vec!["function".to_owned(), name.clone()]);
                self.command(body);
            }
            CommandKind::Coprocess(body) => self.command(body),
            CommandKind::Arithmetic(word) => {
                self.commands.push(vec!["((".to_owned()]);
                self.word(word);
            }
            CommandKind::Test(words) => {
                self.commands.push(vec!["[[".to_owned()]);
                words.iter().for_each(|word| drop(self.word(word)));
            }
        }
    }

    fn simple(&mut self, assignments: &[Assignment], words: &[Word]) {
        let mut shape = Vec::with_capacity(assignments.len() + words.len());
        for assignment in assignments {
            let append = if assignment.append { "+=" } else { "=" };
            let value = match &assignment.value {
                AssignedValue::Scalar(word) => self.word(word),
                AssignedValue::Array(words) => {
                    words.iter().for_each(|word| drop(self.word(word)));
                    HOLE.to_string()
                }
            };
            shape.push(format!("{}{append}{value}", assignment.name));
        }
        shape.extend(words.iter().map(|word| self.word(word)));
        self.commands.push(shape);
    }

    fn redirect(&mut self, redirect: &Redirect) {
        let target = self.word(&redirect.target);
        let kind = match redirect.operator {
            RedirectOperator::Read => "<",
            RedirectOperator::Write => ">",
            RedirectOperator::Append => ">>",
            RedirectOperator::ReadWrite => "<>",
            RedirectOperator::DuplicateOut => ">&",
            RedirectOperator::DuplicateIn => "<&",
            RedirectOperator::Heredoc => "<<",
            RedirectOperator::HereString => "<<<",
        };
        self.redirects.push(format!("{kind}{target}"));
        redirect.heredoc.iter().filter_map(|body| body.get()).for_each(|body| drop(self.word(body)));
    }

    /// Text of a word with placeholders; nested commands are added to the shape.
    fn word(&mut self, word: &Word) -> String {
        let mut out = String::new();
        self.pieces(&word.pieces, &mut out);
        out
    }

    fn pieces(&mut self, pieces: &[WordPiece], out: &mut String) {
        for piece in pieces {
            match piece {
                WordPiece::Text { text, .. } => out.push_str(text),
                WordPiece::Translated { body } => self.pieces(&body.pieces, out),
                WordPiece::Parameter { .. } => out.push(HOLE),
                WordPiece::Expansion(expansion) => {
                    expansion.operands.iter().for_each(|word| drop(self.word(word)));
                    out.push(HOLE);
                }
                WordPiece::Command { list, .. } | WordPiece::Process { list } => {
                    self.list(list);
                    out.push(HOLE);
                }
                WordPiece::Arithmetic { body, .. } => {
                    self.word(body);
                    out.push(HOLE);
                }
            }
        }
    }
}
