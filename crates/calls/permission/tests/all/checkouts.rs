//! Rules about a project's files in the worktrees of its repository.

use crate::common::{Call, Rules, context, settings};

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_permission::{Behavior, HookOpinion, Policy, PolicyBuilder};
use haft_types::PermissionMode;

use Behavior::{Allow, Deny};

/// `home/proj` with a repository, and `home/.claude` beside it.
struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("home/proj/.git/worktrees")).unwrap();
        Self { _dir: dir, root }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Adds a worktree of `proj` as git does.
    fn worktree(&self, path: &str, name: &str, is_relative: bool) {
        let (top, admin) = (self.at(path), self.at("home/proj/.git/worktrees").join(name));
        for dir in [&top, &admin] {
            fs::create_dir_all(dir).unwrap();
        }
        let git = top.join(".git");
        let named =
            if is_relative { Path::new("../../../../..").join(path).join(".git") } else { git.clone() };
        fs::write(&git, format!("gitdir: {}\n", admin.display())).unwrap();
        fs::write(admin.join("gitdir"), format!("{}\n", named.display())).unwrap();
        fs::write(admin.join("commondir"), "../..\n").unwrap();
    }

    fn policy(&self, workspace: &str, rules: Rules<'_>) -> Policy {
        self.builder(workspace, rules).build()
    }

    fn builder(&self, workspace: &str, rules: Rules<'_>) -> PolicyBuilder {
        let origin = settings().rooted(self.at(workspace).as_path());
        let text = |it: &&str| it.replace("ROOT", &format!("/{}", self.root.display()));
        Policy::builder(self.at(workspace))
            .home(self.at("home"))
            .mode(PermissionMode::BypassPermissions)
            .rules(&origin, Behavior::Ask, rules.ask.iter().map(text))
            .rules(&origin, Deny, rules.deny.iter().map(text))
    }

    #[track_caller]
    fn check(&self, policy: &Policy, call: &Call, cwd: &str, want: Behavior) {
        let tool = if call.read_only { "Read" } else { "Write" };
        let cx = context(&self.at(cwd), Some(&self.at("home")));
        let decision = policy.judge(tool, call, &cx, &HookOpinion::None);
        assert_eq!(decision.behavior, want, "{call:?}\n{decision:?}");
    }
}

#[test]
fn deny_anchored_at_the_project_holds_in_every_worktree() {
    for deny in [
        "Read(./secret/**)",
        "Read(/secret/**)",
        "Read(secret/**)",
        "Read(ROOT/home/proj/secret/**)",
        "Read(ROOT/home/*/secret/**)",
        "Read(~/proj/secret/**)",
        "Read(secret/k*y)",
        "Read(./sec[r]et/key)",
    ] {
        let place = Place::new();
        let inside = "home/proj/.claude/worktrees/a";
        place.worktree(inside, "a", false);
        place.worktree("outside/b", "b", false);
        place.worktree("outside/c", "c", true);
        let policy = place.policy("home/proj", Rules { deny: &[deny], ..Rules::default() });
        for top in ["home/proj", inside, "outside/b", "outside/c"] {
            let key = place.at(top).join("secret/key");
            place.check(&policy, &Call::read(&key), "home/proj", Deny);
            place.check(&policy, &Call::write(&key), top, Deny);
            place.check(&policy, &Call::read("secret/key"), top, Deny);
            place.check(&policy, &Call::read("other/key"), top, Allow);
        }
        for top in ["outside", "home/other"] {
            place.check(&policy, &Call::read(place.at(top).join("x/key")), "home/proj", Allow);
        }
    }
}

#[test]
fn deny_holds_in_a_worktree_made_after_the_first_call() {
    let place = Place::new();
    let policy = place.policy("home/proj", Rules { deny: &["Read(./secret/**)"], ..Rules::default() });
    let key = Call::read(place.at("outside/b/secret/key"));
    place.check(&policy, &key, "home/proj", Allow);
    place.worktree("outside/b", "b", false);
    place.check(&policy, &key, "home/proj", Deny);
    // `git worktree move`
    place.worktree("outside/c", "b", false);
    place.check(&policy, &Call::read(place.at("outside/c/secret/key")), "home/proj", Deny);
}

#[test]
fn deny_of_a_session_in_a_worktree_holds_in_the_main_checkout() {
    let place = Place::new();
    place.worktree("outside/b", "b", false);
    place.worktree("outside/c", "c", false);
    let policy = place.policy("outside/b", Rules { deny: &["Read(./secret/**)"], ..Rules::default() });
    for top in ["home/proj", "outside/b", "outside/c"] {
        place.check(&policy, &Call::read(place.at(top).join("secret/key")), "outside/b", Deny);
    }
}

#[test]
fn ask_anchored_at_the_project_asks_in_a_worktree() {
    let place = Place::new();
    place.worktree("outside/b", "b", false);
    let policy = place.policy("home/proj", Rules { ask: &["Edit(./src/**)"], ..Rules::default() });
    place.check(&policy, &Call::write(place.at("outside/b/src/x")), "home/proj", Behavior::Ask);
    place.check(&policy, &Call::write(place.at("outside/b/doc/x")), "home/proj", Allow);
}

#[test]
fn rule_about_a_whole_checkout_does_not_reach_into_others() {
    let place = Place::new();
    place.worktree("outside/b", "b", false);
    let rules = Rules { deny: &["Edit(ROOT/home/proj/**)"], ..Rules::default() };
    let policy = place.policy("outside/b", rules);
    place.check(&policy, &Call::write(place.at("home/proj/x")), "outside/b", Deny);
    place.check(&policy, &Call::write("x"), "outside/b", Allow);
}

#[test]
fn fence_and_searches_keep_out_of_denied_files_of_a_worktree() {
    let place = Place::new();
    place.worktree("outside/b", "b", false);
    for top in ["home/proj", "outside/b"] {
        fs::create_dir_all(place.at(top).join("secret")).unwrap();
        fs::write(place.at(top).join("secret/key"), "x").unwrap();
        fs::write(place.at(top).join("open"), "x").unwrap();
    }
    let rules = Rules { deny: &["Read(./secret/**)"], ..Rules::default() };
    let policy = place.policy("home/proj", rules);
    let fence = policy.fence(&place.at("home/proj"), Some(&place.at("home")));
    let secret = place.at("outside/b/secret");
    assert!(fence.unreadable.iter().any(|it| it.path == secret), "{fence:?}");
    let cx = context(&place.at("outside/b"), Some(&place.at("home")));
    let call = Call::read(place.at("outside/b"));
    let decision = policy.judge("Grep", &call, &cx, &HookOpinion::None);
    let permit = decision.permit().unwrap();
    assert!(permit.may_read(&place.at("outside/b/open")));
    assert!(!permit.may_read(&secret.join("key")));
}
