//! Jobs on disk, what is due, and each slot once.

use std::sync::Arc;

use haft_schedule::{
    CronJob, CronSpec, CronStore, DueRun, MissedPolicy, RunOutcome, RunRecord, RunWhy, due, new_job_id,
};
use jiff::Timestamp;

fn at(text: &str) -> Timestamp {
    format!("2026-06-{text}Z").parse().unwrap()
}

fn job(cron: &str) -> CronJob {
    CronJob {
        id: String::from("0a1b2c3d"),
        cron: cron.to_owned(),
        zone: String::from("UTC"),
        prompt: String::from("look"),
        dir: "/".into(),
        recurring: true,
        created: at("01T00:00:30"),
        created_by: None,
        expires: None,
        missed: MissedPolicy::Once,
        max_turns: 20,
        max_minutes: 15,
    }
}

fn is_due(job: &CronJob, now: &str, last: Option<&str>) -> Option<(Timestamp, RunWhy)> {
    let spec = CronSpec::parse(&job.cron).unwrap();
    due(job, &spec, at(now), last.map(at)).map(|DueRun { slot, why }| (slot, why))
}

#[test]
fn what_is_due_when() {
    use RunWhy::{CatchUp, Missed, Scheduled};
    let hourly = job("0 * * * *");
    for (now, last, want) in [
        ("01T00:30:00", None, None),
        ("01T01:00:00", None, Some(("01T01:00:00", Scheduled))),
        ("01T01:00:59", None, Some(("01T01:00:00", Scheduled))),
        ("01T01:00:59", Some("01T01:00:00"), None),
        // Nine hours of sleep are one run.
        ("01T10:20:00", Some("01T01:00:00"), Some(("01T10:00:00", CatchUp))),
        // A clock that was set back runs nothing again.
        ("01T09:55:00", Some("01T10:00:00"), None),
        ("01T10:01:00", Some("01T10:00:00"), None),
        // Weeks of sleep, too.
        ("29T10:20:00", Some("01T01:00:00"), Some(("29T10:00:00", CatchUp))),
    ] {
        let want = want.map(|(slot, why)| (at(slot), why));
        assert_eq!(is_due(&hourly, now, last), want, "{now} {last:?}");
    }
    let skipping = CronJob { missed: MissedPolicy::Skip, ..hourly.clone() };
    assert_eq!(is_due(&skipping, "01T10:20:00", None), Some((at("01T10:00:00"), Missed)));
    let once = CronJob { recurring: false, ..job("30 9 * * *") };
    assert_eq!(is_due(&once, "05T12:00:00", None), Some((at("01T09:30:00"), CatchUp)));
    let ended = CronJob { expires: Some(at("02T00:00:00")), ..hourly };
    assert_eq!(is_due(&ended, "03T10:00:00", None), None);
    let rare = job("0 0 2 * *");
    assert_eq!(is_due(&rare, "25T10:00:00", None), Some((at("02T00:00:00"), CatchUp)));
}

#[test]
fn one_process_gets_a_slot_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(CronStore::at(dir.path().join("cron")));
    for slot in 0..20 {
        let slot = Timestamp::from_second(1_700_000_000 + slot * 60).unwrap();
        let tickers: Vec<_> = (0..8)
            .map(|_| {
                let store = Arc::clone(&store);
                std::thread::spawn(move || store.claim("0a1b2c3d", slot).unwrap())
            })
            .collect();
        let got = tickers.into_iter().map(|it| it.join().unwrap()).filter(|it| *it).count();
        assert_eq!(got, 1);
        assert_eq!(store.last_slot("0a1b2c3d"), Some(slot));
    }
    let kept = std::fs::read_dir(dir.path().join("cron/slots/0a1b2c3d")).unwrap().count();
    assert!(kept <= 17, "{kept}");
    assert!(!store.claim("../../x", Timestamp::UNIX_EPOCH).unwrap());
}

#[test]
fn jobs_are_on_disk_and_damage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = CronStore::at(dir.path().join("cron"));
    assert!(store.list().jobs.is_empty());
    let first = CronJob { id: new_job_id(), ..job("0 9 * * *") };
    store.add(&first).unwrap();
    store.add(&CronJob { created: at("02T00:00:00"), ..job("0 9 * * *") }).unwrap();
    let again = CronStore::at(dir.path().join("cron"));
    assert_eq!(again.list().jobs.len(), 2);
    assert_eq!(again.list().jobs[0], first);
    let jobs = dir.path().join("cron/jobs");
    std::fs::write(jobs.join("ffffffff.json"), "{").unwrap();
    std::fs::write(jobs.join("eeeeeeee.json"), serde_json::to_vec(&first).unwrap()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", jobs.join("dddddddd.json")).unwrap();
    let stored = store.list();
    assert_eq!((stored.jobs.len(), stored.problems.len()), (2, 3));
    assert!(store.remove(&first.id).unwrap() && !store.remove(&first.id).unwrap());
    assert!(!store.remove("../../etc/passwd").unwrap());
    assert!(store.add(&CronJob { id: "../x".into(), ..first }).is_err());
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(jobs.join("0a1b2c3d.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn runs_are_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let store = CronStore::at(dir.path());
    for outcome in [RunOutcome::Done, RunOutcome::Failed("no".into()), RunOutcome::NotStarted("gone".into())]
    {
        let now = at("01T00:00:00");
        let run = RunRecord {
            job: "0a1b2c3d".into(),
            slot: now,
            why: RunWhy::Scheduled,
            began: now,
            ended: now,
            outcome,
        };
        store.record(&run).unwrap();
    }
    std::fs::OpenOptions::new()
        .append(true)
        .open(dir.path().join("runs.jsonl"))
        .map(|mut it| std::io::Write::write_all(&mut it, b"{torn"))
        .unwrap()
        .unwrap();
    let runs = store.runs();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[1].outcome, RunOutcome::Failed("no".into()));
}
