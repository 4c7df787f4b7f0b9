use serde::{Deserialize, Serialize};

/// Token usage of one response, or a sum of several.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens neither read from nor written to the cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens written to the prompt cache.
    pub cache_creation_input_tokens: u64,
    /// Input tokens read from the prompt cache.
    pub cache_read_input_tokens: u64,
    /// The part of `cache_creation_input_tokens` written with a one-hour lifetime, which costs more than
    /// the default five minutes.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_creation_1h_input_tokens: u64,
    /// Server-side web searches, which the provider bills individually.
    #[serde(skip_serializing_if = "is_zero")]
    pub web_search_requests: u64,
}

impl Usage {
    /// All input tokens, cached or not: the size of the context.
    pub fn total_input(&self) -> u64 {
        self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens
    }

    /// Whether all counts are zero, which means that the provider reported no usage.
    pub fn is_untold(&self) -> bool {
        *self == Self::default()
    }

    /// Usage accrued since `before` (`self - before`, saturating at zero).
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .saturating_sub(before.cache_creation_input_tokens),
            cache_read_input_tokens: self
                .cache_read_input_tokens
                .saturating_sub(before.cache_read_input_tokens),
            cache_creation_1h_input_tokens: self
                .cache_creation_1h_input_tokens
                .saturating_sub(before.cache_creation_1h_input_tokens),
            web_search_requests: self.web_search_requests.saturating_sub(before.web_search_requests),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_creation_input_tokens += other.cache_creation_input_tokens;
        self.cache_read_input_tokens += other.cache_read_input_tokens;
        self.cache_creation_1h_input_tokens += other.cache_creation_1h_input_tokens;
        self.web_search_requests += other.web_search_requests;
    }
}
