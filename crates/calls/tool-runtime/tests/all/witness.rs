//! What is recorded in the call log before a call runs.

use std::sync::{Arc, Mutex};

use haft_permission::Behavior;
use haft_tool::ErrorKind;
use haft_tool_runtime::{AnsweredBy, ApprovalRecord, CallLog, CallStart, PermissionAnswer, Persisted};
use serde_json::{Value, json};

use crate::common::{Always, Setup};

/// Records the calls it receives and accepts or rejects them.
struct Recorder {
    told: Mutex<Vec<(String, Value, Option<ApprovalRecord>)>>,
    objection: Option<&'static str>,
}

impl CallLog for Recorder {
    fn starting(&self, call: &CallStart<'_>) -> Result<Option<Persisted>, String> {
        let asked = call.decision.and_then(|decision| decision.asked);
        self.told.lock().unwrap().push((call.call_id.to_string(), call.input.clone(), asked));
        self.objection.map_or(Ok(None), |why| Err(why.to_owned()))
    }
}

/// Returns the number of recorded calls, the number of runs, and the text the model reads.
async fn witnessed(
    input: Value,
    answer: PermissionAnswer,
    objection: Option<&'static str>,
) -> (usize, usize, Option<ErrorKind>, String) {
    let witness = Arc::new(Recorder { told: Mutex::default(), objection });
    let mut rig = Setup { ask: Some(Arc::new(Always(answer))), ..Setup::default() }.rig();
    rig.session.witness = Some(Arc::clone(&witness) as Arc<dyn CallLog>);
    let (error, text) = rig.run_one("Probe", input).await;
    let mut ran = 0;
    while rig.started.try_recv().is_ok() {
        ran += 1;
    }
    (witness.told.lock().unwrap().len(), ran, error, text)
}

#[tokio::test]
async fn allowed_changing_calls_are_logged_before_they_run() {
    let full = Some("the log is full; make room");
    for (input, answer, objection, want) in [
        (json!({}), PermissionAnswer::allow(), None, (1, 1, None)),
        (json!({}), PermissionAnswer::allow(), full, (1, 0, Some(ErrorKind::NotStarted))),
        (json!({"read_only": true}), PermissionAnswer::allow(), full, (0, 1, None)),
        (json!({"ask": true}), PermissionAnswer::allow(), None, (1, 1, None)),
        (json!({"ask": true}), PermissionAnswer::deny("no"), None, (0, 0, Some(ErrorKind::Denied))),
        (json!({"size": 13}), PermissionAnswer::allow(), None, (0, 0, Some(ErrorKind::InvalidInput))),
    ] {
        let (told, ran, error, text) = witnessed(input.clone(), answer, objection).await;
        assert_eq!((told, ran, error), want, "{input}: {text}");
        assert_eq!(text.contains("make room"), error == Some(ErrorKind::NotStarted), "{text}");
    }
}

#[tokio::test]
async fn call_log_and_report_carry_the_decision() {
    let witness = Arc::new(Recorder { told: Mutex::default(), objection: None });
    let mut rig = Setup { ask: Some(Arc::new(Always(PermissionAnswer::allow()))), ..Setup::default() }.rig();
    rig.session.witness = Some(Arc::clone(&witness) as Arc<dyn CallLog>);
    let reports = rig.run(&[("Probe", json!({"ask": true, "size": "3"}))]).await;
    let asked = Some(ApprovalRecord { answered_by: AnsweredBy::Person, answer: Behavior::Allow });
    let told = witness.told.lock().unwrap().clone();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.as_str(), told[0].2), ("call-0", asked));
    assert_eq!(told[0].1["size"], 3, "the input after coercion");
    let decision = reports[0].decision.as_deref().unwrap();
    assert_eq!((decision.behavior, decision.asked), (Behavior::Ask, asked));
}

/// Accepts at once; the record becomes durable later, or never.
struct Later(Mutex<Option<tokio::sync::oneshot::Receiver<Result<(), String>>>>);

impl CallLog for Later {
    fn starting(&self, _call: &CallStart<'_>) -> Result<Option<Persisted>, String> {
        let kept = self.0.lock().unwrap().take().unwrap();
        Ok(Some(Box::pin(async move { kept.await.unwrap_or_else(|_| Err(String::from("nobody kept it"))) })))
    }
}

#[tokio::test]
async fn call_runs_only_after_its_log_record_is_durable() {
    for (kept, runs) in [(Some(Ok(())), 1), (Some(Err(String::from("another has it"))), 0), (None, 0)] {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut rig =
            Setup { ask: Some(Arc::new(Always(PermissionAnswer::allow()))), ..Setup::default() }.rig();
        rig.session.witness = Some(Arc::new(Later(Mutex::new(Some(receiver)))));
        match &kept {
            Some(kept) => sender.send(kept.clone()).unwrap(),
            None => drop(sender),
        }
        let (error, text) = rig.run_one("Probe", json!({})).await;
        let mut ran = 0;
        while rig.started.try_recv().is_ok() {
            ran += 1;
        }
        assert_eq!(ran, runs, "{kept:?}: {text}");
        assert_eq!(error.is_some(), runs == 0, "{kept:?}: {text}");
    }
}
