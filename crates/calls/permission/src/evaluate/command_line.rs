use haft_tool::CommandLine;
use haft_types::PermissionMode;

use super::{
    DecisionStrength, DecisionTally, FileKnowledge, Level, LevelRole, NeededAllowance, PartialDecision,
    SubjectFile, by_rule,
};
use crate::{
    AlwaysAskReason, Behavior, CommandNature, CommandPart, FileMention, display_text,
    path_matcher::PathUse,
    reason::{CallAction, ReasonDetail},
    ruleset::RuleSet,
};

impl Level<'_> {
    /// Decides about a command line: every part must be allowed; the strictest decision counts.
    pub(super) fn line(
        &self,
        line: &CommandLine,
        parts: &[(CommandPart, Vec<SubjectFile>)],
        doubt: Option<&str>,
        tally: &mut DecisionTally,
    ) {
        // A single part outside the sandbox suffices: what it starts is not sandboxed.
        let held = doubt.is_none() && parts.iter().all(|(part, _)| self.policy.is_held(part));
        for (part, files) in parts {
            let redirected = files.iter().filter(|file| file.through == FileMention::Redirection);
            let ruling = self.settle(walled(self.command(part, files, line), held));
            tally.beyond_reading |= !self.only_reads(part, &ruling);
            tally.talks |= part.talks;
            tally.add(ruling.about(display_text::text(&part.text)));
            for file in redirected {
                tally.beyond_reading |= file.using == PathUse::Write;
                tally.add(self.settle(walled(self.redirection(file), held)));
            }
        }
        if let Some(doubt) = doubt {
            let doubtful =
                PartialDecision::new(DecisionStrength::Guarded, ReasonDetail::Doubt(doubt.to_owned()));
            tally.add(self.settle(doubtful.about(display_text::text(line.text()))));
        }
    }

    /// Whether a command is allowed only because it is read-only: no rule and no mode allows it.
    fn only_reads(&self, part: &CommandPart, ruling: &PartialDecision) -> bool {
        matches!(ruling.why, ReasonDetail::CommandReads)
            && self.policy.mode != PermissionMode::BypassPermissions
            && self.command_allow(part).is_none()
    }

    fn command(&self, part: &CommandPart, files: &[SubjectFile], line: &CommandLine) -> PartialDecision {
        let stricter = [
            self.command_concern(part),
            self.command_suspected(part),
            self.command_plan(part),
            self.command_forbidden(part, files),
        ];
        stricter
            .into_iter()
            .flatten()
            .fold(self.command_allowed(part, files, line), PartialDecision::stricter)
    }

    /// Decides about a redirection, which the shell performs.
    fn redirection(&self, file: &SubjectFile) -> PartialDecision {
        let ruling = match (&file.what, self.file(file)) {
            (FileKnowledge::Unknown(text), ruling) => ruling.about(display_text::text(text)),
            (_, ruling) => ruling,
        };
        // A rule that allows every command also allows redirections to known files.
        let known = !matches!(file.what, FileKnowledge::Unknown(_));
        match (ruling.standing, self.tool_allow()) {
            (DecisionStrength::Open, Some(rule)) if known => {
                let subject = ruling.subject.clone().unwrap_or_default();
                PartialDecision::allowed(by_rule(rule, CallAction::Tool(self.facts.tool.to_owned())))
                    .about(subject)
            }
            _ => ruling,
        }
    }

    fn command_plan(&self, part: &CommandPart) -> Option<PartialDecision> {
        let changes = self.policy.mode == PermissionMode::Plan && part.nature != CommandNature::ReadOnly;
        changes.then(|| PartialDecision::denied(ReasonDetail::Plan(action(part))))
    }

    fn command_concern(&self, part: &CommandPart) -> Option<PartialDecision> {
        match part.concern.as_ref()? {
            AlwaysAskReason::Insist(text) => Some(PartialDecision::firm(ReasonDetail::Tool(text.clone()))),
            AlwaysAskReason::Ask(text) => {
                Some(PartialDecision::new(DecisionStrength::Guarded, ReasonDetail::Doubt(text.clone())))
            }
        }
    }

    /// An unknown command that names a denied command asks, unless a rule allows exactly these words.
    fn command_suspected(&self, part: &CommandPart) -> Option<PartialDecision> {
        let rules = self.policy.rules();
        let (rule, name) = rules.suspected(part).filter(|_| !rules.command_exactly(part))?;
        let why = ReasonDetail::Names { rule: rule.entry.clone(), name: name.to_owned() };
        Some(PartialDecision::new(DecisionStrength::Guarded, why))
    }

    /// Otherwise the class of the command, allow rules, or a prompt decide.
    fn command_allowed(
        &self,
        part: &CommandPart,
        files: &[SubjectFile],
        line: &CommandLine,
    ) -> PartialDecision {
        let operands = files.iter().filter(|file| file.through == FileMention::Operand);
        let mentions = files.iter().filter(|file| file.through == FileMention::Mention);
        let mentioned =
            mentions.filter_map(|file| self.below(file).or_else(|| self.mention_guarded(part, file)));
        let rulings = operands.map(|file| self.file(file)).chain(mentioned);
        let strictest = rulings.reduce(|a, b| b.stricter(a));
        let files_allowed =
            strictest.as_ref().is_none_or(|ruling| ruling.standing == DecisionStrength::Allowed);
        match (part.nature, &strictest) {
            (CommandNature::ReadOnly, _) if files_allowed && (!part.weak || self.policy.holds_reading()) => {
                return PartialDecision::allowed(ReasonDetail::CommandReads);
            }
            (CommandNature::EditsFiles, Some(edited)) if files_allowed && self.policy.accepts_edits() => {
                return PartialDecision::allowed(edited.why.clone());
            }
            (CommandNature::ReadOnly | CommandNature::EditsFiles | CommandNature::Other, _) => (),
        }
        match (self.command_allow(part), strictest) {
            (_, Some(guarded)) if guarded.standing == DecisionStrength::Guarded => guarded,
            (Some(why), _) => PartialDecision::allowed(why),
            (None, Some(outside)) if part.nature == CommandNature::ReadOnly && !files_allowed => outside,
            (None, _) => self.command_open(part, line),
        }
    }

    /// A protected file mentioned by a command that may write it: only a rule that spells out the whole
    /// command allows that.
    fn mention_guarded(&self, part: &CommandPart, file: &SubjectFile) -> Option<PartialDecision> {
        let FileKnowledge::Spotted(Ok(spotted)) = &file.what else { return None };
        let spelled = || self.policy.rules().command_exactly(part);
        let may_write = file.using == PathUse::Write
            && part.nature == CommandNature::Other
            && writes(part)
            && !only_prints(part);
        self.path_guarded(file.using, &spotted.located).filter(|_| may_write && !spelled())
    }

    /// Deny and ask rules for all forms of the command and the files it names.
    fn command_forbidden(&self, part: &CommandPart, files: &[SubjectFile]) -> Option<PartialDecision> {
        if let Some(why) = self.command_held_back(part) {
            return Some(PartialDecision::denied(why));
        }
        let hit = |behavior| {
            if self.shielded() || self.command_handed(part) && self.policy.is_agent() {
                None
            } else {
                self.policy.rules().command(behavior, part).map(|rule| by_rule(rule, action(part)))
            }
        };
        if let Some(why) = hit(Behavior::Deny) {
            return Some(PartialDecision::denied(why));
        }
        let by_files =
            files.iter().filter_map(|file| self.file_forbidden(file)).max_by_key(|ruling| ruling.standing);
        match (by_files, hit(Behavior::Ask)) {
            (Some(files), _) if files.standing == DecisionStrength::Denied => Some(files),
            (_, Some(why)) => Some(PartialDecision::firm(why)),
            (files, None) => files,
        }
    }

    fn command_held_back(&self, part: &CommandPart) -> Option<ReasonDetail> {
        let LevelRole::Acting = self.role else { return None };
        let rule = self.policy.delegated_rules()?.command(Behavior::Deny, part)?;
        Some(self.policy.delegate_only(rule))
    }

    pub(super) fn command_handed(&self, part: &CommandPart) -> bool {
        match self.role {
            LevelRole::Acting => false,
            LevelRole::Above(received) => received.command(Behavior::Allow, part).is_some(),
        }
    }

    /// What allows a command. A rule about the whole tool applies to every command with a form for allow
    /// rules.
    fn command_allow(&self, part: &CommandPart) -> Option<ReasonDetail> {
        let find = |rules: &RuleSet| {
            let rule = rules.command(Behavior::Allow, part)?;
            self.policy.counts(rule).then(|| by_rule(rule, action(part)))
        };
        let by_tool = || {
            let rule = self.tool_allow().filter(|_| !part.allow_faces.is_empty())?;
            Some(by_rule(rule, action(part)))
        };
        let received = || match self.role {
            LevelRole::Acting => None,
            LevelRole::Above(received) => find(received),
        };
        find(self.policy.rules()).or_else(by_tool).or_else(received)
    }

    /// No rule matches: explain what is missing.
    fn command_open(&self, part: &CommandPart, line: &CommandLine) -> PartialDecision {
        let why = match self.policy.rules().near_miss(part) {
            Some((rule, word)) => ReasonDetail::NearMiss {
                action: action(part),
                rule: rule.entry.clone(),
                word: word.map(str::to_owned),
            },
            None => ReasonDetail::NoRule(action(part)),
        };
        PartialDecision::new(DecisionStrength::Open, why)
            .with_needed_allowance(|| NeededAllowance::Line(line.clone()))
    }
}

/// Git subcommands that only read the files they name, or change only the index.
const GIT_READERS: &[&str] = &[
    "add",
    "annotate",
    "blame",
    "cat-file",
    "check-attr",
    "check-ignore",
    "commit",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "push",
    "reset",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "stage",
    "stash",
    "status",
    "tag",
];

/// Whether a command may write the files it names.
fn writes(part: &CommandPart) -> bool {
    let git = |words: &[String]| {
        let subcommand = words.iter().skip(1).find(|word| !word.starts_with('-'));
        // Any abbreviation of `--output`.
        let outputs = words.iter().any(|word| word.starts_with("--o"));
        !outputs
            && words.first().is_some_and(|name| name == "git")
            && subcommand.is_some_and(|name| GIT_READERS.contains(&name.as_str()))
    };
    !part.allow_faces.iter().any(|face| git(&face.words))
}

/// Whether a command is an inline program that only prints literals, so that paths in it are just text.
/// False if uncertain.
fn only_prints(part: &CommandPart) -> bool {
    let is_literal = |text: &str| {
        let text = text.trim();
        let quoted = |mark: char| text.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
        let inner = quoted('\'').or_else(|| quoted('"'));
        inner.is_some_and(|inner| !inner.contains(['\'', '"', '\\']))
    };
    let prints = |call: &str, program: &str| {
        let arguments = |statement: &str| {
            let inner = statement.trim().strip_prefix(call)?.strip_prefix('(')?.strip_suffix(')')?;
            Some(inner.split(',').all(is_literal))
        };
        program.split([';', '\n']).all(|statement| arguments(statement) == Some(true))
    };
    part.allow_faces.iter().any(|face| match &face.words[..] {
        [name, flag, program] if name.starts_with("python") && flag == "-c" => prints("print", program),
        [name, flag, program] if name == "node" && flag == "-e" => prints("console.log", program),
        _ => false,
    })
}

/// Allows a sandboxed command without a matching rule. Not for files outside the workspace, which the
/// sandbox lets it read.
fn walled(ruling: PartialDecision, held: bool) -> PartialDecision {
    let outside = matches!(ruling.why, ReasonDetail::Outside { .. } | ReasonDetail::UnknownFile(_));
    match ruling.standing {
        DecisionStrength::Open if held && !outside => {
            ruling.with_strength(DecisionStrength::Allowed, |_| ReasonDetail::Sandboxed)
        }
        _ => ruling,
    }
}

fn action(part: &CommandPart) -> CallAction {
    CallAction::Command(part.text.clone())
}
