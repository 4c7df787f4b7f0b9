//! Usage by agent, by model, and in total.

use std::collections::BTreeMap;

use haft_agent::log::session_cost;
use haft_session::{AgentStatus, LogStart, SessionEvent, UsageTotals, logged_agents};
use haft_types::Usage;
use serde_json::json;

use crate::{
    agents::{agent, is_child, last, main_results, reports},
    rig::{Place, Said, call, ends, run, text},
    skills::whole,
};

fn sum<'a>(all: impl IntoIterator<Item = &'a Usage>) -> Usage {
    let mut sum = Usage::default();
    all.into_iter().for_each(|it| sum += *it);
    sum
}

/// The totals equal the sum over agents and the sum over models.
fn adds_up(bill: &UsageTotals) {
    let by_agent = bill.agents.values().map(|it| it.usage()).collect::<Vec<_>>();
    assert_eq!(sum(&by_agent), sum(bill.models.values()), "{bill:#?}");
    let usd: f64 = bill.agents.values().map(|it| it.usd).sum();
    assert!((usd - bill.usd).abs() < 1e-9, "{usd} {}", bill.usd);
}

fn last_bill(events: &[SessionEvent]) -> UsageTotals {
    ends(events).last().unwrap().bill.clone()
}

/// Agents of several kinds, models and depths, one of them resumed: their usage equals their reports,
/// and the sum equals the totals and the logs.
#[tokio::test]
async fn what_agents_use_adds_up() {
    let place = Place::new();
    place.write("ws/.claude/agents/small.md", "---\nname: small\ndescription: d\nmodel: haiku\n---\nS.");
    let script = |request: &haft_model::Request| {
        let (is_child, heard) = (is_child(request), last(request));
        match (is_child, heard.as_str()) {
            (false, "go") => Said::Blocks(
                [
                    call(
                        "c1",
                        "Agent",
                        json!({"description": "d", "prompt": "outer", "run_in_background": false}),
                    ),
                    call(
                        "c2",
                        "Agent",
                        json!({"description": "d", "prompt": "alone", "name": "lone",
                        "subagent_type": "small", "run_in_background": false}),
                    ),
                ]
                .concat(),
            ),
            (true, "outer") => agent("c3", json!({"prompt": "inner", "subagent_type": "small"})),
            (false, "again") => {
                Said::Blocks(call("m1", "SendMessage", json!({"to": "lone", "message": "and then?"})))
            }
            (true, _) => Said::text(&"words of a child ".repeat(20)),
            (false, _) => Said::text("done"),
        }
    };
    let (spec, _) = place.answering(script);
    let events = run(spec, "go").await;
    let (bill, first) = (last_bill(&events), reports(&events));
    adds_up(&bill);
    assert_eq!((bill.agents.len(), bill.models.len()), (4, 2), "{bill:#?}");
    for report in &first {
        let of_agent = bill.agents.iter().find(|it| it.0.as_str() == report.agent_id).unwrap().1;
        assert_eq!(of_agent.usage(), report.usage, "{report:?}");
        assert_eq!((of_agent.kind.as_deref(), of_agent.estimated), (Some(report.kind.as_str()), 0));
        assert!((of_agent.usd - report.usd).abs() < 1e-12 && 0.0 < report.usd);
    }
    // The logs say the same.
    let main_log = first[0].log.as_ref().unwrap().parent().unwrap().parent().unwrap().with_extension("jsonl");
    let in_logs = |bill: &UsageTotals| {
        let of_agents: f64 = logged_agents(&main_log).iter().map(|it| it.cost.as_ref().unwrap().usd).sum();
        let together = session_cost::of_log(&main_log).unwrap().usd + of_agents;
        assert!((together - bill.usd).abs() < 1e-9, "{together} {}", bill.usd);
    };
    in_logs(&bill);
    // Another process goes on with one of them: its second run is counted once.
    let (mut spec, _) = place.answering(script);
    spec.log.start = LogStart::Newest;
    let events = run(spec, "again").await;
    let (after, second) = (last_bill(&events), reports(&events));
    adds_up(&after);
    in_logs(&after);
    let lone = first.iter().find(|it| it.name.as_deref() == Some("lone")).unwrap();
    assert_eq!((second.len(), second[0].agent_id.as_str()), (1, lone.agent_id.as_str()));
    assert!(bill.usd + second[0].usd < after.usd);
    let of_lone = after.agents.iter().find(|it| it.0.as_str() == lone.agent_id).unwrap().1;
    assert_eq!(of_lone.usage(), second[0].usage, "this run, and not the one before");
    assert_ne!(second[0].run_id, lone.run_id);
}

/// Truncated, broken and interrupted answers are charged.
#[tokio::test]
async fn what_an_interrupted_answer_used_is_counted() {
    let place = Place::new();
    let (spec, _) = place.answering(|request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("c1", json!({"run_in_background": false})),
        (true, 1) => Said::Fail,
        _ => Said::text("done"),
    });
    let events = run(spec, "go").await;
    assert_eq!(reports(&events)[0].status, AgentStatus::Failed);
    adds_up(&last_bill(&events));
}

/// Answers without usage data are marked as unknown, estimated, and counted against the limit.
#[tokio::test]
async fn what_nobody_tells_is_not_free() {
    let place = Place::new();
    let (spec, _) = place.answering(|_| Said::text("ok"));
    let one = last_bill(&run(spec, "go").await).usd;
    for (limit, wanted) in [(None, AgentStatus::Completed), (Some(1.2 * one), AgentStatus::TruncatedByBudget)]
    {
        let place = Place::new();
        let words = "a word or two ".repeat(50);
        let (mut spec, requests) =
            place.answering(move |request| match (is_child(request), request.messages.len()) {
                (false, 1) => Said::Untold(call(
                    "c1",
                    "Agent",
                    json!({"description": "d", "prompt": "p", "run_in_background": false}),
                )),
                (true, _) => Said::Untold(text(&words)),
                _ => Said::Untold(text("done")),
            });
        spec.model.as_mut().unwrap().limits.max_usd = limit;
        let events = run(spec, "go").await;
        let report = reports(&events)[0].clone();
        assert_eq!(report.status, wanted, "{:?}", report.why);
        let bill = last_bill(&events);
        adds_up(&bill);
        assert!(0.0 < bill.usd && bill.agents.values().all(|it| it.estimated == it.answers), "{bill:#?}");
        let sent: BTreeMap<bool, usize> = requests.all().iter().fold(BTreeMap::new(), |mut all, it| {
            *all.entry(is_child(it)).or_default() += 1;
            all
        });
        if limit.is_some() {
            assert_eq!(sent.get(&true), None, "{sent:?}");
            continue;
        }
        // Within a third of what was really sent.
        let asked = requests.all();
        let child = asked.iter().find(|it| is_child(it)).unwrap();
        let (real, counted) = (child.estimate_tokens(), report.usage.input_tokens);
        assert!(real / 3 * 2 <= counted && counted <= real / 2 * 3, "{real} {counted}");
        assert!(100 < report.usage.output_tokens, "{:?}", report.usage);
        assert_eq!((report.untold, report.to_json()["usageUnknown"].clone()), (1, json!(true)));
        assert!(
            main_results(&events)[0].1.contains("unknown tokens (about "),
            "{}",
            whole(asked.last().unwrap())
        );
        let logged = logged_agents(
            &report.log.as_ref().unwrap().parent().unwrap().parent().unwrap().with_extension("jsonl"),
        );
        assert_eq!(logged[0].cost.as_ref().unwrap().estimated, 1);
    }
}

/// Spending of a killed process is counted by the next one, including that of unreported sub-agents.
#[tokio::test]
async fn money_of_a_killed_process_is_spent() {
    let place = Place::new();
    let script = |request: &haft_model::Request| match (is_child(request), request.messages.len()) {
        (false, 1) => agent("c1", json!({"run_in_background": false})),
        (true, _) => Said::text(&"word ".repeat(100)),
        _ => Said::text("done"),
    };
    let (spec, _) = place.answering(script);
    let events = run(spec, "go").await;
    let (bill, report) = (last_bill(&events), reports(&events)[0].clone());
    let log = report.log.as_ref().unwrap().parent().unwrap().parent().unwrap().with_extension("jsonl");
    // As if it had died before the call of the agent came back.
    let whole = std::fs::read_to_string(&log).unwrap();
    let until = whole.lines().position(|it| it.contains("\"tool_result\"")).unwrap();
    let cut: String = whole.lines().take(until).flat_map(|it| [it, "\n"]).collect();
    assert!(!cut.contains("\"kind\":\"cost\""), "the sum of the prompt is not written yet");
    std::fs::write(&log, cut).unwrap();
    let (mut spec, requests) = place.answering(|_| Said::text("ok"));
    spec.log.start = LogStart::Newest;
    spec.model.as_mut().unwrap().limits.max_usd = Some(report.usd);
    let after = last_bill(&run(spec, "and now?").await);
    assert!(report.usd <= after.usd && after.usd <= bill.usd, "{} {} {}", report.usd, after.usd, bill.usd);
    assert_eq!(requests.all().len(), 0, "there is nothing left to ask with");
}
