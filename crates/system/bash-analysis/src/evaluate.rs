//! The tree of a command line, walked in the order in which it would run.

use super::{
    analysis::{
        AnalysisContext, AnalyzedCommand, CommandClass, CommandEffect, CommandForms, Confidence,
        EffectAccess, WorkingDir,
    },
    arithmetic::{is_number, is_plain_arithmetic},
    branch_states::BranchStates,
    changed_variables,
    expansion::{self, Field, WordContext as Where},
    join_words,
    piped_names::{self, PipedNames, handed_on, only_silences},
    programs,
    risk::Risk,
    safe_variables,
    shell_state::{ShellState, VariableBinding},
    simple_command::{WrittenAssignment, WrittenCommand, WrittenWord, redirect_effects},
    syntax::{
        AssignedValue, Assignment, CommandKind, CommandList, ExpansionAction, Item, ParsedCommand,
        PipedCommands, PipelineJoin, Redirect, RedirectOperator, SourceSpan, Word, WordPiece,
    },
    wrapper_commands,
};

pub(crate) struct Evaluator<'a> {
    source: &'a str,
    place: AnalysisContext<'a>,
    pub(crate) parts: Vec<AnalyzedCommand>,
    pub(crate) doubts: Vec<Risk>,
    /// Files named in the piped input of the next command; behind it, in its output.
    feed: Option<Vec<programs::TouchedFile>>,
    /// Whether the next command reads what this one prints, and nothing else.
    hands_on: bool,
    /// What the commands in front of the next one in its pipe print.
    printed: Vec<String>,
    /// What the command before printed, variables included.
    expanded: Vec<String>,
    /// Where arithmetic that fails would have ended a line; the next line runs.
    aborted: Option<ShellState>,
    /// Whether parts may run at the same time, repeatedly, or in another order
    /// than that of the text.
    pub(crate) interleaves: bool,
}

/// Texts that are remembered for what stands behind in a pipe.
const MAX_PRINTED: usize = 48;

struct RedirectEffects {
    effects: Vec<CommandEffect>,
    /// Texts on standard input.
    scripts: Vec<String>,
    /// Texts that the shell expands a second time.
    evaluated: Vec<String>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(source: &'a str, place: AnalysisContext<'a>) -> Self {
        Self {
            source,
            place,
            parts: Vec::new(),
            doubts: Vec::new(),
            feed: None,
            hands_on: false,
            printed: Vec::new(),
            expanded: Vec::new(),
            aborted: None,
            interleaves: false,
        }
    }

    pub(crate) fn list(&mut self, list: &CommandList, mut state: ShellState) -> ShellState {
        for item in &list.items {
            self.interleaves |= item.background;
            let after = self.item(item, state.clone());
            if !item.background {
                state = after;
            }
            if let Some(aborted) = &self.aborted {
                state = state.join(aborted);
            }
        }
        state
    }

    fn item(&mut self, item: &Item, state: ShellState) -> ShellState {
        let mut outcome = self.pipeline(&item.first, state);
        for (join, pipeline) in &item.rest {
            outcome = match join {
                PipelineJoin::And => {
                    let BranchStates { success, failure } = outcome;
                    let after = self.pipeline(pipeline, success);
                    BranchStates { success: after.success, failure: failure.join(&after.failure) }
                }
                PipelineJoin::Or => {
                    let BranchStates { success, failure } = outcome;
                    let after = self.pipeline(pipeline, failure);
                    BranchStates { success: success.join(&after.success), failure: after.failure }
                }
            };
        }
        outcome.joined()
    }

    /// Every command of a pipeline proper runs in a shell of its own.
    fn pipeline(&mut self, pipeline: &PipedCommands, state: ShellState) -> BranchStates {
        self.feed = None;
        if let [command] = &pipeline.commands[..] {
            let BranchStates { success, failure } = self.command(command, state);
            self.feed = None;
            return if pipeline.negated {
                BranchStates { success: failure, failure: success }
            } else {
                BranchStates { success, failure }
            };
        }
        self.interleaves = true;
        let mut printed = Vec::new();
        for (number, command) in pipeline.commands.iter().enumerate() {
            self.hands_on = number + 1 < pipeline.commands.len() && !pipeline.errors_too;
            // Whoever prints more than this in front of a shell is not followed any further.
            let kept = printed.len().saturating_sub(MAX_PRINTED);
            printed.drain(..kept);
            self.printed.clone_from(&printed);
            self.command(command, state.clone());
            printed.append(&mut self.expanded);
            match &command.kind {
                CommandKind::Simple { words, .. } => {
                    printed.extend(piped_names::printed(words, &command.redirects))
                }
                CommandKind::Group(list) | CommandKind::Subshell(list) => {
                    printed.extend(piped_names::printed_by(list))
                }
                _ => (),
            }
        }
        self.printed.clear();
        self.feed = None;
        BranchStates::either(state)
    }

    fn command(&mut self, command: &ParsedCommand, mut state: ShellState) -> BranchStates {
        let (feed, hands_on) = (self.feed.take(), std::mem::take(&mut self.hands_on));
        let printed = std::mem::take(&mut self.printed);
        if let CommandKind::Simple { assignments, words } = &command.kind {
            return self.simple(command, assignments, words, state, PipedNames { feed, hands_on, printed });
        }
        self.group_redirects(command, &mut state);
        if command.redirects.is_empty() {
            return self.compound(command, state);
        }
        // If a file cannot be opened, nothing in it runs.
        let after = self.compound(command, state.clone());
        BranchStates { success: after.success, failure: after.failure.join(&state) }
    }

    fn compound(&mut self, command: &ParsedCommand, mut state: ShellState) -> BranchStates {
        self.interleaves |= command.kind.runs_out_of_order();
        match &command.kind {
            CommandKind::Simple { .. } => BranchStates::either(state),
            CommandKind::Subshell(list) => {
                self.list(list, state.clone());
                BranchStates::either(state)
            }
            CommandKind::Group(list) => BranchStates::either(self.list(list, state)),
            CommandKind::If { arms, otherwise } => {
                BranchStates::either(self.conditional(arms, otherwise.as_ref(), state))
            }
            CommandKind::Loop { condition, body } => {
                changed_variables::forget_assigned(&[condition, body], &mut state);
                let state = self.list(condition, state);
                let after = self.list(body, state.clone());
                BranchStates::either(state.join(&after))
            }
            CommandKind::For { name, words, body } => {
                let binding = self.loop_binding(command, words.as_deref(), &mut state);
                changed_variables::forget_assigned(&[body], &mut state);
                self.loop_variable(name);
                let mut inside = state.clone();
                inside.set(name, binding);
                let mut after = self.list(body, inside);
                after.set(name, None);
                state.set(name, None);
                BranchStates::either(state.join(&after))
            }
            CommandKind::ForArithmetic { header, body } => {
                self.arithmetic(header, command, &mut state);
                changed_variables::forget_assigned(&[body], &mut state);
                let after = self.list(body, state.clone());
                BranchStates::either(state.join(&after))
            }
            CommandKind::Case { subject, arms } => {
                let mut doubts = Vec::new();
                self.inspect(subject, &mut state, &mut doubts);
                let mut joined = state.clone();
                for arm in arms {
                    arm.patterns.iter().for_each(|pattern| self.inspect(pattern, &mut joined, &mut doubts));
                    // `;&` goes on from the arm before.
                    joined = joined.clone().join(&self.list(&arm.body, joined));
                }
                self.doubts.append(&mut doubts);
                BranchStates::either(joined)
            }
            CommandKind::Function { name, body } => {
                self.doubts.push(Risk::Function(name.clone()));
                self.command(body, ShellState::blank());
                BranchStates::either(ShellState::blank())
            }
            CommandKind::Coprocess(body) => {
                self.command(body, state.clone());
                BranchStates::either(state)
            }
            CommandKind::Arithmetic(body) => {
                self.arithmetic(body, command, &mut state);
                BranchStates::either(state)
            }
            CommandKind::Test(words) => {
                self.test(words, command, &mut state);
                BranchStates::either(state)
            }
        }
    }

    fn conditional(
        &mut self,
        arms: &[(CommandList, CommandList)],
        otherwise: Option<&CommandList>,
        mut state: ShellState,
    ) -> ShellState {
        let mut joined: Option<ShellState> = None;
        for (condition, body) in arms {
            state = self.list(condition, state);
            let after = self.list(body, state.clone());
            joined = Some(joined.map_or(after.clone(), |joined| joined.join(&after)));
        }
        let last = match otherwise {
            Some(list) => self.list(list, state),
            None => state,
        };
        joined.map_or(last.clone(), |joined| joined.join(&last))
    }

    /// What the variable of a loop may be.
    fn loop_binding(
        &mut self,
        command: &ParsedCommand,
        words: Option<&[Word]>,
        state: &mut ShellState,
    ) -> Option<VariableBinding> {
        let words = words?;
        let mut doubts = Vec::new();
        let mut fields = Vec::new();
        for word in words {
            self.inspect(word, state, &mut doubts);
            match expansion::expand(word, state, Where::Argument).as_deref() {
                Some([one]) => fields.extend(one.iter().cloned()),
                Some(_) => fields.push(Field::Many(expansion::UnknownText::Any)),
                None => doubts.push(Risk::HugeExpansion),
            }
        }
        if !doubts.is_empty() {
            let part = self.note(command, "for", doubts);
            self.parts.push(part);
        }
        let texts: Option<Vec<String>> =
            fields.iter().map(|field| field.literal().map(str::to_owned)).collect();
        match (texts, &fields[..]) {
            (Some(texts), _) if texts.len() <= super::shell_state::MAX_ALTERNATIVES => {
                Some(VariableBinding::OneOf(texts))
            }
            (_, [Field::Glob(pattern)]) => Some(VariableBinding::Match(pattern.clone())),
            _ => None,
        }
    }

    fn loop_variable(&mut self, name: &str) {
        if !safe_variables::is_harmless_in_script(name) {
            self.doubts.push(Risk::Variable(name.to_owned()));
        }
    }

    fn simple(
        &mut self,
        command: &ParsedCommand,
        assignments: &[Assignment],
        words: &[Word],
        mut state: ShellState,
        pipe: PipedNames,
    ) -> BranchStates {
        let mut doubts = Vec::new();
        let written_assignments = self.assignments(assignments, &mut state, &mut doubts);
        let mut written = Vec::with_capacity(words.len());
        for word in words {
            self.inspect(word, &mut state, &mut doubts);
            written.push(self.written(word, &state, &mut doubts));
        }
        self.expanded = piped_names::expanded(&written);
        let redirected = self.redirects(&command.redirects, &mut state, &mut doubts);
        let name = written.first().and_then(|word| word.literal.clone());
        let silent = only_silences(&command.redirects);
        if name.as_deref() == Some("exec") && words.len() == 1 && !command.redirects.is_empty() {
            doubts.push(Risk::Descriptor);
        }
        let part = WrittenCommand {
            span: command.span.clone(),
            text: self.slice(&command.span),
            assignments: written_assignments,
            words: written.clone(),
            redirects: redirected.effects,
            scripts: redirected
                .scripts
                .into_iter()
                .chain(pipe.printed.clone())
                .chain(piped_names::substituted(words))
                .collect(),
            evaluated: redirected.evaluated,
            doubts,
            feed: pipe.feed.clone().filter(|_| silent),
            state: &state,
            place: self.place,
        };
        self.parts.push(part.into_part());
        // Complaints are no names.
        self.feed = (silent && pipe.hands_on).then(|| handed_on(&written, pipe.feed)).flatten();
        if words.is_empty() {
            for assignment in assignments {
                let value = changed_variables::assigned(assignment, &state);
                state.set(&assignment.name, value);
            }
            return BranchStates::either(state);
        }
        after_command(&written, state)
    }

    fn assignments(
        &mut self,
        all: &[Assignment],
        state: &mut ShellState,
        doubts: &mut Vec<Risk>,
    ) -> Vec<WrittenAssignment> {
        let mut out = Vec::with_capacity(all.len());
        for assignment in all {
            let value = match &assignment.value {
                AssignedValue::Scalar(word) => {
                    self.inspect(word, state, doubts);
                    word.literal()
                }
                AssignedValue::Array(words) => {
                    words.iter().for_each(|word| self.inspect(word, state, doubts));
                    None
                }
            };
            let evaluates =
                assignment.subscript.as_ref().is_some_and(|text| !text.bytes().all(|b| b.is_ascii_digit()));
            if evaluates {
                doubts.push(Risk::Arithmetic);
            }
            let raw = join_words::squeeze(&self.slice(&assignment.span));
            out.push(WrittenAssignment { name: assignment.name.clone(), raw, value });
        }
        out
    }

    fn written(&self, word: &Word, state: &ShellState, doubts: &mut Vec<Risk>) -> WrittenWord {
        let alternatives = expansion::expand(word, state, Where::Argument).unwrap_or_else(|| {
            doubts.push(Risk::HugeExpansion);
            vec![vec![Field::Many(expansion::UnknownText::Any)]]
        });
        let literal = match &alternatives[..] {
            [fields] => match &fields[..] {
                [Field::Literal(text)] => word.literal().filter(|written| written == text),
                _ => None,
            },
            _ => None,
        };
        WrittenWord { raw: join_words::squeeze(&self.slice(&word.span)), literal, alternatives }
    }

    /// Effects of redirections, and scripts they put on standard input.
    fn redirects(
        &mut self,
        redirects: &[Redirect],
        state: &mut ShellState,
        doubts: &mut Vec<Risk>,
    ) -> RedirectEffects {
        let (mut effects, mut scripts, mut evaluated) = (Vec::new(), Vec::new(), Vec::new());
        for redirect in redirects {
            self.inspect(&redirect.target, state, doubts);
            if let Some(name) = &redirect.variable {
                doubts.push(Risk::Variable(name.clone()));
            }
            if let Some(body) = redirect.heredoc.as_ref().and_then(|body| body.get()) {
                self.inspect(body, state, doubts);
                scripts.extend(body.literal());
                continue;
            }
            if redirect.operator == RedirectOperator::HereString {
                scripts.extend(redirect.target.literal());
                continue;
            }
            if redirect.operator == RedirectOperator::DuplicateOut && !is_settled(&redirect.target) {
                doubts.push(Risk::EvaluatedValue);
                evaluated.extend(redirect.target.literal());
            }
            effects.extend(self.redirect(redirect, state));
        }
        RedirectEffects { effects, scripts, evaluated }
    }

    fn redirect(&self, redirect: &Redirect, state: &ShellState) -> Vec<CommandEffect> {
        let source = self.slice(&redirect.target.span);
        let field = match expansion::expand(&redirect.target, state, Where::Argument).as_deref() {
            Some([fields]) => match &fields[..] {
                [field] => field.clone(),
                _ => Field::Many(expansion::UnknownText::Any),
            },
            _ => Field::Many(expansion::UnknownText::Any),
        };
        let descriptor = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            digits.bytes().all(|b| b.is_ascii_digit())
        };
        let both = [EffectAccess::Read, EffectAccess::Write];
        let accesses: &[EffectAccess] = match redirect.operator {
            RedirectOperator::DuplicateIn | RedirectOperator::DuplicateOut
                if field.literal().is_some_and(descriptor) =>
            {
                &[]
            }
            RedirectOperator::Read | RedirectOperator::DuplicateIn => &both[..1],
            RedirectOperator::Write | RedirectOperator::Append | RedirectOperator::DuplicateOut => &both[1..],
            RedirectOperator::ReadWrite => &both,
            RedirectOperator::Heredoc | RedirectOperator::HereString => &[],
        };
        accesses.iter().flat_map(|access| redirect_effects(*access, &field, state, &source)).collect()
    }

    /// Redirections of a compound command are a part of their own.
    fn group_redirects(&mut self, command: &ParsedCommand, state: &mut ShellState) {
        if command.redirects.is_empty() {
            return;
        }
        let mut doubts = Vec::new();
        let RedirectEffects { effects, .. } = self.redirects(&command.redirects, state, &mut doubts);
        if effects.is_empty() && doubts.is_empty() {
            return;
        }
        let mut part = self.note(command, "", doubts);
        part.effects = effects;
        part.directory = state.directory().clone();
        self.parts.push(part);
    }

    /// A part that is no command: it has no words that a rule could name.
    fn note(&self, command: &ParsedCommand, name: &str, doubts: Vec<Risk>) -> AnalyzedCommand {
        let text = self.slice(&command.span);
        let refuse = if name.is_empty() { Vec::new() } else { vec![vec![join_words::squeeze(&text)]] };
        AnalyzedCommand {
            span: command.span.clone(),
            text,
            words: Vec::new(),
            assigns: Vec::new(),
            directory: WorkingDir::Unknown,
            faces: CommandForms { refuse, ..CommandForms::default() },
            class: CommandClass::ReadOnly,
            effects: Vec::new(),
            doubts,
            talks: false,
            belief: Confidence::Firm,
        }
    }

    /// `(( … ))`
    fn arithmetic(&mut self, body: &Word, command: &ParsedCommand, state: &mut ShellState) {
        let mut doubts = Vec::new();
        self.inspect(body, state, &mut doubts);
        if !is_plain_arithmetic(body, state) {
            doubts.push(Risk::Arithmetic);
        }
        let part = self.note(command, "((", doubts);
        self.parts.push(part);
    }

    /// `[[ … ]]`: comparing numbers evaluates arithmetic, `-v` a subscript.
    fn test(&mut self, words: &[Word], command: &ParsedCommand, state: &mut ShellState) {
        let mut doubts = Vec::new();
        words.iter().for_each(|word| self.inspect(word, state, &mut doubts));
        let numeric = |word: Option<&Word>| word.is_some_and(|word| is_number(word, state));
        for (idx, word) in words.iter().enumerate() {
            match word.bare() {
                Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") => {
                    let before = idx.checked_sub(1).and_then(|idx| words.get(idx));
                    if !(numeric(before) && numeric(words.get(idx + 1))) {
                        doubts.push(Risk::Arithmetic);
                    }
                }
                Some("-v" | "-R") => doubts.push(Risk::Arithmetic),
                _ => (),
            }
        }
        let part = self.note(command, "[[", doubts);
        self.parts.push(part);
    }

    /// Walks what is nested in a word, and notes what it evaluates.
    fn inspect(&mut self, word: &Word, state: &mut ShellState, doubts: &mut Vec<Risk>) {
        for piece in &word.pieces {
            match piece {
                WordPiece::Text { .. } | WordPiece::Parameter { .. } => (),
                WordPiece::Command { list, .. } | WordPiece::Process { list } => {
                    self.interleaves = true;
                    drop(self.list(list, state.clone()))
                }
                WordPiece::Arithmetic { body, .. } => {
                    self.inspect(body, state, doubts);
                    if !is_plain_arithmetic(body, state) {
                        doubts.push(Risk::Arithmetic);
                    }
                    if self.source.contains('\n') {
                        let before = self.aborted.take();
                        self.aborted = Some(before.map_or_else(|| state.clone(), |it| it.join(state)));
                    }
                }
                WordPiece::Translated { body } => self.inspect(body, state, doubts),
                WordPiece::Expansion(expansion) => {
                    expansion.operands.iter().for_each(|word| self.inspect(word, state, doubts));
                    match expansion.action {
                        ExpansionAction::Plain => (),
                        ExpansionAction::Assign => {
                            if !safe_variables::is_harmless_in_script(&expansion.name) {
                                doubts.push(Risk::Variable(expansion.name.clone()));
                            }
                            state.set(&expansion.name, None);
                        }
                        ExpansionAction::Slice | ExpansionAction::Subscript => doubts.push(Risk::Arithmetic),
                        ExpansionAction::Indirect | ExpansionAction::Transform => {
                            doubts.push(Risk::EvaluatedValue)
                        }
                    }
                }
            }
        }
    }

    fn slice(&self, span: &SourceSpan) -> String {
        self.source.get(span.clone()).unwrap_or_default().to_owned()
    }
}

/// Whether the word behind `>&` names a descriptor: the shell expands any other twice.
fn is_settled(word: &Word) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    word.literal().is_some_and(|text| text.chars().all(plain))
}

/// What the shell knows after a command ran.
fn after_command(words: &[WrittenWord], mut state: ShellState) -> BranchStates {
    let known: Vec<Option<&str>> = words.iter().map(|word| word.literal.as_deref()).collect();
    let inner = wrapper_commands::transparent_words(&known);
    let Some(name) = known.get(inner).copied().flatten() else {
        return BranchStates::either(ShellState::blank());
    };
    if wrapper_commands::starts_program(&known[..inner]) {
        return BranchStates::either(state);
    }
    match name {
        "cd" => {
            let fields: Option<Vec<Field>> = words[inner + 1..]
                .iter()
                .map(|word| match &word.alternatives[..] {
                    [fields] => match &fields[..] {
                        [field] => Some(field.clone()),
                        _ => None,
                    },
                    _ => None,
                })
                .collect();
            let target = fields.and_then(|fields| programs::target_of_cd(&fields));
            let dirs = target.as_ref().and_then(Field::literal).and_then(|text| state.resolve(text));
            let failure = state.clone();
            state.enter(dirs.map_or(WorkingDir::Unknown, |dirs| {
                WorkingDir::OneOf(dirs.iter().map(|dir| haft_paths::lexical(dir)).collect())
            }));
            BranchStates { success: state, failure }
        }
        "pushd" | "popd" => {
            state.enter(WorkingDir::Unknown);
            BranchStates::either(state)
        }
        _ => {
            changed_variables::forget(&known[inner..], &mut state);
            BranchStates::either(state)
        }
    }
}
