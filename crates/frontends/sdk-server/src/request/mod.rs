//! Control requests of a host, parsed into types.
//!
//! [`ControlRequest::parse`] is the only code that reads a request's JSON. Handlers get typed fields.
//!
//! Unknown fields are ignored. `null` means absent. A missing required field and a field of the wrong
//! type are a [`RequestProblem`] that names the subtype, the field and the expected type.
//! [`InitializeRequest`] has no required fields, and a field of an unknown format counts as absent,
//! because rejecting it would end the session.

mod answer;
mod fields;
mod initialize;
mod problem;

use haft_model::ThinkingDisplay;
use haft_types::{CallId, PermissionMode};
use serde_json::{Map, Value};

use self::fields::RequestFields;
pub use self::{
    answer::{FileAnswer, InterruptAnswer, RewindAnswer, ServersAnswer, TaskOutputAnswer},
    initialize::{ClientPlugin, InitializeRequest},
    problem::RequestProblem,
};

/// A control request that Haft answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRequest {
    /// `initialize`. Can be sent again; the newest one applies.
    Initialize(Box<InitializeRequest>),
    /// `interrupt`: interrupts the running turn.
    Interrupt {
        /// Whether queued prompts are cancelled too.
        cancel_queued: bool,
    },
    /// `set_permission_mode`.
    SetPermissionMode { mode: PermissionMode },
    /// `set_model`.
    SetModel { model: ModelChoice },
    /// `set_max_thinking_tokens`. Missing fields are unchanged.
    SetMaxThinkingTokens {
        /// Thinking budget in tokens; zero disables thinking.
        budget: SettingChange<u32>,
        /// How much of the thinking is returned.
        display: SettingChange<ThinkingDisplay>,
    },
    /// `mcp_status`: all servers and their tools.
    McpStatus,
    /// `mcp_message`: a message that a server of the host sent by itself.
    McpMessage {
        /// Name of the server, as sent by the host.
        server_name: String,
        /// A JSON-RPC message.
        message: Value,
    },
    /// `mcp_set_servers`: replaces the set of running servers.
    McpSetServers {
        /// Configurations by name.
        servers: Value,
    },
    /// `mcp_reconnect`.
    McpReconnect { server_name: String },
    /// `mcp_toggle`.
    McpToggle { server_name: String, enabled: bool },
    /// `mcp_call`: calls an MCP tool on behalf of the host.
    McpCall {
        /// The tool's full name, `mcp__server__tool`.
        tool: String,
        arguments: Map<String, Value>,
    },
    /// `mcp_read_resource`.
    McpReadResource { server_name: String, uri: String },
    /// `read_file`.
    ReadFile {
        /// Path, as sent by the host. Never empty.
        path: String,
        /// Maximum number of bytes, if set.
        max_bytes: Option<u64>,
        /// Encoding of the content.
        encoding: FileEncoding,
    },
    /// `stop_task`: stops a background task.
    StopTask {
        /// Id of the task. An unknown id is not an error.
        task_id: String,
    },
    /// `rewind_files`: restores files to their state before a prompt.
    RewindFiles {
        /// Uuid of the prompt.
        user_message_id: String,
        /// Whether to only report what would change.
        dry_run: bool,
    },
    /// `get_context_usage`.
    GetContextUsage,
    /// `apply_flag_settings`: null removes a key, any other value replaces it.
    ApplyFlagSettings { settings: Map<String, Value> },
    /// `reload_skills`.
    ReloadSkills,
    /// `reload_plugins`.
    ReloadPlugins,
    /// `reload_output_styles`.
    ReloadOutputStyles,
    /// `background_tasks`: moves commands and agents that calls wait for to the background.
    BackgroundTasks {
        /// Only those of this call; `None` for all.
        tool_use_id: Option<CallId>,
    },
    /// `get_task_output`: the end of a task's output.
    GetTaskOutput { task_id: String },
    /// `seed_read_state`: marks a file as read by the model.
    SeedReadState {
        /// Path, as sent by the host. Never empty.
        path: String,
        /// Modification time of the version that was read, in milliseconds since the Unix epoch.
        mtime: f64,
    },
    /// `update_settings`: writes user settings that a host may change.
    UpdateSettings {
        /// Which settings file.
        source: SettingsSource,
        settings: Map<String, Value>,
    },
    /// `rename_session`.
    RenameSession {
        /// The name, trimmed. Never empty.
        title: String,
        /// Id of the session to rename, if given.
        session_id: Option<String>,
    },
    /// `get_usage`: token usage and cost.
    GetUsage,
    /// `set_color`. Has no effect.
    SetColor,
    /// `set_has_subscribers`. Has no effect.
    SetHasSubscribers,
    /// `cancel_async_message`: withdraws a queued prompt.
    CancelAsyncMessage {
        /// Uuid of the prompt.
        message_uuid: String,
    },
    /// `list_models`.
    ListModels,
    /// `get_settings`.
    GetSettings,
    /// `get_session_cost`.
    GetSessionCost,
    /// `get_binary_version`.
    GetBinaryVersion,
}

/// The model a host requests.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ModelChoice {
    /// The model the session was opened with.
    SessionDefault,
    /// This model name or alias. Never blank.
    Named(String),
}

/// Change of a setting in a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SettingChange<T> {
    /// Not mentioned: unchanged.
    #[default]
    Keep,
    /// Null: reset to the default.
    Reset,
    /// Set to this value.
    Set(T),
}

/// Encoding of a file's content.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FileEncoding {
    /// Text; invalid UTF-8 is replaced.
    #[default]
    Text,
    /// Base64.
    Base64,
}

/// A settings file that a host may write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SettingsSource {
    /// `localSettings`: the user's file for this project.
    Local,
    /// `userSettings`: the user's file for all projects.
    User,
}

/// Options of `mcp_call` that are not supported. A request with one is rejected, because a check the
/// host asked for must not be skipped.
const UNSUPPORTED_WISHES: [&str; 5] =
    ["check_permissions", "input_files", "output_files", "expires_at", "timeout_ms"];

impl ControlRequest {
    /// Parses the `request` object of a control request.
    pub fn parse(request: Value) -> Result<Self, RequestProblem> {
        let mut fields = RequestFields::new(request);
        let subtype = fields.subtype().to_owned();
        Ok(match subtype.as_str() {
            "initialize" => Self::Initialize(Box::new(InitializeRequest::read(&mut fields))),
            "interrupt" => Self::Interrupt { cancel_queued: fields.flag("cancel_queued")? },
            "set_permission_mode" => Self::SetPermissionMode { mode: mode(&mut fields)? },
            "set_model" => Self::SetModel { model: model(&mut fields)? },
            "set_max_thinking_tokens" => thinking(&mut fields)?,
            "rewind_files" => Self::RewindFiles {
                user_message_id: fields.text("user_message_id")?,
                dry_run: fields.flag("dry_run")?,
            },
            "get_context_usage" => Self::GetContextUsage,
            "apply_flag_settings" => Self::ApplyFlagSettings { settings: fields.object("settings")? },
            "reload_skills" => Self::ReloadSkills,
            "reload_plugins" => Self::ReloadPlugins,
            "reload_output_styles" => Self::ReloadOutputStyles,
            "update_settings" => {
                Self::UpdateSettings { settings: fields.object("settings")?, source: source(&mut fields)? }
            }
            "rename_session" => Self::RenameSession {
                title: fields.filled_text("title")?.trim().to_owned(),
                session_id: fields.optional_text("session_id")?,
            },
            "get_usage" => Self::GetUsage,
            "set_color" => Self::SetColor,
            "set_has_subscribers" => Self::SetHasSubscribers,
            "cancel_async_message" => Self::CancelAsyncMessage { message_uuid: fields.text("message_uuid")? },
            "list_models" => Self::ListModels,
            "get_settings" => Self::GetSettings,
            "get_session_cost" => Self::GetSessionCost,
            "get_binary_version" => Self::GetBinaryVersion,
            name if name.starts_with("mcp_") => return server_request(&mut fields),
            _ => return file_or_task_request(&mut fields),
        })
    }
}

/// Parses requests about MCP servers.
fn server_request(fields: &mut RequestFields) -> Result<ControlRequest, RequestProblem> {
    type Request = ControlRequest;
    Ok(match fields.subtype() {
        "mcp_status" => Request::McpStatus,
        "mcp_message" => {
            Request::McpMessage { server_name: fields.text("server_name")?, message: fields.any("message")? }
        }
        "mcp_set_servers" => Request::McpSetServers { servers: Value::Object(fields.object("servers")?) },
        "mcp_reconnect" => Request::McpReconnect { server_name: fields.text("serverName")? },
        "mcp_toggle" => Request::McpToggle {
            server_name: fields.text("serverName")?,
            enabled: fields.required_flag("enabled")?,
        },
        "mcp_call" => {
            for wish in UNSUPPORTED_WISHES {
                if !matches!(fields.look(wish), Value::Null | Value::Bool(false)) {
                    let text = format!("The tool did not run: mcp_call with {wish} is not supported");
                    return Err(RequestProblem::refused(text));
                }
            }
            Request::McpCall {
                tool: fields.text("tool")?,
                arguments: fields.optional_object("arguments")?.unwrap_or_default(),
            }
        }
        "mcp_read_resource" => {
            Request::McpReadResource { server_name: fields.text("serverName")?, uri: fields.text("uri")? }
        }
        other => return Err(RequestProblem::unsupported(other)),
    })
}

/// Parses requests about files and tasks; rejects unknown ones.
fn file_or_task_request(fields: &mut RequestFields) -> Result<ControlRequest, RequestProblem> {
    type Request = ControlRequest;
    Ok(match fields.subtype() {
        "read_file" => Request::ReadFile {
            path: fields.filled_text("path")?,
            max_bytes: fields.optional_count("max_bytes")?,
            // Any other value means text, also values of newer hosts.
            encoding: match fields.optional_text("encoding")?.as_deref() {
                Some("base64") => FileEncoding::Base64,
                _ => FileEncoding::Text,
            },
        },
        "seed_read_state" => {
            Request::SeedReadState { path: fields.filled_text("path")?, mtime: fields.number("mtime")? }
        }
        "stop_task" => Request::StopTask { task_id: fields.text("task_id")? },
        "get_task_output" => Request::GetTaskOutput { task_id: fields.text("task_id")? },
        "background_tasks" => Request::BackgroundTasks {
            tool_use_id: fields.optional_text("tool_use_id")?.as_deref().map(CallId::from),
        },
        other => return Err(RequestProblem::unsupported(other)),
    })
}

fn mode(fields: &mut RequestFields) -> Result<PermissionMode, RequestProblem> {
    let refused =
        |why: String| RequestProblem::coded("invalid_mode", format!("Cannot set permission mode: {why}"));
    let name = fields.text("mode").map_err(|problem| refused(problem.text().to_owned()))?;
    name.parse().map_err(refused)
}

fn model(fields: &mut RequestFields) -> Result<ModelChoice, RequestProblem> {
    match fields.take("model") {
        None => Ok(ModelChoice::SessionDefault),
        Some(Value::String(name)) if name == "default" => Ok(ModelChoice::SessionDefault),
        Some(Value::String(name)) if !name.trim().is_empty() => Ok(ModelChoice::Named(name)),
        Some(found) => Err(fields.wrong("model", "the name of a model, or null", &found)),
    }
}

fn thinking(fields: &mut RequestFields) -> Result<ControlRequest, RequestProblem> {
    let budget = match fields.change("max_thinking_tokens") {
        SettingChange::Keep => SettingChange::Keep,
        SettingChange::Reset => SettingChange::Reset,
        SettingChange::Set(value) => match value.as_u64() {
            Some(tokens) => SettingChange::Set(u32::try_from(tokens).unwrap_or(u32::MAX)),
            None => return Err(fields.wrong("max_thinking_tokens", "a whole number, or null", &value)),
        },
    };
    let display = match fields.change("thinking_display") {
        SettingChange::Keep => SettingChange::Keep,
        SettingChange::Reset => SettingChange::Reset,
        // A value of a newer host: uses the model's default.
        SettingChange::Set(word) => {
            serde_json::from_value(word).map_or(SettingChange::Reset, SettingChange::Set)
        }
    };
    Ok(ControlRequest::SetMaxThinkingTokens { budget, display })
}

fn source(fields: &mut RequestFields) -> Result<SettingsSource, RequestProblem> {
    match fields.text("source")?.as_str() {
        "localSettings" => Ok(SettingsSource::Local),
        "userSettings" => Ok(SettingsSource::User),
        other => {
            let found = Value::from(other);
            Err(fields.wrong("source", "\"localSettings\" or \"userSettings\"", &found))
        }
    }
}

#[cfg(test)]
mod tests;
