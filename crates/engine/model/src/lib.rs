//! Model providers: one trait ([`Provider`]), several wire formats, and the linter that every request
//! passes.
//!
//! A [`Request`] is independent of the provider. [`HttpProvider`] lints it, repairs what the provider
//! would reject (reporting each repair once), encodes it so that the bytes of a session's prefix never
//! change, sends it, decodes the answer and retries where that is safe. The result is a stream of
//! [`ModelEvent`]s; dropping it cancels the request.
//!
//! **Out of scope**: running tools, permissions, sessions and compaction. The caller decides what is in
//! the conversation and what happens with a call.
//!
//! **Invariant:** a tool call is emitted at most once, and a call that may be truncated is never emitted
//! as executable.
//!
//! **Invariant:** the caller's conversation is never modified, only the copy that is sent.
//!
//! **Invariant:** keys appear in request headers and nowhere else.

#![warn(missing_docs)]

mod api_key;
mod body_end;
mod catalog;
mod cloud;
mod endpoint;
mod error;
mod event;
mod event_stream;
mod http_client;
mod http_engine;
mod http_error;
mod lint;
mod local_server;
mod login_renewal;
mod models_page;
mod provider;
mod provider_env;
mod ptr_map;
mod replay_provider;
mod reported_limits;
mod request;
mod response;
mod retry;
mod scripted;
mod secret;
mod sent_prefix;
mod served;
mod stored_keys;
mod text_tool_calls;
mod tool_set;
mod tool_wire_name;
mod wire;
mod wire_schema;

pub use api_key::{KeyHelper, KeySource};
pub use catalog::{Catalog, ModelInfo, PriceAbove, ThinkingSupport, TokenPrice, ToolCalls};
#[cfg(feature = "bedrock")]
pub use cloud::aws::AwsLogin;
pub use error::ModelError;
pub use event::{CallProblem, InvalidCall, ModelEvent, ModelStream, Retry, StopReason};
pub use lint::{
    ImageLimit, ImageShrinker, LintRules, Linted, Linter, MediaRules, Repair, RepairKind, ShrunkImage,
    ThinkingRule,
};
pub use local_server::LocalServer;
pub use login_renewal::LoginRenewal;
pub use models_page::models_page;
pub use provider::{
    AnthropicLogin, FoundryLogin, HttpProvider, Provider, ProviderFuture, ProviderOptions, VertexLocation,
    VertexLogin,
};
pub use provider_env::{ChatChoice, KeySettings, ProviderChoice};
pub use replay_provider::{RecordedExchange, RecordingProvider, ReplayProvider, RequestNormalizer};
pub use request::{CachePolicy, Effort, Request, Speed, SystemPart, Thinking, ThinkingDisplay, ToolChoice};
pub use response::ModelAnswer;
pub use retry::{RetryPolicy, StreamTimeouts};
pub use scripted::ScriptedProvider;
pub use secret::SecretString;
pub use sent_prefix::{SentBlock, SentPrefix, SentPrefixSlot, SentTool};
pub use served::listed_window;
pub use stored_keys::{StoredKey, StoredKeys};
pub use text_tool_calls::{UnreadCall, unread_call};
pub use tool_set::{ToolDef, ToolLoading, ToolOrigin, ToolSet};
pub use tool_wire_name::wire_name;
pub use wire::{messages::FeatureBetas, openai::ChatOptions};
pub use wire_schema::{WireSchema, wire_schema};
