//! Prompts that run later: in the session, and stored.

use crate::shell_rig::{Rig, call};

use std::{sync::Arc, time::Instant};

use haft_permission::{Behavior, Opinion, Policy};
use haft_schedule::{CronStore, ScheduleClock};
use haft_tool::{CallContext, DynTool};
use haft_tools::cron::ScheduleServices;
use haft_types::AgentId;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

/// A clock that starts where a test wants and then goes on, or stands.
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
        let rig = Rig::new();
        let store = Arc::new(CronStore::at(rig.outside.join("cron")));
        let clock = Arc::new(clock);
        let services = ScheduleServices { store: Arc::clone(&store), clock, session: Some("s1".into()) };
        let tools = haft_tools::cron::tools(&services, Arc::clone(&rig.tasks));
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

/// Names of jobs are new every time.
fn without_ids(text: &str) -> String {
    let is_id = |it: &str| it.len() == 8 && it.bytes().all(|it| it.is_ascii_hexdigit());
    text.split_inclusive([' ', ':', '.', '\n'])
        .map(|word| match is_id(word.trim_end_matches([' ', ':', '.', '\n'])) {
            true => format!("ID{}", &word[8..]),
            false => word.to_owned(),
        })
        .collect()
}

#[tokio::test]
async fn what_the_model_is_told() {
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
async fn a_job_of_the_session_speaks_when_its_time_comes() {
    // Half a second before a full minute.
    let later = Later::at("2026-11-16T10:00:59.5Z");
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

#[tokio::test]
async fn a_stored_job_is_on_the_disk_with_its_origin() {
    let later = Later::at("2026-11-16T10:00:00Z");
    later.said("CronCreate", json!({"cron": "15 4 * * *", "prompt": "p", "durable": true})).await;
    let jobs = CronStore::at(later.store.dir()).list().jobs;
    let [job] = jobs.as_slice() else { panic!("{jobs:?}") };
    assert_eq!((job.zone.as_str(), job.created_by.as_deref()), ("Europe/Berlin", Some("s1")));
    assert_eq!(job.dir, later.rig.work);
    assert!(job.expires.is_some() && job.max_turns == 20);
    assert!(later.said("CronDelete", json!({"id": job.id})).await.contains("Deleted"));
    assert!(later.store.list().jobs.is_empty());
    // What a project holds is nobody's job.
    std::fs::create_dir_all(later.rig.work.join(".claude")).unwrap();
    let task =
        json!({"tasks": [{"id": "aaaaaaaa", "cron": "* * * * *", "prompt": "evil", "recurring": true}]});
    std::fs::write(later.rig.work.join(".claude/scheduled_tasks.json"), task.to_string()).unwrap();
    assert_eq!(later.said("CronList", json!({})).await, "Nothing is scheduled.");
}

#[tokio::test]
async fn scheduling_asks_and_looking_does_not() {
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
        assert_eq!(policy.judge(name, &*call, &cx, &Opinion::None).behavior, want, "{name} {input}");
    }
}
