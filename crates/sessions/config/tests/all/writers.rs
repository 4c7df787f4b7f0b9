//! Many processes change one file, some are killed in the middle, and the disk is full for a while: no
//! acknowledged change is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use common::names;
use haft_config::{LoadOptions, SettingsPaths, SettingsScope, SettingsStore};
use serde_json::{Value, json};

const WRITERS: usize = 8;
const KEYS: usize = 200;

fn places(root: &Path) -> SettingsPaths {
    let state = root.join("haft");
    SettingsPaths {
        user: vec![state.clone()],
        state: Some(state),
        project: root.join("project"),
        cwd: root.join("project"),
        ..SettingsPaths::default()
    }
}

fn key(writer: usize, at: usize) -> String {
    format!("W{writer}_{at}")
}

/// The writer process: sets one key after the other and acknowledges each on
/// standard output once it is stored.
#[test]
#[ignore = "a child process of other tests"]
fn writer() {
    let root = std::env::var("HAFT_TEST_WRITER_ROOT").expect("started by a test of this file");
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let (writer, first) = (number("HAFT_TEST_WRITER"), number("HAFT_TEST_WRITER_FIRST"));
    let store = SettingsStore::open(places(Path::new(&root)), LoadOptions::default());
    let mut out = std::io::stdout();
    for at in first..KEYS {
        // A full disk is an error: retry until there is space.
        while let Err(error) = store.update(SettingsScope::User, |it| {
            it.entry("env").or_insert_with(|| json!({}))[key(writer, at)] = json!(at.to_string());
        }) {
            writeln!(out, "\nfailed {error}").unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        writeln!(out, "\nack {at}").unwrap();
        out.flush().unwrap();
    }
}

/// A writer process that is restarted after it was killed.
struct Writer {
    number: usize,
    root: PathBuf,
    acknowledged: Arc<Mutex<HashSet<usize>>>,
    failures: Arc<AtomicUsize>,
    started_with: usize,
    running: Option<(Child, std::thread::JoinHandle<()>)>,
}

impl Writer {
    fn start(&mut self) {
        self.started_with = self.acknowledged.lock().unwrap().len();
        let first = self.acknowledged.lock().unwrap().iter().max().map_or(0, |last| last + 1);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "writers::writer", "--nocapture"])
            .env("HAFT_TEST_WRITER_ROOT", &self.root)
            .env("HAFT_TEST_WRITER", self.number.to_string())
            .env("HAFT_TEST_WRITER_FIRST", first.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (acknowledged, failures) = (Arc::clone(&self.acknowledged), Arc::clone(&self.failures));
        let output = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(at) = line.strip_prefix("ack ") {
                    acknowledged.lock().unwrap().insert(at.parse().unwrap());
                } else if line.starts_with("failed ") {
                    failures.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        self.running = Some((child, reader));
    }

    fn is_done(&self) -> bool {
        self.acknowledged.lock().unwrap().len() == KEYS
    }

    /// Reaps a writer that has exited, and restarts it if it was not finished.
    fn tend(&mut self) {
        if let Some((mut child, reader)) = self.running.take() {
            match child.try_wait().unwrap() {
                None => self.running = Some((child, reader)),
                Some(_) => reader.join().unwrap(),
            }
        }
        if self.running.is_none() && !self.is_done() {
            self.start();
        }
    }

    /// Kills the process unless it has only just started; otherwise it might never make progress on a
    /// loaded machine.
    fn kill_if_under_way(&mut self) -> bool {
        let under_way = self.started_with + 5 <= self.acknowledged.lock().unwrap().len();
        if under_way {
            self.kill();
        }
        under_way
    }

    fn kill(&mut self) {
        if let Some((child, _)) = &mut self.running {
            // It may have exited in the meantime.
            let _ = child.kill();
        }
    }
}

/// Leave no process behind when the test fails.
impl Drop for Writer {
    fn drop(&mut self) {
        self.kill();
        if let Some((child, _)) = &mut self.running {
            let _ = child.wait();
        }
    }
}

/// A small file system, if mounting is permitted.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|it| it.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Reads the file continuously and checks that it is never partial.
fn watch(file: PathBuf, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    std::thread::spawn(move || {
        let mut seen = 0;
        while !stop.load(Ordering::SeqCst) {
            if let Ok(text) = fs::read_to_string(&file) {
                let value: Value = serde_json::from_str(&text).expect("a reader found half a file");
                let keys = value["env"].as_object().map_or(0, serde_json::Map::len);
                assert!(seen <= keys, "keys were lost: {seen} then {keys}");
                seen = keys;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        seen
    })
}

#[test]
fn killed_writers_lose_no_acknowledged_change() {
    let directory = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(&directory.path().join("disk"));
    if disk.is_none() {
        eprintln!("SKIPPED in part: no right to mount a small disk, so it is never full in this run");
    }
    let root = directory.path().join("disk");
    fs::create_dir_all(root.join("haft")).unwrap();
    fs::create_dir_all(root.join("project")).unwrap();
    let file = root.join("haft/settings.json");
    fs::write(&file, "{\n  \"model\": \"mine\",\n  \"theme\": \"dark\"\n}\n").unwrap();
    let failures = Arc::new(AtomicUsize::new(0));
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer {
            number,
            root: root.clone(),
            acknowledged: Arc::default(),
            failures: Arc::clone(&failures),
            started_with: 0,
            running: None,
        })
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    let reader = watch(file.clone(), Arc::clone(&stop));
    let deadline = Instant::now() + Duration::from_secs(300);
    let (mut round, mut kills, mut filled) = (0_usize, 0, 0);
    while !writers.iter().all(Writer::is_done) {
        assert!(Instant::now() < deadline, "the writers do not come to an end");
        writers.iter_mut().for_each(Writer::tend);
        std::thread::sleep(Duration::from_millis(50));
        kills += usize::from(writers[round % WRITERS].kill_if_under_way());
        round += 1;
        let done: usize = writers.iter().map(|it| it.acknowledged.lock().unwrap().len()).sum();
        // Twice, at one third and two thirds, the disk stays full until a writer has failed.
        if disk.is_some() && filled < 2 && (filled + 1) * WRITERS * KEYS / 3 <= done {
            filled += 1;
            fill_until_noticed(&root, &failures, &mut writers);
        }
    }
    for writer in &mut writers {
        writer.kill();
        if let Some((mut child, reader)) = writer.running.take() {
            child.wait().unwrap();
            reader.join().unwrap();
        }
    }
    stop.store(true, Ordering::SeqCst);
    reader.join().unwrap();
    // A further change by a living process cleans up after the killed ones.
    let store = SettingsStore::open(places(&root), LoadOptions::default());
    store.update(SettingsScope::User, |it| it.insert("model".into(), json!("still mine"))).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    for writer in &writers {
        for at in 0..KEYS {
            assert_eq!(value["env"][key(writer.number, at)], at.to_string(), "acknowledged and lost");
        }
    }
    assert_eq!((&value["model"], &value["theme"]), (&json!("still mine"), &json!("dark")));
    assert!(
        text.starts_with("{\n  \"model\": \"still mine\",\n  \"theme\": \"dark\",\n  \"env\": {\n"),
        "{}",
        &text[..80]
    );
    assert_eq!(names(&root.join("haft")), ["cache", "settings.json"], "litter");
    assert_eq!(names(&root.join("haft/cache/last-good")).len(), 1, "litter");
    eprintln!("{kills} kills, {} failed writes on a full disk", failures.load(Ordering::SeqCst));
    assert!(disk.is_none() || 2 <= failures.load(Ordering::SeqCst));
}

/// Fills the disk completely, waits until a writer has failed, and frees the space.
fn fill_until_noticed(root: &Path, failures: &AtomicUsize, writers: &mut [Writer]) {
    let before = failures.load(Ordering::SeqCst);
    let filler = root.join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let deadline = Instant::now() + Duration::from_secs(60);
    while failures.load(Ordering::SeqCst) <= before {
        assert!(Instant::now() < deadline, "nobody noticed that the disk is full");
        writers.iter_mut().for_each(Writer::tend);
        // Fill the space that writers have freed in the meantime.
        while file.write_all(&[0; 512]).is_ok() {}
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(filler).unwrap();
}

#[test]
fn full_disk_is_an_error_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("disk")) else {
        eprintln!("SKIPPED: no right to mount a small disk");
        return;
    };
    let root = disk.0.clone();
    fs::create_dir_all(root.join("haft")).unwrap();
    fs::create_dir_all(root.join("project")).unwrap();
    let text = "{\n  \"model\": \"mine\"\n}\n";
    fs::write(root.join("haft/settings.json"), text).unwrap();
    let store = SettingsStore::open(places(&root), LoadOptions::default());
    let mut filler = fs::File::create(root.join("filler")).unwrap();
    while filler.write_all(&[0; 512]).is_ok() {}
    let long = "x".repeat(20_000);
    let failed = store.update(SettingsScope::User, |it| it.insert("theme".into(), json!(long)));
    assert!(failed.unwrap_err().to_string().contains("it was not changed"));
    assert_eq!(fs::read_to_string(root.join("haft/settings.json")).unwrap(), text);
    drop(filler);
    fs::remove_file(root.join("filler")).unwrap();
    store.update(SettingsScope::User, |it| it.insert("theme".into(), json!(long))).unwrap();
    assert_eq!(names(&root.join("haft")), ["cache", "settings.json"]);
}

#[test]
fn threads_of_one_process_exclude_each_other() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("project")).unwrap();
    let store = Arc::new(SettingsStore::open(places(directory.path()), LoadOptions::default()));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                for at in 0..10 {
                    let set = |it: &mut serde_json::Map<String, Value>| {
                        it.entry("env").or_insert_with(|| json!({}))[key(thread, at)] = json!("x");
                    };
                    store.update(SettingsScope::User, set).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|it| it.join().unwrap());
    assert_eq!(store.current().settings.env.len(), 40);
}
