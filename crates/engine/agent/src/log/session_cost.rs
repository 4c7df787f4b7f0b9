//! The cost of a session, computed from its log.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::Path,
};

use haft_types::{Usage, text::thousands};
use serde::Serialize;

use super::{LogEntry, LogState, RequestLine, RequestPurpose, UnpaidAnswers, read};
use crate::CacheMiss;

/// The cost of a session.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SessionCost {
    /// Number of answered requests.
    pub requests: u64,
    /// Number of requests for a summary among them.
    pub summaries: u64,
    pub usage: Usage,
    /// Number of requests with estimated usage, because the provider did not report it.
    pub estimated: u64,
    /// Cost in US dollars of the models with a known price.
    pub usd: f64,
    /// Whether the price of every model is known.
    pub priced: bool,
    /// Cost by model.
    pub models: BTreeMap<String, ModelCost>,
    /// Requests that missed the prompt cache.
    pub busts: Vec<LostCache>,
    /// Whether the log is complete: old versions did not log each request.
    pub complete: bool,
}

/// The cost of one model.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ModelCost {
    /// Number of answered requests.
    pub requests: u64,
    pub usage: Usage,
    /// Cost in US dollars, if the price is known.
    pub usd: Option<f64>,
}

/// A prompt cache miss with its time.
#[derive(Clone, Debug, Serialize)]
pub struct LostCache {
    /// Time, as ISO 8601.
    pub timestamp: String,
    #[serde(flatten)]
    pub bust: CacheMiss,
}

impl SessionCost {
    /// Number of tokens billed again because of cache misses.
    pub fn billed_again(&self) -> u64 {
        self.busts.iter().map(|it| it.bust.tokens).sum()
    }

    /// The cache misses as text, one per line.
    pub fn lost_text(&self) -> String {
        if self.busts.is_empty() {
            return if self.complete {
                String::from("The cached prefix was never lost.\n")
            } else {
                String::new()
            };
        }
        let times = if self.busts.len() == 1 { "once" } else { &format!("{} times", self.busts.len()) };
        let mut out = format!(
            "The cached prefix was lost {times}; {} tokens were billed again.\n",
            thousands(self.billed_again())
        );
        for it in &self.busts {
            let CacheMiss { request, cause, detail, tokens, estimated } = &it.bust;
            let about = if *estimated { "about " } else { "" };
            let time = it.timestamp.get(11..19).unwrap_or_default();
            out.push_str(&format!(
                "  request {request:>4}  {time}  {:>15} tokens  {}: {detail}\n",
                format!("{about}{}", thousands(*tokens)),
                cause.word(),
            ));
        }
        out
    }

    fn add(&mut self, asked: RequestLine) {
        self.requests += 1;
        self.summaries += u64::from(asked.purpose == RequestPurpose::Summary);
        self.usage += asked.usage;
        self.estimated += u64::from(asked.is_estimate);
        let model =
            self.models.entry(asked.model).or_insert(ModelCost { usd: Some(0.0), ..ModelCost::default() });
        model.requests += 1;
        model.usage += asked.usage;
        model.usd = model.usd.zip(asked.usd).map(|(a, b)| a + b);
        self.busts.extend(asked.bust.map(|bust| LostCache { timestamp: asked.timestamp, bust }));
    }
}

/// Computes the cost from a log.
pub fn of_log(path: &Path) -> io::Result<SessionCost> {
    let mut cost = SessionCost::default();
    let mut old = OldRequests::default();
    let mut total = None;
    let mut unpaid = UnpaidAnswers::default();
    let add_unpaid = |asked: RequestLine, old: &mut OldRequests, cost: &mut SessionCost| {
        old.first.get_or_insert(asked.request);
        cost.add(asked);
    };
    read(path, |entry| {
        if let Some(asked) = unpaid.take(&entry) {
            add_unpaid(asked, &mut old, &mut cost);
        }
        match entry {
            LogEntry::Haft(LogState::Asked(asked)) => {
                old.first.get_or_insert(asked.request);
                cost.add(*asked);
            }
            LogEntry::Haft(LogState::Cost { usage, usd }) => total = Some((usage, usd)),
            LogEntry::Assistant(line) if !line.head.is_sidechain => {
                let message = line.message;
                if let (Some(id), Some(model), Some(usage)) = (message.id, message.model, message.usage) {
                    old.by_id.insert(id, (model, usage));
                }
            }
            _ => (),
        }
    })?;
    if let Some(asked) = unpaid.end() {
        add_unpaid(asked, &mut old, &mut cost);
    }
    cost.priced = cost.models.values().all(|it| it.usd.is_some());
    cost.complete = old.by_id.is_empty() || old.first == Some(1);
    // An empty floating point sum is -0.0, which would be displayed.
    cost.usd = cost.models.values().filter_map(|it| it.usd).fold(0.0, |sum, usd| sum + usd);
    if !cost.complete {
        old.stand_in(&mut cost, total);
    }
    Ok(cost)
}

/// Requests reconstructed from answers, for logs of old versions.
#[derive(Default)]
struct OldRequests {
    by_id: HashMap<String, (String, Usage)>,
    /// Number of the first request that was logged.
    first: Option<u64>,
}

impl OldRequests {
    /// Adds these requests to the cost. Lines of an answer contain the usage until their block; the
    /// total of a prompt is exact.
    fn stand_in(self, cost: &mut SessionCost, total: Option<(Usage, f64)>) {
        cost.requests = match self.first {
            // Requests before it were counted when the session was resumed.
            Some(first) => first.saturating_sub(1) + cost.requests,
            None => self.by_id.len() as u64,
        };
        cost.models.clear();
        let mut sum = Usage::default();
        for (model, usage) in self.by_id.into_values() {
            sum += usage;
            let model = cost.models.entry(model).or_default();
            model.requests += 1;
            model.usage += usage;
        }
        (cost.usage, cost.usd) = total.unwrap_or((sum, 0.0));
        cost.priced = 0.0 < cost.usd;
    }
}
