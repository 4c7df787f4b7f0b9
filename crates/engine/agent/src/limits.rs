use std::time::{Duration, Instant};

use haft_types::Usage;
use serde::{Deserialize, Serialize};

/// Limits of a run. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct RunLimits {
    /// Maximum number of model requests per prompt.
    pub max_turns: Option<u32>,
    /// Maximum cost of the whole session, in US dollars.
    pub max_usd: Option<f64>,
    /// Maximum number of input and output tokens of the whole session, including cached ones.
    pub max_tokens: Option<u64>,
    /// Maximum duration of a prompt.
    pub max_time: Option<Duration>,
}

/// Usage so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunUsage {
    pub usage: Usage,
    /// Cost in US dollars; models without a known price count as 0.
    pub usd: f64,
    /// Number of requests since the last prompt.
    pub turns: u32,
    /// Total duration of model requests.
    pub api_time: Duration,
    /// Number of answers without usage data from the provider; `usage` and `usd` contain estimates for
    /// them.
    pub untold: u32,
}

/// A limit that was reached, and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LimitReached {
    /// Number of model requests.
    Turns(u32),
    /// Cost in US dollars.
    Budget(f64),
    /// Number of tokens.
    Tokens(u64),
    /// Duration.
    Time(Duration),
}

impl RunLimits {
    /// The first limit that another request would exceed.
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
    /// A warning about the first limit of which 80 % are used.
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

    /// The limit that was exceeded; reaching it exactly does not count.
    pub(crate) fn exceeded(&self, spent: &RunUsage) -> Option<LimitReached> {
        let tokens = total(&spent.usage);
        let usd = self.max_usd.filter(|most| *most < spent.usd).map(LimitReached::Budget);
        usd.or_else(|| self.max_tokens.filter(|most| *most < tokens).map(LimitReached::Tokens))
    }
}

/// The sum of all tokens, cached or not.
pub(crate) fn total(usage: &Usage) -> u64 {
    usage.input_tokens
        + usage.output_tokens
        + usage.cache_creation_input_tokens
        + usage.cache_read_input_tokens
}
