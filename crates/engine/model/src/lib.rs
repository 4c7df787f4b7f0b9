//! Models: one port ([`Provider`]), many wires, and the linter that every
//! request passes.
//!
//! A [`Request`] is in no provider's form. [`HttpProvider`] checks it, repairs
//! what the provider would refuse (telling each repair once), encodes it so
//! that the bytes of a session's prefix never change, sends it, reads the
//! answer and tries again where that is safe. What comes out is a stream of
//! [`ModelEvent`]s; dropping it cancels.
//!
//! **Does not know** tools as things that run, permissions, sessions or
//! compaction: it neither decides what is in a conversation nor what happens
//! with a call.
//!
//! **Invariant:** a call that was handed out is never handed out again, and a
//! call that may be cut is never handed out at all.
//!
//! **Invariant:** the conversation is never changed, only what is sent of it.
//!
//! **Invariant:** keys appear in headers and nowhere else.

mod address;
mod answer;
mod catalog;
mod cloud;
mod dialect;
mod endpoint;
mod engine;
mod env;
mod error;
mod event;
mod failure;
mod http;
mod key;
mod lint;
mod name;
mod prefix;
mod provider;
mod renewal;
mod replay;
mod request;
mod retry;
mod schema;
mod scripted;
mod secret;
mod served;
mod stored;
mod stream;
mod tools;
mod wire;

pub use answer::ModelAnswer;
pub use catalog::{Catalog, ModelInfo, PriceAbove, ThinkingSupport, TokenPrice, ToolCalls};
#[cfg(feature = "bedrock")]
pub use cloud::aws::AwsLogin;
pub use dialect::{UnreadCall, unread_call};
pub use env::{KeySettings, LocalServer, ProviderChoice};
pub use error::ModelError;
pub use event::{CallProblem, InvalidCall, ModelEvent, ModelStream, Retry, StopReason};
pub use key::{KeyHelper, KeySource};
pub use lint::{
    ImageLimit, ImageShrinker, LintRules, Linted, Linter, MediaRules, Repair, RepairKind, ShrunkImage,
    ThinkingRule,
};
pub use name::wire_name;
pub use prefix::{SentBlock, SentPrefix, SentPrefixSlot, SentTool};
pub use provider::{
    AnthropicLogin, FoundryLogin, HttpProvider, Provider, ProviderFuture, ProviderOptions, VertexLocation,
    VertexLogin,
};
pub use renewal::LoginRenewal;
pub use replay::{RecordedExchange, RecordingProvider, ReplayProvider, RequestNormalizer};
pub use request::{CachePolicy, Effort, Request, Speed, SystemPart, Thinking, ThinkingDisplay, ToolChoice};
pub use retry::{RetryPolicy, StreamTimeouts};
pub use schema::{WireSchema, wire_schema};
pub use scripted::ScriptedProvider;
pub use secret::SecretString;
pub use served::listed_window;
pub use stored::{StoredKey, StoredKeys};
pub use tools::{ToolDef, ToolLoading, ToolOrigin, ToolSet};
pub use wire::{messages::FeatureBetas, openai::ChatOptions};
