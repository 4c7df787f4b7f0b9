//! Undo of random destructive scripts restores every byte.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::shell_rig;

use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
    sync::Arc,
};

use haft_builtin_tools::bash::{Bash, BashInspector, BashSettings, CommandSnapshots as _, PendingCommand};
use haft_command_undo::{JournalCommandUndo, SnapshotLimits};
use haft_tool::{CallContext, DynTool, erase};
use haft_workspace::{
    ChangeOrigin, FullContextView, JournalLimits, SessionFiles, UndoTarget, Workspace, WorkspaceConfig,
};
use proptest::prelude::*;
use serde_json::json;
use shell_rig::{Rig, call, watched};

struct Undoable {
    rig: Rig,
    files: Arc<SessionFiles>,
    limits: SnapshotLimits,
}

impl Undoable {
    fn new(limits: SnapshotLimits) -> Self {
        let rig = Rig::new();
        let state_dir = rig.work.parent().unwrap().join("journal");
        let config = WorkspaceConfig { state_dir, root: rig.work.clone(), limits: JournalLimits::default() };
        let workspace = Arc::new(Workspace::open(config).unwrap());
        let files = Arc::new(SessionFiles::new(workspace, None, FullContextView));
        Self { rig, files, limits }
    }

    fn snapshots(&self) -> Arc<JournalCommandUndo> {
        Arc::new(JournalCommandUndo::new(
            Arc::clone(&self.files),
            None,
            self.limits,
            <haft_builtin_tools::git::Git as haft_tool::Tool>::NAME,
        ))
    }

    fn bash(&self, snapshots: &Arc<JournalCommandUndo>) -> Arc<dyn DynTool> {
        let facts = BashInspector { home: None, roots: vec![self.rig.work.clone()] };
        let roots = Arc::new(vec![self.rig.work.clone()]);
        let bash = Bash::new(self.rig.tasks.clone(), Arc::new(facts), roots, BashSettings::default());
        erase(bash.with_snapshots(snapshots.clone()))
    }

    fn context(&self, id: &str) -> CallContext {
        CallContext::detached(id, self.rig.work.as_path())
    }

    fn undo(&self, id: &str) {
        let origin =
            ChangeOrigin { session: None, turn: None, call: "undo".into(), tool: String::from("undo") };
        let report = self.files.workspace().undo(&UndoTarget::Call(id.into()), &origin).unwrap();
        assert_eq!(report.conflicts, []);
    }
}

fn picture(dir: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut out = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.path().symlink_metadata().unwrap());
            let content = match () {
                () if meta.is_symlink() => {
                    std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                () if meta.is_dir() => Vec::new(),
                () => std::fs::read(&path).unwrap(),
            };
            if meta.is_dir() {
                open.push(path.clone());
            }
            out.insert(
                path.strip_prefix(dir).unwrap().to_string_lossy().into_owned(),
                (meta.mode(), content),
            );
        }
    }
    out
}

fn furnish(dir: &Path) {
    for (path, text) in [
        ("f1", "one\n"),
        ("f2", ""),
        ("d1/f1", "three\n"),
        ("d1/f2", "four\n"),
        ("d1/d2/f1", "\u{0}five"),
        ("d2/f1", "six\n"),
    ] {
        std::fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        std::fs::write(dir.join(path), text).unwrap();
    }
    std::fs::create_dir_all(dir.join("d2/d1")).unwrap();
    symlink("f1", dir.join("l1")).unwrap();
    symlink("../f2", dir.join("d1/l1")).unwrap();
    std::fs::set_permissions(dir.join("d1/f2"), std::fs::Permissions::from_mode(0o751)).unwrap();
}

/// The name of a file that may or may not exist.
fn name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["f1", "f2", "d1", "d2", "l1", "new"]);
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn statement() -> impl Strategy<Value = String> {
    let mode = prop::sample::select(vec!["600", "755", "444", "700", "0", "1777"]);
    prop_oneof![
        name().prop_map(|it| format!("rm -rf {it}")),
        name().prop_map(|it| format!("rm -f {it}")),
        name().prop_map(|it| format!("mkdir -p {it}")),
        name().prop_map(|it| format!("rmdir {it}")),
        name().prop_map(|it| format!("touch {it}")),
        (name(), "[a-z]{0,9}").prop_map(|(it, text)| format!("echo {text} > {it}")),
        name().prop_map(|it| format!("printf '\\0\\377' >> {it}")),
        name().prop_map(|it| format!("sed -i s/o/0/g {it}")),
        (name(), name()).prop_map(|(a, b)| format!("mv {a} {b}")),
        (name(), name()).prop_map(|(a, b)| format!("cp -r {a} {b}")),
        (name(), name()).prop_map(|(a, b)| format!("ln -sfn {a} {b}")),
        (name(), name()).prop_map(|(a, b)| format!("ln -f {a} {b}")),
        (mode, name()).prop_map(|(mode, it)| format!("chmod {mode} {it}")),
        name().prop_map(|it| format!("find {it} -type f -delete")),
        name().prop_map(|it| format!("python3 -c \"import shutil; shutil.rmtree('{it}')\"")),
        name().prop_map(|it| format!("truncate -s 3 {it}")),
        Just(String::from("ls | xargs rm -rf --")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn undo_of_random_scripts_restores_every_byte(scripts in prop::collection::vec(prop::collection::vec(statement(), 1..6), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let undoable = Undoable::new(SnapshotLimits::default());
        furnish(&undoable.rig.work);
        let snapshots = undoable.snapshots();
        let bash = undoable.bash(&snapshots);
        let mut pictures = Vec::new();
        for (number, script) in scripts.iter().enumerate() {
            pictures.push(picture(&undoable.rig.work));
            let command = format!("{}; true", script.join("; "));
            let done = call(&bash, json!({ "command": command }), undoable.context(&format!("call_{number}")));
            runtime.block_on(done).ok();
        }
        let last = picture(&undoable.rig.work);
        pictures.push(last);
        for number in (0..scripts.len()).rev() {
            if pictures[number] != pictures[number + 1] {
                undoable.undo(&format!("call_{number}"));
            }
            prop_assert_eq!(&picture(&undoable.rig.work), &pictures[number]);
        }
    }
}

#[tokio::test]
async fn workspace_over_the_limits_is_announced_before_the_command() {
    let undoable = Undoable::new(SnapshotLimits { entries: 20, ..SnapshotLimits::default() });
    for number in 0..30 {
        std::fs::create_dir_all(undoable.rig.work.join("many")).unwrap();
        std::fs::write(undoable.rig.work.join(format!("many/{number}")), "x").unwrap();
    }
    std::fs::create_dir_all(undoable.rig.work.join("few")).unwrap();
    std::fs::write(undoable.rig.work.join("few/one"), "x").unwrap();
    let snapshots = undoable.snapshots();
    let bash = undoable.bash(&snapshots);
    let (cx, mut events) = watched(undoable.context("script"));
    let input = json!({"command": "python3 -c \"import os; os.remove('many/1')\""});
    let text = call(&bash, input, cx).await.unwrap().content.to_text();
    assert!(text.contains("this cannot be undone: there are more than 20 files"), "{text}");
    let first = events.recv().await.unwrap().data;
    assert!(first["tail"][0].as_str().unwrap().contains("cannot be undone"), "{first}");
    // The files a command names are stored nevertheless.
    let before = picture(&undoable.rig.work.join("few"));
    let text = call(&bash, json!({"command": "rm -rf few"}), undoable.context("few")).await.unwrap();
    assert!(!text.content.to_text().contains("undone"), "{:?}", text.content);
    undoable.undo("few");
    assert_eq!(picture(&undoable.rig.work.join("few")), before);
}

/// Reports reads of the files in a directory (inotify).
struct ReadWatch(std::os::fd::OwnedFd);

impl ReadWatch {
    fn new(dir: &Path) -> Self {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        add_watch(&watch, dir, WatchFlags::ACCESS).unwrap();
        Self(watch)
    }

    /// Whether a file was read since the last call. Listing the directory does not count.
    fn happened(&self) -> bool {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = rustix::fs::inotify::Reader::new(&self.0, &mut buffer);
        let mut happened = false;
        while let Ok(event) = events.next() {
            happened |= !event.events().contains(rustix::fs::inotify::ReadFlags::ISDIR);
        }
        happened
    }
}

#[tokio::test]
async fn unchanged_workspace_is_not_read_again() {
    let undoable = Undoable::new(SnapshotLimits::default());
    furnish(&undoable.rig.work);
    let snapshots = undoable.snapshots();
    let call = haft_types::CallId::from("call");
    let about = PendingCommand {
        call: &call,
        tool: "Bash",
        command: "./script",
        cwd: &undoable.rig.work,
        reading: None,
        reads_only: false,
    };
    // A file changed just now is read again, because its timestamps might not show a further change.
    tokio::time::sleep(std::time::Duration::from_millis(80)).await;
    let reads = ReadWatch::new(&undoable.rig.work.join("d1"));
    snapshots.before(about).await.unwrap();
    let objects = undoable.files.workspace().journal().unwrap().dir().join("objects");
    let stored = walk(&objects);
    assert!(4 <= stored, "{stored}");
    assert!(reads.happened(), "the first look reads every file");
    snapshots.before(about).await.unwrap();
    assert!(!reads.happened(), "the second look reads no file");
    assert_eq!(walk(&objects), stored);
}

/// A large record of an earlier session is read only when many files are scanned.
#[tokio::test]
async fn large_record_of_earlier_session_is_read_on_demand() {
    let place = Undoable::new(SnapshotLimits::default());
    for number in 0..2_000 {
        std::fs::write(place.rig.work.join(format!("a file with a long name {number}")), "x").unwrap();
    }
    std::fs::write(place.rig.work.join("named"), "old\n").unwrap();
    let before = picture(&place.rig.work);
    let kept = place.files.workspace().journal().unwrap().dir().join("commands");
    let sessions = || std::fs::read_dir(&kept).unwrap().count();
    let earlier = place.snapshots();
    let opaque = json!({"command": "python3 -c 'open(\"named\", \"w\").write(\"1\")'"});
    call(&place.bash(&earlier), opaque.clone(), place.context("c1")).await.unwrap();
    drop(earlier);
    assert_eq!(sessions(), 1);
    let later = place.snapshots();
    let bash = place.bash(&later);
    call(&bash, json!({"command": "echo 2 > named"}), place.context("c2")).await.unwrap();
    assert_eq!(sessions(), 2, "it is not needed yet");
    call(&bash, opaque, place.context("c3")).await.unwrap();
    assert_eq!(sessions(), 1, "now it was");
    ["c3", "c2", "c1"].iter().for_each(|id| place.undo(id));
    assert_eq!(picture(&place.rig.work), before);
}

fn walk(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|it| if it.path().is_dir() { walk(&it.path()) } else { 1 }).sum()
}

#[tokio::test]
async fn changes_of_other_tools_are_not_attributed_to_the_command() {
    let undoable = Undoable::new(SnapshotLimits::default());
    furnish(&undoable.rig.work);
    let snapshots = undoable.snapshots();
    let bash = undoable.bash(&snapshots);
    let input = json!({"command": "echo started > started; while [ ! -e go ]; do sleep 0.05; done; echo end > f2", "run_in_background": true});
    let got = call(&bash, input, undoable.context("slow")).await.unwrap();
    let id = got.data["backgroundTaskId"].as_str().unwrap().to_owned();
    shell_rig::eventually("it runs", || undoable.rig.work.join("started").exists()).await;
    call(&bash, json!({"command": "echo mine > f1; touch go"}), undoable.context("quick")).await.unwrap();
    let waited = json!({"task_id": id, "block": true});
    undoable.rig.call(&undoable.rig.task_output(), waited).await.unwrap();
    let journal = || undoable.files.workspace().journal().unwrap().entries().unwrap();
    shell_rig::eventually("it is written down", || journal().len() == 2).await;
    let slow = journal().into_iter().find(|it| it.origin.call.as_str() == "slow").unwrap();
    let names: Vec<String> = slow
        .changes
        .iter()
        .map(|it| it.path.strip_prefix(&undoable.rig.work).unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["f2", "started"]);
}

#[tokio::test]
async fn undo_restores_files_an_interpreter_deleted() {
    let undoable = Undoable::new(SnapshotLimits::default());
    furnish(&undoable.rig.work);
    let before = picture(&undoable.rig.work);
    let shell = Arc::clone(undoable.rig.tasks.shell());
    let repl = erase(haft_builtin_tools::repl::Repl::new(shell, 1_000).with_snapshots(undoable.snapshots()));
    let input = json!({"language": "python", "code": "import shutil; shutil.rmtree('d1')"});
    call(&repl, input, undoable.context("repl")).await.unwrap();
    assert!(!undoable.rig.work.join("d1").exists());
    undoable.undo("repl");
    assert_eq!(picture(&undoable.rig.work), before);
}
