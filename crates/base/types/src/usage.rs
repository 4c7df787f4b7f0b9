use serde::{Deserialize, Serialize};

/// Tokens of one answer, or of many added up.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input_tokens: u64,
    /// What the model wrote.
    pub output_tokens: u64,
    /// Input written to the prompt cache.
    pub cache_creation_input_tokens: u64,
    /// Input read from the prompt cache.
    pub cache_read_input_tokens: u64,
    /// The part of `cache_creation_input_tokens` that was written for an hour,
    /// which costs more than the usual five minutes.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_creation_1h_input_tokens: u64,
    /// Searches the provider ran on its side, which it bills by the piece.
    #[serde(skip_serializing_if = "is_zero")]
    pub web_search_requests: u64,
}

impl Usage {
    /// All input of an answer, from the cache or not: what fills the window.
    pub fn total_input(&self) -> u64 {
        self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens
    }

    /// Whether nothing was counted. An answer costs something: a provider that says
    /// this says nothing.
    pub fn is_untold(&self) -> bool {
        *self == Self::default()
    }

    /// What came on top of an earlier sum.
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
