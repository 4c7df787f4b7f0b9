//! From a simple command to its facts.

use std::{collections::HashSet, path::Path};

use super::{
    analysis::{
        AnalysisContext, AnalyzedCommand, CommandClass, CommandEffect, CommandForm, CommandForms, Confidence,
        EffectAccess, EffectOrigin, EffectScope, EffectTarget, FormCoverage, Word as Known,
    },
    critical_paths::{is_critical, is_critical_pattern, is_more_than_workspace},
    expansion::{Field, UnknownText},
    join_words,
    mentioned_paths::{mentioned, mentioned_in_text, runs_text},
    nested_commands,
    possible_commands::{suspects, suspects_in},
    programs,
    programs::TouchedFile,
    risk::Risk,
    safe_variables,
    shell_state::ShellState,
    syntax::SourceSpan,
    wrapper_commands,
};

/// One word of a command, as written and as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct WrittenWord {
    /// The source, blanks squeezed.
    pub(crate) raw: String,
    /// The text, if nothing in it is expanded or matched.
    pub(crate) literal: Option<String>,
    /// What it may become; several if a variable has several known values.
    pub(crate) alternatives: Vec<Vec<Field>>,
}

/// A variable set in front of a command.
#[derive(Clone, Debug)]
pub(crate) struct WrittenAssignment {
    pub(crate) name: String,
    /// The source, blanks squeezed.
    pub(crate) raw: String,
    pub(crate) value: Option<String>,
}

/// A simple command with everything in it expanded.
pub(crate) struct WrittenCommand<'a> {
    pub(crate) span: SourceSpan,
    pub(crate) text: String,
    pub(crate) assignments: Vec<WrittenAssignment>,
    pub(crate) words: Vec<WrittenWord>,
    /// Effects of redirections.
    pub(crate) redirects: Vec<CommandEffect>,
    /// Scripts on standard input, if a shell would run them.
    pub(crate) scripts: Vec<String>,
    /// Texts the shell expands a second time.
    pub(crate) evaluated: Vec<String>,
    pub(crate) doubts: Vec<Risk>,
    /// Below which places the names are that it reads, if it reads names.
    pub(crate) feed: Option<Vec<TouchedFile>>,
    pub(crate) state: &'a ShellState,
    pub(crate) place: AnalysisContext<'a>,
}

/// More combinations of alternatives than this are not looked at.
const MAX_COMBINATIONS: usize = 16;

/// What follows from the readings of a command.
#[derive(Default)]
struct PartFindings {
    class: Option<CommandClass>,
    effects: Vec<CommandEffect>,
    refuse: Vec<Vec<String>>,
    suspect: Vec<Vec<String>>,
    exhausted: bool,
    talks: bool,
    weak: bool,
}

impl WrittenCommand<'_> {
    pub(crate) fn into_part(mut self) -> AnalyzedCommand {
        self.name_doubts();
        let mut findings = PartFindings::default();
        for words in self.combinations() {
            self.judge(&words, &mut findings);
        }
        if findings.exhausted {
            self.doubts.push(Risk::Intricate);
        }
        let mut class = findings.class.unwrap_or(CommandClass::Other);
        if self.words.is_empty() {
            class = self.assignments_only();
        } else if !self.has_harmless_environment() {
            class = CommandClass::Other;
        }
        let mut seen = HashSet::new();
        let all = std::mem::take(&mut self.redirects).into_iter().chain(findings.effects);
        let effects = all.filter(|effect| seen.insert(effect.clone())).collect();
        let faces = CommandForms {
            allow: self.allow_faces(),
            refuse: self.refuse_faces(findings.refuse),
            suspect: findings.suspect,
        };
        let words = self.words.iter().map(WrittenWord::known).collect();
        let assigns = self.assignments.iter().map(|assignment| assignment.name.clone()).collect();
        AnalyzedCommand {
            span: self.span,
            text: self.text,
            words,
            assigns,
            directory: self.state.directory().clone(),
            faces,
            class,
            effects,
            doubts: self.doubts,
            talks: findings.talks,
            belief: if findings.weak { Confidence::Weak } else { Confidence::Firm },
        }
    }

    fn name_doubts(&mut self) {
        let Some(name) = self.words.first() else { return };
        match &name.literal {
            None => self.doubts.push(Risk::ComputedCommand),
            Some(text) if !text.is_ascii() => self.doubts.push(Risk::Lookalike),
            Some(_) => (),
        }
    }

    /// Only variables that mean nothing may be set for good.
    fn assignments_only(&mut self) -> CommandClass {
        for assignment in &self.assignments {
            if !safe_variables::is_harmless_in_environment(&assignment.name, assignment.value.as_deref()) {
                self.doubts.push(Risk::Variable(assignment.name.clone()));
            }
        }
        CommandClass::ReadOnly
    }

    fn has_harmless_environment(&self) -> bool {
        let reader = self.words.first().is_some_and(|word| word.literal.as_deref() == Some("read"));
        self.assignments.iter().all(|assignment| {
            safe_variables::is_harmless_in_environment(&assignment.name, assignment.value.as_deref())
                || (reader && assignment.name == "IFS")
        })
    }

    /// Every way the words may turn out, as fields with their source.
    fn combinations(&self) -> Vec<Vec<(Field, String)>> {
        let mut out: Vec<Vec<(Field, String)>> = vec![Vec::new()];
        for word in &self.words {
            if let [only] = &word.alternatives[..] {
                for fields in &mut out {
                    fields.extend(only.iter().map(|field| (field.clone(), word.raw.clone())));
                }
                continue;
            }
            let followed = out.len() * word.alternatives.len() <= MAX_COMBINATIONS;
            let unknown = vec![vec![Field::Many(UnknownText::Any)]];
            let alternatives = if followed { &word.alternatives } else { &unknown };
            out = out
                .iter()
                .flat_map(|fields| {
                    alternatives.iter().map(move |more| {
                        let mut fields = fields.clone();
                        fields.extend(more.iter().map(|field| (field.clone(), word.raw.clone())));
                        fields
                    })
                })
                .collect();
        }
        out
    }

    fn judge(&self, words: &[(Field, String)], findings: &mut PartFindings) {
        let fields: Vec<Field> = words.iter().map(|(field, _)| field.clone()).collect();
        let known: Vec<Option<&str>> = fields.iter().map(Field::literal).collect();
        let inner = wrapper_commands::transparent_words(&known);
        let hands_on = known.get(inner).copied().flatten() == Some("xargs");
        let verdict = if hands_on {
            programs::classify_xargs(&fields[inner + 1..], self.feed.as_deref())
        } else {
            programs::classify(&fields[inner..])
        };
        // At a terminal it writes what the command prints into a file of its own.
        let keeps = known[..inner].contains(&Some("nohup"));
        let class = verdict.as_ref().filter(|_| !keeps).map_or(CommandClass::Other, |verdict| verdict.class);
        findings.talks |= verdict.as_ref().is_some_and(|verdict| verdict.talks);
        findings.weak |=
            hands_on || known.get(inner).copied().flatten().is_some_and(programs::is_weakly_known);
        findings.class = Some(match findings.class {
            None => class,
            Some(before) if before == class => class,
            Some(_) => CommandClass::Other,
        });
        let texts: Vec<String> = words.iter().map(|(field, raw)| shown(field, raw)).collect();
        match verdict {
            Some(verdict) => {
                for touch in &verdict.touches {
                    findings.effects.extend(
                        self.effects(touch, EffectOrigin::Operand, || source_of(words, &touch.field)),
                    );
                }
            }
            None => {
                self.mentions(words, inner, findings);
                findings.suspect.extend(suspects(&texts[inner..]));
                findings.suspect.extend(suspects_in(&self.scripts));
            }
        }
        findings.suspect.extend(suspects_in(&self.telling_variables()));
        // What only reads runs nothing in turn, but for this one.
        let mut readings = if class == CommandClass::ReadOnly && !hands_on {
            nested_commands::plain_readings(&texts)
        } else {
            let found = nested_commands::readings(&texts);
            findings.exhausted |= found.exhausted;
            found.commands
        };
        if known.get(inner).copied().flatten().is_some_and(nested_commands::reads_script) {
            for script in &self.scripts {
                let found = nested_commands::readings(&["sh".to_owned(), "-c".to_owned(), script.clone()]);
                findings.exhausted |= found.exhausted;
                readings.extend(found.commands);
            }
        }
        if hands_on {
            // What the command in front prints is put behind the words.
            for printed in &self.scripts {
                let all: Vec<String> =
                    texts.iter().cloned().chain(printed.split_whitespace().map(str::to_owned)).collect();
                let found = nested_commands::readings(&all);
                findings.exhausted |= found.exhausted;
                readings.extend(found.commands);
            }
        }
        for text in &self.evaluated {
            let found = nested_commands::readings(&["eval".to_owned(), text.clone()]);
            findings.exhausted |= found.exhausted;
            readings.extend(found.commands);
        }
        if 0 < inner {
            readings.extend(nested_commands::plain_readings(&texts[inner..]));
        }
        for reading in readings {
            self.removals(&reading, findings);
            findings.refuse.push(reading);
        }
    }

    /// The values of variables that may name what a command runs.
    fn telling_variables(&self) -> Vec<String> {
        let harmless = |it: &&WrittenAssignment| {
            safe_variables::is_harmless_in_environment(&it.name, it.value.as_deref())
        };
        let values = self.assignments.iter().filter(|it| !harmless(it)).filter_map(|it| it.value.as_ref());
        // A line break makes one word a text.
        values.map(|value| format!("{value}\n")).collect()
    }

    /// Files that the words of an unknown command may name, and the text that it
    /// runs.
    fn mentions(&self, words: &[(Field, String)], inner: usize, findings: &mut PartFindings) {
        let runs_text = words.get(inner).and_then(|(name, _)| name.literal()).is_some_and(runs_text);
        let texts = || self.scripts.iter().filter(|_| runs_text).flat_map(|text| mentioned_in_text(text));
        for (field, raw) in words.iter().skip(1) {
            let mut mentions = mentioned(field);
            if let Some(text) = field.literal().filter(|_| runs_text) {
                mentions.extend(mentioned_in_text(text));
            }
            for mention in mentions {
                let touch = TouchedFile::new(EffectAccess::Read, &mention);
                findings.effects.extend(self.effects(&touch, EffectOrigin::Mention, || raw.clone()));
            }
        }
        for mention in texts() {
            let touch = TouchedFile::new(EffectAccess::Read, &mention);
            findings.effects.extend(self.effects(&touch, EffectOrigin::Mention, String::new));
        }
    }

    /// Removals by a reading of the command; only the critical ones matter here.
    fn removals(&self, reading: &[String], findings: &mut PartFindings) {
        if !reading.first().is_some_and(|name| programs::may_remove(name)) {
            return;
        }
        let words: Vec<Field> = reading.iter().map(|word| reread(word, self.state)).collect();
        for touch in programs::removals(&words) {
            let effects = self.effects(&touch, EffectOrigin::Mention, || reading.join(" "));
            findings.effects.extend(effects.into_iter().filter(|effect| effect.critical));
        }
    }

    /// A word that names a file, as an effect for every directory it may be in.
    fn effects(
        &self,
        touch: &TouchedFile,
        origin: EffectOrigin,
        source: impl FnOnce() -> String,
    ) -> Vec<CommandEffect> {
        let make = |target: EffectTarget, critical: bool| CommandEffect {
            access: touch.access,
            target,
            origin,
            reach: touch.reach,
            critical: critical && touch.access == EffectAccess::Delete,
        };
        let unknown = || {
            let rooted =
                matches!(touch.field, Field::One(UnknownText::Rooted) | Field::Many(UnknownText::Rooted));
            vec![make(EffectTarget::Unknown(source()), rooted)]
        };
        let (paths, pattern) = match &touch.field {
            Field::Literal(text) => (self.state.resolve(text), false),
            Field::Glob(text) | Field::Match(text) => (self.state.resolve(text), true),
            Field::Stream => return Vec::new(),
            Field::Number => (self.state.resolve("0"), false),
            Field::One(_) | Field::Many(_) => return unknown(),
        };
        let Some(paths) = paths else { return unknown() };
        paths
            .into_iter()
            .filter(|path| touch.access == EffectAccess::Delete || !matches!(device(path), Device::Harmless))
            .map(|path| {
                if pattern {
                    let critical = is_critical_pattern(&path, self.place);
                    make(EffectTarget::Pattern(path), critical)
                } else {
                    let critical = match touch.reach {
                        // Something in it, not itself: a workspace is there to be worked in.
                        EffectScope::Itself => is_more_than_workspace(&path, self.place),
                        EffectScope::Tree | EffectScope::LinkedTree | EffectScope::Repository(_) => {
                            is_critical(&path, self.place)
                        }
                    };
                    make(EffectTarget::Path(path), critical)
                }
            })
            .collect()
    }

    fn allow_faces(&self) -> Vec<CommandForm> {
        if self.words.is_empty() {
            return Vec::new();
        }
        let known: Vec<Option<&str>> = self.words.iter().map(|word| word.literal.as_deref()).collect();
        let inner = wrapper_commands::transparent_words(&known);
        let cover = wrapper_commands::cover(&known[inner..]);
        let words = |start: usize| self.words[start..].iter().map(WrittenWord::shown);
        let mut faces = Vec::new();
        if self.has_harmless_environment() {
            faces.push(CommandForm { words: words(inner).collect(), cover });
        }
        if 0 < inner || !self.assignments.is_empty() {
            let assignments = self.assignments.iter().map(|assignment| assignment.raw.clone());
            faces.push(CommandForm {
                words: assignments.chain(words(0)).collect(),
                cover: FormCoverage::Exact,
            });
        }
        faces
    }

    fn refuse_faces(&self, mut faces: Vec<Vec<String>>) -> Vec<Vec<String>> {
        faces.push(self.words.iter().map(|word| word.raw.clone()).collect());
        if self.words.is_empty() {
            faces.push(vec![join_words::squeeze(&self.text)]);
        }
        faces.retain(|face| !face.is_empty());
        faces.sort_unstable();
        faces.dedup();
        faces
    }
}

impl WrittenWord {
    /// The text if it is known, else as it was written.
    fn shown(&self) -> String {
        self.literal.clone().unwrap_or_else(|| self.raw.clone())
    }

    fn known(&self) -> Known {
        match (&self.literal, &self.alternatives[..]) {
            (Some(text), _) => Known::Literal(text.clone()),
            (None, [fields]) => match &fields[..] {
                [Field::Glob(pattern)] => Known::Pattern(pattern.clone()),
                _ => Known::Unknown(self.raw.clone()),
            },
            _ => Known::Unknown(self.raw.clone()),
        }
    }
}

/// A field as text: what it is, or how it was written.
fn shown(field: &Field, raw: &str) -> String {
    field.literal().map_or_else(|| raw.to_owned(), str::to_owned)
}

fn source_of(words: &[(Field, String)], field: &Field) -> String {
    words.iter().find(|(other, _)| other == field).map_or_else(String::new, |(_, raw)| raw.clone())
}

/// A word that was written down again, as a field.
fn reread(word: &str, state: &ShellState) -> Field {
    let home = state.get("HOME");
    let home = match &home {
        Some(super::shell_state::VariableBinding::OneOf(texts)) => texts.first().map(String::as_str),
        _ => None,
    };
    if let ("~" | "$HOME" | "${HOME}", Some(home)) = (word, home) {
        return Field::Literal(home.to_owned());
    }
    if let (Some(rest), Some(home)) = (word.strip_prefix("~/").or_else(|| word.strip_prefix("$HOME/")), home)
    {
        return reread(&format!("{home}/{rest}"), &ShellState::blank());
    }
    if word.starts_with('$') || word.is_empty() {
        let rooted = word.contains('/');
        return Field::One(if rooted { UnknownText::Rooted } else { UnknownText::Any });
    }
    if word.contains(['*', '?']) { Field::Glob(word.to_owned()) } else { Field::Literal(word.to_owned()) }
}

/// The facts of a guess at a command in a text that was not understood.
pub(crate) fn guess(words: &[String], source: &str, place: AnalysisContext<'_>) -> AnalyzedCommand {
    let state = ShellState::new(place);
    let written = words.iter().map(|word| WrittenWord {
        raw: word.clone(),
        literal: Some(word.clone()),
        alternatives: vec![vec![reread(word, &state)]],
    });
    let words: Vec<WrittenWord> = written.collect();
    let text = words.iter().map(|word| word.raw.as_str()).collect::<Vec<_>>().join(" ");
    let written = WrittenCommand {
        span: 0..source.len(),
        text,
        assignments: Vec::new(),
        words,
        redirects: Vec::new(),
        scripts: Vec::new(),
        evaluated: Vec::new(),
        doubts: Vec::new(),
        feed: None,
        state: &state,
        place,
    };
    let mut part = written.into_part();
    part.class = CommandClass::Other;
    part.faces.allow.clear();
    part
}

/// The effect of a redirection with this target.
pub(crate) fn redirect_effects(
    access: EffectAccess,
    field: &Field,
    state: &ShellState,
    source: &str,
) -> Vec<CommandEffect> {
    let make = |access: EffectAccess, target: EffectTarget| CommandEffect {
        access,
        target,
        origin: EffectOrigin::Redirection,
        reach: EffectScope::Itself,
        critical: false,
    };
    let unknown = || vec![make(access, EffectTarget::Unknown(source.to_owned()))];
    let Field::Literal(text) = field else {
        return if *field == Field::Stream { Vec::new() } else { unknown() };
    };
    let Some(paths) = state.resolve(text) else { return unknown() };
    paths
        .into_iter()
        .filter_map(|path| match device(&path) {
            Device::None => Some(make(access, EffectTarget::Path(path))),
            Device::Network => Some(make(EffectAccess::Connect, EffectTarget::Path(path))),
            Device::Harmless => None,
        })
        .collect()
}

enum Device {
    None,
    Network,
    Harmless,
}

fn device(path: &Path) -> Device {
    let path = haft_paths::lexical(path);
    let harmless =
        ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2"];
    if path.starts_with("/dev/tcp") || path.starts_with("/dev/udp") {
        Device::Network
    } else if harmless.iter().any(|name| path.as_os_str() == *name) {
        Device::Harmless
    } else {
        Device::None
    }
}
