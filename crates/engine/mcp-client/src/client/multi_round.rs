//! Requests that take several messages: the server needs something first
//! (`input_required`), or goes on working by itself (`task`).

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::session::ServerSession;
use crate::jsonrpc::{CallError, ProgressReport, RequestOptions, RpcError};

/// More questions than this are no questions but a loop.
const MAX_ROUNDS: usize = 10;

/// The error of a server that wants the person to open a page first.
const PAGE_FIRST: i64 = -32042;

const POLL_DEFAULT: Duration = Duration::from_secs(1);
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));
const POLL_LIMIT: Duration = Duration::from_secs(30);

impl ServerSession {
    /// Sends a request and sees it through to its final result.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &Map<String, Value>,
        options: &RequestOptions,
    ) -> Result<Value, CallError> {
        let mut round = params.clone();
        for _ in 0..=MAX_ROUNDS {
            let result = match self.request(method, round, options).await {
                Err(CallError::Rpc(error)) if error.code == PAGE_FIRST => {
                    self.open_pages(&error).await?;
                    round = params.clone();
                    continue;
                }
                other => other?,
            };
            match result["resultType"].as_str() {
                Some("input_required") => {
                    round = params.clone();
                    self.add_inputs(&result, &mut round).await?;
                }
                Some("task") => return self.follow(&result, options).await,
                _ => return Ok(result),
            }
        }
        Err(fault(format!("the server asked for input more than {MAX_ROUNDS} times")))
    }

    /// Shows the person every page the server wants them to open. The request
    /// is worth repeating only after they have agreed to all of them.
    async fn open_pages(&self, error: &RpcError) -> Result<(), CallError> {
        let pages = error.data.as_ref().and_then(|it| it["elicitations"].as_array());
        for page in pages.into_iter().flatten().take(MAX_ROUNDS) {
            let answer = self.incoming.request(String::from("elicitation/create"), page.clone()).await;
            if answer.map_err(CallError::Rpc)?["action"] != "accept" {
                let url = haft_types::text::one_line(page["url"].as_str().unwrap_or_default(), 500);
                return Err(fault(format!("the user has to open {url} first, and did not ({error})")));
            }
        }
        if pages.is_some_and(|it| !it.is_empty()) { Ok(()) } else { Err(CallError::Rpc(error.clone())) }
    }

    /// Answers what the server asked, for the next round.
    async fn add_inputs(&self, result: &Value, round: &mut Map<String, Value>) -> Result<(), CallError> {
        let answers = self.answer_all(&result["inputRequests"]).await?;
        if !answers.is_empty() {
            round.insert(String::from("inputResponses"), Value::Object(answers));
        }
        if let Some(state) = result.get("requestState") {
            round.insert(String::from("requestState"), state.clone());
        }
        Ok(())
    }

    async fn answer_all(&self, requests: &Value) -> Result<Map<String, Value>, CallError> {
        let mut answers = Map::new();
        for (key, request) in requests.as_object().into_iter().flatten() {
            let method = request["method"].as_str().unwrap_or_default();
            if !["elicitation/create", "sampling/createMessage", "roots/list"].contains(&method) {
                return Err(fault(format!("the server asked for `{method}`, which is not a kind of input")));
            }
            let answer = self.incoming.request(method.to_owned(), request["params"].clone()).await;
            answers.insert(key.clone(), answer.map_err(CallError::Rpc)?);
        }
        Ok(answers)
    }

    /// Watches a task to its end. Cancelling us cancels it.
    async fn follow(&self, created: &Value, options: &RequestOptions) -> Result<Value, CallError> {
        let Some(id) = created["taskId"].as_str() else {
            return Err(fault(String::from("the server began a task without an id")));
        };
        let hard_end = Instant::now() + options.total;
        let mut state = created.clone();
        let mut polls = 0.0;
        loop {
            match state["status"].as_str() {
                Some("completed") => return Ok(state["result"].take()),
                Some("failed") => {
                    let message = state["error"]["message"].as_str().unwrap_or("the task failed");
                    let code = state["error"]["code"].as_i64().unwrap_or(RpcError::INTERNAL);
                    return Err(CallError::Rpc(RpcError::new(code, message)));
                }
                Some("cancelled") => return Err(fault(String::from("the server cancelled the task"))),
                Some("input_required") => {
                    let answers = self.answer_all(&state["inputRequests"]).await?;
                    self.update(id, answers).await?;
                }
                _ => (),
            }
            if let (Some(watcher), Some(message)) = (&options.progress, state["statusMessage"].as_str()) {
                polls += 1.0;
                let message = Some(haft_types::text::head(message, 500).to_owned());
                watcher(ProgressReport { progress: polls, total: None, message });
            }
            let pause = state["pollIntervalMs"].as_u64().map_or(POLL_DEFAULT, Duration::from_millis);
            let pause = pause.clamp(POLL_BOUNDS.0, POLL_BOUNDS.1);
            tokio::select! {
                () = tokio::time::sleep_until((Instant::now() + pause).min(hard_end)) => (),
                () = options.cancel.cancelled() => {
                    self.abandon(id);
                    return Err(CallError::Cancelled);
                }
            }
            if hard_end <= Instant::now() {
                self.abandon(id);
                return Err(CallError::TooLong { idle: options.idle, total: options.total });
            }
            state = self.request("tasks/get", task_params(id), &RequestOptions::within(POLL_LIMIT)).await?;
        }
    }

    async fn update(&self, id: &str, answers: Map<String, Value>) -> Result<(), CallError> {
        let mut params = task_params(id);
        params.insert(String::from("inputResponses"), Value::Object(answers));
        self.request("tasks/update", params, &RequestOptions::within(POLL_LIMIT)).await.map(drop)
    }

    /// Tells the server that nobody waits for the task any more.
    fn abandon(&self, id: &str) {
        let (peer, params) = (self.peer.clone(), self.complete(task_params(id)));
        tokio::spawn(async move {
            let _ = peer.request("tasks/cancel", params, &RequestOptions::within(POLL_LIMIT)).await;
        });
    }
}

fn task_params(id: &str) -> Map<String, Value> {
    Map::from_iter([(String::from("taskId"), json!(id))])
}

fn fault(message: String) -> CallError {
    CallError::Rpc(RpcError::new(RpcError::INTERNAL, message))
}
