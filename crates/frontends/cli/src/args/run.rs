//! Flags of a session: `haft`, `haft -p` and the Agent SDKs.

use std::path::PathBuf;

use super::SdkArgs;

/// Flags of a run with a model.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "With a model")]
pub(crate) struct RunArgs {
    /// What to do; read from standard input when it is not given here.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Work on the prompt without asking anybody, print the answer, and exit.
    #[arg(short, long)]
    pub(crate) print: bool,
    /// How the answer is printed: text, json (one object), stream-json (one object per line).
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output_format: OutputFormat,
    /// Which model.
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Who answers; by default whoever the environment has a key for.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) provider: Option<ProviderName>,
    /// Another address of the provider.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Which model when that one cannot answer.
    #[arg(long)]
    pub(crate) fallback_model: Option<String>,
    /// Requests to the model at most.
    #[arg(long)]
    pub(crate) max_turns: Option<u32>,
    /// Dollars at most.
    #[arg(long, value_parser = dollars)]
    pub(crate) max_budget_usd: Option<f64>,
    /// Replaces the system prompt.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system_prompt: Option<String>,
    /// Added to the system prompt.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// The model tells the user what matters while it works, with SendUserMessage.
    #[arg(long)]
    pub(crate) brief: bool,
    /// JSON Schema the output must follow.
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) json_schema: Option<String>,
    /// Only these tools, separated by commas; empty for none.
    #[arg(long)]
    pub(crate) tools: Option<Vec<String>>,
    /// Go on with this session: its id, the beginning of it, or its name.
    #[arg(long, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// Go on with the newest session of this directory.
    #[arg(short, long = "continue", conflicts_with = "resume")]
    pub(crate) continue_: bool,
    /// Go on under a new id; the old session stays as it is.
    #[arg(long)]
    pub(crate) fork_session: bool,
    /// Use this id for a new session.
    #[arg(long, value_name = "UUID")]
    pub(crate) session_id: Option<uuid::Uuid>,
    /// Exit with 0 even if calls were denied.
    #[arg(long)]
    pub(crate) allow_denials: bool,
    /// Write the whole run into this file, to be played again with `haft replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Say more on standard error.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Flags of the Agent SDKs.
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer.
    #[default]
    Text,
    /// One object at the end.
    Json,
    /// One object per line, as it happens.
    StreamJson,
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

/// An amount that a sum can reach.
fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|it| it.is_finite() && 0.0 <= *it);
    amount.ok_or_else(|| String::from("an amount of dollars is a number from 0 on"))
}
