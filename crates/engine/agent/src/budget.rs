use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_types::{AgentId, Usage};
use tokio::sync::Notify;

use crate::{RequestCost, RunLimits, RunUsage};

/// What others spend in the session's name while its calls run: questions of
/// MCP servers to the model, and agents that were started. It counts like what
/// the agent spends itself, and ends where the session's money ends. Clones are
/// the same.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<BudgetState>);

#[derive(Debug, Default)]
struct BudgetState {
    page: Mutex<BudgetLevel>,
    /// Money that was set aside is free again, or spent; all of a tree hear it.
    settled: Arc<Notify>,
    /// Who pays what is paid here.
    above: Option<Budget>,
}

#[derive(Debug, Default)]
struct BudgetLevel {
    /// Not counted by the agent yet.
    open: Vec<RequestCost>,
    /// Counted, but not told one by one.
    settled: Vec<RequestCost>,
    /// Money that was left when the agent last looked.
    usd_left: Option<f64>,
    /// The session's limit, when the agent last looked.
    usd_limit: Option<f64>,
    /// Money that requests on their way may cost.
    reserved: f64,
    /// Money that nobody else gets: the agent hears with it what the others
    /// report.
    kept_back: f64,
    /// What the agent's last request cost at least.
    least: f64,
    /// Agents whose reports will take a request of their own.
    expected: usize,
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

    /// How many tokens an answer may have for so much money; never fewer than are
    /// worth a request.
    fn tokens_for(&self, usd: f64) -> u32 {
        let fewest = self.tokens.min(FEWEST_TOKENS);
        let affordable = (usd - self.input_usd) / self.output_usd.max(f64::MIN_POSITIVE);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "kept inside the range")]
        let tokens = affordable.clamp(f64::from(fewest), f64::from(self.tokens)) as u32;
        tokens
    }
}

/// An answer with less room than this is not worth its request.
const FEWEST_TOKENS: u32 = 1_024;

/// Of what is left, one request may take the fourth part; so the many that run
/// at once all get something.
const SHARE: f64 = 0.25;

/// The part of it that a request of the agent itself may take.
const OWN_SHARE: f64 = 0.5;

/// Which request of the agent itself it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OwnRequest {
    /// Nothing was spent before.
    First,
    Later,
}

/// Money that is set aside for one request, at every level that pays. Dropping it frees the money: what
/// was really spent is noted with [`Budget::add`] before that.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Budget,
    usd: f64,
    above: Option<Box<Self>>,
}

/// Money for hearing a report stays while this is there.
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

    /// What stays for the agent itself: its next request, and one more to hear those
    /// who report when that is over.
    fn kept(&self) -> f64 {
        self.kept_back + if 0 < self.expected { self.least } else { 0.0 }
    }
}

impl Budget {
    fn page(&self) -> MutexGuard<'_, BudgetLevel> {
        self.0.page.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part of this ledger for one agent and those below it, with a limit of
    /// its own. What is spent there is spent here too.
    #[must_use]
    pub fn child(&self, usd: f64) -> Self {
        let page = BudgetLevel { usd_left: Some(usd), usd_limit: Some(usd), ..BudgetLevel::default() };
        let settled = Arc::clone(&self.0.settled);
        Self(Arc::new(BudgetState { page: Mutex::new(page), settled, above: Some(self.clone()) }))
    }

    /// Notes an answer somebody else asked for in the session's name.
    pub fn add(&self, model: &str, usage: Usage, usd: f64) {
        let (agent, model) = (AgentId::Main, model.to_owned());
        self.add_answer(RequestCost { agent, model, usage, usd, is_told: true });
    }

    /// Notes an answer of an agent that was started.
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

    /// Notes an answer of the agent itself, which it has counted.
    pub(crate) fn note_own(&self, paid: RequestCost) {
        let mut page = self.page();
        page.usd_left = page.usd_left.map(|left| left - paid.usd);
        page.settled.push(paid);
    }

    /// Whether anything may still be spent.
    pub fn has_money(&self) -> bool {
        let page = self.page();
        let has = page.usd_left.is_none_or(|left| page.open_usd() + page.reserved < left);
        drop(page);
        has && self.0.above.as_ref().is_none_or(Self::has_money)
    }

    /// What was counted since somebody last asked, answer by answer.
    pub fn take_settled(&self) -> Vec<RequestCost> {
        std::mem::take(&mut self.page().settled)
    }

    /// The session's limit, where it has one.
    pub(crate) fn limit(&self) -> Option<f64> {
        self.page().usd_limit
    }

    /// Somebody will report to the agent in a turn of its own, until the guard is
    /// dropped.
    pub fn expect_report(&self) -> ReportReserve {
        self.page().expected += 1;
        ReportReserve(self.clone())
    }

    /// The agent will hear more than it did when it last asked: so much more stays
    /// for its next request.
    pub fn keep_more(&self, usd: f64) {
        self.page().kept_back += usd;
    }

    /// The same as [`reserve`](Self::reserve) for a request of the agent itself, which
    /// may use what is kept back for it. The first one of all is never refused.
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
        // Others work meanwhile: they get something, too.
        let tokens = cost.tokens_for((free * OWN_SHARE).max(least));
        let usd = cost.input_usd + cost.output_usd * f64::from(tokens);
        page.reserved += usd;
        (page.kept_back, page.least) = (least, least);
        drop(page);
        Ok((reserved(usd), tokens))
    }

    /// Sets money aside for a request here and wherever it is paid in the end,
    /// and says how many tokens its answer may have for that. Waits while other
    /// requests hold what is left. Where there is too little for any answer, the
    /// error is the limit that is reached.
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
        // A limit of one agent's own is not kept for others.
        let share = if self.0.above.is_some() { free } else { free * SHARE };
        let tokens = cost.tokens_for(share);
        let usd = cost.input_usd + cost.output_usd * f64::from(tokens);
        page.reserved += usd;
        drop(page);
        Ok((reserved(usd), tokens))
    }

    /// Counts what is open, and notes how much is left. What of it others used
    /// comes back.
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

/// Why no money can be set aside.
enum BudgetExceeded {
    /// Others hold what is left.
    Busy,
    /// So much was there in the beginning, and what is left pays for nothing.
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
        assert_eq!(ledger.take_settled().len(), 2);
        assert_eq!(ledger.take_settled().len(), 0);
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
