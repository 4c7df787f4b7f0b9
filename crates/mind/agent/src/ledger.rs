use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_types::Usage;
use tokio::sync::Notify;

use crate::{RunLimits, Spending};

/// What others spend in the session's name while its calls run: questions of
/// MCP servers to the model, and agents that were started. It counts like what
/// the agent spends itself, and ends where the session's money ends. Clones are
/// the same.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<LedgerBook>);

#[derive(Debug, Default)]
struct LedgerBook {
    page: Mutex<Page>,
    /// Money that was set aside is free again, or spent.
    settled: Notify,
}

#[derive(Debug, Default)]
struct Page {
    /// Not counted by the agent yet.
    open: Vec<Entry>,
    /// Counted, but not told model by model.
    settled: Vec<(String, Usage)>,
    /// Money that was left when the agent last looked.
    usd_left: Option<f64>,
    /// The session's limit, when the agent last looked.
    usd_limit: Option<f64>,
    /// Money that requests on their way may cost.
    reserved: f64,
    /// Money that nobody else gets: the agent hears with it what the others
    /// report.
    kept_back: f64,
}

#[derive(Debug)]
struct Entry {
    model: String,
    usage: Usage,
    usd: f64,
}

/// A request that somebody wants to send, and what it may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostEstimate {
    /// What is sent.
    pub(crate) input_usd: f64,
    /// Each token of the answer.
    pub(crate) output_usd: f64,
    /// Tokens the answer may have.
    pub(crate) tokens: u32,
}

impl CostEstimate {
    /// What it costs with the shortest answer that is worth it.
    pub(crate) fn least(&self) -> f64 {
        self.input_usd + self.output_usd * f64::from(self.tokens.min(FEWEST_TOKENS))
    }
}

/// An answer with less room than this is not worth its request.
const FEWEST_TOKENS: u32 = 1_024;

/// Of what is left, one request may take the fourth part; so the many that run
/// at once all get something.
const SHARE: f64 = 0.25;

/// Money that is set aside for one request. Dropping it frees the money: what
/// was really spent is noted with [`Ledger::add`] before that.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Ledger,
    usd: f64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut page = self.ledger.page();
        page.reserved = (page.reserved - self.usd).max(0.0);
        drop(page);
        self.ledger.0.settled.notify_waiters();
    }
}

impl Page {
    fn open_usd(&self) -> f64 {
        self.open.iter().map(|it| it.usd).sum()
    }
}

impl Ledger {
    fn page(&self) -> MutexGuard<'_, Page> {
        self.0.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an answer somebody else asked for.
    pub fn add(&self, model: &str, usage: Usage, usd: f64) {
        self.page().open.push(Entry { model: model.to_owned(), usage, usd });
    }

    /// Whether the session may still spend anything.
    pub fn has_money(&self) -> bool {
        let page = self.page();
        page.usd_left.is_none_or(|left| page.open_usd() + page.reserved < left)
    }

    /// What was counted since somebody last asked, model by model.
    pub fn take_settled(&self) -> Vec<(String, Usage)> {
        std::mem::take(&mut self.page().settled)
    }

    /// The session's limit, where it has one.
    pub(crate) fn limit(&self) -> Option<f64> {
        self.page().usd_limit
    }

    /// So much is left for the next request of the agent itself, so that reports
    /// of others are heard.
    pub(crate) fn keep_back(&self, usd: f64) {
        self.page().kept_back = usd;
    }

    /// Sets money aside for a request, and says how many tokens its answer may
    /// have for that. Waits while other requests hold what is left; nothing when
    /// there is too little for any answer.
    pub(crate) async fn reserve(&self, cost: CostEstimate) -> Option<(Reservation, u32)> {
        loop {
            let settled = self.0.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            match self.try_reserve(cost) {
                Ok(found) => return found,
                Err(Busy) => settled.await,
            }
        }
    }

    fn try_reserve(&self, cost: CostEstimate) -> Result<Option<(Reservation, u32)>, Busy> {
        let mut page = self.page();
        let Some(left) = page.usd_left.map(|left| left - page.open_usd() - page.kept_back) else {
            return Ok(Some((Reservation { ledger: self.clone(), usd: 0.0 }, cost.tokens)));
        };
        let fewest = cost.tokens.min(FEWEST_TOKENS);
        let least = cost.least();
        if left < least {
            return Ok(None);
        }
        let free = left - page.reserved;
        if free < least {
            return Err(Busy);
        }
        let affordable = (free * SHARE - cost.input_usd) / cost.output_usd.max(f64::MIN_POSITIVE);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "kept inside the range")]
        let tokens = affordable.clamp(f64::from(fewest), f64::from(cost.tokens)) as u32;
        let usd = cost.input_usd + cost.output_usd * f64::from(tokens);
        page.reserved += usd;
        drop(page);
        Ok(Some((Reservation { ledger: self.clone(), usd }, tokens)))
    }

    /// Counts what is open, and notes how much is left. What of it others used
    /// comes back.
    pub(crate) fn settle(&self, spending: &mut Spending, limits: &RunLimits) -> Usage {
        let mut page = self.page();
        let mut of_others = Usage::default();
        for Entry { model, usage, usd } in std::mem::take(&mut page.open) {
            spending.usage += usage;
            spending.usd += usd;
            of_others += usage;
            page.settled.push((model, usage));
        }
        page.usd_limit = limits.max_usd;
        page.usd_left = limits.max_usd.map(|most| most - spending.usd);
        of_others
    }
}

/// Others hold what is left.
struct Busy;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_spend_is_counted_once_and_ends_with_the_money() {
        let ledger = Ledger::default();
        let (mut spending, mut limits) = (Spending { usd: 0.5, ..Spending::default() }, RunLimits::default());
        ledger.settle(&mut spending, &limits);
        assert!(ledger.has_money(), "nobody set a limit");
        limits.max_usd = Some(1.0);
        ledger.settle(&mut spending, &limits);
        let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
        ledger.add("m", usage, 0.3);
        assert!(ledger.has_money());
        ledger.clone().add("m", usage, 0.3);
        assert!(!ledger.has_money(), "what is not counted yet is spent all the same");
        ledger.settle(&mut spending, &limits);
        ledger.settle(&mut spending, &limits);
        assert_eq!((spending.usage.input_tokens, spending.usage.output_tokens), (6, 4));
        assert!((spending.usd - 1.1).abs() < 1e-9 && !ledger.has_money());
        assert_eq!(ledger.take_settled().len(), 2);
        assert_eq!(ledger.take_settled().len(), 0);
    }

    /// Many requests at once, each of which costs what it set aside at most:
    /// the limit holds whatever the order.
    #[tokio::test]
    async fn money_that_is_set_aside_is_never_spent_twice() {
        let ledger = Ledger::default();
        let (mut spending, limits) =
            (Spending::default(), RunLimits { max_usd: Some(0.02), ..RunLimits::default() });
        ledger.settle(&mut spending, &limits);
        let cost = CostEstimate { input_usd: 0.001, output_usd: 0.000_001, tokens: 32_000 };
        let asked = (0..40).map(|_| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let (reservation, tokens) = ledger.reserve(cost).await?;
                tokio::task::yield_now().await;
                let usd = cost.input_usd + cost.output_usd * f64::from(tokens);
                ledger.add("m", Usage::default(), usd);
                drop(reservation);
                Some(tokens)
            })
        });
        let mut answered = 0;
        for asked in asked.collect::<Vec<_>>() {
            answered += usize::from(asked.await.expect("does not panic").is_some());
        }
        ledger.settle(&mut spending, &limits);
        assert!(spending.usd <= 0.02, "{}", spending.usd);
        assert!((3..40).contains(&answered), "{answered} of 40 got money");
        assert!(ledger.reserve(cost).await.is_none(), "nothing is left for another");
        // What is kept back for the agent itself nobody else gets.
        let ledger = Ledger::default();
        ledger.settle(&mut Spending::default(), &limits);
        ledger.keep_back(0.019);
        assert!(ledger.reserve(cost).await.is_none());
        ledger.keep_back(0.01);
        assert!(ledger.reserve(cost).await.is_some());
    }
}
