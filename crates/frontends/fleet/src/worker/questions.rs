//! Permission prompts and questions of a run, answered remotely.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_tool::BoxFuture;
use haft_tool_runtime::{Answer, Approver, Question};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

/// How long a question waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

/// Pending questions of a run, and answers that arrived before their question, because a run that moved
/// asks again. Clones share the state.
#[derive(Clone)]
pub(super) struct RunApprover(Arc<QuestionsInner>);

struct QuestionsInner {
    waiting: Mutex<OpenAnswers>,
    /// Notified when the pending questions change.
    news: mpsc::UnboundedSender<()>,
}

#[derive(Default)]
struct OpenAnswers {
    /// By call id.
    asked: BTreeMap<String, (Value, oneshot::Sender<Value>)>,
    answers: HashMap<String, Value>,
}

impl RunApprover {
    /// Creates an empty instance; the receiver is notified of changes.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<()>) {
        let (news, receiver) = mpsc::unbounded_channel();
        (Self(Arc::new(QuestionsInner { waiting: Mutex::default(), news })), receiver)
    }

    fn waiting(&self) -> MutexGuard<'_, OpenAnswers> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pending questions as JSON.
    pub(super) fn open(&self) -> Vec<Value> {
        self.waiting().asked.values().map(|it| it.0.clone()).collect()
    }

    /// Handles an answer to the question of a call.
    pub(super) fn answer(&self, answer: &Value) {
        let Some(call) = answer["call"].as_str() else { return };
        let mut waiting = self.waiting();
        match waiting.asked.remove(call) {
            Some((_, asker)) => drop(asker.send(answer.clone())),
            None => drop(waiting.answers.insert(call.to_owned(), answer.clone())),
        }
        drop(waiting);
        self.0.news.send(()).ok();
    }

    /// Returns the answer to a call's question if it has already arrived, or a receiver for it.
    fn wait_for(&self, call: &str, question: Value) -> Result<Value, oneshot::Receiver<Value>> {
        let mut waiting = self.waiting();
        if let Some(answer) = waiting.answers.remove(call) {
            return Ok(answer);
        }
        let (sender, receiver) = oneshot::channel();
        waiting.asked.insert(call.to_owned(), (question, sender));
        drop(waiting);
        self.0.news.send(()).ok();
        Err(receiver)
    }
}

/// Removes a question when its caller stops waiting.
struct AskedCallGuard<'a> {
    desk: &'a RunApprover,
    call: String,
}

impl Drop for AskedCallGuard<'_> {
    fn drop(&mut self) {
        if self.desk.waiting().asked.remove(&self.call).is_some() {
            self.desk.0.news.send(()).ok();
        }
    }
}

impl Approver for RunApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let call = question.call_id.as_str().to_owned();
        let asked = json!({
            "call": call, "tool": question.tool, "text": question.description, "input": question.input,
            "choices": choices_of(question.input),
        });
        let input = question.input.clone();
        Box::pin(async move {
            let answer = match self.wait_for(&call, asked) {
                Ok(answer) => answer,
                Err(receiver) => {
                    let _asked = AskedCallGuard { desk: self, call };
                    match tokio::time::timeout(TIMEOUT, receiver).await {
                        Ok(Ok(answer)) => answer,
                        Ok(Err(_)) | Err(_) => return Answer::unasked("nobody answered"),
                    }
                }
            };
            read_answer(&answer, input)
        })
    }
}

/// Returns the questions in the input of a call (`AskUserQuestion`).
fn choices_of(input: &Value) -> Value {
    let texts = input["questions"].as_array().into_iter().flatten().filter_map(|it| it["question"].as_str());
    json!(texts.collect::<Vec<_>>())
}

/// Interprets a remote answer for a call with this input.
fn read_answer(answer: &Value, mut input: Value) -> Answer {
    let text = answer["text"].as_str().unwrap_or_default().trim();
    let questions: Vec<String> = choices_of(&input)
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    if !questions.is_empty() && !text.is_empty() {
        // One line per question; the last line answers the remaining ones.
        let mut lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
        let mut last = lines.next().unwrap_or_default();
        let answers: Map<String, Value> = questions
            .into_iter()
            .enumerate()
            .map(|(number, question)| {
                if 0 < number {
                    last = lines.next().unwrap_or(last);
                }
                (question, json!(last))
            })
            .collect();
        input["answers"] = Value::Object(answers);
        return Answer::Allow { updated_input: Some(input), updates: Vec::new() };
    }
    match text.to_lowercase().trim_end_matches(['.', '!']) {
        "y" | "yes" | "ok" | "allow" => Answer::yes(),
        "n" | "no" | "deny" => Answer::no("whoever was asked said no"),
        _ => Answer::no(text.to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[test]
    fn remote_answers_are_interpreted() {
        let plain = json!({"command": "ls"});
        let two = json!({"questions": [{"question": "Colour?"}, {"question": "Size?"}]});
        let of = |text: &str, input: &Value| read_answer(&json!({"text": text}), input.clone());
        for yes in ["yes", "Y", "ok.", "allow"] {
            assert_eq!(of(yes, &plain), Answer::yes(), "{yes}");
        }
        for (text, said) in
            [("no", "whoever was asked said no"), ("use the other file", "use the other file"), ("", "")]
        {
            assert_eq!(of(text, &plain), Answer::no(said), "{text}");
        }
        for (text, answers) in [
            ("red\nlarge", json!({"Colour?": "red", "Size?": "large"})),
            ("any", json!({"Colour?": "any", "Size?": "any"})),
        ] {
            let Answer::Allow { updated_input: Some(input), .. } = of(text, &two) else { panic!("{text}") };
            assert_eq!(input["answers"], answers);
        }
    }

    #[tokio::test]
    async fn answer_before_its_question_is_used() {
        let (desk, mut news) = RunApprover::new();
        desk.answer(&json!({"call": "c1", "text": "yes"}));
        news.recv().await.unwrap();
        assert_eq!(desk.wait_for("c1", json!({"call": "c1"})).unwrap()["text"], "yes");
        let receiver = desk.wait_for("c2", json!({"call": "c2"})).unwrap_err();
        assert_eq!(desk.open(), [json!({"call": "c2"})]);
        desk.answer(&json!({"call": "c2", "text": "no"}));
        assert_eq!(receiver.await.unwrap()["text"], "no");
        assert!(desk.open().is_empty());
    }
}
