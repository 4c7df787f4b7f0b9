use std::time::{Duration, Instant};

use haft_types::Usage;
use serde::{Deserialize, Serialize};

/// What bounds a run. Nothing set means no bound.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct RunLimits {
    /// Requests to the model per prompt.
    pub max_turns: Option<u32>,
    /// Money, over the whole session.
    pub max_usd: Option<f64>,
    /// Tokens of input and output, cached ones included, over the whole session.
    pub max_tokens: Option<u64>,
    /// Time per prompt.
    pub max_time: Option<Duration>,
}

/// What has been used.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunUsage {
    /// Tokens.
    pub usage: Usage,
    /// Money, where prices are known.
    pub usd: f64,
    /// Requests since the last prompt.
    pub turns: u32,
    /// Time the model took to answer.
    pub api_time: Duration,
    /// Answers whose use the provider did not tell: `usage` and `usd` hold an
    /// estimate for them.
    pub untold: u32,
}

/// A bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LimitReached {
    /// Requests.
    Turns(u32),
    /// Money.
    Budget(f64),
    /// Tokens.
    Tokens(u64),
    /// Time.
    Time(Duration),
}

impl RunLimits {
    /// The first bound that another request would break.
    pub(crate) fn reached(&self, spent: &RunUsage, since: Instant) -> Option<LimitReached> {
        let tokens = total(&spent.usage);
        self.max_turns
            .filter(|most| *most <= spent.turns)
            .map(LimitReached::Turns)
            .or_else(|| self.max_usd.filter(|most| *most <= spent.usd).map(LimitReached::Budget))
            .or_else(|| self.max_tokens.filter(|most| *most <= tokens).map(LimitReached::Tokens))
            .or_else(|| self.max_time.filter(|most| *most <= since.elapsed()).map(LimitReached::Time))
    }
}

impl RunLimits {
    /// A warning about the first bound of which four fifths are used.
    pub(crate) fn near(&self, spent: &RunUsage, since: Instant) -> Option<String> {
        let (tokens, elapsed) = (total(&spent.usage), since.elapsed());
        let how_far =
            |is_over: bool| if is_over { "the limit is exceeded" } else { "80 % of the limit is used" };
        let usd = self.max_usd.filter(|most| *most * 0.8 <= spent.usd);
        usd.map(|most| format!("{}: ${:.4} of ${most}", how_far(most < spent.usd), spent.usd))
            .or_else(|| {
                let most = self.max_tokens.filter(|most| most * 4 / 5 <= tokens)?;
                Some(format!("{}: {tokens} of {most} tokens", how_far(most < tokens)))
            })
            .or_else(|| {
                let most = self.max_time.filter(|most| *most * 4 / 5 <= elapsed)?;
                let (used, all) = (elapsed.as_secs_f64(), most.as_secs_f64());
                Some(format!("{}: {used:.0} of {all:.0} s", how_far(most < elapsed)))
            })
    }

    /// The bound that was exceeded by what was spent. What only just suffices is within
    /// its bound.
    pub(crate) fn exceeded(&self, spent: &RunUsage) -> Option<LimitReached> {
        let tokens = total(&spent.usage);
        let usd = self.max_usd.filter(|most| *most < spent.usd).map(LimitReached::Budget);
        usd.or_else(|| self.max_tokens.filter(|most| *most < tokens).map(LimitReached::Tokens))
    }
}

/// Every token, cached or not.
pub(crate) fn total(usage: &Usage) -> u64 {
    usage.input_tokens
        + usage.output_tokens
        + usage.cache_creation_input_tokens
        + usage.cache_read_input_tokens
}
