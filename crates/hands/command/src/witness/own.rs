//! The shape of our own tree.

use super::{HOLE, Shape};
use crate::syntax::{
    AssignedValue, Assignment, Command, Kind, List, Operator, Piece, Redirect, ShellScript, Word,
};

pub(super) fn shape(script: &ShellScript) -> Shape {
    let mut shape = Shape::default();
    shape.list(&script.list);
    shape
}

impl Shape {
    fn list(&mut self, list: &List) {
        for item in &list.items {
            for command in &item.first.commands {
                self.command(command);
            }
            for command in item.rest.iter().flat_map(|(_, pipeline)| &pipeline.commands) {
                self.command(command);
            }
        }
    }

    fn command(&mut self, command: &Command) {
        for redirect in &command.redirects {
            self.redirect(redirect);
        }
        match &command.kind {
            Kind::Simple { assignments, words } => self.simple(assignments, words),
            Kind::Subshell(list) | Kind::Group(list) => self.list(list),
            Kind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    self.list(condition);
                    self.list(body);
                }
                otherwise.iter().for_each(|list| self.list(list));
            }
            Kind::Loop { condition, body } => {
                self.list(condition);
                self.list(body);
            }
            Kind::For { name, words, body } => {
                let mut shape = vec!["for".to_owned(), name.clone()];
                shape.extend(words.iter().flatten().map(|word| self.word(word)));
                self.commands.push(shape);
                self.list(body);
            }
            Kind::ForArithmetic { header, body } => {
                self.commands.push(vec!["((".to_owned()]);
                self.word(header);
                self.list(body);
            }
            Kind::Case { subject, arms } => {
                let subject = self.word(subject);
                self.commands.push(vec!["case".to_owned(), subject]);
                for arm in arms {
                    arm.patterns.iter().for_each(|word| drop(self.word(word)));
                    self.list(&arm.body);
                }
            }
            Kind::Function { name, body } => {
                self.commands.push(vec!["function".to_owned(), name.clone()]);
                self.command(body);
            }
            Kind::Coprocess(body) => self.command(body),
            Kind::Arithmetic(word) => {
                self.commands.push(vec!["((".to_owned()]);
                self.word(word);
            }
            Kind::Test(words) => {
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
            Operator::Read => "<",
            Operator::Write => ">",
            Operator::Append => ">>",
            Operator::ReadWrite => "<>",
            Operator::DuplicateOut => ">&",
            Operator::DuplicateIn => "<&",
            Operator::Heredoc => "<<",
            Operator::HereString => "<<<",
        };
        self.redirects.push(format!("{kind}{target}"));
        redirect.heredoc.iter().filter_map(|body| body.get()).for_each(|body| drop(self.word(body)));
    }

    /// The text with holes; commands inside are added on the way.
    fn word(&mut self, word: &Word) -> String {
        let mut out = String::new();
        self.pieces(&word.pieces, &mut out);
        out
    }

    fn pieces(&mut self, pieces: &[Piece], out: &mut String) {
        for piece in pieces {
            match piece {
                Piece::Text { text, .. } => out.push_str(text),
                Piece::Translated { body } => self.pieces(&body.pieces, out),
                Piece::Parameter { .. } => out.push(HOLE),
                Piece::Expansion(expansion) => {
                    expansion.operands.iter().for_each(|word| drop(self.word(word)));
                    out.push(HOLE);
                }
                Piece::Command { list, .. } | Piece::Process { list } => {
                    self.list(list);
                    out.push(HOLE);
                }
                Piece::Arithmetic { body, .. } => {
                    self.word(body);
                    out.push(HOLE);
                }
            }
        }
    }
}
