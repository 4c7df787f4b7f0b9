use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_types::Usage;

use crate::{RunLimits, Spending};

/// What others spend in the session's name while its calls run: the questions
/// of MCP servers to the model. It counts like what the agent spends itself,
/// and ends where the session's money ends. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Page>>);

#[derive(Debug, Default)]
struct Page {
    /// Not counted by the agent yet.
    open: Vec<Entry>,
    /// Counted, but not told model by model.
    settled: Vec<(String, Usage)>,
    /// Money that was left when the agent last looked.
    usd_left: Option<f64>,
}

#[derive(Debug)]
struct Entry {
    model: String,
    usage: Usage,
    usd: f64,
}

impl Ledger {
    fn page(&self) -> MutexGuard<'_, Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an answer somebody else asked for.
    pub fn add(&self, model: &str, usage: Usage, usd: f64) {
        self.page().open.push(Entry { model: model.to_owned(), usage, usd });
    }

    /// Whether the session may still spend anything.
    pub fn has_money(&self) -> bool {
        let page = self.page();
        page.usd_left.is_none_or(|left| page.open.iter().map(|it| it.usd).sum::<f64>() < left)
    }

    /// What was counted since somebody last asked, model by model.
    pub fn take_settled(&self) -> Vec<(String, Usage)> {
        std::mem::take(&mut self.page().settled)
    }

    /// Counts what is open, and notes how much is left.
    pub(crate) fn settle(&self, spending: &mut Spending, limits: &RunLimits) {
        let mut page = self.page();
        for Entry { model, usage, usd } in std::mem::take(&mut page.open) {
            spending.usage += usage;
            spending.usd += usd;
            page.settled.push((model, usage));
        }
        page.usd_left = limits.max_usd.map(|most| most - spending.usd);
    }
}

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
}
