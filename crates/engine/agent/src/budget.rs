use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_types::{AgentId, Usage};
use tokio::sync::Notify;

use crate::{RequestCost, RunLimits, RunUsage};

/// Money spent on behalf of an agent while its calls run: by MCP sampling requests and by sub-agents. It
/// counts like the agent's own spending, towards the same limit. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<BudgetState>);

#[derive(Debug, Default)]
struct BudgetState {
    page: Mutex<BudgetLevel>,
    /// Notified when reserved money was released or spent; shared by all levels.
    settled: Arc<Notify>,
    /// The parent budget, which is charged too.
    above: Option<Budget>,
}

#[derive(Debug, Default)]
struct BudgetLevel {
    /// Costs the agent has not added to its usage yet.
    open: Vec<RequestCost>,
    /// Costs it has added, but not reported one by one.
    settled: Vec<RequestCost>,
    /// Money left when the agent last updated it, in US dollars.
    usd_left: Option<f64>,
    /// The session's limit when the agent last updated it, in US dollars.
    usd_limit: Option<f64>,
    /// Money reserved for requests in flight.
    reserved: f64,
    /// Money reserved for the agent itself, to read what its sub-agents report.
    kept_back: f64,
    /// Minimum cost of the agent's next request.
    least: f64,
    /// Number of sub-agents whose reports will need a request of their own.
    expected: usize,
}

/// The estimated cost of a request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostEstimate {
    /// Cost of the input.
    pub(crate) input_usd: f64,
    /// Price of one output token.
    pub(crate) output_usd: f64,
    /// Maximum number of output tokens.
    pub(crate) tokens: u32,
}

impl CostEstimate {
    /// Cost with the shortest useful answer.
    pub(crate) fn least(&self) -> f64 {
        self.input_usd + self.output_usd * f64::from(self.tokens.min(FEWEST_TOKENS))
    }

    /// Number of output tokens that `usd` covers; at least [`FEWEST_TOKENS`] or the request's own
    /// maximum.
    fn tokens_for(&self, usd: f64) -> u32 {
        let fewest = self.tokens.min(FEWEST_TOKENS);
        let affordable = (usd - self.input_usd) / self.output_usd.max(f64::MIN_POSITIVE);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "kept inside the range")]
        let tokens = affordable.clamp(f64::from(fewest), f64::from(self.tokens)) as u32;
        tokens
    }
}

/// Minimum output limit in tokens; a request with less is not worth sending.
const FEWEST_TOKENS: u32 = 1_024;

/// Share of the remaining money that one sub-agent request may reserve, so that many parallel requests
/// all get some.
const SHARE: f64 = 0.25;

/// Share of the remaining money that a request of the agent itself may reserve.
const OWN_SHARE: f64 = 0.5;

/// Position of the agent's own request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OwnRequest {
    /// The first one: nothing was spent before.
    First,
    Later,
}

/// Money reserved for one request, at every level. Dropping it releases the money; the actual cost is
/// added with [`Budget::add`] before.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Budget,
    usd: f64,
    above: Option<Box<Self>>,
}

/// Reserves money for reading a report while it exists.
#[derive(Debug)]
pub struct ReportReserve(Budget);

impl Drop for ReportReserve {
    fn drop(&mut self) {
        let mut page = self.0.page();
        page.expected = page.expected.saturating_sub(1);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut page = self.ledger.page();
        page.reserved = (page.reserved - self.usd).max(0.0);
        drop(page);
        drop(self.above.take());
        self.ledger.0.settled.notify_waiters();
    }
}

impl BudgetLevel {
    fn open_usd(&self) -> f64 {
        self.open.iter().map(|it| it.usd).sum()
    }

    /// Money kept for the agent itself: for its next request, and one more to read outstanding reports.
    fn kept(&self) -> f64 {
        self.kept_back + if 0 < self.expected { self.least } else { 0.0 }
    }
}

impl Budget {
    fn page(&self) -> MutexGuard<'_, BudgetLevel> {
        self.0.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a child budget with its own limit. Its spending is charged to this budget too.
    #[must_use]
    pub fn child(&self, usd: f64) -> Self {
        let page = BudgetLevel { usd_left: Some(usd), usd_limit: Some(usd), ..BudgetLevel::default() };
        let settled = Arc::clone(&self.0.settled);
        Self(Arc::new(BudgetState { page: Mutex::new(page), settled, above: Some(self.clone()) }))
    }

    /// Adds the cost of a request made on the agent's behalf.
    pub fn add(&self, model: &str, usage: Usage, usd: f64) {
        let (agent, model) = (AgentId::Main, model.to_owned());
        self.add_answer(RequestCost { agent, model, usage, usd, is_told: true });
    }

    /// Adds the cost of a sub-agent's request.
    pub(crate) fn add_answer(&self, paid: RequestCost) {
        match &self.0.above {
            None => self.page().open.push(paid),
            Some(above) => {
                let mut page = self.page();
                page.usd_left = page.usd_left.map(|left| left - paid.usd);
                drop(page);
                above.add_answer(paid);
            }
        }
    }

    /// Adds the cost of the agent's own request, which it has counted already.
    pub(crate) fn record_own_request(&self, paid: RequestCost) {
        let mut page = self.page();
        page.usd_left = page.usd_left.map(|left| left - paid.usd);
        page.settled.push(paid);
    }

    /// Whether any money is left.
    pub fn has_money(&self) -> bool {
        let page = self.page();
        let has = page.usd_left.is_none_or(|left| page.open_usd() + page.reserved < left);
        drop(page);
        has && self.0.above.as_ref().is_none_or(Self::has_money)
    }

    /// Takes the costs that were counted since the last call, one per request.
    pub fn drain_settled(&self) -> Vec<RequestCost> {
        std::mem::take(&mut self.page().settled)
    }

    /// The session's limit in US dollars, if it has one.
    pub(crate) fn limit(&self) -> Option<f64> {
        self.page().usd_limit
    }

    /// Reserves money for a report that is delivered in a turn of its own, until the guard is dropped.
    pub fn expect_report(&self) -> ReportReserve {
        self.page().expected += 1;
        ReportReserve(self.clone())
    }

    /// Reserves `usd` more for the agent's next request, which will contain more input.
    pub fn keep_more(&self, usd: f64) {
        self.page().kept_back += usd;
    }

    /// Like [`reserve`](Self::reserve), for a request of the agent itself, which may use the money kept
    /// for it. The first request is never refused.
    pub(crate) async fn reserve_own(
        &self,
        cost: CostEstimate,
        turn: OwnRequest,
    ) -> Result<(Reservation, u32), f64> {
        loop {
            let settled = self.0.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            match self.try_reserve_own(cost, turn) {
                Ok(found) => return Ok(found),
                Err(BudgetExceeded::Reached(limit)) => return Err(limit),
                Err(BudgetExceeded::Busy) => settled.await,
            }
        }
    }

    fn try_reserve_own(
        &self,
        cost: CostEstimate,
        turn: OwnRequest,
    ) -> Result<(Reservation, u32), BudgetExceeded> {
        let reserved = |usd: f64| Reservation { ledger: self.clone(), usd, above: None };
        let mut page = self.page();
        let Some(left) = page.usd_left.map(|left| left - page.open_usd()) else {
            return Ok((reserved(0.0), cost.tokens));
        };
        let (least, free) = (cost.least(), left - page.reserved);
        if turn == OwnRequest::Later && left < least {
            return Err(BudgetExceeded::Reached(page.usd_limit.unwrap_or_default()));
        }
        if turn == OwnRequest::Later && free < least {
            return Err(BudgetExceeded::Busy);
        }
        // Sub-agents run meanwhile and need money, too.
        let tokens = cost.tokens_for((free * OWN_SHARE).max(least));
        let usd = cost.input_usd + cost.output_usd * f64::from(tokens);
        page.reserved += usd;
        (page.kept_back, page.least) = (least, least);
        drop(page);
        Ok((reserved(usd), tokens))
    }

    /// Reserves money for a request at every level, and returns how many output tokens it covers. Waits
    /// while other requests have reserved the rest. Fails with the limit that is reached if the money
    /// does not cover a useful answer.
    pub(crate) async fn reserve(&self, cost: CostEstimate) -> Result<(Reservation, u32), f64> {
        loop {
            let settled = self.0.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            match self.try_reserve(cost) {
                Ok(found) => return Ok(found),
                Err(BudgetExceeded::Reached(limit)) => return Err(limit),
                Err(BudgetExceeded::Busy) => settled.await,
            }
        }
    }

    fn try_reserve(&self, cost: CostEstimate) -> Result<(Reservation, u32), BudgetExceeded> {
        let (mut own, tokens) = self.try_reserve_here(cost)?;
        let Some(above) = &self.0.above else { return Ok((own, tokens)) };
        let (theirs, tokens) = above.try_reserve(CostEstimate { tokens, ..cost })?;
        own.above = Some(Box::new(theirs));
        Ok((own, tokens))
    }

    fn try_reserve_here(&self, cost: CostEstimate) -> Result<(Reservation, u32), BudgetExceeded> {
        let reserved = |usd: f64| Reservation { ledger: self.clone(), usd, above: None };
        let mut page = self.page();
        let Some(left) = page.usd_left.map(|left| left - page.open_usd() - page.kept()) else {
            return Ok((reserved(0.0), cost.tokens));
        };
        let least = cost.least();
        if left < least {
            return Err(BudgetExceeded::Reached(page.usd_limit.unwrap_or_default()));
        }
        let free = left - page.reserved;
        if free < least {
            return Err(BudgetExceeded::Busy);
        }
        // A child budget is not shared with others.
        let share = if self.0.above.is_some() { free } else { free * SHARE };
        let tokens = cost.tokens_for(share);
        let usd = cost.input_usd + cost.output_usd * f64::from(tokens);
        page.reserved += usd;
        drop(page);
        Ok((reserved(usd), tokens))
    }

    /// Adds open costs to the agent's usage and updates the money left. Returns the tokens used by
    /// others.
    pub(crate) fn settle(&self, spending: &mut RunUsage, limits: &RunLimits) -> Usage {
        let mut page = self.page();
        let mut of_others = Usage::default();
        for paid in std::mem::take(&mut page.open) {
            spending.usage += paid.usage;
            spending.usd += paid.usd;
            spending.untold += u32::from(!paid.is_told);
            of_others += paid.usage;
            page.settled.push(paid);
        }
        page.usd_limit = limits.max_usd;
        page.usd_left = limits.max_usd.map(|most| most - spending.usd);
        of_others
    }
}

/// Why no money can be reserved.
enum BudgetExceeded {
    /// Other requests have reserved the rest; wait.
    Busy,
    /// The limit (US dollars), whose rest does not cover the request.
    Reached(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_spend_is_counted_once_and_ends_with_the_money() {
        let ledger = Budget::default();
        let (mut spending, mut limits) = (RunUsage { usd: 0.5, ..RunUsage::default() }, RunLimits::default());
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
        assert_eq!(ledger.drain_settled().len(), 2);
        assert_eq!(ledger.drain_settled().len(), 0);
    }

    /// Many requests at once, each of which costs what it set aside at most:
    /// the limit holds whatever the order.
    #[tokio::test]
    async fn money_that_is_set_aside_is_never_spent_twice() {
        let ledger = Budget::default();
        let (mut spending, limits) =
            (RunUsage::default(), RunLimits { max_usd: Some(0.02), ..RunLimits::default() });
        ledger.settle(&mut spending, &limits);
        let cost = CostEstimate { input_usd: 0.001, output_usd: 0.000_001, tokens: 32_000 };
        let asked = (0..40).map(|_| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let (reservation, tokens) = ledger.reserve(cost).await.ok()?;
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
        assert_eq!(ledger.reserve(cost).await.err(), Some(0.02), "nothing is left for another");
        // What is kept back for the agent itself nobody else gets.
        let ledger = Budget::default();
        ledger.settle(&mut RunUsage::default(), &limits);
        ledger.keep_more(0.019);
        assert!(ledger.reserve(cost).await.is_err());
        // The agent itself may use it, and what it sets aside is nobody else's meanwhile.
        let own = ledger.reserve_own(cost, OwnRequest::Later).await.expect("it is kept for this");
        drop(own);
        assert!(ledger.reserve(cost).await.is_ok(), "it keeps as much as it needs");
        ledger.add("m", Usage::default(), 0.0195);
        assert_eq!(ledger.reserve_own(cost, OwnRequest::Later).await.err(), Some(0.02));
        assert!(ledger.reserve_own(cost, OwnRequest::First).await.is_ok());
    }

    /// Three levels: the nearest limit that is reached is told, what is spent
    /// below is spent above, and what could not be set aside everywhere is held
    /// nowhere.
    #[tokio::test]
    async fn limits_hold_at_every_level() {
        let root = Budget::default();
        let (mut spending, limits) =
            (RunUsage::default(), RunLimits { max_usd: Some(0.1), ..RunLimits::default() });
        root.settle(&mut spending, &limits);
        let child = root.child(0.01);
        let grandchild = child.child(0.5);
        let cost = CostEstimate { input_usd: 0.001, output_usd: 0.000_001, tokens: 32_000 };
        let (reservation, tokens) = grandchild.reserve(cost).await.expect("there is money");
        assert!((8_990..=9_000).contains(&tokens), "as much as the nearest limit leaves: {tokens}");
        assert!(root.has_money());
        grandchild.add("m", Usage::default(), 0.004);
        drop(reservation);
        let (reservation, tokens) = child.reserve(cost).await.expect("there is money");
        assert!((4_990..=5_000).contains(&tokens), "{tokens}");
        child.add("m", Usage::default(), 0.006);
        drop(reservation);
        assert_eq!(grandchild.reserve(cost).await.err(), Some(0.01));
        root.settle(&mut spending, &limits);
        assert!((spending.usd - 0.01).abs() < 1e-9, "{}", spending.usd);
        assert!(root.reserve(cost).await.is_ok());
        assert!((root.page().reserved).abs() < 1e-12, "nothing is held that was not given");
        let all = root.child(1.0);
        root.add("m", Usage::default(), 0.09);
        assert_eq!(all.reserve(cost).await.err(), Some(0.1), "the limit of all holds below");
        assert!(all.page().reserved.abs() < 1e-12);
    }
}
