//! Undo of commands: attributes besides content, and the `.git` directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::shell_rig;

use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use haft_builtin_tools::bash::{Bash, BashInspector, BashSettings};
use haft_command_undo::{JournalCommandUndo, SnapshotLimits};
use haft_tool::{CallContext, DynTool, erase};
use haft_workspace::{
    ChangeOrigin, FullContextView, JournalLimits, SessionFiles, UndoTarget, Workspace, WorkspaceConfig,
};
use serde_json::json;
use shell_rig::{Rig, call, watched};

struct Undoable {
    rig: Rig,
    files: Arc<SessionFiles>,
    bash: Arc<dyn DynTool>,
}

impl Undoable {
    fn new(limits: SnapshotLimits) -> Self {
        let rig = Rig::new();
        let state_dir = rig.work.parent().unwrap().join("journal");
        Self::with_journal(rig, state_dir, limits)
    }

    fn with_journal(rig: Rig, state_dir: std::path::PathBuf, limits: SnapshotLimits) -> Self {
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

    fn context(&self, id: &str) -> CallContext {
        CallContext::detached(id, self.rig.work.as_path())
    }

    async fn run(&self, id: &str, command: &str) -> String {
        match call(&self.bash, json!({ "command": command }), self.context(id)).await {
            Ok(output) => output.content.to_text(),
            Err(error) => error.message,
        }
    }

    fn origin() -> ChangeOrigin {
        ChangeOrigin { session: None, turn: None, call: "undo".into(), tool: String::from("undo") }
    }

    fn undo(&self, id: &str) {
        let report = self.files.workspace().undo(&UndoTarget::Call(id.into()), &Self::origin()).unwrap();
        assert_eq!(report.conflicts, [], "{:?}", report.restored);
    }

    fn redo(&self) {
        let report = self.files.workspace().redo(&Self::origin()).unwrap();
        assert_eq!(report.conflicts, []);
    }
}

#[derive(Debug, Eq, PartialEq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    mark: Option<Vec<u8>>,
    content: Vec<u8>,
}

fn mark_of(path: &Path) -> Option<Vec<u8>> {
    let mut value = [0_u8; 64];
    let len = rustix::fs::lgetxattr(path, "user.haft-test", &mut value[..]).ok()?;
    Some(value[..len].to_vec())
}

fn picture(dir: &Path) -> BTreeMap<String, Seen> {
    let mut out = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(at) = open.pop() {
        let meta = at.symlink_metadata().unwrap();
        let content = match () {
            () if meta.is_symlink() => std::fs::read_link(&at).unwrap().into_os_string().into_encoded_bytes(),
            () if meta.is_dir() => Vec::new(),
            () => std::fs::read(&at).unwrap(),
        };
        if meta.is_dir() {
            open.extend(std::fs::read_dir(&at).unwrap().map(|it| it.unwrap().path()));
        }
        let seen = Seen {
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            mark: mark_of(&at),
            content,
        };
        out.insert(at.strip_prefix(dir).unwrap().to_string_lossy().into_owned(), seen);
    }
    out
}

fn furnish(dir: &Path) {
    for (path, text, mode) in [
        ("f1", "one\n", 0o644),
        ("d/f2", "two\n", 0o600),
        ("d/e/run", "#!/bin/sh\n", 0o4755),
        ("d/e/ro", "x", 0o444),
    ] {
        std::fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        std::fs::write(dir.join(path), text).unwrap();
        std::fs::set_permissions(dir.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("f1", dir.join("link")).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(dir.join("d/f2"), Some(1234), Some(4321)).unwrap();
        chown(dir.join("d/e/run"), Some(1234), Some(0)).unwrap();
        std::fs::set_permissions(dir.join("d/e/run"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    } else {
        eprintln!("SKIPPED: only root can give files away");
    }
    let marked =
        rustix::fs::lsetxattr(dir.join("f1"), "user.haft-test", b"mark", rustix::fs::XattrFlags::empty());
    if marked.is_err() {
        eprintln!("SKIPPED: no extended attributes here");
    }
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
    for name in ["f1", "d/f2", "d/e/run", "d/e/ro", "d/e", "d", ""] {
        let file = std::fs::File::open(dir.join(name)).unwrap();
        file.set_modified(long_ago).unwrap();
    }
}

#[tokio::test]
async fn undo_restores_timestamps_owners_and_attributes() {
    for command in [
        "rm -rf f1 d link",
        "sed -i s/o/0/ f1 d/f2",
        "python3 -c \"import shutil; shutil.rmtree('d')\"",
        "mv d g && rm -rf g",
        "cp f1 d/f2; chmod 777 d/e/ro d/e; echo more >> f1",
        "rm f1; echo new > f1; mkdir f3; rm d/e/run; ln -s x d/e/run",
        "python3 -c \"import os; os.removexattr('f1', 'user.haft-test')\"",
        "chown 7:7 f1 d/f2 d/e/run",
    ] {
        let undoable = Undoable::new(SnapshotLimits::default());
        let work = undoable.rig.work.clone();
        furnish(&work);
        let before = picture(&work);
        let said = undoable.run("call", command).await;
        let after = picture(&work);
        if before == after {
            eprintln!("SKIPPED: {command} did nothing here: {said}");
            continue;
        }
        undoable.undo("call");
        assert_eq!(picture(&work), before, "{command}");
        undoable.redo();
        let again = picture(&work);
        let content = |it: &BTreeMap<String, Seen>| -> Vec<(String, u32, Vec<u8>)> {
            it.iter().map(|(path, it)| (path.clone(), it.mode, it.content.clone())).collect()
        };
        assert_eq!(content(&again), content(&after), "{command}");
        assert_eq!(again, after, "{command}");
        undoable.undo("call");
        assert_eq!(picture(&work), before, "{command}, again");
    }
}

/// Creates a repository with this many objects.
fn repository(work: &Path, objects: usize) {
    for (name, text) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("config", "[core]\n"),
        ("refs/heads/main", "0123\n"),
        ("logs/HEAD", "log\n"),
        ("index", "DIRC"),
    ] {
        let path = work.join(".git").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for number in 0..objects {
        let path = work.join(format!(".git/objects/{:02x}/{number}", number % 16));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("object {number}")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    }
}

fn contents(work: &Path) -> Vec<(String, Vec<u8>)> {
    picture(work).into_iter().map(|(path, it)| (path, it.content)).collect()
}

#[tokio::test]
async fn undo_restores_large_repository_from_hard_linked_objects() {
    let undoable = Undoable::new(SnapshotLimits { generated: (10, 1 << 20), ..SnapshotLimits::default() });
    let work = undoable.rig.work.clone();
    repository(&work, 200);
    let before = contents(&work);
    // Scanned, but not copied.
    undoable.run("other", "./nothing; true").await;
    let links = std::fs::metadata(work.join(".git/objects/00/0")).unwrap().nlink();
    assert_eq!(links, 2);
    for command in ["rm -rf .git", "python3 -c \"import shutil; shutil.rmtree('.git')\""] {
        let said = undoable.run(command, command).await;
        assert!(!work.join(".git").exists() && !said.contains("undo does not cover"), "{said}");
        undoable.undo(command);
        assert_eq!(contents(&work), before, "{command}");
    }
}

#[tokio::test]
async fn repository_over_the_object_limit_is_announced_and_the_rest_saved() {
    let undoable = Undoable::new(SnapshotLimits { objects: (20, 1 << 20), ..SnapshotLimits::default() });
    let work = undoable.rig.work.clone();
    repository(&work, 60);
    let want = format!("undo does not cover {}", work.join(".git/objects").display());
    // The note appears once for commands that may affect the objects, and every time for those that name
    // them.
    let said = undoable.run("first", "./nothing; true").await;
    assert!(said.contains(&want), "{said}");
    let said = undoable.run("second", "./nothing; true").await;
    assert!(!said.contains("undo does not cover"), "{said}");
    let (cx, mut events) = watched(undoable.context("third"));
    let got = call(&undoable.bash, json!({"command": "rm -rf .git"}), cx).await.unwrap();
    assert!(got.content.to_text().contains(&want), "{}", got.content.to_text());
    let first = events.recv().await.unwrap().data;
    assert!(first["tail"][0].as_str().unwrap().contains(&want), "{first}");
    undoable.undo("third");
    for (name, text) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("refs/heads/main", "0123\n"),
        ("logs/HEAD", "log\n"),
        ("index", "DIRC"),
    ] {
        assert_eq!(std::fs::read_to_string(work.join(".git").join(name)).unwrap(), text);
    }
}

/// Returns content, mode and hard links of every file, including links outside the workspace.
fn linked_picture(top: &Path) -> BTreeMap<String, (u32, Vec<u8>, Vec<String>)> {
    let mut found: Vec<(String, std::path::PathBuf, (u64, u64))> = Vec::new();
    let mut open = vec![top.join("work"), top.join("outside")];
    while let Some(dir) = open.pop() {
        for path in std::fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()) {
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                open.push(path)
            } else {
                let name = path.strip_prefix(top).unwrap().display().to_string();
                found.push((name, path, (meta.dev(), meta.ino())));
            }
        }
    }
    found.sort();
    let names = |id| found.iter().filter(|it| it.2 == id).map(|it| it.0.clone()).collect();
    let seen = |path: &Path| {
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_symlink() {
            std::fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            std::fs::read(path).unwrap()
        };
        (meta.mode(), content)
    };
    let line = |(name, path, id): &(String, std::path::PathBuf, (u64, u64))| {
        let (mode, content) = seen(path);
        (name.clone(), (mode, content, names(*id)))
    };
    found.iter().map(line).collect()
}

/// Paths that are hard links of one file stay so after undo, and others do not become so.
#[tokio::test]
async fn undo_restores_hard_links() {
    for command in [
        "echo two > a",
        "printf more >> b; chmod 600 a",
        "sed -i s/one/two/ a",
        "rm a",
        "rm a b",
        "rm a b; echo new > a; ln a b",
        "rm -f c; ln a c",
        "ln -f a c; chmod 751 c",
        "echo two > shared",
        "truncate -s 0 shared; chmod 600 shared",
        "rm a; echo two > a",
        "cp a t; mv t a",
        "mv a d/a",
        "rm -rf d",
        "echo two >> d/x; chmod 600 d/y",
        "ln shared new; echo three > new",
        "ln shared tied; rm tied; echo four > shared",
        // Another link is outside the workspace.
        "rm shared",
        "rm shared; echo kept > shared",
        "rm shared; cp ../outside/store shared",
        "sed -i s/kept/lost/ shared",
        "mv c shared",
        "mv shared d/moved",
        "mv shared ../outside/moved",
        "rm shared; ln ../outside/other shared",
        "ln -f ../outside/other shared",
        "ln -f ../outside/other c",
        "chmod 600 shared; mv shared s2; cp s2 shared",
        "rm -rf d mixed1",
        "sed -i s/m/n/ mixed1; chmod 711 mixed2",
        "rm mixed1 mixed2",
        "rm -rf ./* && echo gone > shared",
        // Symbolic links that are hard links of each other.
        "rm sym1",
        "rm sym1 sym2",
        "ln -sfn c sym1",
        "rm sym1; ln -s a sym1",
        "rm sym1; echo file > sym1",
        "rm sym3",
        "ln -sfn c sym3",
        "mv sym3 sym1",
        "ln -P sym1 sym4; rm sym1 sym2",
        "cp -P sym1 s; mv s sym1",
        "rm c; ln -P sym1 c",
        "python3 -c \"import os; os.unlink('d/x'); open('d/x','w').write('z'); os.link('d/x', 'd/z')\"",
    ] {
        let undoable = Undoable::new(SnapshotLimits::default());
        let work = undoable.rig.work.clone();
        let top = work.parent().unwrap();
        std::fs::create_dir_all(top.join("outside")).unwrap();
        std::fs::create_dir_all(work.join("d")).unwrap();
        for (name, text) in [
            ("work/a", "one\n"),
            ("work/c", "one\n"),
            ("work/d/x", "x\n"),
            ("outside/store", "kept\n"),
            ("outside/other", "other\n"),
            ("outside/mixed", "m\n"),
        ] {
            std::fs::write(top.join(name), text).unwrap();
        }
        std::fs::set_permissions(work.join("c"), std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a", work.join("sym1")).unwrap();
        symlink("a", top.join("outside/sym")).unwrap();
        for (from, to) in [
            ("work/a", "work/b"),
            ("work/d/x", "work/d/y"),
            ("outside/store", "work/shared"),
            ("outside/mixed", "work/mixed1"),
            ("outside/mixed", "work/mixed2"),
            ("work/sym1", "work/sym2"),
            ("outside/sym", "work/sym3"),
        ] {
            std::fs::hard_link(top.join(from), top.join(to)).unwrap();
        }
        let before = linked_picture(top);
        undoable.run("call", command).await;
        let after = linked_picture(top);
        assert_ne!(before, after, "{command}");
        undoable.undo("call");
        assert_eq!(linked_picture(top), before, "undo of {command}");
        undoable.redo();
        assert_eq!(linked_picture(top), after, "redo of {command}");
        undoable.undo("call");
        assert_eq!(linked_picture(top), before, "second undo of {command}");
    }
}

/// On another file system files cannot be hard-linked into the store: a note says so before the command
/// runs, and undo names what it could not relink.
#[tokio::test]
async fn unrestorable_hard_links_are_announced_and_reported() {
    let Ok(other_disk) = tempfile::tempdir_in("/dev/shm") else { return };
    let rig = Rig::new();
    let (work, top) = (rig.work.clone(), rig.work.parent().unwrap().to_owned());
    if other_disk.path().metadata().unwrap().dev() == work.metadata().unwrap().dev() {
        eprintln!("SKIPPED: there is one disk");
        return;
    }
    let undoable = Undoable::with_journal(rig, other_disk.path().join("state"), SnapshotLimits::default());
    std::fs::write(top.join("store"), "kept\n").unwrap();
    std::fs::hard_link(top.join("store"), work.join("shared")).unwrap();
    let (cx, mut events) = watched(undoable.context("call"));
    let got = call(&undoable.bash, json!({"command": "rm shared"}), cx).await.unwrap();
    let want = "may not tie it to other names";
    assert!(got.content.to_text().contains(want), "{}", got.content.to_text());
    let first = events.recv().await.unwrap().data;
    assert!(first["tail"][0].as_str().unwrap().contains(want), "{first}");
    let report =
        undoable.files.workspace().undo(&UndoTarget::Call("call".into()), &Undoable::origin()).unwrap();
    assert_eq!((report.conflicts, report.untied), (vec![], vec![work.join("shared")]));
    assert_eq!(std::fs::read(work.join("shared")).unwrap(), b"kept\n");
}
