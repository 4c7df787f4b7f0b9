use std::path::{Path, PathBuf};

use haft_types::{AgentId, CallId, SessionId};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::HookEvent;

/// What a hook is told: where it runs, and what is about to happen or has
/// happened.
#[derive(Clone, Debug, PartialEq)]
pub struct HookInput {
    /// What every event carries.
    pub base: BaseInput,
    /// What this event carries.
    pub event: EventInput,
    /// Other names the matcher accepts for the subject: a gate on `Task` also
    /// guards the tool that is called `Agent` today.
    pub aliases: Vec<String>,
}

/// The fields every event carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaseInput {
    /// The session in which the event happened.
    pub session_id: SessionId,
    /// The session's log.
    #[serde(serialize_with = "lossy")]
    pub transcript_path: PathBuf,
    /// The working directory.
    #[serde(serialize_with = "lossy")]
    pub cwd: PathBuf,
    /// The prompt that led here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    /// The permission mode in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// The sub-agent that acts, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The kind of that sub-agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// How hard the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<EffortInput>,
}

/// How hard the model thinks, in its public shape.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct EffortInput {
    /// The level's name.
    pub level: String,
}

impl BaseInput {
    /// The fields that are always there.
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

/// The MCP server a tool belongs to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ToolServerInput {
    /// Its configured name.
    pub name: String,
    /// Where its configuration comes from.
    pub source: String,
}

/// The fields of one event.
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
    /// An event without a type of its own.
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
            /// The fields a hook is told beside those of every event, each with
            /// a sentence; nothing for events without a type of their own.
            pub fn input_fields(self) -> &'static [(&'static str, &'static str)] {
                match self {
                    $(Self::$name => &[$((stringify!($field), concat!($($field_doc),+)),)*],)*
                    _ => &[],
                }
            }
        }

        impl EventInput {
            /// Which event this is.
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
        /// Its input, checked and with absolute paths.
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
        /// What it returned.
        tool_response: Value,
        /// The id of the call.
        tool_use_id: CallId,
        /// How long it ran.
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
        /// What went wrong, as the model reads it.
        error: String,
        /// Whether the person interrupted it.
        is_interrupt: bool,
        /// How long it ran.
        duration_ms: u64,
    }
    /// All calls of one message are done.
    PostToolBatch {
        /// The calls, in emission order.
        tool_calls: Vec<BatchCall>,
    }
    /// A person would be asked.
    PermissionRequest {
        /// The tool's name.
        tool_name: String,
        /// The input as the tool will get it.
        tool_input: Value,
        /// Rule updates the person would be offered.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        permission_suggestions: Vec<Value>,
    }
    /// A call was refused.
    PermissionDenied {
        /// The tool's name.
        tool_name: String,
        /// The input as the tool will get it.
        tool_input: Value,
        /// The id of the call.
        tool_use_id: CallId,
        /// Why the call was denied, as the model reads it.
        reason: String,
    }
    /// The person is told something.
    Notification {
        /// What the person is told.
        message: String,
        /// The headline of the message.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The sort of notification, for matchers.
        notification_type: String,
    }
    /// The person has sent a prompt.
    UserPromptSubmit {
        /// What the person said.
        prompt: String,
        /// Where it came from.
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
        /// Whether it goes on only because of a hook like this one.
        stop_hook_active: bool,
        /// The last thing the model said.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_assistant_message: Option<String>,
        /// Work that goes on in the background.
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
        /// Whether it goes on only because of a hook like this one.
        stop_hook_active: bool,
        /// The id of the sub-agent.
        agent_id: AgentId,
        /// The type of the sub-agent, for matchers.
        agent_type: String,
        /// The path of the sub-agent's log.
        #[serde(serialize_with = "lossy")]
        agent_transcript_path: PathBuf,
        /// The last thing it said.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_assistant_message: Option<String>,
    }
    /// The conversation is about to be compacted.
    PreCompact {
        /// Who asked for it.
        trigger: CompactTrigger,
        /// What the person wants kept; null when nothing was said.
        custom_instructions: Option<String>,
    }
    /// An MCP server asks the person something.
    Elicitation {
        /// The name of the server that asks.
        mcp_server_name: String,
        /// The server's question for the person.
        message: String,
        /// `form` or `url`.
        mode: String,
        /// The page the person is to open.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// Ties the answer to a later notice of the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        elicitation_id: Option<String>,
        /// JSON Schema of the form.
        #[serde(skip_serializing_if = "Option::is_none")]
        requested_schema: Option<Value>,
    }
    /// An MCP server is about to be answered.
    ElicitationResult {
        /// The name of the server that asks.
        mcp_server_name: String,
        /// `accept`, `decline` or `cancel`.
        action: String,
        /// `form` or `url`.
        mode: String,
        /// Ties the answer to the question.
        #[serde(skip_serializing_if = "Option::is_none")]
        elicitation_id: Option<String>,
        /// The fields of the form.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
    }
}

/// One call of a batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchCall {
    /// The tool's name.
    pub tool_name: String,
    /// The input it ran with.
    pub tool_input: Value,
    /// The id of the call.
    pub tool_use_id: CallId,
    /// What it returned, if it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_response: Option<Value>,
}

/// How a session begins.
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

/// Who asked for compaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactTrigger {
    /// The person.
    Manual,
    /// The context budget.
    Auto,
}

/// An event that has no typed input yet: it runs through the same machinery.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherInput {
    /// The event that happened.
    pub event: HookEvent,
    /// What matchers look at; without one every hook of the event runs.
    pub subject: Option<String>,
    /// The fields of the event beside the common ones.
    pub fields: Map<String, Value>,
}

impl From<OtherInput> for EventInput {
    fn from(input: OtherInput) -> Self {
        Self::Other(input)
    }
}

impl EventInput {
    /// What matchers look at. Without a subject every hook of the event runs.
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

    /// The tool's name and input, where there is a tool.
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
    /// An input whose subject has no other names.
    pub fn new(base: BaseInput, event: impl Into<EventInput>) -> Self {
        Self { base, event: event.into(), aliases: Vec::new() }
    }

    /// The JSON a handler receives: the common fields, the event's name, then
    /// the event's own fields.
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

/// A path that is not UTF-8 must not silence a gate, so it is told as closely
/// as JSON can.
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
    fn the_wire_shape_is_flat_and_ordered() {
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
    fn an_event_field_wins_over_a_common_one_and_paths_never_silence_a_hook() {
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
