//! The shape of the syntax tree of `shuck-parser`.

use shuck_ast::{
    ArithmeticExpr, ArithmeticExprNode, ArithmeticLvalue, ArrayElem, Assignment, AssignmentValue,
    BourneParameterExpansion, BuiltinCommand, Command, CompoundCommand, ConditionalExpr, DeclOperand,
    HeredocBodyPart, LiteralText, ParameterExpansion, ParameterExpansionSyntax, ParameterOp, Pattern,
    PatternPart, Redirect, RedirectKind, RedirectTarget, SourceText, Stmt, StmtSeq, Subscript, VarRef, Word,
    WordPart, WordPartNode,
};
use shuck_parser::parser::Parser;

use super::{CommandShape, HOLE};

pub(super) fn shape(source: &str) -> Option<CommandShape> {
    let parsed = Parser::new(source).parse();
    let mut reader = ShuckReader { source, shape: CommandShape::default(), sound: parsed.is_ok() };
    if reader.sound {
        reader.list(&parsed.file.body);
    }
    reader.sound.then_some(reader.shape)
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Quoting {
    None,
    Double,
}

fn unescape(raw: &str, quoting: Quoting, out: &mut String) {
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match (c, chars.as_str().chars().next()) {
            ('\\', Some('\n')) => drop(chars.next()),
            ('\\', Some(next)) if quoting == Quoting::None || matches!(next, '$' | '`' | '"' | '\\') => {
                out.push(next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
}

struct ShuckReader<'s> {
    source: &'s str,
    shape: CommandShape,
    /// False once a construct was met that this parser is known to read imprecisely.
    sound: bool,
}

impl ShuckReader<'_> {
    fn list(&mut self, list: &StmtSeq) {
        for statement in &list.stmts {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        let heredocs = statement.redirects.iter().filter(|redirect| redirect.heredoc().is_some()).count();
        // The other parser loses the body of a second heredoc.
        self.sound &= heredocs <= 1;
        for redirect in &statement.redirects {
            self.redirect(redirect);
        }
        self.command(&statement.command);
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => {
                let mut words = self.assignments(&simple.assignments);
                let name = self.word(&simple.name);
                if !name.is_empty() || !simple.args.is_empty() || simple.name.has_quoted_parts() {
                    words.push(name);
                }
                words.extend(simple.args.iter().map(|word| self.word(word)));
                self.shape.commands.push(words);
            }
            Command::Builtin(builtin) => self.builtin(builtin),
            Command::Decl(declaration) => {
                let mut words = self.assignments(&declaration.assignments);
                words.push(declaration.variant.as_str().to_owned());
                for operand in &declaration.operands {
                    let word = match operand {
                        DeclOperand::Flag(word) | DeclOperand::Dynamic(word) => self.word(word),
                        DeclOperand::Name(name) => {
                            self.variable(name);
                            name.name.as_str().to_owned()
                        }
                        DeclOperand::Assignment(assignment) => self.assignment(assignment),
                    };
                    words.push(word);
                }
                self.shape.commands.push(words);
            }
            Command::Binary(binary) => {
                self.statement(&binary.left);
                self.statement(&binary.right);
            }
            Command::Compound(compound) => self.compound(compound),
            Command::Function(function) => {
                for (name, _) in function.static_name_entries() {
                    self.shape.commands.push(vec!["function".to_owned(), name.as_str().to_owned()]);
                }
                self.statement(&function.body);
            }
            Command::AnonymousFunction(_) => self.sound = false,
        }
    }

    fn builtin(&mut self, builtin: &BuiltinCommand) {
        let (name, first, rest, assignments) = match builtin {
            BuiltinCommand::Break(c) => ("break", &c.depth, &c.extra_args, &c.assignments),
            BuiltinCommand::Continue(c) => ("continue", &c.depth, &c.extra_args, &c.assignments),
            BuiltinCommand::Return(c) => ("return", &c.code, &c.extra_args, &c.assignments),
            BuiltinCommand::Exit(c) => ("exit", &c.code, &c.extra_args, &c.assignments),
        };
        let mut words = self.assignments(assignments);
        words.push(name.to_owned());
        words.extend(first.iter().chain(rest).map(|word| self.word(word)));
        self.shape.commands.push(words);
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::If(c) => {
                self.list(&c.condition);
                self.list(&c.then_branch);
                for (condition, body) in &c.elif_branches {
                    self.list(condition);
                    self.list(body);
                }
                c.else_branch.iter().for_each(|list| self.list(list));
            }
            CompoundCommand::For(c) => {
                let mut shape = vec!["for".to_owned()];
                shape.extend(c.targets.iter().map(|target| self.word(&target.word)));
                shape.extend(c.words.iter().flatten().map(|word| self.word(word)));
                self.shape.commands.push(shape);
                self.list(&c.body);
            }
            CompoundCommand::Select(c) => {
                let mut shape = vec!["for".to_owned(), c.variable.as_str().to_owned()];
                shape.extend(c.words.iter().map(|word| self.word(word)));
                self.shape.commands.push(shape);
                self.list(&c.body);
            }
            CompoundCommand::ArithmeticFor(c) => {
                self.shape.commands.push(vec!["((".to_owned()]);
                for expression in [&c.init_ast, &c.condition_ast, &c.step_ast] {
                    expression.iter().for_each(|expression| self.arithmetic(expression));
                }
                self.list(&c.body);
            }
            CompoundCommand::While(c) => {
                self.list(&c.condition);
                self.list(&c.body);
            }
            CompoundCommand::Until(c) => {
                self.list(&c.condition);
                self.list(&c.body);
            }
            CompoundCommand::Case(c) => {
                let subject = self.word(&c.word);
                self.shape.commands.push(vec!["case".to_owned(), subject]);
                for case in &c.cases {
                    case.patterns.iter().for_each(|pattern| self.pattern(pattern));
                    self.list(&case.body);
                }
            }
            CompoundCommand::Subshell(list) | CompoundCommand::BraceGroup(list) => self.list(list),
            CompoundCommand::Arithmetic(c) => {
                self.shape.commands.push(vec!["((".to_owned()]);
                self.optional_arithmetic(c.expr_ast.as_ref());
            }
            CompoundCommand::Time(c) => match &c.command {
                Some(command) => self.statement(command),
                None => self.shape.commands.push(vec!["time".to_owned()]),
            },
            CompoundCommand::Conditional(c) => {
                self.shape.commands.push(vec!["[[".to_owned()]);
                self.condition(&c.expression);
            }
            CompoundCommand::Coproc(c) => self.statement(&c.body),
            CompoundCommand::Repeat(_) | CompoundCommand::Foreach(_) | CompoundCommand::Always(_) => {
                self.sound = false;
            }
        }
    }

    fn condition(&mut self, condition: &ConditionalExpr) {
        match condition {
            ConditionalExpr::Binary(binary) => {
                self.condition(&binary.left);
                self.condition(&binary.right);
            }
            ConditionalExpr::Unary(unary) => self.condition(&unary.expr),
            ConditionalExpr::Parenthesized(group) => self.condition(&group.expr),
            ConditionalExpr::Word(word) | ConditionalExpr::Regex(word) => drop(self.word(word)),
            ConditionalExpr::Pattern(pattern) => self.pattern(pattern),
            ConditionalExpr::VarRef(variable) => self.variable(variable),
        }
    }

    fn redirect(&mut self, redirect: &Redirect) {
        let kind = match redirect.kind {
            RedirectKind::Output | RedirectKind::Clobber | RedirectKind::OutputBoth => ">",
            RedirectKind::Append => ">>",
            RedirectKind::Input => "<",
            RedirectKind::ReadWrite => "<>",
            RedirectKind::HereDoc | RedirectKind::HereDocStrip => "<<",
            RedirectKind::HereString => "<<<",
            RedirectKind::DupOutput => ">&",
            RedirectKind::DupInput => "<&",
        };
        let target = match &redirect.target {
            RedirectTarget::Word(word) => self.word(word),
            RedirectTarget::Heredoc(heredoc) => {
                for part in &heredoc.body.parts {
                    self.heredoc_part(&part.kind);
                }
                heredoc.delimiter.cooked.to_string()
            }
        };
        self.shape.redirects.push(format!("{kind}{target}"));
    }

    fn heredoc_part(&mut self, part: &HeredocBodyPart) {
        match part {
            HeredocBodyPart::Literal(_) | HeredocBodyPart::Variable(_) => (),
            HeredocBodyPart::CommandSubstitution { body, .. } => self.list(body),
            HeredocBodyPart::ArithmeticExpansion { expression_ast, .. } => {
                self.optional_arithmetic(expression_ast.as_deref());
            }
            HeredocBodyPart::Parameter(parameter) => self.parameter(parameter),
        }
    }

    fn assignments(&mut self, assignments: &[Assignment]) -> Vec<String> {
        assignments.iter().map(|assignment| self.assignment(assignment)).collect()
    }

    fn assignment(&mut self, assignment: &Assignment) -> String {
        self.variable(&assignment.target);
        let append = if assignment.append { "+=" } else { "=" };
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) => self.word(word),
            AssignmentValue::Compound(array) => {
                for element in &array.elements {
                    self.sound &= matches!(element, ArrayElem::Sequential(_));
                    self.word(element.value());
                }
                HOLE.to_string()
            }
        };
        format!("{}{append}{value}", assignment.target.name)
    }

    fn variable(&mut self, variable: &VarRef) {
        variable.subscript.iter().for_each(|subscript| self.subscript(subscript));
    }

    fn subscript(&mut self, subscript: &Subscript) {
        match (&subscript.word_ast, &subscript.arithmetic_ast) {
            (Some(word), _) => drop(self.word(word)),
            (None, Some(arithmetic)) => self.arithmetic(arithmetic),
            (None, None) => (),
        }
    }

    /// Arithmetic that could not be parsed may be a command.
    fn optional_arithmetic(&mut self, expression: Option<&ArithmeticExprNode>) {
        match expression {
            Some(expression) => self.arithmetic(expression),
            None => self.sound = false,
        }
    }

    fn arithmetic(&mut self, node: &ArithmeticExprNode) {
        match &node.kind {
            ArithmeticExpr::Number(_) | ArithmeticExpr::Variable(_) => (),
            ArithmeticExpr::Indexed { index, .. } => self.arithmetic(index),
            ArithmeticExpr::ShellWord(word) => drop(self.word(word)),
            ArithmeticExpr::Parenthesized { expression } => self.arithmetic(expression),
            ArithmeticExpr::Unary { expr, .. } | ArithmeticExpr::Postfix { expr, .. } => {
                self.arithmetic(expr)
            }
            ArithmeticExpr::Binary { left, right, .. } => {
                self.arithmetic(left);
                self.arithmetic(right);
            }
            ArithmeticExpr::Conditional { condition, then_expr, else_expr } => {
                self.arithmetic(condition);
                self.arithmetic(then_expr);
                self.arithmetic(else_expr);
            }
            ArithmeticExpr::Assignment { target, value, .. } => {
                if let ArithmeticLvalue::Indexed { index, .. } = target {
                    self.arithmetic(index);
                }
                self.arithmetic(value);
            }
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        for part in &pattern.parts {
            match &part.kind {
                PatternPart::Word(word) => drop(self.word(word)),
                PatternPart::Group { patterns, .. } => patterns.iter().for_each(|p| self.pattern(p)),
                PatternPart::Literal(_)
                | PatternPart::AnyString
                | PatternPart::AnyChar
                | PatternPart::CharClass(_) => {}
            }
        }
    }

    fn word(&mut self, word: &Word) -> String {
        let mut out = String::new();
        self.parts(&word.parts, Quoting::None, &mut out);
        out
    }

    fn parts(&mut self, parts: &[WordPartNode], quoting: Quoting, out: &mut String) {
        for node in parts {
            match &node.kind {
                // A slice of the source still contains its backslashes.
                WordPart::Literal(text) if matches!(text, LiteralText::Source) => {
                    unescape(text.as_str(self.source, node.span), quoting, out);
                }
                WordPart::Literal(text) => out.push_str(text.as_str(self.source, node.span)),
                WordPart::SingleQuoted { value, .. } => out.push_str(value.slice(self.source)),
                WordPart::DoubleQuoted { parts, .. } => self.parts(parts, Quoting::Double, out),
                other => {
                    self.expansion(other);
                    out.push(HOLE);
                }
            }
        }
    }

    fn expansion(&mut self, part: &WordPart) {
        match part {
            WordPart::Literal(_) | WordPart::SingleQuoted { .. } | WordPart::DoubleQuoted { .. } => (),
            WordPart::Variable(_) | WordPart::PrefixMatch { .. } => (),
            WordPart::ZshQualifiedGlob(_) => self.sound = false,
            WordPart::CommandSubstitution { body, .. } | WordPart::ProcessSubstitution { body, .. } => {
                self.list(body)
            }
            WordPart::ArithmeticExpansion { expression_ast, .. } => {
                self.optional_arithmetic(expression_ast.as_deref());
            }
            WordPart::Parameter(parameter) => self.parameter(parameter),
            WordPart::ParameterExpansion { reference, operator, operand_word_ast, .. } => {
                self.variable(reference);
                self.operation(Some(operator), operand_word_ast.as_deref());
            }
            WordPart::Length(reference)
            | WordPart::ArrayAccess(reference)
            | WordPart::ArrayLength(reference)
            | WordPart::ArrayIndices(reference)
            | WordPart::Transformation { reference, .. } => self.variable(reference),
            WordPart::Substring { reference, offset_word_ast, length_word_ast, length, .. }
            | WordPart::ArraySlice { reference, offset_word_ast, length_word_ast, length, .. } => {
                self.variable(reference);
                self.slice(offset_word_ast, length.as_deref(), length_word_ast.as_deref());
            }
            WordPart::IndirectExpansion { reference, operator, operand_word_ast, .. } => {
                self.variable(reference);
                self.operation(operator.as_deref(), operand_word_ast.as_deref());
            }
        }
    }

    fn parameter(&mut self, parameter: &ParameterExpansion) {
        let ParameterExpansionSyntax::Bourne(bourne) = &parameter.syntax else {
            self.sound = false;
            return;
        };
        match bourne {
            BourneParameterExpansion::Access { reference }
            | BourneParameterExpansion::Length { reference }
            | BourneParameterExpansion::Indices { reference }
            | BourneParameterExpansion::Transformation { reference, .. } => self.variable(reference),
            BourneParameterExpansion::PrefixMatch { .. } => (),
            BourneParameterExpansion::Indirect { reference, operator, operand_word_ast, .. } => {
                self.variable(reference);
                self.operation(operator.as_deref(), operand_word_ast.as_deref());
            }
            BourneParameterExpansion::Slice {
                reference, offset_word_ast, length, length_word_ast, ..
            } => {
                self.variable(reference);
                self.slice(offset_word_ast, length.as_ref(), length_word_ast.as_deref());
            }
            BourneParameterExpansion::Operation { reference, operator, operand_word_ast, .. } => {
                self.variable(reference);
                self.operation(Some(operator), operand_word_ast.as_deref());
            }
        }
    }

    fn slice(&mut self, offset: &Word, length: Option<&SourceText>, length_word: Option<&Word>) {
        self.word(offset);
        self.sound &= length.is_some() == length_word.is_some();
        length_word.iter().for_each(|word| drop(self.word(word)));
    }

    fn operation(&mut self, operator: Option<&ParameterOp>, operand: Option<&Word>) {
        match operator {
            Some(
                ParameterOp::RemovePrefixShort { pattern }
                | ParameterOp::RemovePrefixLong { pattern }
                | ParameterOp::RemoveSuffixShort { pattern }
                | ParameterOp::RemoveSuffixLong { pattern },
            ) => self.pattern(pattern),
            Some(
                ParameterOp::ReplaceFirst { pattern, replacement_word_ast, .. }
                | ParameterOp::ReplaceAll { pattern, replacement_word_ast, .. },
            ) => {
                self.pattern(pattern);
                self.word(replacement_word_ast);
            }
            _ => operand.iter().for_each(|word| drop(self.word(word))),
        }
    }
}
