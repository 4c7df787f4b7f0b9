//! Stored jobs, due runs, and claiming each slot once.

use std::{path::Path, sync::Arc};

use haft_schedule::{
    CronJob, CronJobId, CronSpec, CronStore, DueJob, MissedPolicy, RunOutcome, RunReason, RunRecord, due,
};
use jiff::Timestamp;

fn at(text: &str) -> Timestamp {
    format!("2026-06-{text}Z").parse().unwrap()
}

fn job(cron: &str) -> CronJob {
    CronJob {
        id: CronJobId::numbered(0x0a1b_2c3d),
        cron: cron.to_owned(),
        zone: "UTC".into(),
        prompt: String::from("look"),
        dir: Path::new("/").into(),
        recurring: true,
        created: at("01T00:00:30"),
        created_by: None,
        expires: None,
        missed: MissedPolicy::Once,
        mode: haft_schedule::JobMode::Default,
        max_turns: 20,
        max_minutes: 15,
        fleet: None,
    }
}

fn is_due(job: &CronJob, now: &str, last: Option<&str>) -> Option<(Timestamp, RunReason)> {
    let spec = CronSpec::parse(&job.cron).unwrap();
    due(job, &spec, at(now), last.map(at)).map(|DueJob { slot, why }| (slot, why))
}

#[test]
fn due_returns_slot_and_reason() {
    use RunReason::{CatchUp, Missed, Scheduled};
    let hourly = job("0 * * * *");
    for (now, last, want) in [
        ("01T00:30:00", None, None),
        ("01T01:00:00", None, Some(("01T01:00:00", Scheduled))),
        ("01T01:00:59", None, Some(("01T01:00:00", Scheduled))),
        ("01T01:00:59", Some("01T01:00:00"), None),
        // One run after nine hours of suspend.
        ("01T10:20:00", Some("01T01:00:00"), Some(("01T10:00:00", CatchUp))),
        // A clock that was set back repeats nothing.
        ("01T09:55:00", Some("01T10:00:00"), None),
        ("01T10:01:00", Some("01T10:00:00"), None),
        // Also after weeks.
        ("29T10:20:00", Some("01T01:00:00"), Some(("29T10:00:00", CatchUp))),
    ] {
        let want = want.map(|(slot, why)| (at(slot), why));
        assert_eq!(is_due(&hourly, now, last), want, "{now} {last:?}");
    }
    let skipping = CronJob { missed: MissedPolicy::Skip, ..hourly.clone() };
    assert_eq!(is_due(&skipping, "01T10:20:00", None), Some((at("01T10:00:00"), Missed)));
    let once = CronJob { recurring: false, ..job("30 9 * * *") };
    assert_eq!(is_due(&once, "05T12:00:00", None), Some((at("01T09:30:00"), CatchUp)));
    // A non-recurring job does not run again, even if it could not be deleted.
    assert_eq!(is_due(&once, "05T12:00:00", Some("01T09:30:00")), None);
    assert_eq!(is_due(&CronJob { recurring: false, ..job("0 0 1 1 *") }, "29T12:00:00", None), None);
    let ended = CronJob { expires: Some(at("02T00:00:00")), ..hourly };
    assert_eq!(is_due(&ended, "03T10:00:00", None), None);
    let rare = job("0 0 2 * *");
    assert_eq!(is_due(&rare, "25T10:00:00", None), Some((at("02T00:00:00"), CatchUp)));
    assert_eq!(is_due(&CronJob { expires: Some(at("10T00:00:00")), ..rare }, "25T10:00:00", None), None);
}

/// However long nothing ran and however rare the job is, one run is due, for the latest time.
#[test]
fn due_after_long_suspend_is_one_run() {
    let time = |text: &str| -> Timestamp { text.parse().unwrap() };
    for (cron, zone, created, now, want) in [
        ("0 0 1 * *", "UTC", "2026-01-01T00:00:00Z", "2026-09-20T00:00:00Z", "2026-09-01T00:00:00Z"),
        ("0 0 31 * *", "UTC", "2026-01-01T00:00:00Z", "2026-12-20T00:00:00Z", "2026-10-31T00:00:00Z"),
        ("0 0 29 2 *", "UTC", "2019-01-01T00:00:00Z", "2026-12-20T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("* * 1 1 *", "UTC", "2024-06-01T00:00:00Z", "2026-12-20T00:00:00Z", "2026-01-01T23:59:00Z"),
        ("* * * * *", "UTC", "2024-06-01T00:00:00Z", "2026-12-20T00:00:30Z", "2026-12-20T00:00:00Z"),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-01T00:00:00Z",
            "2026-10-25T01:45:00Z",
            "2026-10-25T00:30:00Z",
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-01T00:00:00Z",
            "2026-04-04T15:20:00Z",
            "2026-04-04T14:45:00Z",
        ),
        ("0 0 * * *", "Africa/Cairo", "2026-04-20T00:00:00Z", "2026-04-23T22:10:00Z", "2026-04-23T22:00:00Z"),
        (
            "30 0 * * 0",
            "America/Sao_Paulo",
            "2018-10-30T00:00:00Z",
            "2018-11-04T04:00:00Z",
            "2018-11-04T03:00:00Z",
        ),
    ] {
        let job = CronJob { zone: zone.into(), created: time(created), ..job(cron) };
        let spec = CronSpec::parse(cron).unwrap();
        let got = due(&job, &spec, time(now), None).unwrap();
        assert_eq!(got.slot, time(want), "{cron} in {zone}");
        assert_eq!(due(&job, &spec, time(now), Some(got.slot)), None, "{cron} in {zone}: once is enough");
    }
}

/// Exactly one process claims a slot: also if it looked, slept while another ran many slots, and claims
/// then; also after the clock was wrong for long.
#[test]
fn claim_succeeds_once_despite_suspends_and_wrong_clocks() {
    let dir = tempfile::tempdir().unwrap();
    let store = CronStore::at(dir.path());
    let claim = |second: i64| store.claim("0a1b2c3d", Timestamp::from_second(second).unwrap()).unwrap();
    let last = |now: i64| {
        store.last_slot_at("0a1b2c3d", Timestamp::from_second(now).unwrap()).map(|it| it.as_second())
    };
    const NOW: i64 = 1_780_000_200;
    for minute in 0..100 {
        assert!(claim(NOW + minute * 60));
    }
    for minute in 0..100 {
        assert!(!claim(NOW + minute * 60), "{minute} was claimed before");
    }
    // A year ahead for a while, then right again: nothing is blocked, nothing runs twice.
    let ahead = NOW + 365 * 86_400;
    for minute in 0..40 {
        assert!(claim(ahead + minute * 60));
    }
    let right = NOW + 100 * 60;
    for minute in 0..40 {
        let now = right + minute * 60;
        assert!(last(now).is_some_and(|it| it < now), "it is due at {minute}");
        assert!(claim(now) && !claim(now), "{minute}");
        assert_eq!(last(now), Some(now));
    }
    for minute in 24..40 {
        assert!(!claim(ahead + minute * 60), "{minute} of the year ahead was claimed before");
    }
    // A released slot can be claimed by another process.
    let slot = Timestamp::from_second(right + 41 * 60).unwrap();
    assert!(store.claim("0a1b2c3d", slot).unwrap());
    store.release("0a1b2c3d", slot).unwrap();
    assert!(store.claim("0a1b2c3d", slot).unwrap());
    // Claims of deleted jobs are kept while a process may still use them.
    let slots = dir.path().join("slots/0a1b2c3d");
    store.forget_gone(Timestamp::from_second(ahead).unwrap());
    assert!(slots.exists());
    store.forget_gone(Timestamp::from_second(ahead + 3 * 86_400).unwrap());
    assert!(!slots.exists());
}

#[test]
fn slot_is_claimed_by_one_process() {
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
fn store_lists_jobs_and_reports_invalid_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = CronStore::at(dir.path().join("cron"));
    assert!(store.list().jobs.is_empty());
    let first = CronJob { id: CronJobId::random(), ..job("0 9 * * *") };
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
    // A file whose name is not a job id, or does not match the id inside, is not a job.
    let named = serde_json::to_string(&first).unwrap();
    for name in ["../x", "0a1b2c3", "0a1b2c3d4"] {
        let named = named.replace(first.id.as_str(), name);
        std::fs::write(jobs.join("cccccccc.json"), named).unwrap();
        assert_eq!(store.list().problems.len(), 4, "{name}");
    }
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(jobs.join("0a1b2c3d.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn run_log_returns_latest_record_of_each_run() {
    let dir = tempfile::tempdir().unwrap();
    let store = CronStore::at(dir.path());
    for (minute, outcome) in [
        (0, RunOutcome::Began),
        (0, RunOutcome::Done),
        (1, RunOutcome::Began),
        (2, RunOutcome::NotStarted("gone".into())),
        (1, RunOutcome::Failed("no".into())),
        (3, RunOutcome::Began),
    ] {
        let now = at(&format!("01T00:0{minute}:00"));
        let run = RunRecord {
            job: "0a1b2c3d".into(),
            slot: now,
            why: RunReason::Scheduled,
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
    let outcomes: Vec<_> = runs.into_iter().map(|it| it.outcome).collect();
    let want = [
        RunOutcome::Done,
        RunOutcome::Failed("no".into()),
        RunOutcome::NotStarted("gone".into()),
        RunOutcome::Began,
    ];
    assert_eq!(outcomes, want);
}
