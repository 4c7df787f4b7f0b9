//! Expands deny rules to existing paths, because a sandbox works with paths, not patterns.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_tool::{PathRestrictions, RestrictedPath};
use haft_types::PermissionMode;

use crate::{
    Policy,
    path_matcher::{PathMatcher, PathUse},
    policy_dirs::ResolvedDirs,
    read_scope::levels,
};

/// Maximum directory entries examined per pattern.
const MOST: usize = 200_000;

impl Policy {
    /// Why nothing may be changed (plan mode of this agent or a parent); `None` if changes are possible.
    pub fn forbids_changes(&self) -> Option<String> {
        levels(self).any(|level| level.mode == PermissionMode::Plan).then(|| {
            String::from("plan mode: nothing may be changed until the plan is approved or the mode changes")
        })
    }

    /// Paths on this disk that deny rules forbid, including rules of parent agents. Walks the workspace
    /// if a rule has a pattern.
    pub fn fence(&self, cwd: &Path, home: Option<&Path>) -> PathRestrictions {
        let mut fence = PathRestrictions::default();
        for level in levels(self) {
            add(level, &level.resolved_at(cwd, home), &mut fence);
        }
        for list in [&mut fence.unreadable, &mut fence.unchangeable] {
            list.sort();
            list.dedup_by(|a, b| a.path == b.path);
        }
        fence.missed.sort();
        fence.missed.dedup();
        fence
    }
}

/// Adds the restrictions of one level.
fn add(level: &Policy, anchors: &Arc<ResolvedDirs>, fence: &mut PathRestrictions) {
    let paths = level.rules().paths(anchors);
    for (using, list) in [(PathUse::Read, &mut fence.unreadable), (PathUse::Write, &mut fence.unchangeable)] {
        for matcher in paths.denies(using) {
            let rule = |number: usize| level.rules().rules()[number].entry.text.to_string();
            let mut search = DeniedPathSearch { matcher, using, rule: &rule, list, left: MOST };
            search.exact();
            fence.missed.extend(search.patterns(anchors));
        }
    }
}

struct DeniedPathSearch<'a> {
    matcher: &'a PathMatcher,
    using: PathUse,
    rule: &'a dyn Fn(usize) -> String,
    list: &'a mut Vec<RestrictedPath>,
    left: usize,
}

impl DeniedPathSearch<'_> {
    /// Adds paths named exactly. A path that does not exist can be created, so writing it is restricted;
    /// reading is not.
    fn exact(&mut self) {
        for (path, _) in self.matcher.exact() {
            let is_name = !path.as_os_str().as_encoded_bytes().iter().any(|it| b"*?[{".contains(it));
            let counts = self.using == PathUse::Write && is_name || path.symlink_metadata().is_ok();
            if let Some(number) = self.matcher.fences(path, self.using).filter(|_| counts) {
                self.list.push(RestrictedPath { path: path.to_owned(), rule: (self.rule)(number) });
            }
        }
    }

    /// Adds matches of patterns in the workspace and below their starts. Returns messages about patterns
    /// that were too broad.
    fn patterns(&mut self, anchors: &ResolvedDirs) -> Vec<String> {
        let roots = anchors.root_paths();
        let mut missed = Vec::new();
        let mut trees: Vec<PathBuf> = Vec::new();
        for (start, number) in self.matcher.starts() {
            let named = |rule: String| format!("{rule} also names paths outside the workspace");
            // The whole disk or home directory is not walked for every command.
            let broad = start.parent().is_none() || anchors.is_broad(start) && !roots.contains(&start);
            if broad {
                missed.push(named((self.rule)(number)));
                trees.extend(roots.iter().filter(|root| root.starts_with(start)).map(|it| it.to_path_buf()));
            } else {
                trees.push(start.to_owned());
            }
        }
        trees.sort();
        trees.dedup_by(|inner, outer| inner.starts_with(&*outer));
        for tree in trees {
            if !self.walk(tree) {
                let rules = self.matcher.starts().map(|(_, number)| (self.rule)(number));
                missed.extend(rules.map(|rule| format!("{rule} names more files than could be looked at")));
            }
        }
        missed
    }

    fn walk(&mut self, tree: PathBuf) -> bool {
        let mut open = vec![tree];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                if self.left == 0 {
                    return false;
                }
                self.left -= 1;
                let path = entry.path();
                if let Some(number) = self.matcher.fences(&path, self.using) {
                    self.list.push(RestrictedPath { path, rule: (self.rule)(number) });
                } else if entry.file_type().is_ok_and(|it| it.is_dir()) {
                    open.push(path);
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use haft_types::PermissionMode;

    use super::*;
    use crate::{Behavior, Destination, Policy, RuleSource};

    fn fence_of(dir: &Path, deny: &[&str]) -> PathRestrictions {
        let origin = RuleSource::new("test", Destination::Session).rooted(dir);
        let denies = deny.iter().map(|it| (*it).to_owned());
        Policy::builder(dir).rules(&origin, Behavior::Deny, denies).build().fence(dir, None)
    }

    #[test]
    fn fence_expands_deny_patterns_to_paths() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let root = dir.path().canonicalize()?;
        std::fs::create_dir_all(root.join("a/secrets/deep"))?;
        for file in [".env", "a/.env", "a/key.pem", "a/secrets/deep/x", "b.txt"] {
            std::fs::write(root.join(file), "x")?;
        }
        let deny =
            ["Read(.env)", "Read(**/secrets/**)", "Edit(*.pem)", "Edit(b.txt)", "Edit(absent)", "Read"];
        let fence = fence_of(&root, &deny);
        let shown = |list: &[RestrictedPath]| -> Vec<(String, String)> {
            let name =
                |it: &RestrictedPath| it.path.strip_prefix(&root).unwrap_or(&it.path).display().to_string();
            list.iter().map(|it| (name(it), it.rule.clone())).collect()
        };
        let row = |path: &str, rule: &str| (path.to_owned(), rule.to_owned());
        assert_eq!(
            shown(&fence.unreadable),
            [row(".env", "Read(.env)"), row("a/.env", "Read(.env)"), row("a/secrets", "Read(**/secrets/**)"),]
        );
        let unchangeable = shown(&fence.unchangeable);
        for wanted in
            [row("a/key.pem", "Edit(*.pem)"), row("b.txt", "Edit(b.txt)"), row(".env", "Read(.env)")]
        {
            assert!(unchangeable.contains(&wanted), "{wanted:?} {unchangeable:?}");
        }
        assert!(unchangeable.iter().any(|it| it.0 == "absent"), "{unchangeable:?}");
        assert_eq!(fence.missed.len(), 0);
        assert_eq!(fence_of(&root, &["Read(//**/.env)"]).missed.len(), 1);
        let plan = Policy::builder(&root).mode(PermissionMode::Plan).build();
        assert!(plan.forbids_changes().is_some_and(|why| why.contains("plan mode")));
        Ok(())
    }
}
