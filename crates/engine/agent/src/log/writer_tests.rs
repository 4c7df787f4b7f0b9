use super::*;
use crate::log::{LogFile, LogState, read};

fn title(text: &str) -> LogEntry {
    LogEntry::CustomTitle { custom_title: text.to_owned(), session_id: String::from("s") }
}

fn introduction() -> LogEntry {
    LogEntry::Haft(LogState::Changes { changes: Vec::new() })
}

struct TestLog {
    dir: tempfile::TempDir,
    log: LogWriter,
}

impl TestLog {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = LogWriter::default();
        log.attach(LogFile::open(dir.path().join("log.jsonl")).unwrap(), introduction());
        Self { dir, log }
    }

    fn room(&self, room: Option<u64>) {
        self.log.queue().file.as_mut().unwrap().room = room;
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log.jsonl")
    }

    /// The titles in the log, and how many lines are no entries.
    fn titles(&self) -> (Vec<String>, usize) {
        let mut titles = Vec::new();
        let report = read(&self.path(), |entry| {
            if let LogEntry::CustomTitle { custom_title, .. } = entry {
                titles.push(custom_title);
            }
        });
        (titles, report.unwrap().unreadable)
    }
}

/// Wherever a disk is full, the log is in the end what it would have been.
#[test]
fn a_full_disk_at_any_byte_loses_nothing() {
    let say = |desk: &TestLog, from: usize| {
        for n in from..from + 3 {
            desk.log.append(vec![title(&format!("a{n}")), title(&format!("b{n}"))]).ok();
        }
    };
    let whole = TestLog::new();
    say(&whole, 0);
    whole.log.append(vec![title("between")]).unwrap();
    say(&whole, 3);
    let want = std::fs::read(whole.path()).unwrap();
    for room in 0..want.len() as u64 {
        let desk = TestLog::new();
        desk.room(Some(room));
        say(&desk, 0);
        // A little room comes back, and all of it.
        desk.room(Some(room % 7));
        desk.log.append(vec![title("between")]).ok();
        desk.room(None);
        say(&desk, 3);
        assert_eq!(
            String::from_utf8(std::fs::read(desk.path()).unwrap()),
            String::from_utf8(want.clone()),
            "{room}"
        );
    }
}

#[test]
fn the_person_hears_once_that_it_fails_and_once_that_it_works_again() {
    let desk = TestLog::new();
    desk.log.append(vec![title("a")]).unwrap();
    assert_eq!(desk.log.take_recovery(), None);
    desk.room(Some(5));
    assert_eq!(desk.log.append(vec![title("b")]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    desk.log.append(vec![title("c")]).unwrap();
    desk.log.append(vec![title("d")]).unwrap();
    assert_eq!(desk.log.take_recovery(), None);
    desk.room(None);
    desk.log.append(vec![title("e")]).unwrap();
    let told = desk.log.take_recovery().unwrap();
    assert!(told.contains("nothing is missing"), "{told}");
    assert_eq!(desk.log.take_recovery(), None);
    assert_eq!(desk.titles(), (["a", "b", "c", "d", "e"].map(String::from).to_vec(), 0));
}

#[test]
fn what_is_not_acknowledged_is_not_written_later() {
    for room in [0, 1, 20] {
        let desk = TestLog::new();
        desk.log.append(vec![title("a")]).unwrap();
        desk.room(Some(room));
        assert!(desk.log.acknowledge(title("never")).is_err());
        assert!(desk.log.append(vec![title("b")]).is_err());
        assert!(desk.log.acknowledge(title("never")).is_err());
        desk.room(None);
        desk.log.acknowledge(title("c")).unwrap();
        let (titles, _) = desk.titles();
        assert_eq!(titles, ["a", "b", "c"], "{room}");
    }
}

#[test]
fn lines_of_another_writer_do_not_mix_with_a_line_that_was_cut() {
    for room in 0..40 {
        let desk = TestLog::new();
        desk.log.append(vec![title("a")]).unwrap();
        desk.room(Some(room));
        desk.log.append(vec![title("b")]).unwrap_err();
        crate::log::session_list::rename(&desk.path(), "s", "beside").unwrap();
        desk.room(None);
        desk.log.append(vec![title("c")]).unwrap();
        let (titles, unreadable) = desk.titles();
        assert_eq!(titles, ["a", "beside", "b", "c"], "{room}");
        assert!(unreadable <= 1, "{room}");
    }
}

#[test]
fn a_log_that_is_gone_and_there_again() {
    let desk = TestLog::new();
    desk.log.append(vec![title("a")]).unwrap();
    let path = desk.path();
    let before = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(desk.log.acknowledge(title("never")).is_err());
    assert!(desk.log.append(vec![title("b")]).is_err());
    std::fs::write(&path, before).unwrap();
    desk.log.acknowledge(title("c")).unwrap();
    assert_eq!(desk.titles().0, ["a", "b", "c"]);
    assert!(LogFile::open(&path).is_err(), "the new file is locked too");
}

#[test]
fn what_waits_is_bounded_and_what_is_lost_is_said() {
    let desk = TestLog::new();
    desk.room(Some(0));
    let long = "x".repeat(MAX_WAITING / 4);
    desk.log.append(vec![title("a")]).unwrap_err();
    for _ in 0..6 {
        desk.log.append(vec![title(&long)]).unwrap();
    }
    assert!(desk.log.queue().waiting_bytes <= MAX_WAITING);
    desk.room(None);
    desk.log.append(vec![title("b")]).unwrap();
    let told = desk.log.take_recovery().unwrap();
    assert!(told.contains("3 lines are missing"), "{told}");
    let (titles, _) = desk.titles();
    assert_eq!((titles.len(), titles.last().map(String::as_str)), (5, Some("b")));
}

/// A call that was refused counts until it has run after all.
#[test]
fn refused_calls_are_reported_once_unless_they_run_later() {
    let desk = TestLog::new();
    let call = |tool: &str, input: &str| UnloggedCall { tool: tool.to_owned(), input: input.to_owned() };
    assert_eq!(desk.log.take_refused(), None);
    for refused in [call("Write", "1"), call("Write", "2"), call("Bash", "3")] {
        desk.log.refuse(refused);
    }
    desk.log.runs_now(&call("Write", "1"));
    desk.log.runs_now(&call("Bash", "other"));
    let told = desk.log.take_refused().unwrap();
    assert!(told.contains("(Write, Bash)") && told.contains("log.jsonl"), "{told}");
    assert_eq!(desk.log.take_refused(), None);
    desk.log.refuse(call("Write", "2"));
    desk.log.runs_now(&call("Write", "2"));
    assert_eq!(desk.log.take_refused(), None);
}
