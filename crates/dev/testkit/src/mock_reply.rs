//! Validates a request and selects its answer.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::{
    MockForm, Recorded, Turn,
    route::{Route, RouteKind},
    rules::{self, MockRefusal, RequestJudge},
    select_turn::{self, SeenRequest},
    server::{Live, ServerShared},
    signature_of, sigv4,
    stream_steps::{self, StreamStep},
    turn::{ErrorReply, ReplyPiece},
    wire::{self, ReplyContext},
};

/// The answer to a request.
pub(crate) enum MockReply {
    Refused(MockRefusal),
    Error(ErrorReply),
    Json(Value),
    Stream { content_type: &'static str, steps: Vec<StreamStep> },
    Drop,
}

/// Validates a request and selects its turn.
pub(crate) fn answer(
    shared: &ServerShared,
    route: &Route,
    request: &Recorded,
    index: usize,
) -> (MockReply, Option<Turn>) {
    match judged(shared, route, request) {
        Err(refusal) => (MockReply::Refused(refusal), None),
        Ok(_) if route.ask == RouteKind::Models => {
            (MockReply::Json(json!({"data": [{"type": "model", "id": "mock"}], "has_more": false})), None)
        }
        Ok((_, _, count)) if route.ask == RouteKind::Count => {
            let name = match route.form {
                MockForm::Bedrock => "inputTokens",
                MockForm::Gemini => "totalTokens",
                _ => "input_tokens",
            };
            (MockReply::Json(json!({name: count})), None)
        }
        Ok((model, body, count)) => played(shared, route, index, &model, &body, count),
    }
}

/// Returns model, body and token count of a valid request.
fn judged(
    shared: &ServerShared,
    route: &Route,
    request: &Recorded,
) -> Result<(String, Value, u64), MockRefusal> {
    check_key(shared, route, request)?;
    if route.ask == RouteKind::Models {
        return Ok((String::new(), Value::Null, 0));
    }
    let mut body = rules::parse(&shared.script, &request.body)?;
    if route.ask == RouteKind::Count && route.form == MockForm::Bedrock {
        let inner = body["input"]["invokeModel"]["body"].as_str().unwrap_or_default();
        let inner = base64::engine::general_purpose::STANDARD.decode(inner).unwrap_or_default();
        body = rules::parse(&shared.script, &inner)?;
    }
    if route.ask == RouteKind::Count && route.form == MockForm::Gemini {
        body = body["generateContentRequest"].take();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("model");
        }
    }
    let model = match (&route.model, body["model"].as_str()) {
        (Some(model), None) => model.clone(),
        (None, Some(model)) => model.to_owned(),
        (Some(_), Some(_)) => return rules::refuse("model", "Extra inputs are not permitted"),
        (None, None) => String::new(),
    };
    let judge = RequestJudge {
        script: &shared.script,
        window: window_of(shared, route, &model, &body),
        issued: &shared.issued,
        forced: &shared.forced,
    };
    let count = judge.judge(route.form, &model, &body)?;
    if shared.script.strict && route.ask == RouteKind::Answer && route.form == MockForm::Messages {
        if request.header("anthropic-version").is_none() {
            return rules::refuse("anthropic-version", "header is required");
        }
        if body.get("max_tokens").is_none() {
            return rules::refuse("max_tokens", "Field required");
        }
    }
    Ok((model, body, count))
}

/// Returns the context window the request must fit: that of the turn it would get.
fn window_of(shared: &ServerShared, route: &Route, model: &str, body: &Value) -> u64 {
    let state = shared.state();
    let next =
        select_turn::next(&state.turns, &state.used, &SeenRequest::from_request(route.form, model, body));
    next.and_then(|at| state.turns[at].window).unwrap_or(shared.script.window)
}

fn check_key(shared: &ServerShared, route: &Route, request: &Recorded) -> Result<(), MockRefusal> {
    if let (MockForm::Bedrock, Some(key)) = (route.form, &shared.script.aws) {
        return sigv4::check(key, request);
    }
    let Some(key) = &shared.script.api_key else { return Ok(()) };
    let bearer = request.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
    let own = ["x-api-key", "api-key", "x-goog-api-key"].iter().find_map(|name| request.header(name));
    let given = own.or(bearer);
    if given == Some(key.as_str()) {
        return Ok(());
    }
    if route.form == MockForm::Gemini {
        return Err(MockRefusal::invalid("API key not valid. Please pass a valid API key."));
    }
    Err(MockRefusal { status: 401, kind: "authentication_error", message: "invalid x-api-key".to_owned() })
}

fn played(
    shared: &ServerShared,
    route: &Route,
    index: usize,
    model: &str,
    body: &Value,
    count: u64,
) -> (MockReply, Option<Turn>) {
    let seen = SeenRequest::from_request(route.form, model, body);
    let mut state = shared.state();
    let Live { turns, used, .. } = &mut *state;
    let Some(at) = select_turn::take(turns, used, &seen) else {
        let message =
            format!("mock-model: no turn left for request {index} (last user text: {:?})", seen.last_user);
        return (MockReply::Refused(MockRefusal::invalid(message)), None);
    };
    let turn = turns[at].clone();
    drop(state);
    shared.update(index, |request| request.turn = Some(at));
    remember_thinking(shared, &turn, model, body);
    if route.form == MockForm::Gemini
        && let Some(signature) = wire::gemini::call_signature(&turn, model)
    {
        shared.issued.add(signature, String::new());
    }
    let asked = ReplyContext {
        index,
        model,
        input_tokens: count,
        bytes_per_token: shared.script.bytes_per_token,
        delta_chars: shared.script.delta_chars,
        routed: route.form == MockForm::Chat && body["reasoning"].is_object(),
    };
    if asked.routed {
        wire::chat::routed_calls(&turn, &asked).for_each(|call| shared.issued.add(call, String::new()));
    }
    let streamed = match route.ask {
        RouteKind::Stream => true,
        RouteKind::Answer => body["stream"] == true,
        _ => false,
    };
    (reply_of(&turn, route.form, &asked, streamed), Some(turn))
}

fn reply_of(turn: &Turn, form: MockForm, asked: &ReplyContext<'_>, streamed: bool) -> MockReply {
    if turn.drop {
        return MockReply::Drop;
    }
    if let Some(error) = &turn.error {
        return MockReply::Error(error.clone());
    }
    let content_type = match form {
        _ if !streamed => "application/json",
        MockForm::Bedrock => "application/vnd.amazon.eventstream",
        _ => "text/event-stream; charset=utf-8",
    };
    let steps = match (&turn.raw, form) {
        (Some(raw), _) => vec![StreamStep::Bytes(raw.clone().into_bytes())],
        (None, MockForm::Messages) if streamed => wire::messages::stream(turn, asked),
        (None, MockForm::Bedrock) if streamed => wire::bedrock::stream(turn, asked),
        (None, MockForm::Chat) if streamed => wire::chat::stream(turn, asked),
        (None, MockForm::Responses) if streamed => wire::responses::stream(turn, asked),
        (None, MockForm::Gemini) if streamed => wire::gemini::stream(turn, asked),
        (None, form) => {
            let whole = match form {
                MockForm::Messages | MockForm::Bedrock => wire::messages::whole(turn, asked),
                MockForm::Chat => wire::chat::whole(turn, asked),
                MockForm::Responses => wire::responses::whole(turn, asked),
                MockForm::Gemini => wire::gemini::whole(turn, asked),
            };
            vec![StreamStep::Bytes(whole.to_string().into_bytes())]
        }
    };
    MockReply::Stream { content_type, steps: stream_steps::with_faults(steps, turn) }
}

/// Records issued signatures with the conversation before them.
fn remember_thinking(shared: &ServerShared, turn: &Turn, model: &str, body: &Value) {
    let length = body["messages"].as_array().map_or(0, Vec::len);
    for piece in &turn.reply {
        if let ReplyPiece::Thinking(text) = piece {
            shared.issued.add(signature_of(text, model), rules::prefix(body, length));
        }
    }
}
