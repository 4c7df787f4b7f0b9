//! Flags that choose the model and how it thinks.

use haft_model::{Effort, Thinking, ThinkingDisplay};

/// Which model a session has, and how it thinks.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Model options")]
pub(crate) struct ModelArgs {
    /// Model to use
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Model to use when the first is unavailable
    #[arg(long, value_name = "MODEL")]
    pub(crate) fallback_model: Option<String>,
    /// Model provider to use (default: the first with a key)
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) provider: Option<ProviderName>,
    /// Address of the provider's API
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Reasoning effort
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) effort: Option<EffortFlag>,
    /// Whether the model thinks
    #[arg(long, value_enum, value_name = "MODE")]
    thinking: Option<ThinkingFlag>,
    /// Thinking budget in tokens
    #[arg(long, value_name = "N")]
    max_thinking_tokens: Option<u32>,
    /// How much of the thinking is returned
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) thinking_display: Option<DisplayFlag>,
    /// Token budget of the task, which the model is told
    #[arg(long, value_name = "TOKENS")]
    pub(crate) task_budget: Option<u64>,
    /// Beta features of the provider, separated by commas
    #[arg(long, value_name = "LIST")]
    pub(crate) betas: Vec<String>,
}

impl ModelArgs {
    pub(crate) fn thinking(&self) -> Thinking {
        let from_env = || std::env::var("MAX_THINKING_TOKENS").ok()?.trim().parse().ok();
        match self.thinking {
            Some(ThinkingFlag::Disabled) => Thinking::Off,
            Some(ThinkingFlag::Adaptive) => Thinking::Adaptive,
            Some(ThinkingFlag::Enabled) | None => {
                Thinking::of_budget(self.max_thinking_tokens.or_else(from_env))
            }
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum ProviderName {
    /// Anthropic, or a server that speaks its form.
    Anthropic,
    /// Claude on AWS Bedrock.
    Bedrock,
    /// Claude on Google Vertex.
    Vertex,
    /// Claude in Microsoft Foundry.
    Foundry,
    /// OpenAI, or any server that speaks Chat Completions.
    Openai,
    /// OpenAI, or any server that speaks Responses.
    OpenaiResponses,
    /// Google's Gemini API.
    Gemini,
    /// OpenRouter.
    Openrouter,
    /// Ollama on this machine.
    Ollama,
    /// LM Studio on this machine.
    Lmstudio,
    /// vLLM on this machine.
    Vllm,
    /// The server of llama.cpp on this machine.
    Llamacpp,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum ThinkingFlag {
    Adaptive,
    Enabled,
    Disabled,
}

/// How much of what the model thinks comes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum DisplayFlag {
    Summarized,
    Omitted,
    Highlights,
}

impl From<DisplayFlag> for ThinkingDisplay {
    fn from(flag: DisplayFlag) -> Self {
        match flag {
            DisplayFlag::Summarized => Self::Summarized,
            DisplayFlag::Omitted => Self::Omitted,
            DisplayFlag::Highlights => Self::Highlights,
        }
    }
}

/// How hard the model tries.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum EffortFlag {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl From<EffortFlag> for Effort {
    fn from(flag: EffortFlag) -> Self {
        match flag {
            EffortFlag::Low => Self::Low,
            EffortFlag::Medium => Self::Medium,
            EffortFlag::High => Self::High,
            EffortFlag::Xhigh => Self::Xhigh,
            EffortFlag::Max => Self::Max,
        }
    }
}
