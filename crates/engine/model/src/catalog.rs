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

/// What is known about models: windows, limits, prices, abilities. Data, not
/// code: users add and change entries.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    models: Vec<ModelInfo>,
    /// How many of them, from the first on, a user set.
    of_user: usize,
}

impl Catalog {
    /// The list that comes with Haft.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// This list with a user's entries (a JSON text of the same form, or a bare
    /// list) on top: theirs win.
    pub fn with(&self, user: &str) -> Result<Self, ModelError> {
        let list = serde_json::from_str::<Vec<ModelInfo>>(user)
            .or_else(|_| serde_json::from_str::<File>(user).map(|file| file.models))
            .map_err(|err| ModelError::config(format!("the list of models cannot be read: {err}")))?;
        let mut models = list;
        let of_user = models.len() + self.of_user;
        models.extend(self.models.iter().cloned());
        Ok(Self { models, of_user })
    }

    /// All entries, a user's first.
    pub fn models(&self) -> &[ModelInfo] {
        &self.models
    }

    /// What is known about a model. Names of clouds and dates are seen through
    /// (`us.anthropic.claude-opus-4-5-20251101-v1:0` is `claude-opus-4-5`); of
    /// several entries whose name begins the model's, the longest counts. For a
    /// model nobody has heard of there is a careful default.
    pub fn get(&self, model: &str) -> ModelInfo {
        self.find(model).map_or_else(ModelInfo::default, |(_, info)| info.clone())
    }

    /// Whether the entry that counts for a model is a user's.
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

    /// The id a short name stands for (`opus`), or the name itself.
    pub fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        let by_short = self.models.iter().find(|info| info.short.as_deref() == Some(name));
        by_short.map_or(name, |info| info.id.as_str())
    }
}

/// What a list says about the model that was asked for last: a turn asks again and
/// again, of one model. The list must be the same every time.
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

/// Whether an entry's name is the model's, or its beginning up to a break.
fn names_model(name: &str, model: &str) -> bool {
    match model.strip_prefix(name) {
        Some("") => true,
        // Local models are written qwen2.5-coder:7b, llama3.1, …
        Some(rest) => !rest.starts_with(|next: char| next.is_ascii_alphabetic()),
        None => false,
    }
}

/// The name without what clouds and gateways put around it.
fn plain_name(model: &str) -> String {
    let lower = model.to_ascii_lowercase();
    let last = lower.rsplit('/').next().unwrap_or_default();
    let start = last.find("claude").unwrap_or(0);
    let after_vendor = &last[start..];
    let before_suffix = after_vendor.split(['[', '@']).next().unwrap_or_default();
    before_suffix.to_owned()
}

/// What is known about a model: limits, prices, abilities.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ModelInfo {
    /// Its name, or how the names of its family begin.
    pub id: String,
    /// A word people type for it (`opus`).
    pub short: Option<String>,
    /// Other names of models that are the same as far as this list goes.
    pub aliases: Vec<String>,
    /// Tokens of input and output together.
    pub window: u64,
    /// Tokens of an answer at most.
    pub max_output: u64,
    /// What it costs; unknown for models that run at home.
    pub price: Option<TokenPrice>,
    /// How it thinks.
    pub thinking: ThinkingSupport,
    /// Efforts it knows.
    pub efforts: Vec<String>,
    /// Whether it can be forced to call a tool.
    pub forced_tools: bool,
    /// Whether it takes a temperature.
    pub sampling: bool,
    /// Whether it reads pictures.
    pub images: bool,
    /// Whether it reads PDFs.
    pub documents: bool,
    /// Whether deferred tools and references to them work.
    pub tool_references: bool,
    /// Whether its text can be held to a schema.
    pub structured_output: bool,
    /// Whether there is a fast mode.
    pub fast: bool,
    /// Whether it may write calls as text, which are then looked for.
    pub dialects: bool,
    /// How tools are called.
    pub tool_calls: ToolCalls,
    /// Beta features to ask for with every request.
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
    /// As the form of its server has it.
    #[default]
    Native,
    /// As text: the tools are described in the system prompt, and calls are
    /// looked for in the answer. Only in the Chat Completions form.
    Prompted,
}

/// How a model thinks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingSupport {
    /// It does not, or nobody knows.
    #[default]
    None,
    /// With a budget.
    Budget,
    /// As it finds right.
    Adaptive,
    /// With a budget, or as it finds right.
    Both,
    /// As it finds right, and it cannot be turned off.
    Always,
    /// Only an effort can be said (`OpenAI` reasoning models).
    Effort,
}

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct TokenPrice {
    /// Input outside the cache.
    pub input: f64,
    /// Dollars for a million tokens of output.
    pub output: f64,
    /// Input from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: f64,
    /// How many times more fast mode costs; 0 where there is none.
    pub fast: f64,
    /// Other prices for long prompts.
    pub above: Option<PriceAbove>,
}

/// Prices above a prompt length.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PriceAbove {
    /// Longer prompts than this.
    pub tokens: u64,
    /// Input outside the cache.
    pub input: f64,
    /// Dollars for a million tokens of output.
    pub output: f64,
    /// Input from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: f64,
}

/// What a search on the provider's side costs.
const WEB_SEARCH: f64 = 0.01;

impl TokenPrice {
    /// What one answer cost, in dollars.
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
    fn names_are_seen_through() {
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

    /// The numbers in what follows the name of a line: `5-5` is newer than `5` and `4-8`.
    /// Dates are none.
    fn version(rest: &str) -> Vec<u32> {
        let numbers = rest.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty() && it.len() < 4);
        numbers.map_while(|it| it.parse().ok()).collect()
    }

    #[test]
    fn short_name_of_a_line_is_its_newest_model() {
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
            // Whoever adds a newer model of a line moves its `short` to it.
            assert_eq!(Some(catalog.resolve(short)), newest, "{short}");
        }
        let shorts = catalog.models().iter().filter(|it| it.short.is_some()).count();
        assert_eq!(shorts, 6, "a new short name needs a row here");
    }

    #[test]
    fn a_users_entry_wins() {
        let mine =
            r#"[{"id": "claude-opus-5-5", "window": 5, "price": {"input": 1}}, {"id": "home", "window": 7}]"#;
        let catalog = Catalog::built_in().with(mine).unwrap();
        assert_eq!(catalog.get("claude-opus-5-5").window, 5);
        assert_eq!(catalog.get("home:7b").window, 7);
        assert_eq!(catalog.get("claude-opus-5").window, 1_000_000);
        assert!(Catalog::built_in().with("{").is_err());
    }

    #[test]
    fn prices_add_up() {
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
