//! Simulates a year with clock changes, two tickers that check irregularly, suspended machines, and
//! clocks that are set wrong and corrected.

use std::{collections::BTreeSet, path::Path};

use haft_schedule::{CronJob, CronJobId, CronSpec, CronStore, DueJob, MissedPolicy, RunReason, due};
use jiff::{SignedDuration, Timestamp, ToSpan as _, civil::DateTime, tz::TimeZone};

/// Zones that change clocks by an hour in winter and summer, by half an hour, around Ramadan, never, and
/// at midnight.
const ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Africa/Cairo",
];

/// Expressions with their hours and minutes; no hours means every hour.
const JOBS: [(&str, &[i8], &[i8]); 4] = [
    ("30 2 * * *", &[2], &[30]),
    ("0 0,3 * * *", &[0, 3], &[0]),
    ("45 * * * *", &[], &[45]),
    ("*/30 1-3 * * *", &[1, 2, 3], &[0, 30]),
];

fn begin() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Reference: the times of each job within a year, computed minute by minute.
fn fires(zone: &TimeZone) -> [BTreeSet<Timestamp>; JOBS.len()] {
    let mut found = [const { BTreeSet::new() }; JOBS.len()];
    let matches = |job: usize, at: DateTime| {
        let (_, hours, minutes) = JOBS[job];
        (hours.is_empty() || hours.contains(&at.hour())) && minutes.contains(&at.minute())
    };
    let mut at = begin();
    let mut before = zone.to_datetime(at - 1.minute());
    let mut highest = before;
    for _ in 0..366 * 24 * 60 {
        let local = zone.to_datetime(at);
        let mut skipped = Vec::new();
        let mut missing = before + 1.minute();
        while missing < local {
            skipped.push(missing);
            missing += 1.minute();
        }
        for (job, (_, hours, _)) in JOBS.iter().enumerate() {
            let is_fixed = !hours.is_empty();
            let was_left_out = is_fixed && skipped.iter().any(|it| matches(job, *it));
            let is_again = is_fixed && local <= highest;
            if was_left_out || (matches(job, local) && !is_again) {
                found[job].insert(at);
            }
        }
        highest = highest.max(local);
        before = local;
        at += 1.minute();
    }
    found
}

/// Deterministic random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// One tick: claims and runs what is due.
fn tick(store: &CronStore, job: &CronJob, spec: &CronSpec, now: Timestamp) -> Option<DueJob> {
    let due = due(job, spec, now, store.last_slot_at(&job.id, now))?;
    store.claim(&job.id, due.slot).unwrap().then_some(due)
}

#[test]
fn simulated_year_runs_each_slot_once() {
    for (number, zone) in ZONES[..5].iter().enumerate() {
        let tz = TimeZone::get(zone).unwrap();
        let fires = fires(&tz);
        // Each zone with a fixed time and with every hour.
        for kind in [[0, 1, 3][number % 3], 2] {
            let (cron, ..) = JOBS[kind];
            let name = format!("{zone} {cron}");
            year(&name, &fires[kind], zone, cron, Dice((number * 10 + kind) as u64));
        }
    }
}

fn year(name: &str, all: &BTreeSet<Timestamp>, zone: &str, cron: &str, mut dice: Dice) {
    let dir = tempfile::tempdir().unwrap();
    let stores = [CronStore::at(dir.path()), CronStore::at(dir.path())];
    let job = CronJob {
        id: CronJobId::numbered(0x0a1b_2c3d),
        cron: cron.to_owned(),
        zone: zone.into(),
        prompt: String::from("look"),
        dir: Path::new("/").into(),
        recurring: true,
        created: begin(),
        created_by: None,
        expires: None,
        missed: MissedPolicy::Once,
        mode: haft_schedule::JobMode::Default,
        max_turns: 20,
        max_minutes: 15,
        fleet: None,
    };
    let spec = CronSpec::parse(cron).unwrap();
    let end = begin() + SignedDuration::from_hours(24 * 364);
    let (mut now, mut ran, mut late, mut sleeps) = (begin(), BTreeSet::new(), 0, 0);
    let mut awake_since = now;
    while now < end {
        // Both check at nearly the same time, in random order.
        let first = dice.roll(2) as usize;
        let mut got = Vec::new();
        for which in [first, 1 - first] {
            got.extend(tick(&stores[which], &job, &spec, now));
        }
        assert!(got.len() <= 1, "{name}: two runs at {now}: {got:?}");
        for run in got {
            assert!(all.contains(&run.slot), "{name}: {} is no time of it", run.slot);
            assert!(ran.insert(run.slot), "{name}: {} ran twice", run.slot);
            assert!(run.slot <= now);
            late += usize::from(run.why == RunReason::CatchUp);
            // While no ticker sleeps, no run is late.
            if awake_since <= run.slot {
                assert_eq!(run.why, RunReason::Scheduled, "{name}: {} at {now}", run.slot);
            }
        }
        now += match dice.roll(50) {
            0 => {
                sleeps += 1;
                let slept = SignedDuration::from_mins(30 + dice.roll(60 * 24 * 3) as i64);
                awake_since = now + slept;
                slept
            }
            // Set back a little: nothing runs again.
            1 => -SignedDuration::from_mins(1 + dice.roll(50) as i64),
            _ => SignedDuration::from_secs(61),
        };
    }
    // Every skipped time was during a suspend, and one run replaced it.
    let missed: Vec<_> = all.range(..end).filter(|it| !ran.contains(it)).collect();
    for slot in missed {
        let next = ran.range(*slot..).next();
        assert!(
            next.is_some() || end.duration_since(*slot) < SignedDuration::from_hours(24 * 5),
            "{name}: {slot} is lost"
        );
    }
    assert!(late <= sleeps, "{name}: {late} late runs after {sleeps} sleeps");
    assert!(sleeps / 2 < ran.len(), "{name}: {} runs, {sleeps} sleeps", ran.len());
}

/// From any starting time, the next time equals the reference, also in the hours around a clock change.
#[test]
fn next_after_is_independent_of_the_starting_time() {
    for zone in [ZONES[0], ZONES[2], ZONES[3], ZONES[5]] {
        let tz = TimeZone::get(zone).unwrap();
        let fires = fires(&tz);
        let end = begin() + SignedDuration::from_hours(24 * 364);
        let changes: Vec<Timestamp> =
            tz.following(begin()).map(|it| it.timestamp()).take_while(|it| *it < end).collect();
        for (job, (cron, ..)) in JOBS.iter().enumerate() {
            let spec = CronSpec::parse(cron).unwrap();
            for change in &changes {
                for seconds in (-4 * 3_600..4 * 3_600).step_by(97) {
                    let after = *change + SignedDuration::from_secs(seconds);
                    let want = fires[job].range(after + SignedDuration::from_nanos(1)..).next().copied();
                    assert_eq!(spec.next_after(after, &tz), want, "{cron} in {zone} after {after}");
                }
            }
        }
    }
}

#[test]
fn last_slot_at_ignores_slots_claimed_far_in_the_future() {
    let dir = tempfile::tempdir().unwrap();
    let store = CronStore::at(dir.path());
    let at = |text: &str| -> Timestamp { text.parse().unwrap() };
    for slot in ["2026-06-01T10:00:00Z", "2027-06-01T10:00:00Z"] {
        assert!(store.claim("0a1b2c3d", at(slot)).unwrap());
    }
    let last = |now: &str| store.last_slot_at("0a1b2c3d", at(now));
    assert_eq!(last("2026-06-01T11:00:00Z"), Some(at("2026-06-01T10:00:00Z")));
    assert_eq!(last("2027-06-01T09:00:00Z"), Some(at("2027-06-01T10:00:00Z")));
    assert_eq!(last("2027-06-02T09:00:00Z"), Some(at("2027-06-01T10:00:00Z")));
}
