//! Control requests of a host, parsed into types.
//!
//! [`ControlRequest::parse`] is the only reader of a request's JSON. A handler
//! gets fields with their types and never sees a missing field as an empty text.
//!
//! Fields this version does not know are ignored. A field that is `null` is
//! absent. A required field that is missing, and any field of the wrong type,
//! is a [`RequestProblem`] that names the subtype, the field and what was
//! expected. [`InitializeRequest`] is the exception: it has no required field,
//! and a field of a form this version does not know counts as absent, because a
//! refused introduction ends the session.

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
    /// `initialize`: the host introduces itself. It may come again; the newest
    /// one counts.
    Initialize(Box<InitializeRequest>),
    /// `interrupt`: the running turn ends.
    Interrupt {
        /// Whether prompts that wait are taken back too.
        cancel_queued: bool,
    },
    /// `set_permission_mode`.
    SetPermissionMode {
        /// The mode from here on.
        mode: PermissionMode,
    },
    /// `set_model`.
    SetModel {
        /// The model from here on.
        model: ModelChoice,
    },
    /// `set_max_thinking_tokens`. What the request does not speak of stays as it is.
    SetMaxThinkingTokens {
        /// The budget in tokens; zero turns thinking off.
        budget: SettingChange<u32>,
        /// How much of the thinking comes back.
        display: SettingChange<ThinkingDisplay>,
    },
    /// `mcp_status`: all servers and their tools.
    McpStatus,
    /// `mcp_message`: a server of the host says something by itself.
    McpMessage {
        /// The server, as the host named it.
        server_name: String,
        /// A JSON-RPC message.
        message: Value,
    },
    /// `mcp_set_servers`: these servers replace all others.
    McpSetServers {
        /// Configurations by name.
        servers: Value,
    },
    /// `mcp_reconnect`.
    McpReconnect {
        /// Which server.
        server_name: String,
    },
    /// `mcp_toggle`.
    McpToggle {
        /// Which server.
        server_name: String,
        /// Whether it is to run.
        enabled: bool,
    },
    /// `mcp_call`: the host calls a tool of a server itself.
    McpCall {
        /// The tool's full name, `mcp__server__tool`.
        tool: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// `mcp_read_resource`.
    McpReadResource {
        /// Which server.
        server_name: String,
        /// Which resource.
        uri: String,
    },
    /// `read_file`.
    ReadFile {
        /// Which file, as the host wrote it. Never empty.
        path: String,
        /// How many bytes at most, if the host says so.
        max_bytes: Option<u64>,
        /// How the content comes back.
        encoding: FileEncoding,
    },
    /// `stop_task`: a task in the background ends.
    StopTask {
        /// Which task. One that does not exist is no problem.
        task_id: String,
    },
    /// `rewind_files`: files become what they were before a prompt.
    RewindFiles {
        /// The prompt.
        user_message_id: String,
        /// Whether the answer only says what would change.
        dry_run: bool,
    },
    /// `get_context_usage`.
    GetContextUsage,
    /// `apply_flag_settings`: keys that are null are taken away, others replaced.
    ApplyFlagSettings {
        /// The changes.
        settings: Map<String, Value>,
    },
    /// `reload_skills`.
    ReloadSkills,
    /// `reload_plugins`.
    ReloadPlugins,
    /// `reload_output_styles`.
    ReloadOutputStyles,
    /// `background_tasks`: calls that wait for their commands go on without them.
    BackgroundTasks {
        /// Only this call.
        tool_use_id: Option<CallId>,
    },
    /// `get_task_output`: the end of what a task printed.
    GetTaskOutput {
        /// Which task.
        task_id: String,
    },
    /// `seed_read_state`: the model has read a file when it had this time.
    SeedReadState {
        /// Which file, as the host wrote it. Never empty.
        path: String,
        /// The file's time, in milliseconds since 1970.
        mtime: f64,
    },
    /// `update_settings`: settings of the person that a host may write.
    UpdateSettings {
        /// Which file.
        source: SettingsSource,
        /// The changes.
        settings: Map<String, Value>,
    },
    /// `rename_session`.
    RenameSession {
        /// The name, without spaces around it. Never empty.
        title: String,
        /// The session the host means, if it says so.
        session_id: Option<String>,
    },
    /// `get_usage`: what the session has used.
    GetUsage,
    /// `set_color`. Nothing here has a color.
    SetColor,
    /// `set_has_subscribers`. Who watches changes nothing here.
    SetHasSubscribers,
    /// `cancel_async_message`: a prompt that waits is taken back.
    CancelAsyncMessage {
        /// Which prompt.
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

/// Which model a host wants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ModelChoice {
    /// The one the session began with.
    SessionDefault,
    /// This one, by name or short name. Never blank.
    Named(String),
}

/// What a request says about a setting.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SettingChange<T> {
    /// Nothing: it stays as it is.
    #[default]
    Keep,
    /// It gets its default back.
    Reset,
    /// It gets this value.
    Set(T),
}

/// How the content of a file comes back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FileEncoding {
    /// As text; bytes that are no text are replaced.
    #[default]
    Text,
    /// As base64, byte for byte.
    Base64,
}

/// A settings file that a host may write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SettingsSource {
    /// `localSettings`: the person's file in this project.
    Local,
    /// `userSettings`: the person's file for all projects.
    User,
}

/// Wishes of `mcp_call` that are not supported. A host that asks for a check
/// must not get a call without one.
const UNSUPPORTED_WISHES: [&str; 5] =
    ["check_permissions", "input_files", "output_files", "expires_at", "timeout_ms"];

impl ControlRequest {
    /// Reads the `request` object of a control request.
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

/// Requests about MCP servers.
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

/// Requests about files and tasks, and everything nobody here knows.
fn file_or_task_request(fields: &mut RequestFields) -> Result<ControlRequest, RequestProblem> {
    type Request = ControlRequest;
    Ok(match fields.subtype() {
        "read_file" => Request::ReadFile {
            path: fields.filled_text("path")?,
            max_bytes: fields.optional_count("max_bytes")?,
            // Every other word means text, today and in newer hosts.
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
        // A word of a newer host: the model's default shows something.
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
