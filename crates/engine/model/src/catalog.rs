use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use haft_types::Usage;
use serde::{Deserialize, Serialize};

use crate::{ModelError, Speed};

static BUILT_IN: LazyLock<Arc<Catalog>> = LazyLock::new(|| {
    let models = serde_json::from_str::<File>(include_str!("models.json")).map(|file| file.models);
    Arc::new(Catalog { models: models.unwrap_or_default(), of_user: 0 })
});

#[derive(Deserialize)]
struct File {
    models: Vec<ModelInfo>,
}

/// Properties of models: context windows, limits, prices, capabilities. Loaded from JSON data; users can
/// add and override entries.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    models: Vec<ModelInfo>,
    /// Number of leading entries that come from the user.
    of_user: usize,
}

impl Catalog {
    /// Returns the catalog that ships with Haft.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// Returns this catalog with a user's entries in front, so that they take precedence. `user` is JSON
    /// of the same format, or a bare array of entries; anything else is an error.
    pub fn with(&self, user: &str) -> Result<Self, ModelError> {
        let list = serde_json::from_str::<Vec<ModelInfo>>(user)
            .or_else(|_| serde_json::from_str::<File>(user).map(|file| file.models))
            .map_err(|err| ModelError::config(format!("the list of models cannot be read: {err}")))?;
        let mut models = list;
        let of_user = models.len() + self.of_user;
        models.extend(self.models.iter().cloned());
        Ok(Self { models, of_user })
    }

    /// Returns all entries, the user's first.
    pub fn models(&self) -> &[ModelInfo] {
        &self.models
    }

    /// Returns the properties of a model. Prefixes and suffixes of cloud providers and dates are ignored
    /// (`us.anthropic.claude-opus-4-5-20251101-v1:0` is `claude-opus-4-5`). Entries match by exact name
    /// or prefix; the longest match wins. An unknown model gets conservative defaults.
    pub fn get(&self, model: &str) -> ModelInfo {
        self.find(model).map_or_else(ModelInfo::default, |(_, info)| info.clone())
    }

    /// Whether the entry that matches this model comes from the user.
    pub(crate) fn is_of_user(&self, model: &str) -> bool {
        self.find(model).is_some_and(|(at, _)| at < self.of_user)
    }

    fn find(&self, model: &str) -> Option<(usize, &ModelInfo)> {
        let plain = plain_name(model);
        let fitting = self.models.iter().enumerate().flat_map(|(at, info)| {
            let names = std::iter::once(&info.id).chain(&info.aliases);
            let lengths = names.filter(|name| names_model(name, &plain)).map(|name| name.len()).max();
            lengths.map(|length| (length, std::cmp::Reverse(at), info))
        });
        let best = fitting.max_by_key(|(length, at, _)| (*length, *at));
        best.map(|(_, at, info)| (at.0, info))
    }

    /// Returns the model id of a short name (`opus`), or `name` itself if it is not a short name.
    pub fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        let by_short = self.models.iter().find(|info| info.short.as_deref() == Some(name));
        by_short.map_or(name, |info| info.id.as_str())
    }
}

/// Caches the catalog entry of the last model looked up, because a turn looks up the same model many
/// times. Must always be used with the same catalog.
#[derive(Default)]
pub(crate) struct CatalogCache(Mutex<Option<(String, ModelInfo)>>);

impl CatalogCache {
    pub(crate) fn get(&self, catalog: &Catalog, model: &str) -> ModelInfo {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((name, info)) if name == model => info.clone(),
            _ => last.insert((model.to_owned(), catalog.get(model))).1.clone(),
        }
    }
}

/// Whether `name` equals `model`, or is a prefix of it that ends at a word boundary.
fn names_model(name: &str, model: &str) -> bool {
    match model.strip_prefix(name) {
        Some("") => true,
        // Local models have names like qwen2.5-coder:7b or llama3.1.
        Some(rest) => !rest.starts_with(|next: char| next.is_ascii_alphabetic()),
        None => false,
    }
}

/// Strips the prefixes and suffixes that clouds and gateways add to a model name.
fn plain_name(model: &str) -> String {
    let lower = model.to_ascii_lowercase();
    let last = lower.rsplit('/').next().unwrap_or_default();
    let start = last.find("claude").unwrap_or(0);
    let after_vendor = &last[start..];
    let before_suffix = after_vendor.split(['[', '@']).next().unwrap_or_default();
    before_suffix.to_owned()
}

/// Properties of a model: limits, prices, capabilities.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ModelInfo {
    /// Model name, or a prefix shared by a family of models.
    pub id: String,
    /// Alias that users type (`opus`).
    pub short: Option<String>,
    /// Names of other models with the same properties.
    pub aliases: Vec<String>,
    /// Context window: maximum tokens of input and output together.
    pub window: u64,
    /// Maximum output tokens of one answer.
    pub max_output: u64,
    /// Price per token; `None` if unknown, as for local models.
    pub price: Option<TokenPrice>,
    /// Which kinds of thinking (reasoning) the model supports.
    pub thinking: ThinkingSupport,
    /// Effort levels the model accepts; empty if it has none.
    pub efforts: Vec<String>,
    /// Whether `tool_choice` can force the model to call a tool.
    pub forced_tools: bool,
    /// Whether the model accepts a sampling temperature.
    pub sampling: bool,
    /// Whether the model accepts images.
    pub images: bool,
    /// Whether the model accepts PDFs.
    pub documents: bool,
    /// Whether the model supports deferred tools and `tool_reference` blocks.
    pub tool_references: bool,
    /// Whether the output text can be constrained by a JSON schema.
    pub structured_output: bool,
    /// Whether the model has a fast mode.
    pub fast: bool,
    /// Whether the model may write tool calls as plain text, so that the answer has to be searched for
    /// them.
    pub dialects: bool,
    /// How the model calls tools.
    pub tool_calls: ToolCalls,
    /// Beta features requested with every request.
    pub betas: Vec<String>,
}

impl Default for ModelInfo {
    fn default() -> Self {
        Self {
            id: String::new(),
            short: None,
            aliases: Vec::new(),
            window: 128_000,
            max_output: 16_000,
            price: None,
            thinking: ThinkingSupport::None,
            efforts: Vec::new(),
            forced_tools: true,
            sampling: true,
            images: false,
            documents: false,
            tool_references: false,
            structured_output: false,
            fast: false,
            dialects: false,
            tool_calls: ToolCalls::Native,
            betas: Vec::new(),
        }
    }
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCalls {
    /// With the tool calling of the provider's API.
    #[default]
    Native,
    /// As text: the system prompt describes the tools, and calls are parsed from the answer. Chat
    /// Completions only.
    Prompted,
}

/// Which kinds of thinking (reasoning) a model supports.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingSupport {
    /// None, or unknown.
    #[default]
    None,
    /// A token budget.
    Budget,
    /// Adaptive: the model decides how much to think.
    Adaptive,
    /// A token budget or adaptive.
    Both,
    /// Adaptive, and it cannot be turned off.
    Always,
    /// Only through an effort level (`OpenAI` reasoning models).
    Effort,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct TokenPrice {
    /// Uncached input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache (5 minutes).
    pub cache_write: f64,
    /// Input written to the cache for one hour.
    pub cache_write_1h: f64,
    /// Factor on all token prices in fast mode; 0 if there is no fast mode.
    pub fast: f64,
    /// Prices that replace these for long prompts.
    pub above: Option<PriceAbove>,
}

/// Prices in US dollars per million tokens for prompts above a length.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PriceAbove {
    /// Input tokens above which these prices apply to the whole request.
    pub tokens: u64,
    /// Uncached input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache (5 minutes).
    pub cache_write: f64,
    /// Input written to the cache for one hour.
    pub cache_write_1h: f64,
}

/// US dollars per search by the provider's own web search.
const WEB_SEARCH: f64 = 0.01;

impl TokenPrice {
    /// Returns the cost of one answer in US dollars, web searches included.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub fn of(&self, usage: &Usage, speed: Speed) -> f64 {
        let above = self.above.filter(|above| usage.total_input() > above.tokens);
        let (input, output, read, write, write_hour) = match above {
            Some(it) => (it.input, it.output, it.cache_read, it.cache_write, it.cache_write_1h),
            None => (self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h),
        };
        let hour = usage.cache_creation_1h_input_tokens.min(usage.cache_creation_input_tokens);
        let short = usage.cache_creation_input_tokens - hour;
        let tokens = usage.input_tokens as f64 * input
            + usage.output_tokens as f64 * output
            + usage.cache_read_input_tokens as f64 * read
            + short as f64 * write
            + hour as f64 * write_hour;
        let factor = if speed == Speed::Fast && self.fast > 0.0 { self.fast } else { 1.0 };
        tokens / 1e6 * factor + usage.web_search_requests as f64 * WEB_SEARCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_and_dated_model_names_resolve_to_catalog_entry() {
        let catalog = Catalog::built_in();
        for (model, want) in [
            ("claude-opus-5-5", "claude-opus-5-5"),
            ("claude-opus-5", "claude-opus-5"),
            ("claude-opus-4-5-20251101", "claude-opus-4-5"),
            ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            ("claude-opus-4-20250514", "claude-opus-4-1"),
            ("anthropic/claude-opus-5", "claude-opus-5"),
            ("claude-sonnet-4-6[1m]", "claude-sonnet-4-6"),
            ("claude-next-9", "claude"),
            ("claude-opus-4-9", "claude"),
            ("qwen2.5-coder:7b", "qwen"),
            ("Qwen/Qwen3-Coder-480B", "qwen"),
            ("gpt-5-mini", "gpt-5"),
            ("somebody-else", ""),
        ] {
            assert_eq!(catalog.get(model).id, want, "{model}");
        }
        assert_eq!(catalog.resolve("opus"), "claude-opus-5-5");
        assert_eq!(catalog.resolve("other"), "other");
    }

    /// Parses the version numbers in the part of a model name after its family: `5-5` is newer than `5`
    /// and `4-8`. Dates are ignored.
    fn version(rest: &str) -> Vec<u32> {
        let numbers = rest.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty() && it.len() < 4);
        numbers.map_while(|it| it.parse().ok()).collect()
    }

    #[test]
    fn short_name_resolves_to_newest_model_of_family() {
        let catalog = Catalog::built_in();
        for (short, line, kind) in [
            ("opus", "claude-opus-", ""),
            ("sonnet", "claude-sonnet-", ""),
            ("haiku", "claude-haiku-", ""),
            ("fable", "claude-fable-", ""),
            ("gpt", "gpt-", ""),
            ("gemini", "gemini-", "pro"),
        ] {
            let names = catalog.models().iter().flat_map(|it| std::iter::once(&it.id).chain(&it.aliases));
            let of_line = names.filter_map(|name| Some((version(name.strip_prefix(line)?), name)));
            let of_kind = of_line.filter(|(version, name)| !version.is_empty() && name.contains(kind));
            let newest = of_kind.max().map(|(_, name)| name.as_str());
            // When a newer model is added to a family, `short` must move to it.
            assert_eq!(Some(catalog.resolve(short)), newest, "{short}");
        }
        let shorts = catalog.models().iter().filter(|it| it.short.is_some()).count();
        assert_eq!(shorts, 6, "a new short name needs a row here");
    }

    #[test]
    fn user_entry_overrides_catalog() {
        let mine =
            r#"[{"id": "claude-opus-5-5", "window": 5, "price": {"input": 1}}, {"id": "home", "window": 7}]"#;
        let catalog = Catalog::built_in().with(mine).unwrap();
        assert_eq!(catalog.get("claude-opus-5-5").window, 5);
        assert_eq!(catalog.get("home:7b").window, 7);
        assert_eq!(catalog.get("claude-opus-5").window, 1_000_000);
        assert!(Catalog::built_in().with("{").is_err());
    }

    #[test]
    fn price_sums_tokens_cache_and_searches() {
        let price = |model: &str| Catalog::built_in().get(model).price.unwrap();
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cache_creation_input_tokens: 200_000,
            cache_read_input_tokens: 1_000_000,
            cache_creation_1h_input_tokens: 100_000,
            web_search_requests: 2,
        };
        let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-9, "{got} {want}");
        close(price("claude-opus-5").of(&usage, Speed::Normal), 5.0 + 2.5 + 0.625 + 1.0 + 0.5 + 0.02);
        close(price("claude-opus-5").of(&usage, Speed::Fast), 2.0 * (5.0 + 2.5 + 0.625 + 1.0 + 0.5) + 0.02);
        let small = Usage { input_tokens: 1000, ..Usage::default() };
        close(price("claude-haiku-5-5").of(&small, Speed::Normal), 0.0001);
        let large = Usage { input_tokens: 200_000, ..Usage::default() };
        close(price("claude-haiku-5-5").of(&large, Speed::Normal), 0.1);
    }
}
