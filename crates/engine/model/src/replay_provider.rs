use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_util::{Stream, stream};
use haft_types::{Usage, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Catalog, ModelError, ModelEvent, ModelInfo, ModelStream, Provider, ProviderFuture, Request, StopReason,
    wire::EstimateCalibration,
};

/// One recorded request and its answer: a line of a recording.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RecordedExchange {
    /// The request as returned by [`Request::to_json`], after normalisation (secrets masked, paths made
    /// relative, …).
    pub request: Value,
    /// All events, in order.
    pub events: Vec<ModelEvent>,
    /// The error the stream ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ModelError>,
    /// Whether the stream was dropped before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abandoned: bool,
}

impl RecordedExchange {
    /// Returns the usage of a complete answer; `None` if it was not completed.
    fn usage(&self) -> Option<Usage> {
        if !matches!(self.events.last(), Some(ModelEvent::Stopped(reason)) if *reason != StopReason::Interrupted)
        {
            return None;
        }
        self.events.iter().rev().find_map(|event| match event {
            ModelEvent::Usage(usage) => Some(*usage),
            _ => None,
        })
    }
}

/// Normalises a request before it is recorded or compared, by replacing what differs between runs:
/// clocks, ids, directories, secrets.
pub type RequestNormalizer = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// A provider that records the requests and answers of another provider.
pub struct RecordingProvider {
    inner: Arc<dyn Provider>,
    normalise: RequestNormalizer,
    sink: Arc<dyn Fn(RecordedExchange) + Send + Sync>,
}

impl RecordingProvider {
    /// Creates a recorder. `sink` is called with each exchange when its stream ends or is dropped.
    pub fn new(
        inner: Arc<dyn Provider>,
        normalise: RequestNormalizer,
        sink: impl Fn(RecordedExchange) + Send + Sync + 'static,
    ) -> Self {
        Self { inner, normalise, sink: Arc::new(sink) }
    }
}

impl Provider for RecordingProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.inner.info(model)
    }

    fn stream(&self, request: Request) -> ModelStream {
        let mut recorded = request.to_json();
        (self.normalise)(&mut recorded);
        let exchange =
            RecordedExchange { request: recorded, events: Vec::new(), error: None, abandoned: true };
        let sink = Arc::clone(&self.sink);
        Box::pin(Recording { inner: self.inner.stream(request), exchange: Some(exchange), sink })
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        self.inner.count_tokens(request)
    }

    fn estimate_tokens(&self, request: &Request) -> u64 {
        self.inner.estimate_tokens(request)
    }

    fn prepare<'a>(&'a self, model: &'a str) -> ProviderFuture<'a, ()> {
        self.inner.prepare(model)
    }

    fn warm_up(&self) {
        self.inner.warm_up();
    }
}

/// Forwards the events of a stream and records them.
struct Recording {
    inner: ModelStream,
    exchange: Option<RecordedExchange>,
    sink: Arc<dyn Fn(RecordedExchange) + Send + Sync>,
}

impl Recording {
    fn finish(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            (self.sink)(exchange);
        }
    }
}

impl Stream for Recording {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.as_mut().poll_next(cx);
        if let (Poll::Ready(item), Some(exchange)) = (&polled, &mut self.exchange) {
            match item {
                Some(Ok(event)) => {
                    exchange.events.push(event.clone());
                    exchange.abandoned &= !matches!(event, ModelEvent::Stopped(_));
                }
                Some(Err(error)) => {
                    exchange.error = Some(error.clone());
                    exchange.abandoned = false;
                }
                None => self.finish(),
            }
        }
        polled
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A provider that answers from a recording, without network access.
///
/// Requests are matched by content, not by order, because concurrent agents send them in any order. Each
/// exchange is used once. A request without a match is [`ModelError::ReplayMiss`] and names the first
/// field that differs from the closest unused exchange.
pub struct ReplayProvider {
    exchanges: Vec<RecordedExchange>,
    normalise: RequestNormalizer,
    catalog: Arc<Catalog>,
    left: Mutex<UnusedExchanges>,
    /// Calibrated from the recorded usage, so that estimates equal those of the recorded run.
    calibration: EstimateCalibration,
}

#[derive(Default)]
struct UnusedExchanges {
    by_request: HashMap<u64, Vec<usize>>,
    used: Vec<bool>,
    asked: usize,
}

impl ReplayProvider {
    /// Creates a provider from exchanges. `normalise` must be the function they were recorded with.
    pub fn new(
        exchanges: Vec<RecordedExchange>,
        normalise: RequestNormalizer,
        catalog: Arc<Catalog>,
    ) -> Self {
        let mut left = UnusedExchanges { used: vec![false; exchanges.len()], ..UnusedExchanges::default() };
        // Exchanges are popped from the end, so push in reverse order.
        for (at, exchange) in exchanges.iter().enumerate().rev() {
            left.by_request.entry(hash(&exchange.request)).or_default().push(at);
        }
        Self {
            exchanges,
            normalise,
            catalog,
            left: Mutex::new(left),
            calibration: EstimateCalibration::default(),
        }
    }

    /// Returns the number of exchanges that were not requested.
    pub fn unused(&self) -> usize {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.used.iter().filter(|used| !**used).count()
    }

    fn find(&self, request: &Value) -> Result<&RecordedExchange, ModelError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.asked += 1;
        let found = left.by_request.get_mut(&hash(request)).and_then(Vec::pop);
        if let Some(at) = found {
            left.used[at] = true;
            return Ok(&self.exchanges[at]);
        }
        let message = self.miss(request, &left);
        Err(ModelError::ReplayMiss { message })
    }

    fn miss(&self, request: &Value, left: &UnusedExchanges) -> String {
        let unused = self.exchanges.iter().enumerate().filter(|(at, _)| !left.used[*at]);
        let differences =
            unused.filter_map(|(at, exchange)| Some((at, difference(&exchange.request, request)?)));
        let nearest = differences.max_by_key(|(at, it)| (it.same_before, std::cmp::Reverse(*at)));
        let asked = left.asked;
        match nearest {
            None => {
                format!("request {asked} has no answer: all {} recorded ones are used", self.exchanges.len())
            }
            Some((at, it)) => format!(
                "request {asked} has no answer. The nearest recorded one (number {}) differs first at {}: recorded {}, now {}",
                at + 1,
                it.path,
                it.recorded,
                it.now
            ),
        }
    }
}

impl Provider for ReplayProvider {
    fn name(&self) -> &str {
        "replay"
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.catalog.get(model)
    }

    fn stream(&self, request: Request) -> ModelStream {
        let mut asked = request.to_json();
        (self.normalise)(&mut asked);
        let items: Vec<Result<ModelEvent, ModelError>> = match self.find(&asked) {
            Err(miss) => vec![Err(miss)],
            Ok(exchange) => {
                if let Some(usage) = exchange.usage() {
                    self.calibration.learn(&request, usage.total_input());
                }
                let mut items: Vec<_> = exchange.events.iter().cloned().map(Ok).collect();
                items.extend(exchange.error.clone().map(Err));
                if exchange.abandoned {
                    let message = "the recorded answer was abandoned here".to_owned();
                    items.push(Err(ModelError::ReplayMiss { message }));
                }
                items
            }
        };
        Box::pin(stream::iter(items))
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move { Ok(self.calibration.estimate(&request)) })
    }

    fn estimate_tokens(&self, request: &Request) -> u64 {
        self.calibration.estimate(request)
    }
}

fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// The first position where two values differ.
struct ReplayDifference {
    path: String,
    recorded: String,
    now: String,
    /// Number of equal leaf values before it.
    same_before: usize,
}

fn difference(recorded: &Value, now: &Value) -> Option<ReplayDifference> {
    let mut same = 0;
    first_difference(recorded, now, &mut String::new(), &mut same).map(|mut found| {
        found.same_before = same;
        found
    })
}

fn first_difference(
    recorded: &Value,
    now: &Value,
    path: &mut String,
    same: &mut usize,
) -> Option<ReplayDifference> {
    let here = |path: &str, recorded: &str, now: &str| ReplayDifference {
        path: if path.is_empty() {
            "the request".to_owned()
        } else {
            path.trim_start_matches('.').to_owned()
        },
        recorded: recorded.to_owned(),
        now: now.to_owned(),
        same_before: 0,
    };
    let length = path.len();
    let mut inside = |step: String, recorded: Option<&Value>, now: Option<&Value>, path: &mut String| {
        path.push_str(&step);
        let found = match (recorded, now) {
            (Some(recorded), Some(now)) => first_difference(recorded, now, path, same),
            (recorded, now) => Some(here(path, &shown(recorded), &shown(now))),
        };
        path.truncate(length);
        found
    };
    match (recorded, now) {
        (Value::Array(recorded), Value::Array(now)) => (0..recorded.len().max(now.len()))
            .find_map(|at| inside(format!("[{at}]"), recorded.get(at), now.get(at), path)),
        (Value::Object(recorded), Value::Object(now)) => {
            let extra = now.keys().filter(|key| !recorded.contains_key(*key));
            let mut keys = recorded.keys().chain(extra);
            keys.find_map(|key| inside(format!(".{key}"), recorded.get(key), now.get(key), path))
        }
        (recorded, now) if recorded == now => {
            *same += 1;
            None
        }
        (Value::String(recorded), Value::String(now)) => {
            let (recorded, now) = around_difference(recorded, now);
            Some(here(path, &recorded, &now))
        }
        (recorded, now) => Some(here(path, &shown(Some(recorded)), &shown(Some(now)))),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| text::one_line(&value.to_string(), 80))
}

/// Returns excerpts of both texts, starting up to 20 characters before the first difference, 60
/// characters long.
fn around_difference(recorded: &str, now: &str) -> (String, String) {
    let same = recorded.chars().zip(now.chars()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(20);
    let piece = |text: &str| {
        let dots = if start > 0 { "…" } else { "" };
        let part: String = text.chars().skip(start).take(60).collect();
        format!("{:?}", format!("{dots}{part}"))
    };
    (piece(recorded), piece(now))
}
