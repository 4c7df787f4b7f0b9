//! Undo never deletes, mixes up or loses content: random sequences, and a full disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::shell_rig;

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use haft_builtin_tools::bash::{Bash, BashInspector, BashSettings};
use haft_command_undo::{JournalCommandUndo, SnapshotLimits};
use haft_tool::{CallContext, DynTool, erase};
use haft_workspace::{
    ChangeOrigin, FullContextView, JournalLimits, PlannedWrite, SessionFiles, UndoError, UndoReport,
    UndoTarget, Workspace, WorkspaceConfig, text::Bytes,
};
use proptest::prelude::*;
use serde_json::json;
use shell_rig::{Rig, call};

struct Undoable {
    rig: Rig,
    files: Arc<SessionFiles>,
    bash: Arc<dyn DynTool>,
}

fn origin(call: &str) -> ChangeOrigin {
    ChangeOrigin { session: None, turn: None, call: call.into(), tool: String::from("Test") }
}

impl Undoable {
    fn new(state_dir: Option<PathBuf>) -> Self {
        Self::limited(state_dir, SnapshotLimits::default())
    }

    fn limited(state_dir: Option<PathBuf>, limits: SnapshotLimits) -> Self {
        let rig = Rig::new();
        let state_dir = state_dir.unwrap_or_else(|| rig.work.parent().unwrap().join("journal"));
        let config = WorkspaceConfig { state_dir, root: rig.work.clone(), limits: JournalLimits::default() };
        let workspace = Arc::new(Workspace::open(config).unwrap());
        let files = Arc::new(SessionFiles::new(workspace, None, FullContextView));
        let facts = BashInspector { home: None, roots: vec![rig.work.clone()] };
        let roots = Arc::new(vec![rig.work.clone()]);
        let snapshots = Arc::new(JournalCommandUndo::new(
            Arc::clone(&files),
            None,
            limits,
            <haft_builtin_tools::git::Git as haft_tool::Tool>::NAME,
        ));
        let bash = Bash::new(rig.tasks.clone(), Arc::new(facts), roots, BashSettings::default());
        Self { bash: erase(bash.with_snapshots(snapshots)), rig, files }
    }

    async fn run(&self, id: &str, command: &str) -> String {
        let context = CallContext::detached(id, self.rig.work.as_path());
        match call(&self.bash, json!({ "command": command }), context).await {
            Ok(output) => output.content.to_text(),
            Err(error) => error.message,
        }
    }

    fn put(&self, id: &str, name: &str, text: &str) {
        let path = self.rig.work.join(name);
        let Ok(locked) = self.files.workspace().lock(&[&path]) else { return };
        let Ok(base) = locked.read(&path) else { return };
        let base = base.as_ref().map(|it| &it.0);
        let content = Some(Bytes::whole(text.as_bytes()));
        locked.commit(&[PlannedWrite { path, base, content, mode: None }], &origin(id)).ok();
    }

    fn undo(&self) -> Result<UndoReport, UndoError> {
        self.files.workspace().undo(&UndoTarget::Last, &origin("undo"))
    }

    fn entries(&self) -> usize {
        self.files.workspace().history().unwrap().len()
    }
}

/// Mode, content or target, an extended attribute, and the hard links of the file.
type Seen = (u32, Vec<u8>, Option<Vec<u8>>, Vec<String>);

fn picture(dir: &Path) -> BTreeMap<String, Seen> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for path in fs::read_dir(&at).unwrap().map(|it| it.unwrap().path()) {
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                open.push(path.clone());
            }
            found.push((path.strip_prefix(dir).unwrap().display().to_string(), path, meta));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let id = |meta: &fs::Metadata| (meta.dev(), meta.ino());
    let seen = |(name, path, meta): &(String, PathBuf, fs::Metadata)| {
        let content = match () {
            () if meta.is_symlink() => fs::read_link(path).unwrap().into_os_string().into_encoded_bytes(),
            () if meta.is_dir() => Vec::new(),
            () => fs::read(path).unwrap(),
        };
        let mut mark = [0_u8; 64];
        let mark = if meta.is_symlink() {
            None
        } else {
            rustix::fs::lgetxattr(path, "user.haft-test", &mut mark[..]).ok().map(|len| mark[..len].to_vec())
        };
        let same = found.iter().filter(|it| !meta.is_dir() && id(&it.2) == id(meta));
        (name.clone(), (meta.mode(), content, mark, same.map(|it| it.0.clone()).collect()))
    };
    found.iter().map(seen).collect()
}

#[derive(Clone, Debug)]
enum Step {
    /// A file tool writes this file with this content.
    Put(String, String),
    Command(String),
    Undo,
    Redo,
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "e", "d/x", "d/y", "d/z"]).prop_map(String::from)
}

fn command() -> impl Strategy<Value = String> {
    let mode = prop::sample::select(vec!["600", "755", "444"]);
    prop_oneof![
        3 => (name(), "[a-c]{1,3}").prop_map(|(it, text)| format!("echo {text} > {it}")),
        2 => (name(), "[a-c]{1,3}").prop_map(|(it, text)| format!("echo {text} >> {it}")),
        3 => (name(), name()).prop_map(|(a, b)| format!("ln -f {a} {b}")),
        1 => (name(), name()).prop_map(|(a, b)| format!("ln -sfn {a} {b}")),
        2 => (name(), name()).prop_map(|(a, b)| format!("mv -f {a} {b}")),
        2 => (name(), name()).prop_map(|(a, b)| format!("mv {a} t; mv {b} {a}; mv t {b}")),
        1 => (name(), name()).prop_map(|(a, b)| format!("mv {a} t; mv {b} {a}; mv t {b}; echo new > {b}")),
        2 => name().prop_map(|it| format!("rm -f {it}")),
        1 => name().prop_map(|it| format!("cp {it} t; mv t {it}")),
        1 => (mode, name()).prop_map(|(mode, it)| format!("chmod {mode} {it}")),
        1 => Just(String::from("rm -rf d")),
        1 => Just(String::from("mkdir -p d; echo more > d/x; ln -f d/x d/y")),
        2 => Just(String::from("tar cf ../x.tar d && rm -rf d && tar xf ../x.tar")),
        1 => Just(String::from("tar cf ../x.tar * && rm -rf ./* && tar xf ../x.tar")),
        1 => (name(), "[a-c]").prop_map(|(it, text)| format!("sed -i s/{text}/x/ {it}")),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => command().prop_map(Step::Command),
        2 => (name(), "[a-c]{1,3}").prop_map(|(name, text)| Step::Put(name, text)),
        2 => Just(Step::Undo),
        1 => Just(Step::Redo),
    ]
}

fn furnish(dir: &Path) {
    fs::create_dir(dir.join("d")).unwrap();
    for (name, text) in [("a", "one\n"), ("c", "one\n"), ("d/x", "x\n"), ("d/z", "z\n")] {
        fs::write(dir.join(name), text).unwrap();
    }
    fs::hard_link(dir.join("a"), dir.join("b")).unwrap();
    fs::hard_link(dir.join("d/x"), dir.join("d/y")).unwrap();
    for name in ["a", "d/z"] {
        rustix::fs::lsetxattr(dir.join(name), "user.haft-test", b"mark", rustix::fs::XattrFlags::empty())
            .ok();
    }
}

/// Tracks the states that undo and redo should restore.
struct Sequence {
    place: Undoable,
    undoable: Vec<BTreeMap<String, Seen>>,
    redoable: Vec<BTreeMap<String, Seen>>,
}

impl Sequence {
    fn now(&self) -> BTreeMap<String, Seen> {
        picture(&self.place.rig.work)
    }

    /// Applies a step. Returns false if an undo was refused; it must then name a file and change
    /// nothing.
    fn take(&mut self, runtime: &tokio::runtime::Runtime, at: usize, step: &Step) -> bool {
        let (before, entries, id) = (self.now(), self.place.entries(), format!("call{at}"));
        let done = match step {
            Step::Put(name, text) => {
                self.place.put(&id, name, text);
                None
            }
            Step::Command(line) => {
                runtime.block_on(self.place.run(&id, &format!("{line}; true")));
                None
            }
            Step::Undo if self.undoable.is_empty() => return true,
            Step::Redo if self.redoable.is_empty() => return true,
            Step::Undo => Some(self.place.undo()),
            Step::Redo => Some(self.place.files.workspace().redo(&origin("redo"))),
        };
        let after = self.now();
        let Some(done) = done else {
            if self.place.entries() == entries {
                assert_eq!(before, after, "step {at}: a change without an entry");
            } else {
                self.undoable.push(before);
                self.redoable.clear();
            }
            return true;
        };
        let refused = match &done {
            Ok(report) => !report.conflicts.is_empty(),
            Err(_) => true,
        };
        if refused {
            assert_eq!(before, after, "step {at}: refused and changed: {done:?}");
            return false;
        }
        let (from, to) = match step {
            Step::Undo => (&mut self.undoable, &mut self.redoable),
            _ => (&mut self.redoable, &mut self.undoable),
        };
        assert_eq!(Some(&after), from.last(), "step {at}: {done:?}");
        from.pop();
        to.push(before);
        true
    }
}

fn sequences() -> u32 {
    std::env::var("HAFT_SEQUENCES").ok().and_then(|it| it.parse().ok()).unwrap_or(12)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: sequences(), max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// More of them: `cargo xtask undo-soak 3000 SEED`.
    #[test]
    fn undo_and_redo_of_random_sequences_restore_every_state(steps in prop::collection::vec(step(), 9)) {
        if let Some(at) = refused_step(&steps) {
            eprintln!("REFUSED: step {at} of {steps:?}");
        }
    }
}

/// Takes the steps, undoes them all and does them again; every state must come back. The
/// first step that was refused, if any.
fn refused_step(steps: &[Step]) -> Option<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let place = Undoable::new(None);
    furnish(&place.rig.work);
    let mut sequence = Sequence { place, undoable: Vec::new(), redoable: Vec::new() };
    let (undo, redo) = (vec![Step::Undo; steps.len()], vec![Step::Redo; steps.len()]);
    let mut all = (0..).zip(steps.iter().cloned().chain(undo).chain(redo));
    all.find(|(at, step)| !sequence.take(&runtime, *at, step)).map(|(at, _)| at)
}

/// Sequences that random runs found.
#[test]
fn undo_and_redo_of_found_sequences_restore_every_state() {
    let found: [&[&str]; 3] = [
        // A link to nothing, and a write through it.
        &["ln -sfn a d/y", "echo a >> d/y"],
        // A swap of a name that is tied to a file which undo and redo make again.
        &["echo a > a", "mv -f c a", "echo a > a", "echo a > e", "ln -f e a", "mv b t; mv a b; mv t a"],
        &["mv c t; mv a c; mv t a", "echo a > a", "ln -f a c", "mv e t; mv c e; mv t c"],
    ];
    for lines in found {
        let steps: Vec<Step> = lines.iter().map(|it| Step::Command((*it).to_owned())).collect();
        assert_eq!(refused_step(&steps), None, "{lines:?}");
    }
}

struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

/// Fills the disk, except for `free` bytes.
fn fill(disk: &Path, free: u64) -> fs::File {
    let mut ballast = fs::File::create(disk.join("ballast")).unwrap();
    while ballast.write_all(&[7; 4096]).is_ok() {}
    ballast.set_len(ballast.metadata().unwrap().len() - free).unwrap();
    ballast
}

/// With any number of free pages on the disk, undo either restores everything, or refuses and deletes
/// nothing.
#[tokio::test]
async fn undo_with_full_home_restores_or_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().canonicalize().unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "none"]).arg(&disk).output().unwrap();
    if !mounted.status.success() {
        eprintln!("SKIPPED: cannot mount a small disk here");
        return;
    }
    let _unmount = Unmount(disk.clone());
    let mut outcomes = [0, 0];
    for pages in 0..20_u64 {
        for line in ["echo new > f", "rm f", "mv f g", "rm -rf d", "bash ./script", "mv d e; echo new > f"] {
            let what = format!("{line} with {pages} pages");
            let state = disk.join("state");
            let place = Undoable::new(Some(state.clone()));
            let work = place.rig.work.clone();
            fs::create_dir(work.join("d")).unwrap();
            for (name, text) in [("f", "f"), ("d/1", "1"), ("d/2", "2")] {
                fs::write(work.join(name), text.repeat(8 << 10)).unwrap();
            }
            fs::write(work.join("script"), "mv f g; rm d/1; echo more >> d/2").unwrap();
            let ballast = fill(&disk, pages << 12);
            let before = picture(&work);
            let said = place.run("call", line).await;
            let after = picture(&work);
            assert_ne!(before, after, "{what}: {said}");
            for room in [false, true] {
                if room {
                    ballast.set_len(0).unwrap();
                }
                let done = place.undo();
                let now = picture(&work);
                let is_back = now == before;
                assert!(is_back || now == after, "{what}: {done:?}");
                if is_back {
                    outcomes[0] += 1;
                    break;
                }
                let refused = done.as_ref().map_or(true, |it| !it.conflicts.is_empty());
                assert!(refused, "{what}: silent: {done:?}");
                if room {
                    outcomes[1] += 1;
                    assert!(said.contains("cannot be undone"), "{what}: {said}: {done:?}");
                }
            }
            drop((place, ballast));
            fs::remove_file(disk.join("ballast")).unwrap();
            fs::remove_dir_all(&state).unwrap();
        }
    }
    assert!(outcomes.iter().all(|it| 10 < *it), "both outcomes: {outcomes:?}");
}

/// A directory that is too large to store and is moved by a command is not taken for a new one.
#[tokio::test]
async fn undo_after_moving_what_is_not_covered_deletes_nothing() {
    for (line, gone) in
        [("mv node_modules old", "old/1"), ("mv node_modules d/; touch new", "d/node_modules/1")]
    {
        let limits = SnapshotLimits { generated: (3, 1 << 20), ..SnapshotLimits::default() };
        let place = Undoable::limited(None, limits);
        let work = place.rig.work.clone();
        for name in ["node_modules", "d"] {
            fs::create_dir(work.join(name)).unwrap();
        }
        for number in 0..6 {
            fs::write(work.join(format!("node_modules/{number}")), "x").unwrap();
        }
        place.run("call", &format!("bash -c '{line}'")).await;
        place.undo().ok();
        assert!(work.join(gone).exists(), "{line}");
    }
}
