//! What a session cost, from its log.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::Path,
};

use haft_types::{Usage, text::thousands};
use serde::Serialize;

use super::{LogEntry, LogState, RequestLine, RequestPurpose, UnpaidAnswers, read};
use crate::CacheMiss;

/// What a session cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SessionCost {
    /// Requests that were answered.
    pub requests: u64,
    /// How many of them summed the conversation up.
    pub summaries: u64,
    /// Tokens.
    pub usage: Usage,
    /// Requests whose tokens the provider did not tell: they are estimated.
    pub estimated: u64,
    /// Money, where the prices are known.
    pub usd: f64,
    /// Whether the price of every model is known.
    pub priced: bool,
    /// The same for each model.
    pub models: BTreeMap<String, ModelCost>,
    /// Requests that could not go on from what the provider had cached.
    pub busts: Vec<LostCache>,
    /// Whether the log says everything: versions before this one did not write
    /// down each request.
    pub complete: bool,
}

/// What one model cost.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ModelCost {
    /// Requests it answered.
    pub requests: u64,
    /// Tokens.
    pub usage: Usage,
    /// Money, if its price is known.
    pub usd: Option<f64>,
}

/// A lost cache, and when.
#[derive(Clone, Debug, Serialize)]
pub struct LostCache {
    /// When, as ISO 8601.
    pub timestamp: String,
    /// What.
    #[serde(flatten)]
    pub bust: CacheMiss,
}

impl SessionCost {
    /// Tokens that were billed again because a cache was lost.
    pub fn billed_again(&self) -> u64 {
        self.busts.iter().map(|it| it.bust.tokens).sum()
    }

    /// The lost caches in words, one line each.
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

/// Reads what a session cost.
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
    // The sum of nothing would be minus zero, and be shown so.
    cost.usd = cost.models.values().filter_map(|it| it.usd).fold(0.0, |sum, usd| sum + usd);
    if !cost.complete {
        old.stand_in(&mut cost, total);
    }
    Ok(cost)
}

/// Requests as lines of answers tell of them.
#[derive(Default)]
struct OldRequests {
    by_id: HashMap<String, (String, Usage)>,
    /// The number of the first request that was written down.
    first: Option<u64>,
}

impl OldRequests {
    /// Answers say what they used until their last block; the total of a prompt
    /// says it all.
    fn stand_in(self, cost: &mut SessionCost, total: Option<(Usage, f64)>) {
        cost.requests = match self.first {
            // Those before it were counted when the session went on.
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
