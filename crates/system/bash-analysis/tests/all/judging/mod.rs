//! A simple reference implementation of permission decisions for tests: applies the rules, modes and
//! paths of the corpora to the analysis.

use std::path::{Path, PathBuf};

use haft_bash_analysis::{
    AnalysisContext, AnalyzedCommand, CommandClass, CommandEffect, EditKind, EffectAccess, EffectOrigin,
    EffectTarget, FormCoverage, RiskLevel, analyse,
};
use haft_paths::{is_inside, lexical};

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Decision {
    Allow,
    Ask,
    /// Asks in every mode.
    Insist,
    Deny,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) allow: Vec<String>,
    pub(crate) ask: Vec<String>,
    pub(crate) deny: Vec<String>,
}

pub(crate) struct Judge<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) mode: &'a str,
    pub(crate) cwd: &'a Path,
    pub(crate) home: &'a Path,
}

impl Judge<'_> {
    pub(crate) fn decide(&self, command: &str) -> Decision {
        let roots = [self.cwd.to_owned()];
        let place = AnalysisContext { cwd: self.cwd, home: Some(self.home), roots: &roots };
        let analysis = analyse(command, place);
        let mut worst = Decision::Allow;
        for doubt in &analysis.doubts {
            if doubt.weight() == RiskLevel::Uncertain || !self.allows_everything() {
                worst = Decision::Ask;
            }
        }
        for part in &analysis.parts {
            worst = worst.max(self.part(part));
        }
        match (self.mode, worst) {
            ("bypassPermissions", Decision::Ask) => Decision::Allow,
            ("dontAsk", Decision::Ask | Decision::Insist) => Decision::Deny,
            (_, Decision::Insist) => Decision::Ask,
            (_, worst) => worst,
        }
    }

    fn allows_everything(&self) -> bool {
        self.rules.allow.iter().any(|rule| rule == "Bash" || rule == "Bash(*)")
    }

    fn part(&self, part: &AnalyzedCommand) -> Decision {
        let refused = |rules: &[String]| {
            rules.iter().any(|rule| match spec(rule) {
                ("Bash", None | Some("*")) => true,
                ("Bash", Some(spec)) => part.faces.refuse.iter().any(|words| matches(spec, words)),
                _ => false,
            })
        };
        let touched = |rules: &[String]| part.effects.iter().any(|effect| self.path_refused(rules, effect));
        if refused(&self.rules.deny) || touched(&self.rules.deny) {
            return Decision::Deny;
        }
        if refused(&self.rules.ask) || touched(&self.rules.ask) || part.critical_removal().is_some() {
            return Decision::Insist;
        }
        let everything = self.allows_everything();
        if part.doubts.iter().any(|doubt| doubt.weight() == RiskLevel::Uncertain || !everything) {
            return Decision::Ask;
        }
        let redirected = part.effects.iter().filter(|effect| effect.origin == EffectOrigin::Redirection);
        if !redirected.into_iter().all(|effect| self.effect_allowed(effect)) {
            return Decision::Ask;
        }
        let operands = || part.effects.iter().filter(|effect| effect.origin == EffectOrigin::Operand);
        let protected = operands().any(|effect| match &effect.target {
            EffectTarget::Path(path) => {
                matches!(effect.access, EffectAccess::Write | EffectAccess::Delete) && is_protected(path)
            }
            _ => false,
        });
        let ruled = everything
            || part.faces.allow.iter().any(|face| {
                self.rules.allow.iter().any(|rule| match spec(rule) {
                    ("Bash", Some(spec)) => match face.cover {
                        FormCoverage::Any => matches(spec, &face.words),
                        FormCoverage::Exact => !spec.contains('*') && matches(spec, &face.words),
                    },
                    _ => false,
                })
            });
        let built_in = match part.class {
            CommandClass::ReadOnly => operands().all(|effect| self.effect_allowed(effect)),
            CommandClass::Edit(EditKind::Create | EditKind::Copy | EditKind::Move)
                if self.mode == "acceptEdits" =>
            {
                operands().all(|effect| self.effect_allowed(effect))
            }
            _ => false,
        };
        if (ruled && !protected) || built_in { Decision::Allow } else { Decision::Ask }
    }

    fn effect_allowed(&self, effect: &CommandEffect) -> bool {
        let path = match &effect.target {
            EffectTarget::Path(path) | EffectTarget::Pattern(path) => path,
            EffectTarget::Unknown(_) => return false,
        };
        let forms = [lexical(path), real(path)];
        let inside = forms.iter().all(|path| is_inside(path, self.cwd));
        match effect.access {
            EffectAccess::Read | EffectAccess::List | EffectAccess::Enter => inside,
            EffectAccess::Obey(_) => lexical(path) == self.cwd,
            EffectAccess::Connect => false,
            EffectAccess::Write | EffectAccess::Delete => {
                if matches!(effect.target, EffectTarget::Pattern(_))
                    || forms.iter().any(|path| is_protected(path))
                {
                    return false;
                }
                let ruled = self.rules.allow.iter().any(|rule| {
                    matches!(spec(rule), ("Edit", Some(spec)) if forms.iter().all(|path| self.path_matches(spec, path)))
                });
                ruled || (self.mode == "acceptEdits" && inside)
            }
        }
    }

    fn path_refused(&self, rules: &[String], effect: &CommandEffect) -> bool {
        let path = match &effect.target {
            EffectTarget::Path(path) | EffectTarget::Pattern(path) => path,
            EffectTarget::Unknown(_) => return false,
        };
        let reads = matches!(effect.access, EffectAccess::Read | EffectAccess::Write | EffectAccess::Delete);
        let writes = matches!(effect.access, EffectAccess::Write | EffectAccess::Delete)
            || effect.origin == EffectOrigin::Mention;
        rules.iter().any(|rule| {
            let (applies, pattern) = match spec(rule) {
                ("Read", Some(pattern)) => (reads, pattern),
                ("Edit", Some(pattern)) => (writes, pattern),
                _ => return false,
            };
            let found = matches!(effect.target, EffectTarget::Pattern(_))
                && globset::Glob::new(&path.to_string_lossy()).is_ok_and(|glob| {
                    glob.compile_matcher().is_match(self.cwd.join(pattern.trim_start_matches("./")))
                });
            applies
                && (found || [lexical(path), real(path)].iter().any(|path| self.path_matches(pattern, path)))
        })
    }

    /// The corpora use only `./x`, `~/x` and a trailing `/**`.
    fn path_matches(&self, pattern: &str, path: &Path) -> bool {
        let (base, tree) = pattern.strip_suffix("/**").map_or((pattern, false), |base| (base, true));
        let base = match base.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => self.cwd.join(base.trim_start_matches("./")),
        };
        if tree { is_inside(path, &base) } else { path == base }
    }
}

fn spec(rule: &str) -> (&str, Option<&str>) {
    match rule.split_once('(') {
        Some((tool, rest)) => (tool, rest.strip_suffix(')')),
        None => (rule, None),
    }
}

fn matches(spec: &str, words: &[String]) -> bool {
    let text = words.join(" ");
    let prefix = spec.strip_suffix(":*").or_else(|| spec.strip_suffix(" *"));
    match prefix {
        Some(prefix) if !prefix.contains('*') => {
            let wanted: Vec<&str> = prefix.split(' ').collect();
            wanted.len() <= words.len() && wanted.iter().zip(words).all(|(a, b)| a == b)
        }
        _ => wildcard(spec.as_bytes(), text.as_bytes()),
    }
}

fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|from| wildcard(rest, &text[from..])),
        [a, rest @ ..] => text.first() == Some(a) && wildcard(rest, &text[1..]),
    }
}

const PROTECTED: &[&str] = &[
    ".git",
    ".claude",
    ".vscode",
    ".idea",
    ".husky",
    ".cargo",
    ".devcontainer",
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".zshrc",
    ".zprofile",
    ".profile",
    ".ripgreprc",
    ".mcp.json",
];

fn is_protected(path: &Path) -> bool {
    lexical(path).components().any(|part| {
        part.as_os_str().to_str().is_some_and(|name| PROTECTED.contains(&name.to_ascii_lowercase().as_str()))
    })
}

/// Symlinks of the fixture for which the corpora were made.
const LINKS: &[(&str, &str)] = &[
    ("/ws/proj/linkenv", "/ws/proj/.env"),
    ("/ws/proj/linkdir", "/home/u/.ssh"),
    ("/ws/proj/outlink", "/home/u/outside.txt"),
];

fn real(path: &Path) -> PathBuf {
    let path = lexical(path);
    for (link, target) in LINKS {
        if let Ok(rest) = path.strip_prefix(link) {
            return Path::new(target).join(rest);
        }
    }
    path
}
