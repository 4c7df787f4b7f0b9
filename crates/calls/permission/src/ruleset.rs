use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use arc_swap::ArcSwapOption;

use crate::{
    Behavior, CommandPart, Names, RuleCoverage, RuleEntry, RuleForm, RuleWarning,
    glob_expansion::PathShape,
    path_matcher::{PathMatcher, PathUse},
    policy_dirs::ResolvedDirs,
    rule::{self, ParsedRule, PatternReading, Rule, RuleFamily, RuleSubject},
    same_file::{FileId, same_file},
};

/// Indexed rules of one agent.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    rules: Vec<Rule>,
    names: Arc<Names>,
    /// Indices of rules that can only match the tool of this name.
    by_tool: HashMap<String, Vec<usize>>,
    /// Indices of rules about servers and name patterns.
    by_shape: Vec<usize>,
    /// Indices of rules by family and behaviour.
    families: [[Vec<usize>; 3]; 4],
    /// Bases of `/` in restricting path rules.
    forbidding_roots: Vec<Arc<Path>>,
    forbids_some_path: bool,
    commands: CommandIndex,
    views: RwLock<HashMap<String, Arc<ToolView>>>,
    paths: ArcSwapOption<CompiledPaths>,
}

/// Command rules by the first word they match.
#[derive(Debug, Default)]
struct CommandIndex {
    by_word: HashMap<String, Vec<usize>>,
    anywhere: Vec<usize>,
}

/// Rules that match one tool by its name.
#[derive(Debug, Default)]
pub(crate) struct ToolView {
    bare: [Option<usize>; 3],
    /// Rules about inputs.
    inputs: Vec<usize>,
    /// Rules about named items.
    named: Vec<usize>,
}

#[derive(Debug)]
struct CompiledPaths {
    anchors: Arc<ResolvedDirs>,
    matchers: [[OnceLock<PathMatcher>; 3]; 2],
}

/// Index of the read family's matchers.
const READ: usize = 0;
const EDIT: usize = 1;

/// Maximum number of cached views; a bound only, because names come from a registry.
const MAX_VIEWS: usize = 4096;

impl RuleSet {
    pub(crate) fn new(entries: Vec<RuleEntry>, names: Arc<Names>) -> (Self, Vec<RuleWarning>) {
        let mut set = Self { names: Arc::clone(&names), ..Self::default() };
        let mut warnings = Vec::new();
        for entry in entries {
            let ParsedRule { rule, warning } = rule::read(entry, &names);
            warnings.extend(warning);
            if let Some(rule) = rule {
                set.add(rule);
            }
        }
        (set, warnings)
    }

    fn add(&mut self, rule: Rule) {
        let number = self.rules.len();
        match rule.name.only() {
            Some(tool) => self.by_tool.entry(tool.to_owned()).or_default().push(number),
            None => self.by_shape.push(number),
        }
        if let Some(family) = rule.name.exact().and_then(RuleFamily::for_tool) {
            self.families[family as usize][rule.slot() as usize].push(number);
        }
        if matches!(rule.about, RuleSubject::Path(_)) && rule.entry.behavior != Behavior::Allow {
            self.forbids_some_path = true;
            let root = rule.entry.origin.root.iter().filter(|it| !self.forbidding_roots.contains(it));
            let root: Vec<Arc<Path>> = root.cloned().collect();
            self.forbidding_roots.extend(root);
        }
        if let RuleSubject::Command(pattern) = &rule.about {
            match pattern.first_word() {
                Some(word) => self.commands.by_word.entry(word.to_owned()).or_default().push(number),
                None => self.commands.anywhere.push(number),
            }
        }
        self.rules.push(rule);
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a rule is about this tool, or about what such tools touch.
    pub(crate) fn concerns_tool(&self, tool: &str) -> bool {
        let family = rule::family_for_tool(tool);
        self.rules.iter().any(|rule| {
            rule.name.exact().is_some_and(|name| Some(name) == family)
                || rule.name.matches(tool, rule.entry.behavior, &self.names)
        })
    }

    /// Rules that match a tool by its name. Cached per tool.
    pub(crate) fn view(&self, tool: &str) -> Arc<ToolView> {
        let known = self.views.read().unwrap_or_else(PoisonError::into_inner).get(tool).cloned();
        if let Some(view) = known {
            return view;
        }
        let view = Arc::new(self.make_view(tool));
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        if MAX_VIEWS <= views.len() {
            views.clear();
        }
        views.insert(tool.to_owned(), Arc::clone(&view));
        view
    }

    fn make_view(&self, tool: &str) -> ToolView {
        let mut view = ToolView::default();
        let mut numbers: Vec<usize> =
            self.by_tool.get(tool).into_iter().flatten().chain(&self.by_shape).copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let rule = &self.rules[number];
            if !rule.name.matches(tool, rule.entry.behavior, &self.names) {
                continue;
            }
            if rule.param.is_some() {
                view.inputs.push(number);
            }
            match &rule.about {
                RuleSubject::Everything | RuleSubject::Broken(_) => {
                    view.bare[rule.slot() as usize].get_or_insert(number);
                }
                RuleSubject::Named(_) => view.named.push(number),
                RuleSubject::Path(_)
                | RuleSubject::Command(_)
                | RuleSubject::Domain(_)
                | RuleSubject::Input => (),
            }
        }
        view
    }

    /// The rule about a tool as a whole.
    pub(crate) fn bare(&self, view: &ToolView, behavior: Behavior) -> Option<&Rule> {
        view.bare[behavior as usize].map(|number| &self.rules[number])
    }

    /// The first rule about an input that the call has.
    pub(crate) fn input(
        &self,
        view: &ToolView,
        behavior: Behavior,
        input: &serde_json::Value,
    ) -> Option<&Rule> {
        let rules = view.inputs.iter().map(|number| &self.rules[*number]);
        rules
            .filter(|rule| rule.entry.behavior == behavior)
            .find(|rule| rule.param.as_ref().is_some_and(|param| param.matches(input)))
    }

    /// The first rule about a named item.
    pub(crate) fn named(&self, view: &ToolView, behavior: Behavior, name: &str) -> Option<&Rule> {
        let rules = view.named.iter().map(|number| &self.rules[*number]);
        rules.filter(|rule| rule.entry.behavior == behavior).find(|rule| match &rule.about {
            RuleSubject::Named(pattern) => pattern.matches_text(name) || is_of_group(&rule.entry.text, name),
            _ => false,
        })
    }

    /// A deny or ask rule about named items, which cannot be compared with a call that names none.
    pub(crate) fn incomparable(&self, view: &ToolView) -> Option<&Rule> {
        let rules = view.named.iter().map(|number| &self.rules[*number]);
        rules.into_iter().find(|rule| rule.entry.behavior != Behavior::Allow && rule.param.is_none())
    }

    /// The first rule about a host.
    pub(crate) fn fetch(&self, behavior: Behavior, host: &str) -> Option<&Rule> {
        self.family(RuleFamily::Fetch, behavior).find(|rule| match &rule.about {
            RuleSubject::Domain(pattern) => pattern.matches(host),
            RuleSubject::Everything | RuleSubject::Broken(_) => true,
            _ => false,
        })
    }

    /// Whether the allow rule for a command spells out all of it.
    pub(crate) fn command_exactly(&self, part: &CommandPart) -> bool {
        let rule = self.command(Behavior::Allow, part);
        rule.is_some_and(|rule| matches!(&rule.about, RuleSubject::Command(pattern) if !pattern.is_prefix()))
    }

    /// The first rule that denies a command this one may run, with that command.
    pub(crate) fn suspected<'a>(&'a self, part: &'a CommandPart) -> Option<(&'a Rule, &'a str)> {
        if part.suspect_faces.is_empty() {
            return None;
        }
        self.family(RuleFamily::Command, Behavior::Deny).find_map(|rule| {
            let RuleSubject::Command(pattern) = &rule.about else { return None };
            let face = part.suspect_faces.iter().find(|face| pattern.matches(face, PatternReading::Eager))?;
            Some((rule, face.words.first()?.as_str()))
        })
    }

    /// The first rule about a command.
    pub(crate) fn command(&self, behavior: Behavior, part: &CommandPart) -> Option<&Rule> {
        let (faces, reading) = match behavior {
            Behavior::Allow => (&part.allow_faces, PatternReading::Cautious),
            Behavior::Ask | Behavior::Deny => (&part.deny_faces, PatternReading::Eager),
        };
        // An allow rule for every command applies only to commands that have a form for allow rules.
        let whole = self.family(RuleFamily::Command, behavior).find(|rule| match rule.about {
            RuleSubject::Everything => behavior != Behavior::Allow || !faces.is_empty(),
            RuleSubject::Broken(_) => true,
            _ => false,
        });
        let numbers = self.command_candidates(part, faces);
        let by_pattern =
            numbers.into_iter().map(|number| &self.rules[number]).find(|rule| match &rule.about {
                RuleSubject::Command(pattern) if rule.entry.behavior == behavior => {
                    let reaches = |face: &RuleForm| match face.coverage {
                        _ if behavior != Behavior::Allow => true,
                        RuleCoverage::AnyRule => true,
                        RuleCoverage::ExactRule => !pattern.is_prefix(),
                        RuleCoverage::WholeRule => false,
                    };
                    let spelt = || !pattern.is_prefix() && pattern.matches_text(&part.text);
                    faces.iter().any(|face| reaches(face) && (pattern.matches(face, reading) || spelt()))
                }
                _ => false,
            });
        by_pattern.or(whole)
    }

    /// Indices of rules that may match a command, ascending.
    fn command_candidates(&self, part: &CommandPart, faces: &[RuleForm]) -> Vec<usize> {
        let words = faces.iter().filter_map(|face| face.text.split(' ').next());
        let written = part.text.split_whitespace().next();
        let mut numbers: Vec<usize> = self.commands.anywhere.clone();
        for word in words.chain(written) {
            numbers.extend(self.commands.by_word.get(word).into_iter().flatten());
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// The allow rule with the longest common prefix with a command, and the first differing word.
    pub(crate) fn near_miss<'a>(&'a self, part: &'a CommandPart) -> Option<(&'a Rule, Option<&'a str>)> {
        let rules = self.family(RuleFamily::Command, Behavior::Allow);
        let misses = rules.filter_map(|rule| match &rule.about {
            RuleSubject::Command(pattern) => {
                let misses = part.allow_faces.iter().filter_map(|face| pattern.differs_at(face));
                misses.max_by_key(|miss| miss.0).map(|(same, word)| (same, rule, word))
            }
            _ => None,
        });
        // The first of the nearest rules, so that later rules do not change the result.
        let best = misses.fold(None, |best: Option<(usize, &Rule, Option<&str>)>, miss| match best {
            Some(best) if miss.0 <= best.0 => Some(best),
            _ => Some(miss),
        });
        best.map(|(_, rule, word)| (rule, word))
    }

    pub(crate) fn family(&self, family: RuleFamily, behavior: Behavior) -> impl Iterator<Item = &Rule> {
        self.families[family as usize][behavior as usize].iter().map(|number| &self.rules[*number])
    }

    /// Whether any rule restricts paths.
    pub(crate) fn forbids_paths(&self) -> bool {
        let forbidding = [Behavior::Ask, Behavior::Deny].into_iter();
        forbidding
            .flat_map(|it| self.family(RuleFamily::Read, it).chain(self.family(RuleFamily::Edit, it)))
            .next()
            .is_some()
    }

    /// Whether a rule restricts specific paths.
    pub(crate) fn forbids_some_path(&self) -> bool {
        self.forbids_some_path
    }

    /// Bases of the sources of such rules.
    pub(crate) fn forbidding_roots(&self) -> impl Iterator<Item = &Path> {
        self.forbidding_roots.iter().map(|root| &**root)
    }

    /// Compiled path rules.
    pub(crate) fn paths(&self, anchors: &Arc<ResolvedDirs>) -> Paths<'_> {
        let fits = |it: &Arc<CompiledPaths>| Arc::ptr_eq(&it.anchors, anchors);
        let compiled = self.paths.load_full().filter(fits).unwrap_or_else(|| {
            let fresh =
                Arc::new(CompiledPaths { anchors: Arc::clone(anchors), matchers: Default::default() });
            self.paths.store(Some(Arc::clone(&fresh)));
            fresh
        });
        Paths { set: self, compiled }
    }
}

/// Path rules compiled for one set of directories.
#[derive(Clone, Debug)]
pub(crate) struct Paths<'a> {
    set: &'a RuleSet,
    compiled: Arc<CompiledPaths>,
}

impl<'a> Paths<'a> {
    fn matcher(&self, family: RuleFamily, behavior: Behavior) -> &PathMatcher {
        let which = if family == RuleFamily::Edit { EDIT } else { READ };
        let slot = &self.compiled.matchers[which][behavior as usize];
        slot.get_or_init(|| {
            let numbers = &self.set.families[family as usize][behavior as usize];
            let rules = numbers.iter().map(|number| (*number, &self.set.rules[*number]));
            PathMatcher::new(rules, &self.compiled.anchors)
        })
    }

    /// The applicable rule families: who may not read may not write either; who may write may also read.
    fn families(using: PathUse, behavior: Behavior) -> &'static [RuleFamily] {
        match (using, behavior) {
            (PathUse::Read, Behavior::Allow) | (PathUse::Write, Behavior::Ask | Behavior::Deny) => {
                &[RuleFamily::Edit, RuleFamily::Read]
            }
            (PathUse::Read, Behavior::Ask | Behavior::Deny) => &[RuleFamily::Read],
            (PathUse::Write, Behavior::Allow) => &[RuleFamily::Edit],
        }
    }

    /// The first rule about this use of a path.
    pub(crate) fn find(&self, path: &Path, using: PathUse, behavior: Behavior) -> Option<&'a Rule> {
        let families = Self::families(using, behavior).iter();
        let mut hits = families.filter_map(|family| {
            // A bare `Read` rule is about reading tools; only its paths apply to writes.
            let matcher = self.matcher(*family, behavior);
            let number = match (using, family) {
                (PathUse::Write, RuleFamily::Read) => matcher.find_path(path, using),
                _ => matcher.find(path, using),
            };
            Some(&self.set.rules[number?])
        });
        hits.next()
    }

    /// The rule that forbids a file under another hard link.
    pub(crate) fn find_same_file(
        &self,
        id: impl Fn() -> Option<FileId>,
        using: PathUse,
        behavior: Behavior,
    ) -> Option<(&'a Rule, PathBuf)> {
        let families = Self::families(using, behavior).iter();
        families.into_iter().find_map(|family| {
            let (named, number) = same_file(&id, self.matcher(*family, behavior).named())?;
            Some((&self.set.rules[number], named))
        })
    }

    /// A rule that forbids something below a directory.
    pub(crate) fn find_below(&self, dir: &Path, using: PathUse) -> Option<&'a Rule> {
        let forbidding = [Behavior::Deny, Behavior::Ask].into_iter();
        let lists =
            forbidding.flat_map(|it| Self::families(using, it).iter().map(move |family| (*family, it)));
        let mut hits =
            lists.filter_map(|(family, behavior)| self.matcher(family, behavior).may_match_below(dir));
        hits.next().map(|number| &self.set.rules[number])
    }

    /// A rule that forbids a path matching this glob by its name, whether or not it exists.
    pub(crate) fn find_named(&self, shape: &PathShape, using: PathUse) -> Option<(&'a Rule, PathBuf)> {
        let forbidding = [Behavior::Deny, Behavior::Ask].into_iter();
        let lists =
            forbidding.flat_map(|it| Self::families(using, it).iter().map(move |family| (*family, it)));
        lists.into_iter().find_map(|(family, behavior)| {
            let named = self.matcher(family, behavior).named();
            let (path, number) = named.iter().find(|(path, _)| shape.is_match(path))?;
            Some((&self.set.rules[*number], path.clone()))
        })
    }

    /// The compiled restricting rules for this use, with the rules of their indices.
    pub(crate) fn denies(&self, using: PathUse) -> Vec<&PathMatcher> {
        Self::families(using, Behavior::Deny)
            .iter()
            .map(|family| self.matcher(*family, Behavior::Deny))
            .collect()
    }

    /// Everything that forbids reading, as an independent value.
    pub(crate) fn forbidden_reads(&self, asks_answered: bool) -> ForbiddenReads {
        self.matcher(RuleFamily::Read, Behavior::Deny);
        self.matcher(RuleFamily::Read, Behavior::Ask);
        let behaviors: &[Behavior] =
            if asks_answered { &[Behavior::Deny] } else { &[Behavior::Deny, Behavior::Ask] };
        ForbiddenReads { compiled: Arc::clone(&self.compiled), behaviors }
    }
}

/// Paths that must not be read, without the rules.
pub(crate) struct ForbiddenReads {
    compiled: Arc<CompiledPaths>,
    behaviors: &'static [Behavior],
}

impl ForbiddenReads {
    fn matchers(&self) -> impl Iterator<Item = &PathMatcher> {
        self.behaviors.iter().filter_map(|it| self.compiled.matchers[READ][*it as usize].get())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.matchers().all(PathMatcher::is_empty)
    }

    /// Whether everything below a directory is forbidden.
    pub(crate) fn below(&self, dir: &Path) -> bool {
        self.matchers().any(|it| it.find_below(dir).is_some())
    }

    /// Whether a path itself is forbidden, disregarding its parents.
    pub(crate) fn leaf(&self, path: &Path) -> bool {
        self.matchers().any(|it| it.find_leaf(path).is_some())
    }

    /// Whether a path is forbidden.
    pub(crate) fn path(&self, path: &Path) -> bool {
        self.matchers().any(|it| it.find(path, PathUse::Read).is_some())
    }

    /// Paths named exactly in rules.
    pub(crate) fn named(&self) -> impl Iterator<Item = &(PathBuf, usize)> {
        self.matchers().flat_map(PathMatcher::named)
    }
}

/// Whether a name is in the group of `Tool(group:*)`: `Skill(ns:*)` matches `ns:deploy`, and arguments
/// after a skill's name.
fn is_of_group(rule: &str, name: &str) -> bool {
    let group = rule.trim().strip_suffix(":*)").and_then(|rest| rest.split_once('('));
    group.is_some_and(|(_, group)| {
        name.strip_prefix(group.trim_start()).is_some_and(|rest| rest.starts_with(':'))
    })
}
