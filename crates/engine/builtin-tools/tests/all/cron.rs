//! Scheduled prompts: in the session, and stored.

use crate::shell_rig::{Rig, call};

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use haft_builtin_tools::cron::CronServices;
use haft_permission::{Behavior, HookOpinion, Policy};
use haft_schedule::{CronStore, ScheduleClock};
use haft_tool::{CallContext, DynTool};
use haft_types::AgentId;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

/// A clock that starts at a given time and either runs or stands still.
struct FromHere(Timestamp, Option<Instant>);

impl ScheduleClock for FromHere {
    fn now(&self) -> Timestamp {
        self.0 + self.1.map(|it| it.elapsed()).unwrap_or_default()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::get("Europe/Berlin").unwrap()
    }
}

struct Later {
    rig: Rig,
    tools: Vec<Arc<dyn DynTool>>,
    store: Arc<CronStore>,
}

impl Later {
    fn at(now: &str) -> Self {
        Self::with(FromHere(now.parse().unwrap(), Some(Instant::now())))
    }

    fn with(clock: FromHere) -> Self {
        Self::by(Arc::new(clock))
    }

    fn by(clock: Arc<dyn ScheduleClock>) -> Self {
        let rig = Rig::new();
        let store = Arc::new(CronStore::at(rig.outside.join("cron")));
        Self::of_session("s1", rig, store, clock)
    }

    /// A session with its own tasks and a store that may be shared.
    fn of_session(name: &str, rig: Rig, store: Arc<CronStore>, clock: Arc<dyn ScheduleClock>) -> Self {
        let services = CronServices { store: Arc::clone(&store), clock, session: Some(name.into()) };
        let tools = haft_builtin_tools::cron::tools(&services, Arc::clone(&rig.tasks));
        Self { rig, tools, store }
    }

    fn tool(&self, name: &str) -> &Arc<dyn DynTool> {
        self.tools.iter().find(|it| it.name() == name).unwrap()
    }

    async fn said(&self, name: &str, input: Value) -> String {
        match call(self.tool(name), input, self.rig.context()).await {
            Ok(output) => output.content.to_text(),
            Err(error) => format!("{}: {}", error.kind.name(), error.message),
        }
    }
}

/// Replaces job ids, which are random.
fn without_ids(text: &str) -> String {
    let is_id = |it: &str| it.len() == 8 && it.bytes().all(|it| it.is_ascii_hexdigit());
    text.split_inclusive([' ', ':', '.', '\n'])
        .map(|word| {
            if is_id(word.trim_end_matches([' ', ':', '.', '\n'])) {
                format!("ID{}", &word[8..])
            } else {
                word.to_owned()
            }
        })
        .collect()
}

#[tokio::test]
async fn cron_tool_texts_match_snapshot() {
    let later = Later::with(FromHere("2026-11-16T10:00:00Z".parse().unwrap(), None));
    let told: Vec<Value> = later
        .tools
        .iter()
        .map(|tool| json!({ "name": tool.name(), "description": tool.spec().description, "input": tool.spec().input_schema }))
        .collect();
    insta::assert_json_snapshot!(told);
    let mut said = String::new();
    for (name, input) in [
        ("CronList", json!({})),
        ("CronCreate", json!({"cron": "30 9 * * 1-5", "prompt": "Look at the build"})),
        (
            "CronCreate",
            json!({"cron": "0 3 * * *", "prompt": "Tidy up", "durable": true, "recurring": false}),
        ),
        ("CronCreate", json!({"cron": "@daily", "prompt": "x"})),
        ("CronCreate", json!({"cron": "0 9 30 2 *", "prompt": "x"})),
        ("CronCreate", json!({"cron": "0 9 * * *", "prompt": " "})),
        ("ScheduleWakeup", json!({"delaySeconds": 5, "reason": "build", "prompt": "Look again"})),
        ("ScheduleWakeup", json!({"delaySeconds": 120, "prompt": ""})),
        ("CronList", json!({})),
        ("ScheduleWakeup", json!({"stop": true})),
        ("CronDelete", json!({"id": "nothing"})),
    ] {
        said.push_str(&format!(">>> {name} {input}\n{}\n\n", later.said(name, input.clone()).await));
    }
    insta::assert_snapshot!(without_ids(&said));
}

#[tokio::test]
async fn session_job_delivers_its_prompt_when_due() {
    // A few seconds before a full minute.
    let later = Later::at("2026-11-16T10:00:56Z");
    let made = later.said("CronCreate", json!({"cron": "* * * * *", "prompt": "Look\nat it"})).await;
    assert!(made.contains("every minute") && made.contains("11:01:00 CET"), "{made}");
    tokio::time::timeout(crate::web_rig::SOON, later.rig.tasks.news(&AgentId::Main)).await.unwrap();
    let news: String = later.rig.tasks.drain(&AgentId::Main).iter().map(|it| it.text()).collect();
    assert!(news.contains("Look at it") && news.contains("Scheduled prompt"), "{news}");
    let listed = later.said("CronList", json!({})).await;
    let id = listed.split(' ').next().unwrap().to_owned();
    assert_eq!(later.said("CronDelete", json!({"id": id})).await, format!("Deleted {id}."));
    assert_eq!(later.said("CronList", json!({})).await, "Nothing is scheduled.");
}

/// A job that expires before its first run is rejected.
#[tokio::test]
async fn job_expiring_before_its_first_run_is_rejected() {
    let later = Later::with(FromHere("2026-11-16T10:00:00Z".parse().unwrap(), None));
    for (cron, durable, refused) in [
        (
            "0 9 1 12 *",
            false,
            Some("next at Tue 2026-12-01 09:00:00 CET, and a prompt of the session ends after 7 days"),
        ),
        ("0 9 20 11 *", false, None),
        ("0 9 1 12 *", true, None),
        (
            "0 9 1 6 *",
            true,
            Some("next at Tue 2027-06-01 09:00:00 CEST, and a stored prompt ends after 90 days"),
        ),
    ] {
        for recurring in [true, false] {
            let input = json!({"cron": cron, "prompt": "x", "durable": durable, "recurring": recurring});
            let said = later.said("CronCreate", input).await;
            assert_eq!(said.contains("it would never run"), refused.is_some(), "{cron}: {said}");
            assert!(refused.is_none_or(|it| said.contains(it)), "{cron}: {said}");
        }
    }
    assert_eq!(later.store.list().jobs.len(), 2);
}

/// A time zone with rules but no name, like that of a copied `/etc/localtime`.
struct Nameless;

impl ScheduleClock for Nameless {
    fn now(&self) -> Timestamp {
        "2026-11-16T10:00:00Z".parse().unwrap()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap()
    }
}

/// Such a job follows the system's time zone.
#[tokio::test]
async fn job_in_unnamed_zone_follows_the_system_zone() {
    let later = Later::by(Arc::new(Nameless));
    let said = later.said("CronCreate", json!({"cron": "7 9 * * *", "prompt": "x", "durable": true})).await;
    assert!(said.contains("09:07:00 EST"), "{said}");
    let zone = later.store.list().jobs[0].zone.clone();
    assert!(TimeZone::get(&zone).is_err(), "{zone}");
    assert_eq!(haft_schedule::zone_named(&zone), TimeZone::system());
}

/// A clock that stands still until the test sets it, and counts how often it is read.
struct SetByHand {
    now: Mutex<Timestamp>,
    looks: AtomicU64,
}

impl ScheduleClock for SetByHand {
    fn now(&self) -> Timestamp {
        self.looks.fetch_add(1, Ordering::SeqCst);
        *self.now.lock().unwrap()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::UTC
    }

    fn glance(&self) -> Duration {
        Duration::from_millis(1)
    }
}

impl SetByHand {
    /// Sets the clock and waits until every waiter has read it and reacted.
    async fn set(&self, now: &str) {
        *self.now.lock().unwrap() = now.parse().unwrap();
        let before = self.looks.load(Ordering::SeqCst);
        while self.looks.load(Ordering::SeqCst) < before + 6 {
            tokio::task::yield_now().await;
        }
    }
}

/// Due times during a turn do not pile up: one prompt waits, and the next one says how many were
/// skipped.
#[tokio::test]
async fn due_times_during_a_turn_are_merged_and_counted() {
    let clock = Arc::new(SetByHand {
        now: Mutex::new("2026-11-16T10:01:00Z".parse().unwrap()),
        looks: AtomicU64::new(0),
    });
    let later = Later::by(Arc::clone(&clock) as Arc<dyn ScheduleClock>);
    later.said("CronCreate", json!({"cron": "*/5 * * * *", "prompt": "Look"})).await;
    let told = || later.rig.tasks.drain(&AgentId::Main).iter().map(|it| it.text()).collect::<String>();
    // The job must wait for its first run before the clock moves.
    clock.set("2026-11-16T10:01:00Z").await;
    // No turn ends for twenty minutes.
    for now in ["10:05", "10:10", "10:15", "10:20"] {
        clock.set(&format!("2026-11-16T{now}:01Z")).await;
    }
    tokio::time::timeout(crate::web_rig::SOON, later.rig.tasks.news(&AgentId::Main)).await.unwrap();
    let news = told();
    assert_eq!(news.matches("Scheduled prompt").count(), 1, "{news}");
    assert!(news.contains("(due 2026-11-16T10:05:00Z): Look"), "{news}");
    assert_eq!(told(), "", "nothing is left behind it");
    // The prompt was delivered, so the next due time counts again.
    clock.set("2026-11-16T10:25:01Z").await;
    tokio::time::timeout(crate::web_rig::SOON, later.rig.tasks.news(&AgentId::Main)).await.unwrap();
    let news = told();
    assert!(
        news.contains("(due 2026-11-16T10:25:00Z; its time came 3 times while the one before waited): Look"),
        "{news}"
    );
    // The same for due times while the machine sleeps.
    clock.set("2026-11-16T19:00:01Z").await;
    tokio::time::timeout(crate::web_rig::SOON, later.rig.tasks.news(&AgentId::Main)).await.unwrap();
    assert_eq!(told().matches("Scheduled prompt").count(), 1);
}

/// A prompt is delivered only to the session that created it; other sessions cannot list or delete it. A
/// stored one belongs to its directory and is delivered to no session.
#[tokio::test]
async fn session_job_prompt_reaches_only_its_session() {
    let clock = Arc::new(SetByHand {
        now: Mutex::new("2026-11-16T10:01:00Z".parse().unwrap()),
        looks: AtomicU64::new(0),
    });
    let by = || Arc::clone(&clock) as Arc<dyn ScheduleClock>;
    let one = Later::by(by());
    let two = Later::of_session("s2", Rig::new(), Arc::clone(&one.store), by());
    one.said("CronCreate", json!({"cron": "*/5 * * * *", "prompt": "For one"})).await;
    two.said("CronCreate", json!({"cron": "*/5 * * * *", "prompt": "For two"})).await;
    one.said("CronCreate", json!({"cron": "*/5 * * * *", "prompt": "Stored", "durable": true})).await;
    let one_lists = one.said("CronList", json!({})).await;
    let two_lists = two.said("CronList", json!({})).await;
    assert!(one_lists.contains("For one") && !one_lists.contains("For two"), "{one_lists}");
    assert!(two_lists.contains("For two") && !two_lists.contains("For one"), "{two_lists}");
    let id = one_lists.lines().find(|it| it.contains("For one")).unwrap();
    let id = id.split_whitespace().next().unwrap();
    let gone = two.said("CronDelete", json!({"id": id})).await;
    assert!(!gone.contains("Deleted"), "{gone}");
    clock.set("2026-11-16T10:01:00Z").await;
    clock.set("2026-11-16T10:05:01Z").await;
    for (session, wanted, others) in [(&one, "For one", "For two"), (&two, "For two", "For one")] {
        tokio::time::timeout(crate::web_rig::SOON, session.rig.tasks.news(&AgentId::Main)).await.unwrap();
        let news: String = session.rig.tasks.drain(&AgentId::Main).iter().map(|it| it.text()).collect();
        assert!(news.contains(wanted) && !news.contains(others) && !news.contains("Stored"), "{news}");
    }
    let jobs = one.store.list().jobs;
    assert_eq!((jobs.len(), &*jobs[0].dir), (1, &*one.rig.work), "{jobs:?}");
}

#[tokio::test]
async fn stored_job_records_its_origin_on_disk() {
    let later = Later::at("2026-11-16T10:00:00Z");
    later.said("CronCreate", json!({"cron": "15 4 * * *", "prompt": "p", "durable": true})).await;
    let jobs = CronStore::at(later.store.dir()).list().jobs;
    let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
    assert_eq!((&*job.zone, job.created_by.as_deref()), ("Europe/Berlin", Some("s1")));
    assert_eq!(*job.dir, *later.rig.work);
    assert!(job.expires.is_some() && job.max_turns == 20);
    assert!(later.said("CronDelete", json!({"id": job.id})).await.contains("Deleted"));
    assert!(later.store.list().jobs.is_empty());
    // Files in a project directory do not define jobs.
    std::fs::create_dir_all(later.rig.work.join(".claude")).unwrap();
    let task =
        json!({"tasks": [{"id": "aaaaaaaa", "cron": "* * * * *", "prompt": "evil", "recurring": true}]});
    std::fs::write(later.rig.work.join(".claude/scheduled_tasks.json"), task.to_string()).unwrap();
    assert_eq!(later.said("CronList", json!({})).await, "Nothing is scheduled.");
}

#[tokio::test]
async fn stored_job_with_accept_edits_always_asks() {
    for (mode, want) in
        [(json!(null), "default"), (json!("plan"), "plan"), (json!("acceptEdits"), "acceptEdits")]
    {
        let later = Later::at("2026-11-16T08:00:00Z");
        let mut input = json!({"cron": "7 9 * * 1", "prompt": "look", "durable": true});
        if !mode.is_null() {
            input["mode"] = mode;
        }
        let said = later.said("CronCreate", input.clone()).await;
        assert!(said.starts_with("Scheduled as "), "{said}");
        assert_eq!(later.store.list().jobs[0].mode.name(), want);
        let cx = later.rig.context();
        let call = Arc::clone(later.tool("CronCreate")).parse(input, &cx).unwrap();
        let asks = format!("{:?}", call.check_permissions(&cx)).contains("while nobody watches");
        assert_eq!(asks, want == "acceptEdits");
    }
    let later = Later::at("2026-11-16T08:00:00Z");
    for mode in ["bypassPermissions", "auto"] {
        let input = json!({"cron": "7 9 * * 1", "prompt": "x", "durable": true, "mode": mode});
        assert!(later.said("CronCreate", input).await.starts_with("invalid_input"), "{mode}");
    }
    let of_session =
        later.said("CronCreate", json!({"cron": "7 9 * * 1", "prompt": "x", "mode": "plan"})).await;
    assert!(of_session.contains("durable prompts only"), "{of_session}");
}

#[tokio::test]
async fn cron_create_asks_and_other_cron_tools_do_not() {
    let later = Later::at("2026-11-16T10:00:00Z");
    let cx = CallContext::detached("call_1", later.rig.work.as_path());
    let policy = Policy::builder(&later.rig.work).build();
    for (name, input, want) in [
        ("CronCreate", json!({"cron": "* * * * *", "prompt": "x"}), Behavior::Ask),
        ("CronCreate", json!({"cron": "* * * * *", "prompt": "x", "durable": true}), Behavior::Ask),
        ("CronList", json!({}), Behavior::Allow),
        ("CronDelete", json!({"id": "x"}), Behavior::Allow),
        ("ScheduleWakeup", json!({"delaySeconds": 60, "prompt": "x"}), Behavior::Allow),
    ] {
        let call = Arc::clone(later.tool(name)).parse(input.clone(), &cx).unwrap();
        assert_eq!(policy.judge(name, &*call, &cx, &HookOpinion::None).behavior, want, "{name} {input}");
    }
}
