//! Regression tests: lines that were wrongly allowed, on a real disk.

use std::{path::Path, sync::Arc};

use haft_permission::{
    BashJudge, Behavior, Decision, Destination, HookOpinion, Policy, ReadOnlyEnforced, RuleSource,
};
use haft_types::PermissionMode;

use crate::common::{Call, context};

struct Rig {
    _dir: tempfile::TempDir,
    ws: std::path::PathBuf,
}

impl Rig {
    fn new(files: &[(&str, &str)], links: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let ws = root.join("ws");
        std::fs::create_dir_all(&ws).unwrap();
        std::fs::create_dir_all(root.join("out")).unwrap();
        std::fs::write(root.join("out/secret"), "s").unwrap();
        for (name, text) in files {
            std::fs::create_dir_all(ws.join(name).parent().unwrap()).unwrap();
            std::fs::write(ws.join(name), text).unwrap();
        }
        for (name, target) in links {
            std::fs::create_dir_all(ws.join(name).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, ws.join(name)).unwrap();
        }
        Self { ws, _dir: dir }
    }

    fn judge(&self, mode: PermissionMode, rules: &[(Behavior, &str)], cwd: &str, line: &str) -> Behavior {
        self.decide(mode, rules, cwd, line).behavior
    }

    fn decide(&self, mode: PermissionMode, rules: &[(Behavior, &str)], cwd: &str, line: &str) -> Decision {
        let origin = RuleSource::new("test", Destination::Session).rooted(self.ws.as_path());
        let mut builder =
            Policy::builder(&self.ws).mode(mode).commands(Arc::new(BashJudge)).reading(ReadOnlyEnforced::Yes);
        for (behavior, text) in rules {
            builder = builder.rules(&origin, *behavior, [(*text).to_owned()]);
        }
        let cx = context(&self.ws.join(cwd), None);
        builder.build().judge("Bash", &Call::command(line), &cx, &HookOpinion::None)
    }
}

/// Globs have bash's meaning, so that rules and symlinks are not missed.
#[test]
fn glob_that_matches_forbidden_file_is_not_allowed() {
    let rig = Rig::new(&[(".env", "x"), ("data", "y")], &[("link", "../out/secret")]);
    let deny = [(Behavior::Deny, "Read(.env)")];
    for line in [
        "cat .en[[:alpha:]]",
        "cat .en[[.v.]]",
        "cat [!\\]]env",
        "cat [!]]env",
        "cat [^a]env",
        "cat .[[:lower:]]nv",
        "cat .e[[=n=]]v",
        "cat .en[\\v]",
        "cat .?n[u-w]",
        "head .en[[:alpha:]-z]",
        "cat < .en[[:alpha:]]",
        "wc -l [.]env",
    ] {
        assert_ne!(rig.judge(PermissionMode::Default, &deny, "", line), Behavior::Allow, "{line}");
    }
    for line in ["cat lin[[:alpha:]]", "cat [[:alpha:]]ink", "cat [[.l.]]ink", "head li[!\\]]k"] {
        assert_ne!(rig.judge(PermissionMode::Default, &[], "", line), Behavior::Allow, "{line}");
    }
    for rule in ["Read(.en[[:alpha:]])", "Read(.e[!\\]]v)", "Read(.en[[.v.]])", "Read(.[[:lower:]]*)"] {
        let rules = [(Behavior::Deny, rule)];
        assert_eq!(rig.judge(PermissionMode::Default, &rules, "", "cat .env"), Behavior::Deny, "{rule}");
        assert_eq!(rig.judge(PermissionMode::Default, &rules, "", "cat data"), Behavior::Allow, "{rule}");
    }
    assert_eq!(rig.judge(PermissionMode::Default, &deny, "", "cat dat[[:alpha:]]"), Behavior::Allow);
}

/// A command that follows symlinks may leave the workspace through one, with any spelling of its
/// options.
#[test]
fn long_options_that_follow_symlinks_ask() {
    let rig = Rig::new(&[("src/a", "x")], &[("src/out", "../../out")]);
    for line in [
        "rg --follow x",
        "rg -L x src",
        "find -L . -name x",
        "find . -follow -name x",
        "find src -follow",
        "du -aL .",
        "du --dereference src",
        "grep -R x .",
        "grep --dereference-recursive x src",
        "fd --follow x",
        "ls -RL src",
        "ls --recursive --dereference src",
        "tree -l src",
        "diff -r src src",
    ] {
        assert_ne!(rig.judge(PermissionMode::Default, &[], "", line), Behavior::Allow, "{line}");
    }
    for line in ["rg x", "find . -name x", "du -a .", "grep -r x .", "ls -R src", "tree src"] {
        assert_eq!(rig.judge(PermissionMode::Default, &[], "", line), Behavior::Allow, "{line}");
    }
}

/// Programs that depend on configuration in the current directory, wherever earlier calls changed to.
#[test]
fn command_depending_on_unsafe_config_asks() {
    let rig = Rig::new(
        &[
            (".git/config", "[core]\n\tbare = false\n"),
            ("ok/a", ""),
            ("bare/HEAD", "ref: refs/heads/main\n"),
            ("bare/objects/x", ""),
            ("bare/refs/x", ""),
            ("bare/config", "[core]\n\tfsmonitor = ./x\n"),
            ("evil/.git/config", "[core]\n\tfsmonitor = ./x\n"),
            ("evil/deep/a", ""),
            ("cargo/.cargo/config.toml", "[build]\nrustc = \"./x\"\n"),
            ("cargo/deep/a", ""),
            ("tool/rust-toolchain.toml", "[toolchain]\npath = \"./x\"\n"),
            ("npm/.npmrc", "registry=http://evil\n"),
            ("locked/Cargo.toml", ""),
            ("locked/Cargo.lock", ""),
            ("unlocked/Cargo.toml", ""),
        ],
        &[],
    );
    for (cwd, line, want) in [
        ("", "git status", Behavior::Allow),
        ("ok", "git status", Behavior::Allow),
        ("ok", "git log --oneline", Behavior::Allow),
        ("bare", "git status", Behavior::Ask),
        ("bare", "git log", Behavior::Ask),
        ("", "cd bare && git status", Behavior::Ask),
        ("evil", "git status", Behavior::Ask),
        ("evil/deep", "git diff", Behavior::Ask),
        ("ok", "cargo --version", Behavior::Allow),
        ("locked", "cargo metadata --no-deps", Behavior::Allow),
        ("locked", "cargo tree", Behavior::Allow),
        ("unlocked", "cargo tree", Behavior::Ask),
        ("unlocked", "cargo metadata", Behavior::Ask),
        ("cargo", "cargo metadata --no-deps", Behavior::Ask),
        ("cargo/deep", "cargo metadata --no-deps", Behavior::Ask),
        ("cargo", "cargo --version", Behavior::Ask),
        ("tool", "rustc --version", Behavior::Ask),
        ("tool", "cargo --version", Behavior::Ask),
        ("tool", "rustup show", Behavior::Ask),
        ("tool", "rustc -V", Behavior::Ask),
        ("npm", "npm view left-pad", Behavior::Ask),
        ("npm", "npm ls", Behavior::Ask),
        ("ok", "npm ls", Behavior::Allow),
    ] {
        assert_eq!(rig.judge(PermissionMode::Default, &[], cwd, line), want, "{cwd}: {line}");
    }
}

/// No mode and no rule lets any tool write protected files.
#[test]
fn protected_file_write_asks_in_every_mode_and_rule() {
    let rig = Rig::new(
        &[
            ("tpl/.git/hooks/post-checkout", "x"),
            ("tpl/a", "x"),
            ("deep/x/.husky/pre-commit", "x"),
            ("rc/.envrc", "x"),
            ("plain/a/b", "x"),
            ("x", "x"),
        ],
        &[],
    );
    let mode = PermissionMode::AcceptEdits;
    for line in [
        "cp -rT tpl .",
        "cp -r tpl new",
        "cp -a deep other",
        "mv rc new",
        "cp -RT rc .",
        "cp -r deep/ vendor",
    ] {
        assert_ne!(rig.judge(mode, &[], "", line), Behavior::Allow, "{line}");
    }
    for line in ["cp -r plain other", "mv plain other", "cp x y", "mkdir -p a/b"] {
        assert_eq!(rig.judge(mode, &[], "", line), Behavior::Allow, "{line}");
    }
    for (rule, line) in [
        ("Bash(git *)", "git mv x .envrc"),
        ("Bash(git mv *)", "git mv x .husky/pre-commit"),
        ("Bash(tee *)", "tee .envrc"),
        ("Bash(tee *)", "tee -a ./.git/hooks/pre-commit"),
        ("Bash(ln *)", "ln -sf x .envrc"),
        ("Bash(ln *)", "ln x .git/hooks/pre-push"),
        ("Bash(dd *)", "dd if=x of=.envrc"),
        ("Bash(install *)", "install -m 755 x .git/hooks/pre-commit"),
        ("Bash(sort *)", "sort -o .envrc x"),
        ("Bash(sort *)", "sort --output=.npmrc x"),
        ("Bash(curl *)", "curl -o .bashrc http://x"),
        ("Bash(rsync *)", "rsync x .mcp.json"),
        ("Bash", "tee .envrc"),
        ("Bash", "date > .envrc"),
        ("Bash", "dd of=.git/config"),
    ] {
        let rules = [(Behavior::Allow, rule)];
        assert_ne!(rig.judge(PermissionMode::Default, &rules, "", line), Behavior::Allow, "{rule}: {line}");
    }
    for (rule, line) in [
        ("Bash(git *)", "git add .envrc"),
        ("Bash(git *)", "git commit -m x .gitmodules"),
        ("Bash(tee *)", "tee out.txt"),
        ("Bash", "date > f"),
        ("Bash", "touch f"),
        ("Bash(tee .envrc)", "tee .envrc"),
    ] {
        let rules = [(Behavior::Allow, rule)];
        assert_eq!(rig.judge(PermissionMode::Default, &rules, "", line), Behavior::Allow, "{rule}: {line}");
    }
}

/// Git commands that show content of forbidden files.
#[test]
fn git_history_of_forbidden_file_asks() {
    let rig = Rig::new(&[(".git/config", "[core]\n\tbare = false\n"), (".env", "x"), ("src/a.rs", "x")], &[]);
    let deny = [(Behavior::Deny, "Read(.env)")];
    for line in [
        "git log -p",
        "git log -L1,1:.env",
        "git log -L :f:.env",
        "git diff",
        "git show",
        "git log --patch -3",
        "git show HEAD",
    ] {
        assert_ne!(rig.judge(PermissionMode::Default, &deny, "", line), Behavior::Allow, "{line}");
        assert_eq!(rig.judge(PermissionMode::Default, &[], "", line), Behavior::Allow, "{line}");
    }
    for line in [
        "git log",
        "git log --oneline",
        "git status",
        "git diff --stat",
        "git show --name-only",
        "git diff src/a.rs",
    ] {
        assert_eq!(rig.judge(PermissionMode::Default, &deny, "", line), Behavior::Allow, "{line}");
    }
}

/// Without the read-only sandbox, weakly classified commands ask.
#[test]
fn weakly_classified_command_asks_without_sandbox() {
    let rig = Rig::new(&[("a", "x")], &[]);
    let policy = |held| Policy::builder(&rig.ws).commands(Arc::new(BashJudge)).reading(held).build();
    let cx = context(Path::new(&rig.ws), None);
    let judge =
        |held, line: &str| policy(held).judge("Bash", &Call::command(line), &cx, &HookOpinion::None).behavior;
    for line in ["awk '{print}' a", "sed -n 1p a", "jq . a", "find . -type f | xargs cat"] {
        assert_eq!(judge(ReadOnlyEnforced::Yes, line), Behavior::Allow, "{line}");
        assert_eq!(judge(ReadOnlyEnforced::No, line), Behavior::Ask, "{line}");
    }
    for line in ["cat a", "ls", "grep x a", "git status", "find ."] {
        assert_eq!(judge(ReadOnlyEnforced::No, line), Behavior::Allow, "{line}");
    }
}

/// Commands that walk the current directory without naming it.
#[test]
fn walk_of_current_directory_asks_if_symlink_leads_out() {
    let rig = Rig::new(&[("data", "y")], &[("link", "../out")]);
    let plain = Rig::new(&[("data", "y")], &[]);
    for line in
        ["du -L", "du -h -L", "du --dereference", "du -saL", "ls -LR", "ls -R --dereference", "tree -l"]
    {
        assert_eq!(rig.judge(PermissionMode::Default, &[], "", line), Behavior::Ask, "{line}");
        assert_eq!(plain.judge(PermissionMode::Default, &[], "", line), Behavior::Allow, "{line}");
    }
    for line in ["du", "du -sh", "du -l", "ls -R", "ls -L", "tree", "tree -L 2"] {
        assert_eq!(rig.judge(PermissionMode::Default, &[], "", line), Behavior::Allow, "{line}");
    }
}

/// Text that an inline program only prints is not a path. Everything else it names counts, unless a rule
/// spells out the whole command.
#[test]
fn program_that_only_prints_may_name_protected_places() {
    let rig = Rig::new(&[(".git/hooks/pre-commit", "x")], &[]);
    let rules = [(Behavior::Allow, "Bash(python3:*)"), (Behavior::Allow, "Bash(node:*)")];
    for (line, want) in [
        ("python3 -c \"print('.git/hooks')\"", Behavior::Allow),
        ("python3 -c \"print('.git/hooks', 'x'); print('.git')\"", Behavior::Allow),
        ("node -e \"console.log('.git/hooks')\"", Behavior::Allow),
        ("python3 -c \"open('.git/hooks/pre-commit', 'w')\"", Behavior::Ask),
        ("python3 -c \"print('x', file=open('.git/hooks/pre-commit', 'w'))\"", Behavior::Ask),
        ("python3 -c \"print('.git/hooks'); import x\"", Behavior::Ask),
        ("python3 -c \"print('.git/hooks' + f())\"", Behavior::Ask),
        ("python3 -c \"print('x')\" > .git/hooks/pre-commit", Behavior::Ask),
        ("python3 x.py .git/hooks", Behavior::Ask),
        ("node -p \"'.git/hooks'\"", Behavior::Ask),
    ] {
        for mode in [PermissionMode::Default, PermissionMode::AcceptEdits] {
            assert_eq!(rig.judge(mode, &rules, "", line), want, "{line}");
        }
        assert_eq!(rig.judge(PermissionMode::Default, &[], "", line), Behavior::Ask, "{line}");
    }
}

#[test]
fn reason_about_a_protected_place_names_what_the_command_names() {
    let rig = Rig::new(
        &[
            (".git/description", "x"),
            (".git/HEAD", "x"),
            ("home/.ssh/id_rsa", "x"),
            (".claude/settings.json", "x"),
            (".bashrc", "x"),
            ("sub/.vscode/tasks.json", "x"),
        ],
        &[],
    );
    let at = |path: &str| rig.ws.join(path).display().to_string();
    for (line, want) in [
        (
            "rm -rf .git",
            format!("{} is protected: git runs the hooks and programs that it names", at(".git")),
        ),
        ("rm -rf .git/HEAD", format!("{} is protected: git runs", at(".git/HEAD"))),
        ("rm -rf home/.ssh", format!("{} is protected: it holds keys", at("home/.ssh"))),
        ("rm -rf .claude", format!("{} is protected: it decides what agents may do", at(".claude"))),
        ("rm -f .bashrc", format!("{} is protected: shells run it when they start", at(".bashrc"))),
        (
            "rm -rf sub",
            format!(
                "changes all of {}, and {} in it is protected: editors and build tools run what it names",
                at("sub"),
                at("sub/.vscode")
            ),
        ),
    ] {
        let decision = rig.decide(PermissionMode::AcceptEdits, &[], "", line);
        assert_eq!(decision.behavior, Behavior::Ask, "{line}");
        assert!(decision.reason.contains(&want), "{line}: {}", decision.reason);
    }
}
