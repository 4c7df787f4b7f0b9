//! Permission prompts and questions of a run, answered remotely.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_tool::{BoxFuture, UserInteraction};
use haft_tool_runtime::{Approver, PendingMap, PermissionAnswer, PermissionQuestion};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

/// How long a question waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

/// Pending questions of a run, and answers that arrived before their question, because a run that moved
/// asks again. Clones share the state.
#[derive(Clone)]
pub(super) struct RunApprover(Arc<QuestionsInner>);

struct QuestionsInner {
    /// By the id of the call.
    pending: PendingMap<String, Value, Value>,
    /// Answers without a question. Locked before `pending`, so that an answer and its
    /// question cannot miss each other.
    early: Mutex<HashMap<String, Value>>,
    /// Notified when the pending questions change.
    news: mpsc::UnboundedSender<()>,
}

impl RunApprover {
    /// Creates an empty instance; the receiver is notified of changes.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<()>) {
        let (news, receiver) = mpsc::unbounded_channel();
        (
            Self(Arc::new(QuestionsInner { pending: PendingMap::default(), early: Mutex::default(), news })),
            receiver,
        )
    }

    /// Returns the pending questions as JSON.
    pub(super) fn open(&self) -> Vec<Value> {
        self.0.pending.questions()
    }

    /// Handles an answer to the question of a call.
    pub(super) fn answer(&self, answer: &Value) {
        let Some(call) = answer["call"].as_str() else { return };
        let mut early = self.0.early.lock().unwrap_or_else(PoisonError::into_inner);
        match self.0.pending.take(call) {
            Some((_, asker)) => drop(asker.send(answer.clone())),
            None => drop(early.insert(call.to_owned(), answer.clone())),
        }
        drop(early);
        self.0.news.send(()).ok();
    }

    /// The answer to a call's question; `None` if nobody answers in time.
    async fn answered(&self, call: String, question: Value) -> Option<Value> {
        let receiver = {
            let mut early = self.0.early.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(answer) = early.remove(&call) {
                return Some(answer);
            }
            self.0.pending.insert(call.clone(), question)?
        };
        let _guard = self.0.pending.guard(call, |_| {
            self.0.news.send(()).ok();
        });
        self.0.news.send(()).ok();
        tokio::time::timeout(TIMEOUT, receiver).await.ok()?.ok()
    }
}

impl Approver for RunApprover {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        let desk = self.clone();
        Box::pin(async move {
            let call = question.call_id.as_str().to_owned();
            let asked = json!({
                "call": call, "tool": question.tool, "text": question.description, "input": question.input,
                "choices": choices_of(&question.interaction),
            });
            match desk.answered(call, asked).await {
                Some(answer) => read_answer(&answer, &question.input, &question.interaction),
                None => PermissionAnswer::unavailable("nobody answered"),
            }
        })
    }
}

/// The texts of the questions that a call puts to the user.
fn choices_of(interaction: &UserInteraction) -> Vec<&str> {
    match interaction {
        UserInteraction::Questions(all) => all.iter().map(|it| it.question.as_str()).collect(),
        UserInteraction::None | UserInteraction::Plan(_) => Vec::new(),
    }
}

/// Interprets a remote answer for a call with this input.
fn read_answer(answer: &Value, input: &Value, interaction: &UserInteraction) -> PermissionAnswer {
    let text = answer["text"].as_str().unwrap_or_default().trim();
    let choices = choices_of(interaction);
    if !choices.is_empty() && !text.is_empty() {
        let mut input = input.clone();
        input["answers"] = Value::Object(answers_to(&choices, text));
        return PermissionAnswer::allow_with(input);
    }
    match text.to_lowercase().trim_end_matches(['.', '!']) {
        "y" | "yes" | "ok" | "allow" => PermissionAnswer::allow(),
        "n" | "no" | "deny" => PermissionAnswer::deny("whoever was asked said no"),
        _ => PermissionAnswer::deny(text.to_owned()),
    }
}

/// A line of the text for each question, and the last line for the rest.
fn answers_to(questions: &[&str], text: &str) -> Map<String, Value> {
    let mut lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    let mut last = "";
    let answers = questions.iter().map(|question| {
        last = lines.next().unwrap_or(last);
        ((*question).to_owned(), json!(last))
    });
    answers.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use haft_tool::UserQuestion;

    use super::*;

    #[test]
    fn remote_answers_are_interpreted() {
        let input = json!({"command": "ls"});
        let question = |text: &str| UserQuestion {
            question: text.to_owned(),
            header: String::new(),
            options: Vec::new(),
            multi_select: false,
        };
        let two = UserInteraction::Questions(vec![question("Colour?"), question("Size?")]);
        let of = |text: &str, asks: &UserInteraction| read_answer(&json!({"text": text}), &input, asks);
        for yes in ["yes", "Y", "ok.", "allow"] {
            assert_eq!(of(yes, &UserInteraction::None), PermissionAnswer::allow(), "{yes}");
        }
        for (text, said) in
            [("no", "whoever was asked said no"), ("use the other file", "use the other file"), ("", "")]
        {
            assert_eq!(of(text, &UserInteraction::None), PermissionAnswer::deny(said), "{text}");
        }
        for (text, answers) in [
            ("red\nlarge", json!({"Colour?": "red", "Size?": "large"})),
            ("any", json!({"Colour?": "any", "Size?": "any"})),
        ] {
            let want = json!({"command": "ls", "answers": answers});
            assert_eq!(of(text, &two), PermissionAnswer::allow_with(want), "{text}");
        }
    }

    #[tokio::test]
    async fn answer_before_its_question_is_used() {
        let (desk, mut news) = RunApprover::new();
        desk.answer(&json!({"call": "c1", "text": "yes"}));
        news.recv().await.unwrap();
        let answer = desk.answered(String::from("c1"), json!({"call": "c1"})).await;
        assert_eq!(answer.unwrap()["text"], "yes");
        let (answer, ()) = tokio::join!(desk.answered(String::from("c2"), json!({"call": "c2"})), async {
            assert_eq!(desk.open(), [json!({"call": "c2"})]);
            desk.answer(&json!({"call": "c2", "text": "no"}));
        });
        assert_eq!(answer.unwrap()["text"], "no");
        assert!(desk.open().is_empty());
    }
}
