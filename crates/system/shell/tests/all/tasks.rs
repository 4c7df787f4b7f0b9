#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{sync::Arc, time::Duration};

use common::{Rig, lives};
use haft_shell::{
    output::Mark,
    run::{BackgroundStatus, Exit, Stop, TaskAbout, TaskKind, TaskNoticeKind, TaskRegistry, WaitUntil},
};

const SOON: Duration = Duration::from_secs(60);

fn about(kind: TaskKind, agent: &str) -> TaskAbout {
    TaskAbout { kind, description: String::from("some work"), agent: agent.into() }
}

fn ended(status: &BackgroundStatus) -> bool {
    matches!(status, BackgroundStatus::Ended(_))
}

#[tokio::test]
async fn task_end_is_delivered_once_to_its_agent() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let first = tasks.adopt(rig.start("echo one; exit 3"), about(TaskKind::Command, "main"), Mark::default());
    let second = tasks.adopt(rig.start("echo two"), about(TaskKind::Command, "child"), Mark::default());
    tasks.news(&"main".into()).await;
    let told = tasks.drain(&"main".into());
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].task.id.as_str(), told[0].task.status.name()), (first.as_str(), "failed"));
    let text = told[0].text();
    assert!(text.contains("some work") && text.contains("exit code 3") && text.ends_with("one"), "{text}");
    assert!(tasks.drain(&"main".into()).is_empty() && !tasks.has_news(&"main".into()));
    // The child agent has ended its turn; its parent takes over.
    tasks.news(&"child".into()).await;
    let told = tasks.drain_where(|agent| !agent.is_main());
    assert_eq!((told.len(), told[0].task.id.as_str()), (1, second.as_str()));
    assert!(ended(&tasks.get(&first).unwrap().status), "ids stay known");
}

#[tokio::test]
async fn task_end_that_was_read_is_not_drained() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let id = tasks.adopt(
        rig.start("echo one; until [ -e go ]; do sleep 0.01; done; echo two"),
        about(TaskKind::Command, "main"),
        Mark::default(),
    );
    assert!(tasks.wait(&id, WaitUntil::News, SOON).await);
    let read = tasks.read(&id, 1_000).unwrap();
    assert_eq!((read.fresh.text.as_str(), ended(&read.info.status)), ("one\n", false));
    assert_eq!(tasks.read(&id, 1_000).unwrap().fresh.text, "");
    std::fs::write(rig.work().join("go"), "").unwrap();
    assert!(tasks.wait(&id, WaitUntil::Ended, SOON).await);
    let read = tasks.read(&id, 1_000).unwrap();
    assert_eq!((read.fresh.text.as_str(), ended(&read.info.status)), ("two\n", true));
    assert!(tasks.drain(&"main".into()).is_empty());
    assert!(!tasks.wait("bash_99", WaitUntil::Ended, SOON).await && tasks.read("bash_99", 1).is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn task_end_reaches_reader_or_drainer_never_both() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(tasks.adopt(rig.start("exit 0"), about(TaskKind::Command, "main"), Mark::default()));
    }
    let reader = |tasks: Arc<TaskRegistry>, ids: Vec<String>| async move {
        let mut learnt = Vec::new();
        for id in ids {
            if ended(&tasks.read(&id, 100).unwrap().info.status) {
                learnt.push(id);
            }
        }
        learnt
    };
    let drainer = |tasks: Arc<TaskRegistry>| async move {
        let mut told = Vec::new();
        for _ in 0..200 {
            told.extend(tasks.drain(&"main".into()).into_iter().map(|it| it.task.id));
            tokio::task::yield_now().await;
        }
        told
    };
    let (first, second) = (tokio::spawn(drainer(tasks.clone())), tokio::spawn(drainer(tasks.clone())));
    let read = tokio::spawn(reader(tasks.clone(), ids.clone()));
    let read: Vec<String> = read.await.unwrap();
    let mut told = [first.await.unwrap(), second.await.unwrap()].concat();
    for id in &ids {
        assert!(tasks.wait(id, WaitUntil::Ended, SOON).await);
    }
    told.extend(tasks.drain(&"main".into()).into_iter().map(|it| it.task.id));
    for id in &ids {
        let times = told.iter().filter(|it| *it == id).count();
        assert!(times <= 1, "{id} was told {times} times");
        assert!(times == 1 || read.contains(id), "{id} was told nobody");
    }
}

#[tokio::test]
async fn watch_delivers_lines_before_its_end() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let id = tasks.watch(rig.start("echo a; printf 'b\\rc\\n'; printf last"), about(TaskKind::Watch, "main"));
    let mut lines = Vec::new();
    loop {
        tasks.news(&"main".into()).await;
        let mut over = false;
        for notice in tasks.drain(&"main".into()) {
            assert_eq!(notice.task.id, id);
            match notice.news {
                TaskNoticeKind::Events(events, missed) => {
                    assert!(!over && missed == 0);
                    lines.extend(events);
                }
                TaskNoticeKind::Ended(_) => over = true,
            }
        }
        if over {
            break;
        }
    }
    assert_eq!(lines, ["a", "c", "last"]);
}

#[tokio::test]
async fn a_flood_of_events_is_bounded_and_counted() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let id = tasks.watch(rig.start("seq 100000"), about(TaskKind::Watch, "main"));
    assert!(tasks.wait(&id, WaitUntil::Ended, SOON).await);
    let mut kept = 0;
    let mut missed = 0;
    let mut over = false;
    while !over {
        tasks.news(&"main".into()).await;
        for notice in tasks.drain(&"main".into()) {
            assert!(notice.text().chars().count() < 25_000);
            match notice.news {
                TaskNoticeKind::Events(events, more) => {
                    kept += events.len() as u64;
                    missed += more;
                }
                TaskNoticeKind::Ended(_) => over = true,
            }
        }
    }
    assert_eq!(kept + missed, 100_000);
    assert!(0 < missed);
}

#[tokio::test]
async fn stopped_task_kills_descendants_without_notice() {
    haft_shell::own::adopt_orphans().unwrap();
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let job = rig.start("(setsid sleep 600 &); echo up; sleep 600");
    let id = tasks.adopt(job.clone(), about(TaskKind::Command, "main"), Mark::default());
    tasks.wait(&id, WaitUntil::News, SOON).await;
    let pids: Vec<i32> =
        rig.shell.owner().list().iter().flat_map(|it| it.processes.iter().map(|it| it.id.pid)).collect();
    assert!(2 <= pids.len());
    let info = tasks.stop(&id).await.unwrap();
    assert_eq!(info.status.name(), "killed");
    job.gone().await;
    assert!(!pids.into_iter().any(lives));
    assert!(tasks.drain(&"main".into()).is_empty());
    assert!(tasks.stop("bash_77").await.is_none());
}

#[tokio::test]
async fn foreground_call_is_moved_to_background() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let job = rig.shell.start(rig.spec("sleep 60")).unwrap();
    let foreground = tasks.in_foreground(&job);
    assert!(!tasks.move_to_background(Some(&"call_2".into())));
    assert!(tasks.move_to_background(None));
    foreground.moved().await;
    drop(foreground);
    assert!(!tasks.move_to_background(None));
    job.stop(Stop::Interrupted);
    job.gone().await;
}

#[tokio::test]
async fn running_lists_tasks_and_foreground_commands_until_gone() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let lines = || {
        let mut lines: Vec<String> = tasks.running().into_iter().map(|(line, _)| line).collect();
        lines.sort();
        lines
    };
    assert!(lines().is_empty());
    let task = rig.shell.start(rig.spec("sleep 60")).unwrap();
    tasks.adopt(task.clone(), about(TaskKind::Command, "main"), Mark::default());
    let left = rig.shell.start(rig.spec("sleep 61 & true")).unwrap();
    left.ended().await;
    tasks.adopt(left.clone(), about(TaskKind::Leftover, "main"), Mark::default());
    let waited = rig.shell.start(rig.spec("sleep 62")).unwrap();
    let foreground = tasks.in_foreground(&waited);
    assert_eq!(lines(), ["sleep 60", "sleep 61 & true", "sleep 62"]);
    drop(foreground);
    for job in [&task, &left, &waited] {
        job.stop(Stop::Interrupted);
        job.gone().await;
    }
    assert!(lines().is_empty());
}

#[tokio::test]
async fn feed_job_delivers_lines_and_end_as_task() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let (job, feed) = rig.shell.feed(rig.spec("ws://x")).unwrap();
    let id = tasks.watch(job.clone(), about(TaskKind::Watch, "main"));
    feed.write(b"frame\n");
    tasks.news(&"main".into()).await;
    assert!(
        matches!(&tasks.drain(&"main".into())[0].news, TaskNoticeKind::Events(lines, 0) if lines == &["frame"])
    );
    let stopping = tokio::spawn(async move {
        let why = feed.asked_to_stop().await;
        feed.end(String::from("closed"), Some(why));
    });
    tasks.stop(&id).await.unwrap();
    stopping.await.unwrap();
    assert_eq!(job.ended().await.exit, Exit::Closed(String::from("closed")));
}

/// Ids stay valid for the session; descriptors are closed.
#[tokio::test]
async fn tasks_that_ended_hold_no_descriptors() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    // Other tests open files too: count only descriptors of jobs.
    let held = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter(|it| std::fs::read_link(it.path()).is_ok_and(|to| is_of_a_job(&to, &rig))).count()
    };
    let mut ids = Vec::new();
    for round in 0..60 {
        let mut spec = rig.spec("head -c 300000 /dev/zero; true");
        if round % 3 == 1 {
            let channel = tempfile::tempfile_in(rig.dir.path()).unwrap();
            spec.channel = Some(Arc::new(channel.into()));
        }
        if round % 3 == 2 {
            spec.terminal = haft_shell::run::TerminalMode::Own;
        }
        let job = rig.shell.start(spec).unwrap();
        ids.push(tasks.adopt(job.clone(), about(TaskKind::Command, "main"), Mark::default()));
        job.gone().await;
    }
    let (feed, writer) = rig.shell.feed(rig.spec("a feed")).unwrap();
    writer.write(b"line\n");
    writer.end(String::from("closed"), None);
    ids.push(tasks.adopt(feed, about(TaskKind::Watch, "main"), Mark::default()));
    assert!(ids.iter().all(|id| ended(&tasks.get(id).unwrap().status)));
    common::eventually("descriptors are closed", || held() <= 8);
}

/// Whether the descriptor belongs to a job: output, channel, terminal and similar.
fn is_of_a_job(link: &std::path::Path, rig: &Rig) -> bool {
    let name = link.to_string_lossy();
    name.contains("eventfd") || name.contains("ptmx") || name.starts_with(&*rig.dir.path().to_string_lossy())
}

#[tokio::test]
async fn task_that_ends_while_read_tells_its_end_to_the_reader_alone() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let job = rig.start("echo late; exit 3");
    let id = tasks.adopt(job.clone(), about(TaskKind::Command, "main"), Mark::default());
    let reader = tasks.reader(&id).unwrap();
    job.gone().await;
    // The announcing task wakes up together with the reader and may run first.
    assert!(!tasks.has_news(&"main".into()) && tasks.agents_with_news().is_empty());
    assert!(tasks.drain(&"main".into()).is_empty());
    reader.wait(WaitUntil::Ended, SOON).await;
    let read = reader.read(1_000).unwrap();
    assert_eq!((read.fresh.text.as_str(), read.info.status.name()), ("late\n", "failed"));
    drop(reader);
    assert!(tasks.drain(&"main".into()).is_empty(), "it is not announced again");
    assert!(tasks.reader("bash_99").is_none());
}

#[tokio::test]
async fn task_whose_reader_left_is_announced_and_can_still_be_read() {
    let rig = Rig::new();
    let tasks = TaskRegistry::new(rig.shell.clone());
    let job = rig.start("seq 30");
    let id = tasks.adopt(job.clone(), about(TaskKind::Command, "main"), Mark::default());
    let reader = tasks.reader(&id).unwrap();
    job.gone().await;
    let agent = "main".into();
    let news = tasks.news(&agent);
    tokio::pin!(news);
    assert!(tokio::time::timeout(Duration::ZERO, &mut news).await.is_err());
    drop(reader);
    tokio::time::timeout(SOON, news).await.unwrap();
    let told = tasks.drain(&"main".into());
    assert!(matches!(&told[0].news, TaskNoticeKind::Ended(lines) if lines.len() == 20), "{told:?}");
    let all: String = (1..=30).map(|it| format!("{it}\n")).collect();
    assert_eq!(tasks.read(&id, 1_000).unwrap().fresh.text, all, "the notice had the last lines only");
}
