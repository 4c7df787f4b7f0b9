//! Hooks and the classifier of auto mode think at the same time.

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

/// Says that it was asked, and says yes once it may.
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

/// What the hook says once the classifier was asked, how often that may answer
/// then, what comes of the call and how often the classifier was asked in all.
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
    // One after the other they would wait for each other for ever.
    let run = rig.run_one("Probe", json!({"ask": true, "size": 3}));
    let (error, text) = tokio::time::timeout(Duration::from_secs(60), run).await.expect("they never met");
    assert_eq!(error, want.0, "{text}");
    assert!(text.contains(want.1), "{text}");
    assert_eq!(meeting.asked.load(Ordering::SeqCst), asked);
}

#[tokio::test]
async fn hooks_and_the_classifier_think_at_the_same_time() {
    let event = |mut fields: Value| {
        fields["hookEventName"] = json!("PreToolUse");
        fields
    };
    check(event(json!({})), 1, (None, "xxx"), 1).await;
    // What was said about other words does not count.
    check(event(json!({"updatedInput": {"ask": true, "size": 5}})), 1, (None, "xxxxx"), 2).await;
    // Nobody waits for a classifier that nobody needs.
    let deny = json!({"permissionDecision": "deny", "permissionDecisionReason": "not today"});
    check(event(deny), 0, (Some(ErrorKind::Denied), "not today"), 1).await;
    let allow = json!({"permissionDecision": "allow"});
    check(event(allow), 0, (None, "xxx"), 1).await;
}
