use std::path::{Path, PathBuf};

use haft_types::{AgentId, CallId, SessionId};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::HookEvent;

/// Input of a hook: the session and the event.
#[derive(Clone, Debug, PartialEq)]
pub struct HookInput {
    /// Fields of every event.
    pub base: BaseInput,
    /// Fields of this event.
    pub event: EventInput,
    /// Alternative names of the subject for matchers: a gate for `Task` also guards the tool that is now
    /// called `Agent`.
    pub aliases: Vec<String>,
}

/// Fields of every event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaseInput {
    /// Id of the session.
    pub session_id: SessionId,
    /// Path of the session log.
    #[serde(serialize_with = "lossy")]
    pub transcript_path: PathBuf,
    /// Working directory.
    #[serde(serialize_with = "lossy")]
    pub cwd: PathBuf,
    /// Id of the prompt that led to the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    /// Current permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// Id of the acting sub-agent, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Type of that sub-agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// Thinking effort of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<EffortInput>,
}

/// Thinking effort in its public JSON form.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct EffortInput {
    /// Name of the level.
    pub level: String,
}

impl BaseInput {
    /// Creates the mandatory fields.
    pub fn new(session_id: SessionId, transcript_path: PathBuf, cwd: PathBuf) -> Self {
        Self {
            session_id,
            transcript_path,
            cwd,
            prompt_id: None,
            permission_mode: None,
            agent_id: None,
            agent_type: None,
            effort: None,
        }
    }
}

/// The MCP server of a tool.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ToolServerInput {
    /// Its configured name.
    pub name: String,
    /// Source of its configuration.
    pub source: String,
}

/// Fields of one event.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is the event of the same name, documented there")]
pub enum EventInput {
    PreToolUse(PreToolUse),
    PostToolUse(PostToolUse),
    PostToolUseFailure(PostToolUseFailure),
    PostToolBatch(PostToolBatch),
    PermissionRequest(PermissionRequest),
    PermissionDenied(PermissionDenied),
    Notification(Notification),
    UserPromptSubmit(UserPromptSubmit),
    SessionStart(SessionStart),
    SessionEnd(SessionEnd),
    Stop(Stop),
    SubagentStart(SubagentStart),
    SubagentStop(SubagentStop),
    PreCompact(PreCompact),
    Elicitation(Elicitation),
    ElicitationResult(ElicitationResult),
    /// An event without a typed input.
    Other(OtherInput),
}

macro_rules! inputs {
    ($(#[doc = $doc:literal] $name:ident {
        $($(#[doc = $field_doc:literal])+ $(#[serde($($how:tt)*)])? $field:ident: $kind:ty,)*
    })*) => {
        $(
            #[doc = $doc]
            #[derive(Clone, Debug, PartialEq, Serialize)]
            pub struct $name {
                $($(#[doc = $field_doc])+ $(#[serde($($how)*)])? pub $field: $kind,)*
            }

            impl From<$name> for EventInput {
                fn from(input: $name) -> Self {
                    Self::$name(input)
                }
            }
        )*

        impl HookEvent {
            /// Names and descriptions of the event's own fields; empty for events without a typed input.
            pub fn input_fields(self) -> &'static [(&'static str, &'static str)] {
                match self {
                    $(Self::$name => &[$((stringify!($field), concat!($($field_doc),+)),)*],)*
                    _ => &[],
                }
            }
        }

        impl EventInput {
            /// The event.
            pub fn event(&self) -> HookEvent {
                match self {
                    $(Self::$name(_) => HookEvent::$name,)*
                    Self::Other(other) => other.event,
                }
            }

            fn fields(&self) -> Map<String, Value> {
                let fields = match self {
                    $(Self::$name(input) => serde_json::to_value(input),)*
                    Self::Other(other) => return other.fields.clone(),
                };
                match fields {
                    Ok(Value::Object(fields)) => fields,
                    // Structs of strings, numbers and JSON values always serialise to objects.
                    Ok(_) | Err(_) => Map::new(),
                }
            }
        }
    };
}

inputs! {
    /// A tool is about to run.
    PreToolUse {
        /// The tool's name.
        tool_name: String,
        /// The validated input, with absolute paths.
        tool_input: Value,
        /// The id of the call.
        tool_use_id: CallId,
        /// The server, for a tool of an MCP server.
        #[serde(skip_serializing_if = "Option::is_none")]
        mcp_server: Option<ToolServerInput>,
    }
    /// A tool has succeeded.
    PostToolUse {
        /// The tool's name.
        tool_name: String,
        /// The input it ran with.
        tool_input: Value,
        /// The tool's result.
        tool_response: Value,
        /// The id of the call.
        tool_use_id: CallId,
        /// Run time in milliseconds.
        duration_ms: u64,
        /// The server, for a tool of an MCP server.
        #[serde(skip_serializing_if = "Option::is_none")]
        mcp_server: Option<ToolServerInput>,
    }
    /// A tool has failed.
    PostToolUseFailure {
        /// The tool's name.
        tool_name: String,
        /// The input it ran with.
        tool_input: Value,
        /// The id of the call.
        tool_use_id: CallId,
        /// The error message for the model.
        error: String,
        /// Whether the user interrupted it.
        is_interrupt: bool,
        /// Run time in milliseconds.
        duration_ms: u64,
    }
    /// All calls of one message are done.
    PostToolBatch {
        /// The calls, in the order the model made them.
        tool_calls: Vec<BatchCall>,
    }
    /// The user would be asked for permission.
    PermissionRequest {
        /// The tool's name.
        tool_name: String,
        /// The input as the tool will get it.
        tool_input: Value,
        /// Rule updates offered to the user.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        permission_suggestions: Vec<Value>,
    }
    /// A call was denied.
    PermissionDenied {
        /// The tool's name.
        tool_name: String,
        /// The input as the tool will get it.
        tool_input: Value,
        /// The id of the call.
        tool_use_id: CallId,
        /// Why it was denied, as shown to the model.
        reason: String,
    }
    /// The user gets a notification.
    Notification {
        /// Text of the notification.
        message: String,
        /// Title of the notification.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Type of the notification, for matchers.
        notification_type: String,
    }
    /// The user submitted a prompt.
    UserPromptSubmit {
        /// The prompt.
        prompt: String,
        /// Source of the prompt.
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// The session's title so far.
        #[serde(skip_serializing_if = "Option::is_none")]
        session_title: Option<String>,
    }
    /// A session begins.
    SessionStart {
        /// How the session began.
        source: SessionSource,
        /// The model the session begins with.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    }
    /// A session ends.
    SessionEnd {
        /// `clear`, `resume`, `logout`, `prompt_input_exit` or `other`.
        reason: String,
    }
    /// The agent is about to stop.
    Stop {
        /// Whether the agent continues only because a hook like this one blocked its stop.
        stop_hook_active: bool,
        /// Last message of the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_assistant_message: Option<String>,
        /// Running background tasks.
        background_tasks: Vec<Value>,
        /// Timers of the session.
        session_crons: Vec<Value>,
    }
    /// A sub-agent begins.
    SubagentStart {
        /// The id of the sub-agent.
        agent_id: AgentId,
        /// The type of the sub-agent, for matchers.
        agent_type: String,
    }
    /// A sub-agent is about to stop.
    SubagentStop {
        /// Whether the sub-agent continues only because a hook like this one blocked its stop.
        stop_hook_active: bool,
        /// The id of the sub-agent.
        agent_id: AgentId,
        /// The type of the sub-agent, for matchers.
        agent_type: String,
        /// The path of the sub-agent's log.
        #[serde(serialize_with = "lossy")]
        agent_transcript_path: PathBuf,
        /// Last message of the sub-agent.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_assistant_message: Option<String>,
    }
    /// The conversation is about to be compacted.
    PreCompact {
        /// `manual` (requested by the user) or `auto` (context limit).
        trigger: CompactTrigger,
        /// The user's instructions for the summary; null if none.
        custom_instructions: Option<String>,
    }
    /// An MCP server asks the user for input.
    Elicitation {
        /// The name of the server that asks.
        mcp_server_name: String,
        /// The server's message to the user.
        message: String,
        /// `form` or `url`.
        mode: String,
        /// URL that the user is to open.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Links the answer to a later notification of the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        elicitation_id: Option<String>,
        /// JSON Schema of the form.
        #[serde(skip_serializing_if = "Option::is_none")]
        requested_schema: Option<Value>,
    }
    /// An MCP server is about to get an answer.
    ElicitationResult {
        /// The name of the server that asks.
        mcp_server_name: String,
        /// `accept`, `decline` or `cancel`.
        action: String,
        /// `form` or `url`.
        mode: String,
        /// Links the answer to the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        elicitation_id: Option<String>,
        /// Values of the form fields.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
    }
}

/// A call of a batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchCall {
    /// The tool's name.
    pub tool_name: String,
    /// The input it ran with.
    pub tool_input: Value,
    /// The call id.
    pub tool_use_id: CallId,
    /// Its result, if it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Value>,
}

/// How a session starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the public words, which explain themselves")]
pub enum SessionSource {
    Startup,
    Resume,
    Clear,
    Compact,
    Fork,
}

impl SessionSource {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Clear => "clear",
            Self::Compact => "compact",
            Self::Fork => "fork",
        }
    }
}

/// What triggers compaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactTrigger {
    /// The user.
    Manual,
    /// The context limit.
    Auto,
}

/// Input of an event without a typed input.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherInput {
    /// The event.
    pub event: HookEvent,
    /// Subject for matchers; without one all hooks of the event run.
    pub subject: Option<String>,
    /// The event's own fields.
    pub fields: Map<String, Value>,
}

impl From<OtherInput> for EventInput {
    fn from(input: OtherInput) -> Self {
        Self::Other(input)
    }
}

impl EventInput {
    /// Subject for matchers. Without one all hooks of the event run.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::PreToolUse(PreToolUse { tool_name, .. })
            | Self::PostToolUse(PostToolUse { tool_name, .. })
            | Self::PostToolUseFailure(PostToolUseFailure { tool_name, .. })
            | Self::PermissionRequest(PermissionRequest { tool_name, .. })
            | Self::PermissionDenied(PermissionDenied { tool_name, .. }) => Some(tool_name),
            Self::Notification(input) => Some(&input.notification_type),
            Self::SessionStart(input) => Some(input.source.as_str()),
            Self::SessionEnd(input) => Some(&input.reason),
            Self::SubagentStart(input) => Some(&input.agent_type),
            Self::SubagentStop(input) => Some(&input.agent_type),
            Self::PreCompact(input) => Some(match input.trigger {
                CompactTrigger::Manual => "manual",
                CompactTrigger::Auto => "auto",
            }),
            Self::Elicitation(input) => Some(&input.mcp_server_name),
            Self::ElicitationResult(input) => Some(&input.mcp_server_name),
            Self::PostToolBatch(_) | Self::UserPromptSubmit(_) | Self::Stop(_) => None,
            Self::Other(input) => input.subject.as_deref(),
        }
    }

    /// Tool name and input, if the event is about a tool.
    pub fn tool(&self) -> Option<(&str, &Value)> {
        match self {
            Self::PreToolUse(it) => Some((&it.tool_name, &it.tool_input)),
            Self::PostToolUse(it) => Some((&it.tool_name, &it.tool_input)),
            Self::PostToolUseFailure(it) => Some((&it.tool_name, &it.tool_input)),
            Self::PermissionRequest(it) => Some((&it.tool_name, &it.tool_input)),
            Self::PermissionDenied(it) => Some((&it.tool_name, &it.tool_input)),
            _ => None,
        }
    }
}

impl HookInput {
    /// An input without alternative subject names.
    pub fn new(base: BaseInput, event: impl Into<EventInput>) -> Self {
        Self { base, event: event.into(), aliases: Vec::new() }
    }

    /// JSON for handlers: common fields, event name, and the event's own fields.
    pub fn to_json(&self) -> Value {
        let mut all = match serde_json::to_value(&self.base) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) | Err(_) => Map::new(),
        };
        all.insert("hook_event_name".to_owned(), Value::from(self.event.event().as_str()));
        all.extend(self.event.fields());
        Value::Object(all)
    }
}

/// A path that is not UTF-8 is converted lossily, because failing would silence a gate.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn base() -> BaseInput {
        BaseInput::new("s1".into(), "/log".into(), "/ws".into())
    }

    #[test]
    fn hook_input_json_is_flat_and_ordered() {
        let mut input = HookInput::new(
            base(),
            PreToolUse {
                tool_name: "Bash".into(),
                tool_input: json!({"command": "ls"}),
                tool_use_id: "t1".into(),
                mcp_server: None,
            },
        );
        input.base.permission_mode = Some("plan".into());
        let want = r#"{"session_id":"s1","transcript_path":"/log","cwd":"/ws","permission_mode":"plan","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t1"}"#;
        assert_eq!(input.to_json().to_string(), want);
    }

    #[test]
    fn hook_input_event_fields_override_common_ones_and_lossy_paths_serialise() {
        use std::os::unix::ffi::OsStringExt;
        let mut base = base();
        base.agent_id = Some("parent".into());
        base.cwd = std::ffi::OsString::from_vec(b"/w\xffs".to_vec()).into();
        let path = std::ffi::OsString::from_vec(b"/l\xff".to_vec()).into();
        let stop = SubagentStop {
            stop_hook_active: false,
            agent_id: "child".into(),
            agent_type: "Explore".into(),
            agent_transcript_path: path,
            last_assistant_message: None,
        };
        let json = HookInput::new(base, stop).to_json();
        assert_eq!(json["cwd"], "/w\u{fffd}s");
        assert_eq!(json["hook_event_name"], "SubagentStop");
        assert_eq!(json["agent_id"], "child", "{json}");
    }
}
