//! One cost limit for all agents of a session.

use haft_session::AgentStatus;
use serde_json::json;

use crate::{
    agents::{is_child, reports},
    rig::{Place, Said, call, ends, run},
    skills::whole,
};

/// A few cents for twenty sub-agents: no request is sent without money, each agent has an outcome, and
/// the main agent receives all reports.
#[tokio::test]
async fn a_few_cents_hold_over_twenty_children() {
    let place = Place::new();
    let (spec, _) = place.answering(|_| Said::text("ok"));
    let one = ends(&run(spec, "go").await)[0].bill.usd;
    assert!(0.0 < one && one < 0.3, "{one}");
    for (limit, in_background) in
        [(4.0 * one, true), (4.0 * one, false), (8.0 * one, true), (8.0 * one, false)]
    {
        let place = Place::new();
        let (mut spec, requests) = place.answering(move |request| {
            if is_child(request) {
                Said::text(&"word ".repeat(200))
            } else if request.messages.len() == 1 {
                Said::Blocks(
                    (1..=20)
                        .flat_map(|n| {
                            let input = json!({"description": "d", "prompt": format!("task {n}"),
                            "run_in_background": in_background});
                            call(&format!("c{n}"), "Agent", input)
                        })
                        .collect(),
                )
            } else {
                Said::text("ok")
            }
        });
        if let Some(model) = &mut spec.model {
            model.limits.max_usd = Some(limit);
        }
        let events = run(spec, "go").await;
        let ended = reports(&events);
        assert_eq!(ended.len(), 20, "{limit} {in_background}");
        let stopped = ended.iter().filter(|it| it.status == AgentStatus::TruncatedByBudget).count();
        let worked = requests.all().iter().filter(|it| is_child(it)).count();
        assert_eq!(stopped + worked, 20, "{limit} {in_background}: what was not paid for was not sent");
        assert!(0 < stopped, "{limit} {in_background}");
        let turns = ends(&events);
        let bill = turns.last().unwrap().bill.usd;
        let main = requests.all().into_iter().rfind(|it| !is_child(it)).unwrap();
        assert!(bill <= limit, "{limit} {in_background}: {bill}");
        let children: f64 = ended.iter().map(|it| it.usd).sum();
        assert!(children <= limit, "{children}");
        if !in_background {
            let heard = whole(&main);
            assert_eq!(heard.matches("The agent a").count(), 20, "every ending is heard");
        }
    }
}
