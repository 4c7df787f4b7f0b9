//! Hooks and the auto-mode classifier run concurrently.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_hooks::{Callback, HookDefinition, HookEvent, HookHandler, HookPorts, HookSource, Hooks};
use haft_permission::{Classifier, ClassifierAnswer, ClassifierRequest, Policy};
use haft_tool::{BoxFuture, ErrorKind};
use haft_types::PermissionMode;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::common::Setup;

/// A classifier that signals when it is asked and answers "allow" when released.
struct Meeting {
    asked: AtomicUsize,
    was_asked: Semaphore,
    may_answer: Semaphore,
}

impl Classifier for Meeting {
    fn classify<'a>(&'a self, _request: &'a ClassifierRequest) -> BoxFuture<'a, ClassifierAnswer> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.was_asked.add_permits(1);
            self.may_answer.acquire().await.unwrap().forget();
            ClassifierAnswer::Approve
        })
    }
}

/// `says`: the hook's answer once the classifier was asked. `answers`: how often the classifier may
/// answer from then on. `want`: the outcome of the call. `asked`: total number of classifier requests.
async fn check(says: Value, answers: usize, want: (Option<ErrorKind>, &str), asked: usize) {
    let meeting = Arc::new(Meeting {
        asked: AtomicUsize::new(0),
        was_asked: Semaphore::new(0),
        may_answer: Semaphore::new(0),
    });
    let met = Arc::clone(&meeting);
    let callback = move |_: haft_hooks::HookCall| {
        let (met, says) = (Arc::clone(&met), says.clone());
        async move {
            met.was_asked.acquire().await.unwrap().forget();
            met.may_answer.add_permits(answers);
            Ok(json!({"hookSpecificOutput": says}).into())
        }
    };
    let handler = HookHandler::Callback(Callback { name: String::from("meeting"), code: Arc::new(callback) });
    let source = Arc::new(HookSource::Named(String::from("test")));
    let hook = HookDefinition::new(HookEvent::PreToolUse, handler, source);
    let classifier: Arc<dyn Classifier> = meeting.clone();
    let policy = Policy::builder("/").mode(PermissionMode::Auto).classifier(classifier).build();
    let hooks = Hooks::new(vec![hook], HookPorts::default());
    let mut rig = Setup { hooks, policy: Some(policy), ..Setup::default() }.rig();
    // If they ran one after the other, this would deadlock.
    let run = rig.run_one("Probe", json!({"ask": true, "size": 3}));
    let (error, text) = tokio::time::timeout(Duration::from_secs(60), run).await.expect("they never met");
    assert_eq!(error, want.0, "{text}");
    assert!(text.contains(want.1), "{text}");
    assert_eq!(meeting.asked.load(Ordering::SeqCst), asked);
}

#[tokio::test]
async fn hooks_and_classifier_run_concurrently() {
    let event = |mut fields: Value| {
        fields["hookEventName"] = json!("PreToolUse");
        fields
    };
    check(event(json!({})), 1, (None, "xxx"), 1).await;
    // The classifier's answer about the original input does not apply to the rewritten one.
    check(event(json!({"updatedInput": {"ask": true, "size": 5}})), 1, (None, "xxxxx"), 2).await;
    // The call does not wait for a classifier whose answer is not needed.
    let deny = json!({"permissionDecision": "deny", "permissionDecisionReason": "not today"});
    check(event(deny), 0, (Some(ErrorKind::Denied), "not today"), 1).await;
    let allow = json!({"permissionDecision": "allow"});
    check(event(allow), 0, (None, "xxx"), 1).await;
}
