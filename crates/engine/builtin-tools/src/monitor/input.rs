use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Watches something in the background: each line a command prints, or each message of a WebSocket,
/// reaches you as an event as soon as you can take it. Filter at the source (`grep --line-buffered`):
/// every line costs you attention. Give either `command` or `ws`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What is watched, in a few words; stands in front of every event.
    #[schemars(length(min = 1))]
    pub description: String,
    /// Milliseconds until the watch ends; 300000 unless given, at most 1800000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A command line for bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A WebSocket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ws: Option<Socket>,
}

/// A WebSocket to watch.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Socket {
    /// Its address, `ws://` or `wss://`.
    pub url: String,
    /// Subprotocols to offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<String>,
}

/// A watch that has begun.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Its id, for TaskOutput and TaskStop.
    pub task_id: String,
    /// When it ends at the latest.
    pub timeout_ms: u64,
}
