//! Lines that move, copy, link, unpack or create files and then use names or configuration affected by
//! that, evaluated on a real disk.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use haft_bash_analysis::{AnalysisContext, SharedAnalysis};
use haft_permission::{
    BashJudge, Behavior, CommandJudge, Destination, HookOpinion, Policy, ReadOnlyEnforced, RuleSource,
    RunningCommands, SessionCommands,
};
use haft_types::PermissionMode;

use crate::common::{Call, context};

/// A workspace with symlinks in `d` and `node`, none in `plain`, parts of a repository in `b`, and a
/// toolchain file of the project.
const TREE: &str = r#"
set -e
export HOME=$PWD/home GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
mkdir -p ws home out/deep
echo SECRET > out/secret.txt; echo SECRET > out/deep/x
cd ws
mkdir -p src build d/sub plain/sub b/objects b/refs deny node/pkg merge/x into/merge list/.hidden
echo a > a.txt; echo b > b.txt; echo x > src/main.rs; echo p > plain/f; echo p > plain/sub/g
echo KEY > deny/key; echo y > node/pkg/y; echo z > list/.hidden/x
ln -s ../../out d/l; ln -s ../.git d/g; ln -s ../deny/key d/k; ln d/sub/h d/sub/i 2>/dev/null || true
ln -s ../src node/link; ln -s ../out outdir; ln -s src inlink; ln -s e/../secret.txt turns; ln -s e later
echo p > merge/x/pre-commit; ln -s ../../.git/hooks into/merge/x
echo 'ref: refs/heads/main' > b/HEAD; printf '[diff]\n\texternal = ./evil\n' > b/config
printf '[toolchain]\npath = "./evil"\n' > rt.toml
mkdir tc; cp rt.toml tc/rust-toolchain.toml
git init -q -b main .; git add a.txt src; git -c user.name=a -c user.email=b@c commit -qm x
"#;

struct Rig {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

struct Running(Vec<Arc<SharedAnalysis>>);

impl RunningCommands for Running {
    fn running(&self) -> Vec<Arc<SharedAnalysis>> {
        self.0.clone()
    }
}

const EDITS: PermissionMode = PermissionMode::AcceptEdits;
const DEFAULT: PermissionMode = PermissionMode::Default;

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let made = Command::new("bash").args(["-c", TREE]).current_dir(&root).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { _dir: dir, root }
    }

    fn ws(&self) -> PathBuf {
        self.root.join("ws")
    }

    fn judge_by(
        &self,
        commands: Arc<dyn CommandJudge>,
        mode: PermissionMode,
        rules: &[(Behavior, &str)],
        line: &str,
    ) -> Behavior {
        let ws = self.ws();
        let origin = RuleSource::new("test", Destination::Session).rooted(ws.as_path());
        let mut builder = Policy::builder(&ws)
            .mode(mode)
            .commands(commands)
            .reading(ReadOnlyEnforced::Yes)
            .home(self.root.join("home"));
        for (behavior, text) in rules {
            builder = builder.rules(&origin, *behavior, [(*text).to_owned()]);
        }
        let cx = context(&ws, Some(&self.root.join("home")));
        builder.build().judge("Bash", &Call::command(line), &cx, &HookOpinion::None).behavior
    }

    fn judge(&self, mode: PermissionMode, rules: &[(Behavior, &str)], line: &str) -> Behavior {
        self.judge_by(Arc::new(BashJudge), mode, rules, line)
    }

    fn judge_beside(&self, running: &str, mode: PermissionMode, allow: &str, line: &str) -> Behavior {
        let (ws, home) = (self.ws(), self.root.join("home"));
        let roots = [ws.clone()];
        let place = AnalysisContext { cwd: &ws, home: Some(&home), roots: &roots };
        let running = Running(vec![Arc::new(SharedAnalysis::new(running, place))]);
        self.judge_by(
            Arc::new(SessionCommands::new(Arc::new(running))),
            mode,
            &[(Behavior::Allow, allow)],
            line,
        )
    }
}

/// Rows are `rules | line`; rules are separated by spaces, `-` for none.
#[track_caller]
fn check(mode: PermissionMode, want: Behavior, rows: &[(&str, &str)]) {
    let rig = Rig::new();
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(allow, line)| {
            let rules: Vec<(Behavior, &str)> =
                allow.split(',').filter(|it| !it.is_empty()).map(|it| (Behavior::Allow, it.trim())).collect();
            let line = line.replace("$ROOT", &rig.root.display().to_string());
            let got = rig.judge(mode, &rules, &line);
            let right = if want == Behavior::Allow { got == want } else { got != Behavior::Allow };
            (!right).then(|| format!("{got:?} [{allow}] {line}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn line_that_moves_links_and_then_uses_them_asks() {
    let ways = [
        "mv d e",
        "mv -T d e",
        "mv -t . d/l && mv l e",
        "cp -r d e",
        "cp -a d e",
        "cp -R d/. e",
        "mkdir e && mv d/* e/",
        "mv d d2 && mv d2 e",
        "cp -r d d2; mv d2 e",
        "(mv d e)",
        "{ mv d e; }",
        "mv d e || true",
        "true && mv d e",
        "if true; then mv d e; fi",
        "for i in d; do mv $i e; done",
        "x=e; mv d $x",
        "command mv d e",
        "timeout 5 mv d e",
        "mv 'd' \"e\"",
        "cp -r d/ e",
        "cd . && mv d e",
    ];
    let uses = [
        "cat e/l/secret.txt",
        "cat < e/l/secret.txt",
        "head -1 e/l/deep/x",
        "ls e/l",
        "grep -r S e/l",
        "cd e/l && cat secret.txt",
        "echo x > e/g/hooks/pre-commit",
        "echo x >> e/g/config",
        "touch e/g/hooks/x",
        "mkdir -p e/g/hooks/y",
        "cp a.txt e/g/hooks/pre-push",
        "mv a.txt e/g/hooks/pre-push",
        "cat e/*/secret.txt",
        "wc -l e/l/../out/secret.txt",
        "(cat e/l/secret.txt)",
        "echo $(cat e/l/secret.txt)",
        "cat a.txt | tee e/g/hooks/x",
        "diff a.txt e/l/secret.txt",
        "cat e/sub/../l/secret.txt",
    ];
    let joints = [" && ", "; ", "\n", " & ", " | "];
    let mut rows: Vec<(&str, String)> = Vec::new();
    for (at, way) in ways.iter().enumerate() {
        for (also, then) in uses.iter().enumerate() {
            rows.push((
                "Bash(cp:*),Bash(mv:*)",
                format!("{way}{}{then}", joints[(at + also) % joints.len()]),
            ));
        }
    }
    // Concurrent or repeated commands.
    for line in [
        "cat e/l/secret.txt & mv d e",
        "(sleep 1; cat e/l/secret.txt) & mv d e",
        "for i in 1 2; do cat e/l/secret.txt; mv d e; done",
        "while true; do cat e/l/secret.txt; mv d e; done",
        "until cat e/l/secret.txt; do mv d e; done",
        "cat e/l/secret.txt | mv d e",
        "mv d e | cat e/l/secret.txt",
        "cat <(sleep 1; cat e/l/secret.txt) $(mv d e)",
        "f() { cat e/l/secret.txt; }; mv d e; f",
        "cat e/l/secret.txt $(mv d e)",
        "mv src old && mv d src && cat src/l/secret.txt",
        "mv src old && cp -r d src && echo x > src/g/hooks/pre-commit",
        "cp -r node n2 && cat n2/link/main.rs",
        "rm -rf build; mv d build && cat build/l/secret.txt",
        "mv d e && mv e/l/secret.txt here && cat here",
        "mv d/l e && cat turns",
        "mv d e && cat later/l/secret.txt",
        "mv src old && mv d src && cat inlink/l/secret.txt",
        "cp -P d/l zz; mv z* e && cat e/secret.txt",
        "FOO=1 mv d e; cat e/l/secret.txt",
        "nohup mv d e; cat e/l/secret.txt",
        "cd \"$x\"; mv d $ROOT/ws/e; cat $ROOT/ws/e/l/secret.txt",
        "mv ./src/../d e && cat e/l/secret.txt",
        "mv d src/../e && cat e/l/secret.txt",
        "mv d inlink/e && cat src/e/l/secret.txt",
    ] {
        rows.push(("Bash(cp:*),Bash(mv:*),Bash(rm:*),Bash(FOO=1 mv d e)", line.to_owned()));
    }
    let rows: Vec<(&str, &str)> = rows.iter().map(|(allow, line)| (*allow, line.as_str())).collect();
    check(EDITS, Behavior::Ask, &rows);
    check(DEFAULT, Behavior::Ask, &rows);
    // A rule for `cp` would let it read any file; a mode only lets it read files of the workspace.
    let rows = ["cp e/l/secret.txt here", "cp -r e/l here", "mv a.txt e/l/", "cp e/k here"];
    let rows = rows.map(|then| format!("mv d e && {then}"));
    check(EDITS, Behavior::Ask, &rows.each_ref().map(|line| ("", line.as_str())));
    let rig = Rig::new();
    let rules = [
        (Behavior::Allow, "Bash(cp:*)"),
        (Behavior::Allow, "Bash(mv:*)"),
        (Behavior::Allow, "Bash(head:*)"),
        (Behavior::Deny, "Read(/deny/**)"),
    ];
    for line in ["mv d e && cp e/k here", "mv d e && head e/k", "cp -r d e; head -3 < e/k"] {
        assert_ne!(rig.judge(EDITS, &rules, line), Behavior::Allow, "{line}");
    }
}

#[test]
fn line_that_links_or_unpacks_and_then_uses_names_asks() {
    let rows = [
        ("Bash(ln:*)", "ln -s ../out e && cat e/secret.txt"),
        ("Bash(ln:*)", "ln ../out/secret.txt e; cat e"),
        ("Bash(ln:*)", "ln -sfn $ROOT/out src && cat src/secret.txt"),
        ("Bash(tar:*)", "tar xf a.tar && cat e/l/secret.txt"),
        ("Bash(tar:*)", "tar -xzf a.tgz -C build; head build/x"),
        ("Bash(tar:*)", "tar --extract -f a.tar\ncat x"),
        ("Bash(unzip:*)", "unzip a.zip && cat x"),
        ("Bash(cpio:*)", "cpio -i < a.cpio && cat x"),
        ("Bash(rsync:*)", "rsync -a d/ e && cat e/l/secret.txt"),
        ("Bash(install:*)", "install -D d/l e && cat e/x"),
        ("Bash(patch:*)", "patch -p1 < a.txt && cat e/x"),
        ("Bash(git checkout:*)", "git checkout other && cat src/main.rs"),
        ("Bash(git switch:*)", "git switch other && cat src/main.rs"),
        ("Bash(git clone:*)", "git clone x y && cat y/z"),
        ("Bash(git stash:*)", "git stash pop && cat src/main.rs"),
        ("Bash(git apply:*)", "git apply a.txt && cat src/main.rs"),
        ("Bash(git worktree:*)", "git worktree add e other && cat e/l"),
        ("Bash(git mv:*)", "git mv d e && cat e/l/secret.txt"),
        ("Bash(git -C:*)", "git -C . checkout x && cat src/main.rs"),
        ("Bash(git pull:*)", "git pull; cat src/main.rs"),
        ("Bash(git merge:*)", "git merge x && head src/main.rs"),
        ("Bash(xargs:*)", "echo d e | xargs mv && cat e/l/secret.txt"),
        ("Bash(find . -name d -exec mv {} e \\;)", "find . -name d -exec mv {} e \\; && cat e/l/secret.txt"),
        ("Bash(bash -c 'mv d e')", "bash -c 'mv d e' && cat e/l/secret.txt"),
        ("Bash(ln:*),Bash(tee:*)", "ln -s .git/hooks e && tee e/pre-commit"),
        ("Bash(mv:*),Bash(tee:*)", "mv d e && tee e/g/hooks/pre-commit"),
        ("Bash(mv:*),Bash(dd:*)", "mv d e && dd of=e/g/hooks/pre-commit"),
        ("Bash(mv:*),Bash(sed:*)", "mv d e && sed -i s/a/b/ e/g/config"),
        ("Bash(cp:*),Bash(rm:*)", "cp -r d e && rm e/g/config"),
        ("Bash(7z:*)", "7z x a.7z && cat x/y"),
        ("Bash(hg:*)", "hg update && cat src/main.rs"),
    ];
    check(EDITS, Behavior::Ask, &rows);
    check(DEFAULT, Behavior::Ask, &rows);
}

#[test]
fn line_that_creates_configuration_and_then_obeys_it_asks() {
    let edits = [
        "mv b/HEAD b/objects b/refs b/config . && git diff HEAD~1 HEAD",
        "cp -r b/HEAD b/objects b/refs b/config src && cd src && git log",
        "mkdir -p src/objects src/refs && cp b/HEAD src && cd src && git status",
        "cp rt.toml rust-toolchain.toml && rustc --version",
        "mv rt.toml rust-toolchain.toml; rustc -V",
        "cp -r tc/rust-toolchain.toml . && cargo --version",
        "cp tc/rust-toolchain.toml src/ && cd src && rustc --version",
        "cp -rT tc src && cd src && rustc --version",
        "echo x > rust-toolchain.toml && rustc --version",
        "echo x >> rust-toolchain\nrustc --version",
        "echo path:./x > .tool-versions && node --version",
        "{ echo 3.1; } > .python-version && python3 --version",
        "touch go.mod && go env",
        "cp a.txt go.work && go version",
        "echo x > compose.yaml && docker compose ps",
        "cp a.txt .env; docker compose ps",
        "echo 'external-sources=true' > .shellcheckrc && shellcheck a.txt",
        "echo {} > package.json && npm ls",
        "cp rt.toml x && mv x rust-toolchain.toml && rustc --version",
        "mkdir q && cp tc/rust-toolchain.toml q/ && cp -rT q src && cd src && rustc --version",
        "cp -r tc tc2 && cp -rT tc2 src && cd src && rustc --version",
        "rustc --version & cp rt.toml rust-toolchain.toml",
        "rustc --version | mv rt.toml rust-toolchain.toml",
        "for i in 1 2; do rustc --version; cp rt.toml rust-toolchain.toml; done",
        "sleep 1 && rustc --version & cp rt.toml rust-toolchain.toml",
    ];
    let rows: Vec<(&str, &str)> = edits.iter().map(|it| ("", *it)).collect();
    check(EDITS, Behavior::Ask, &rows);
    let ruled = [
        ("Bash(mv:*)", edits[0]),
        ("Bash(mv:*)", "mv b/* . && git diff HEAD~1 HEAD"),
        ("Bash(cp:*)", edits[3]),
        ("Bash(mv:*)", edits[4]),
        ("Bash(tee:*)", "echo x | tee rust-toolchain.toml && rustc --version"),
        ("Bash(dd:*)", "dd if=rt.toml of=rust-toolchain.toml && rustc --version"),
        ("Bash(sed:*)", "sed -i s/a/b/ rust-toolchain.toml && rustc --version"),
        ("Bash(ln:*)", "ln -s rt.toml rust-toolchain.toml && rustc --version"),
        ("Bash(install:*)", "install rt.toml rust-toolchain.toml && rustc --version"),
        ("Bash(curl:*)", "curl -sO https://x.test/rust-toolchain.toml && rustc --version"),
        ("Bash(curl:*)", "curl -orust-toolchain.toml https://x.test/a && rustc --version"),
        ("Bash(wget:*)", "wget https://x.test/a && rustc --version"),
        ("Bash(rm:*)", "rm -f Cargo.lock && cargo tree"),
        ("Bash(tar:*)", "tar xf a.tar && git status"),
        ("Bash(git init:*)", "git init -q src && cd src && git status"),
        ("Bash(git clone:*)", "git clone x . && git status"),
        ("Bash(git config:*)", "git config diff.external ./evil && git diff"),
        ("Bash(git checkout:*)", "git checkout x && rustc --version"),
        ("Bash(split:*)", "split rt.toml rust-toolchain.toml && rustc --version"),
        ("Bash(sudo tee *)", "echo x | sudo tee rust-toolchain.toml && rustc --version"),
        ("Bash(tee:*)", "cd src && echo x | tee ../src/rust-toolchain.toml && rustc --version"),
        ("Bash(bash -c *)", "bash -c 'echo x > rust-toolchain.toml' && rustc --version"),
        ("Bash(xargs:*)", "echo rt.toml rust-toolchain.toml | xargs cp && rustc --version"),
    ];
    check(DEFAULT, Behavior::Ask, &ruled);
}

#[test]
fn index_that_may_list_a_repository_inside_asks_before_status() {
    let rig = Rig::new();
    let rules = [(Behavior::Allow, "Bash(git add:*)")];
    let line = "git add . && git status";
    assert_eq!(rig.judge(DEFAULT, &rules, line), Behavior::Allow);
    std::fs::create_dir_all(rig.ws().join("src/inner/.git")).unwrap();
    assert_eq!(rig.judge(DEFAULT, &rules, line), Behavior::Ask);
}

#[test]
fn everyday_line_that_edits_does_not_ask() {
    let rows = [
        ("", "mkdir -p build && cp a.txt build/ && ls build"),
        ("", "touch x && cat x"),
        ("", "echo x > notes.md && cat notes.md && git diff"),
        ("", "cp a.txt c.txt && git status"),
        ("", "mv a.txt src/ && cat src/main.rs"),
        ("", "mv a.txt c.txt && cat c.txt && git status --short"),
        ("", "mkdir -p x/y && touch x/y/z && ls -R x"),
        ("", "cp -r plain other && cat other/sub/g"),
        ("", "mv plain other && ls other && git diff --stat"),
        ("", "cp -r plain src/ && grep -r p src"),
        ("", "mkdir q; cp a.txt b.txt q; cat q/a.txt | head -1"),
        ("", "cp -r d e && cat a.txt && ls src"),
        ("", "cat a.txt | grep a > found.txt && wc -l found.txt"),
        ("", "for f in a.txt b.txt; do cp $f build/; done; ls build"),
        ("", "mv a.txt old.txt && mv b.txt a.txt && cat a.txt"),
        ("", "cd src && touch lib.rs && cat main.rs && git status"),
        ("", "echo 'X=1' > .env.local && git status"),
        ("", "cargo --version && touch x"),
        ("Bash(cargo build:*),Bash(cargo test:*)", "cargo build && cargo test"),
        ("Bash(git add:*),Bash(git commit:*)", "git add . && git commit -m x"),
        ("Bash(git add:*),Bash(git commit:*)", "git add . && git commit -m x && git status"),
        ("Bash(git commit:*)", "git commit -qm x && git log --oneline -1"),
        ("Bash(git checkout:*)", "git checkout -b topic && git status"),
        ("Bash(git push:*)", "git push && git status"),
        ("Bash(make:*)", "make && cat a.txt && git status"),
        ("Bash(npm run build:*)", "npm run build && ls build && cat a.txt"),
        ("Bash(cp:*)", "cp *.txt build/ && ls build && git status"),
        ("Bash(rm:*)", "rm -rf build && mkdir build && ls"),
        ("Bash(rm:*)", "rm -f *.o && git status"),
        ("Bash(tar:*)", "tar czf x.tgz src && ls -l x.tgz && git status"),
        ("Bash(sed:*)", "sed -i s/a/b/ src/main.rs && git diff"),
        ("Bash(sed:*)", "sed -i s/a/b/ src/*.rs && git diff"),
        ("Bash(tee:*)", "echo x | tee out.txt && cat out.txt && git status"),
        ("Bash(curl:*)", "curl -so page.html https://x.test/ && wc -c page.html && git status"),
        ("Bash(tar:*)", "tar xf a.tar && ls"),
        ("Bash(mv:*),Bash(cat:*)", "mv d e && cat e/l/x"),
    ];
    check(EDITS, Behavior::Allow, &rows);
}

#[test]
fn command_beside_a_running_one_asks_where_one_changes_what_the_other_uses() {
    let rig = Rig::new();
    for (running, allow, line) in [
        ("sleep 1; cat e/l/secret.txt", "Bash(mv:*)", "mv d e"),
        ("sleep 1; cat e/l/secret.txt", "Bash(ln:*)", "ln -s ../out e"),
        ("sleep 1; cat e/l/secret.txt", "Bash(tar:*)", "tar xf a.tar"),
        ("sleep 1; echo x > e/g/hooks/pre-commit", "Bash(cp:*)", "cp -r d e"),
        ("sleep 1; rustc --version", "Bash(cp:*)", "cp rt.toml rust-toolchain.toml"),
        ("sleep 1; git diff HEAD~1 HEAD", "Bash(mv:*)", "mv b/HEAD b/objects b/refs b/config ."),
        ("sleep 1; tee e/g/hooks/pre-commit", "Bash(mv:*)", "mv d e"),
        ("sleep 1; cat e/l/secret.txt", "Bash(git checkout:*)", "git checkout other"),
        ("sleep 1; mv d e", "Bash(mv:*)", "cat e/l/secret.txt"),
        ("sleep 1; mv d e", "Bash(mv:*)", "sleep 2; cat e/l/secret.txt"),
        ("sleep 1; mv d e", "Bash(mv:*)", "echo x > e/g/hooks/pre-commit"),
        ("sleep 1; cp rt.toml rust-toolchain.toml", "Bash(mv:*)", "rustc --version"),
        ("git clone x e", "Bash(mv:*)", "cat e/l/secret.txt"),
        ("while true; do mv d e; mv e d; done", "Bash(mv:*)", "cat e/l/secret.txt"),
    ] {
        for mode in [EDITS, DEFAULT] {
            assert_ne!(
                rig.judge_beside(running, mode, allow, line),
                Behavior::Allow,
                "{mode:?} [{allow}] {line} beside {running}"
            );
        }
    }
    for (running, allow, line) in [
        ("npm run dev", "Bash(mv:*)", "mv d e"),
        ("npm run dev", "Bash(git checkout:*)", "git checkout other"),
        ("sleep 60", "Bash(git checkout:*)", "git checkout other"),
        ("python3 -m http.server", "Bash(mv:*)", "cat a.txt"),
        ("cat a.txt", "Bash(mv:*)", "mv plain e"),
        ("tail -f a.txt", "Bash(mv:*)", "mv d e"),
        ("cargo watch", "Bash(mv:*)", "cp a.txt c.txt && git status"),
        ("mkdir -p q", "Bash(mv:*)", "cat a.txt && git status"),
    ] {
        assert_eq!(
            rig.judge_beside(running, EDITS, allow, line),
            Behavior::Allow,
            "[{allow}] {line} beside {running}"
        );
    }
}

#[test]
fn copy_that_follows_links_asks_and_keeps_denials() {
    let edits = [
        "cp -rL d e",
        "cp -RL d e",
        "cp -aL d e",
        "cp -r --dereference d e",
        "cp -rL ./d/ e",
        "cp -L outdir/secret.txt e",
        "cp outdir/secret.txt e",
        "cp -rH d e",
        "cp -rT merge into/merge",
        "cp -r merge into",
        "cp -r merge into/",
        "cp -rL . $ROOT/ws/e",
    ];
    let rows: Vec<(&str, &str)> = edits.iter().map(|it| ("", *it)).collect();
    check(EDITS, Behavior::Ask, &rows);
    check(
        EDITS,
        Behavior::Allow,
        &[
            ("", "cp -rL plain e"),
            ("", "cp -rL node e"),
            ("", "cp -r plain into"),
            ("", "cp -r d e"),
            ("", "cp -r node into"),
        ],
    );
    let rig = Rig::new();
    for (allow, line) in [
        ("Bash(cp:*)", "cp -rL d e"),
        ("Bash(cp:*)", "cp -rLv d/. e"),
        ("Bash(rsync:*)", "rsync -aL d/ e"),
        ("Bash(rsync:*)", "rsync -a --copy-links d e"),
        ("Bash(rsync:*)", "rsync -rk d e"),
        ("Bash(rsync:*)", "rsync -a --copy-unsafe-links d e"),
        ("Bash(tar:*)", "tar chf a.tar d"),
        ("Bash(tar:*)", "tar -chf a.tar d"),
        ("Bash(tar:*)", "tar -c -h -f a.tar d"),
        ("Bash(tar:*)", "tar --dereference -cf a.tar d"),
        ("Bash(tar:*)", "tar cf a.tar --dereference d"),
        ("Bash(zip:*)", "zip -r a.zip d"),
        ("Bash(scp:*)", "scp -r d host:e"),
        ("Bash(install:*)", "install d/k e"),
        ("Bash(7z:*)", "7z a a.7z d"),
    ] {
        let deny = [(Behavior::Allow, allow), (Behavior::Deny, "Read(/deny/**)")];
        assert_ne!(rig.judge(DEFAULT, &deny, line), Behavior::Allow, "{line}");
        assert_eq!(rig.judge(DEFAULT, &deny[..1], line), Behavior::Allow, "{line}");
    }
    let deny = [(Behavior::Allow, "Bash(cp:*)"), (Behavior::Deny, "Read(/deny/**)")];
    assert_ne!(rig.judge(DEFAULT, &deny, "cp -rL d/* e"), Behavior::Allow);
    // Writing through a symlink is evaluated by its target.
    for line in ["cp -r merge into", "cp -rT merge into/merge", "cp -r merge/. into/merge"] {
        assert_eq!(rig.judge(DEFAULT, &[(Behavior::Allow, "Bash(cp:*)")], line), Behavior::Ask, "{line}");
    }
}

#[test]
fn pattern_that_an_older_shell_lets_match_the_parent_asks() {
    let rows = [
        ("", "cat .*/out/secret.txt"),
        ("", "cat .[.]/out/secret.txt"),
        ("", "cat .?/out/secret.txt"),
        ("", "cat .[!a]/out/secret.txt"),
        ("", "cat ./.*/out/secret.txt"),
        ("", "cat src/.*/../out/secret.txt"),
        ("", "cat src/.*/.*/out/secret.txt"),
        ("", "grep -r S .*"),
        ("", "grep -r S .[[:punct:]]"),
        ("", "for f in .*/out/secret.txt; do cat \"$f\"; done"),
        ("", "ls .*/out"),
        ("", "ls .*"),
        ("", "ls outd*/deep/*"),
    ];
    check(DEFAULT, Behavior::Ask, &rows);
    let rows = [
        ("", "cat *.txt"),
        ("", "cat s*/main.rs"),
        ("", "ls *"),
        ("", "ls s*/main.rs"),
        ("", "cat list/.h*/x"),
        ("", "ls -d .g*"),
        ("", "cat ??/../a.txt"),
        ("", "ls .[!.]*"),
        ("", "cat list/.[a-z]*/x"),
    ];
    check(DEFAULT, Behavior::Allow, &rows);
}

/// A name from the index or a revision that is not a file of the workspace.
#[test]
fn names_that_git_prints_are_judged_by_the_index() {
    let rig = Rig::new();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(rig.ws()).env("HOME", rig.root.join("home"));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?} {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    std::fs::remove_dir_all(rig.ws().join("d")).unwrap();
    std::fs::remove_dir_all(rig.ws().join("into")).unwrap();
    std::fs::remove_file(rig.ws().join("outdir")).unwrap();
    let judged = [
        "git ls-files | xargs cat",
        "git ls-files | head -3 | xargs wc -l",
        "git ls-files src | xargs cat",
        "git ls-files -z | xargs -0 cat",
        "git ls-files -m | xargs -I{} head {}",
        "git diff --name-only | xargs cat",
        "git diff --name-only -z | xargs -0 cat",
        "git grep -l x | xargs cat",
        "git grep -l --name-only x | sort | xargs head -3",
    ];
    let never = [
        "git diff --name-only HEAD~1 | xargs cat",
        "git diff --name-only main | xargs cat",
        "git diff --name-only --cached | xargs cat",
        "git diff --name-only --staged | xargs cat",
        "git diff --name-only HEAD | xargs cat",
        "git diff --name-status | xargs cat",
        "git grep -l x main | xargs cat",
        "git grep -l -e x main | xargs cat",
        "git grep -l x HEAD -- src | xargs cat",
        "git grep -lc x | xargs cat",
        "git log --name-only --format= | xargs cat",
        "git show --name-only --format= | xargs cat",
        "git ls-tree -r --name-only HEAD | xargs cat",
        "git diff-tree -r --name-only HEAD | xargs cat",
        "git diff-index --name-only HEAD | xargs cat",
        "git status --porcelain | xargs cat",
        "git stash show --name-only | xargs cat",
        "git ls-files --with-tree=HEAD | xargs cat",
        "git -C src ls-files | xargs cat",
        "mv plain e && git config x.y z && git ls-files | xargs cat",
        "cat $(git ls-files)",
        "git ls-files | while read f; do cat \"$f\"; done",
    ];
    let check = |what: &str, lines: &[&str], want: Behavior| {
        for line in lines {
            assert_eq!(rig.judge(DEFAULT, &[], line), want, "{what}: {line}");
        }
    };
    check("plain", &judged, Behavior::Allow);
    check("plain", &never, Behavior::Ask);
    let blob = git(&["hash-object", "a.txt"]);
    let outside = rig.root.join("out/secret.txt").display().to_string();
    for name in
        [format!("x {outside}"), format!("x\t{outside}"), "'q".to_owned(), "-f".to_owned(), "b\\c".to_owned()]
    {
        git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{name}")]);
        check(&name, &judged, Behavior::Ask);
        git(&["rm", "-q", "--cached", "--", &name]);
        check("again", &judged[..1], Behavior::Allow);
    }
    // Git itself would not create such a name.
    git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},zz/aa/secret")]);
    let index = rig.ws().join(".git/index");
    let bytes = std::fs::read(&index).unwrap();
    let at = bytes.windows(12).position(|it| it == b"zz/aa/secret").unwrap();
    for name in [b"zz/../secret", b"/etc/hostnam"] {
        let mut bytes = bytes.clone();
        bytes[at..at + 12].copy_from_slice(name);
        std::fs::write(&index, bytes).unwrap();
        check("crafted", &judged, Behavior::Ask);
    }
    std::fs::write(&index, bytes).unwrap();
    check("restored", &judged, Behavior::Allow);
    assert!(Path::new(&outside).exists());
}
