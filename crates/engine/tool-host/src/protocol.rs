//! The protocol between client and host: one JSON object per line.
//!
//! Every frame may be received twice. Calls, commands and questions have ids; a repeated id gets the
//! same answer again.

use std::{path::PathBuf, sync::Arc};

use haft_permission::PermissionUpdate;
use haft_tool::{
    CollapsedLines, ContextChange, ErrorKind, LineStyle, Output, Rendered, RenderedLine, Rendering, ToolError,
};
use haft_tool_runtime::CallReport;
use haft_types::{AgentId, CallId, Content, Message};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Protocol version; must be equal on both sides. Increment it when an older peer would misinterpret a
/// frame.
pub const PROTOCOL: u32 = 1;

/// A frame from client to host.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum ClientFrame {
    /// The first frame.
    Hello(Hello),
    /// Runs a call, or returns its report if it already ran.
    Call(Box<CallFrame>),
    /// Returns the report of a call without running it.
    Find { key: CallKey },
    /// Cancels a call.
    Cancel { key: CallKey },
    /// Answers a permission question.
    Answer { question: u64, answer: AnswerFrame },
    /// Acknowledges the report of a call.
    Heard { key: CallKey },
    /// A command other than a call.
    Order {
        /// Increasing number per client process.
        id: u64,
        order: HostCommand,
    },
    /// Keep-alive.
    Ping,
    /// The session has ended: stop everything it left running.
    Bye,
}

/// A frame from host to client.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum HostFrame {
    /// The client was admitted.
    Welcome(Box<Welcome>),
    /// The client was rejected; the connection ends.
    Refused {
        /// Machine-readable reason.
        kind: AdmissionErrorKind,
        /// Reason and advice for the user.
        reason: String,
    },
    /// Progress of a call.
    Progress {
        key: CallKey,
        /// Progress data of the tool.
        data: Value,
    },
    /// A permission question for the user.
    Ask(Box<QuestionFrame>),
    /// A question is no longer relevant.
    Withdrawn { question: u64 },
    /// Report of a finished call.
    Report { key: CallKey, report: Arc<ReportFrame> },
    /// The host never received the call, so it had no effect.
    Absent { key: CallKey },
    /// Result of a command.
    Done {
        id: u64,
        /// A value, or an error message.
        outcome: Result<Value, String>,
    },
    /// Notices for these agents are waiting; fetch them with [`HostCommand::TakeNews`].
    NewsWaits { agents: Vec<AgentId> },
    /// A message for the user.
    Notice { text: String },
    /// Keep-alive.
    Ping,
}

/// Identifies the client.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Hello {
    /// See [`PROTOCOL`].
    pub protocol: u32,
    /// Version of the client program.
    pub version: String,
    /// Session id; all calls of a session belong to one run.
    pub session: String,
    /// Random id of the client process; a restarted process has another one.
    pub instance: String,
    /// Epoch of the client, if an external party assigns epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Working directory on the host; `~` is its home directory.
    pub dir: String,
    /// Whether a user can answer permission questions.
    pub attended: bool,
    /// Interval of the client's keep-alives in milliseconds.
    pub ping_ms: u64,
}

/// Information about the host.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Welcome {
    /// See [`PROTOCOL`].
    pub protocol: u32,
    /// Version of the host program.
    pub version: String,
    /// Epoch granted to the client.
    pub epoch: u64,
    /// Interval of the host's keep-alives in milliseconds.
    pub ping_ms: u64,
    /// Where calls run.
    pub place: HostLocation,
    /// Names of available tools.
    pub tools: Vec<String>,
}

/// Where calls run, as described to the model.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct HostLocation {
    pub cwd: PathBuf,
    /// Home directory.
    pub home: Option<PathBuf>,
    /// Additional workspace directories.
    #[serde(default)]
    pub extra_dirs: Vec<PathBuf>,
    /// Whether the directory is in a git repository.
    pub is_git_repository: bool,
    /// Operating system.
    pub platform: String,
    /// Additional lines for the model.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Identifies a call; call ids are unique per agent only.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct CallKey {
    /// The calling agent.
    pub agent: AgentId,
    /// The `tool_use` id.
    pub call: CallId,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CallFrame {
    #[serde(rename = "_meta")]
    pub meta: CallMeta,
    pub tool: String,
    pub input: Value,
    /// Working directory on the host; default: the one of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
}

/// Origin of a call.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CallMeta {
    pub session: String,
    #[serde(flatten)]
    pub key: CallKey,
    /// Epoch; set by the client to the one the host granted.
    pub epoch: u64,
}

/// Why a client was rejected.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionErrorKind {
    /// Different protocol versions.
    Version,
    /// A later client process has taken over the session.
    Fenced,
    /// The directory cannot be used.
    Place,
    /// Another host process has the session, or the maximum number of sessions is reached.
    Busy,
}

/// A command other than a call.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum HostCommand {
    /// Returns an agent's undelivered notices about background tasks: a list of [`HostNotice`].
    TakeNews { agent: AgentId },
    /// Stops a background task.
    StopTask { id: String },
    /// Reverts the changes of calls, or reports what would be reverted.
    Rewind {
        calls: Vec<CallId>,
        /// Only report, change nothing.
        dry_run: bool,
    },
    /// Undoes a change.
    Undo {
        /// Call, journal entry or turn; default: the latest change.
        id: Option<String>,
        /// Whether to undo the whole turn.
        turn: bool,
    },
    /// Redoes the latest undo.
    Redo,
    /// Returns the changes, newest first.
    History,
}

/// A notice to an agent about a background task.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HostNotice {
    /// Task id.
    pub task: String,
    /// Whether the task has ended.
    pub ended: bool,
    /// Text for the model.
    pub text: String,
}

/// A permission question raised by the host's rules.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct QuestionFrame {
    pub question: u64,
    /// The call it is about.
    pub key: CallKey,
    pub tool: String,
    /// Input as interpreted by the host.
    pub input: Value,
    /// One-line description of the effect.
    pub description: String,
    /// Whether the call destroys data irrecoverably.
    pub is_destructive: bool,
    /// Rendering for the user.
    pub shown: RenderedFrame,
    /// Why the user is asked.
    pub reason: String,
    /// Permission updates that would answer it for the rest of the session.
    #[serde(default)]
    pub suggestions: Vec<PermissionUpdate>,
}

/// The user's answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "behavior", rename_all = "snake_case")]
pub enum AnswerFrame {
    /// Run the call.
    Allow {
        /// Permission updates for the rest of the session.
        #[serde(default)]
        updates: Vec<PermissionUpdate>,
    },
    /// Do not run the call.
    Deny {
        /// Message for the model.
        message: String,
        /// Whether to end the whole turn.
        interrupt: bool,
    },
}

/// Complete report of a call.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ReportFrame {
    /// Name of the tool.
    pub name: String,
    /// Content for the model.
    pub content: Content,
    /// Set if the call failed at any stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorKind>,
    /// Structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Messages to append after the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_messages: Vec<Message>,
    /// Context from the host's hooks, for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// Changes of the session's context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ContextChange>,
    /// Metadata for the embedder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// Rendering for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<RenderedFrame>,
    /// Messages from the host's hooks, for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// How the user can allow a denied call on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
}

/// Rendering of a call.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct RenderedFrame {
    pub headline: String,
    pub lines: Vec<(WireStyle, String)>,
    /// Lines shown below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<(WireStyle, String)>,
}

/// See [`LineStyle`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WireStyle {
    Plain,
    /// Secondary text.
    Dim,
    /// Added line.
    Added,
    /// Removed line.
    Removed,
    /// Hunk header of a diff.
    Hunk,
    /// Error.
    Error,
}

impl From<&Rendered> for RenderedFrame {
    fn from(rendered: &Rendered) -> Self {
        let style = |it: LineStyle| match it {
            LineStyle::Plain => WireStyle::Plain,
            LineStyle::Dim => WireStyle::Dim,
            LineStyle::Added => WireStyle::Added,
            LineStyle::Removed => WireStyle::Removed,
            LineStyle::Hunk => WireStyle::Hunk,
            LineStyle::Error => WireStyle::Error,
        };
        let wire = |line: &RenderedLine| (style(line.style), line.text.clone());
        let mut lines: Vec<_> = rendered.lines.iter().map(wire).collect();
        let mut notes: Vec<_> = rendered.notes.iter().map(wire).collect();
        match &rendered.rest {
            CollapsedLines::Nothing => (),
            CollapsedLines::Lines(rest) => lines.extend(rest.iter().map(wire)),
            // A path would refer to another file on the client.
            CollapsedLines::File { path, hidden } => {
                let words = format!("… {hidden} more lines in {} on the host", path.display());
                notes.insert(0, (WireStyle::Dim, words));
            }
        }
        Self { headline: rendered.headline.clone(), lines, notes }
    }
}

impl From<RenderedFrame> for Rendered {
    fn from(rendered: RenderedFrame) -> Self {
        let style = |it: WireStyle| match it {
            WireStyle::Plain => LineStyle::Plain,
            WireStyle::Dim => LineStyle::Dim,
            WireStyle::Added => LineStyle::Added,
            WireStyle::Removed => LineStyle::Removed,
            WireStyle::Hunk => LineStyle::Hunk,
            WireStyle::Error => LineStyle::Error,
        };
        let line = |(it, text): (WireStyle, String)| RenderedLine::new(style(it), text);
        let lines = rendered.lines.into_iter().map(line).collect();
        let notes = rendered.notes.into_iter().map(line).collect();
        Self { headline: rendered.headline, lines, notes, ..Self::default() }
    }
}

impl From<CallReport> for ReportFrame {
    fn from(report: CallReport) -> Self {
        Self {
            name: report.name,
            content: report.content,
            error: report.error,
            data: report.data,
            new_messages: report.new_messages,
            context: report.context,
            changes: report.changes,
            meta: report.meta,
            rendered: report.rendering.map(|it| RenderedFrame::from(&it.make())),
            notices: report.notices,
            way_out: report.decision.filter(|_| report.error.is_some()).and_then(|it| it.way_out),
        }
    }
}

impl ReportFrame {
    /// Creates the report of a call that did not run, or failed.
    pub fn failure(name: &str, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), content: Content::text(message), error: Some(kind), ..Self::default() }
    }

    /// Removes everything a host must not control: it may change its working directory and report
    /// results, but not change modes or directories of the session or add messages.
    pub(crate) fn harmless(&mut self) {
        self.changes.retain(|it| matches!(it, ContextChange::Cwd(_) | ContextChange::Trace(_)));
        self.new_messages.clear();
        self.content.0.retain(|it| !matches!(it, haft_types::Block::ToolReference { .. }));
        self.meta = None;
    }

    /// Converts to the result of a local tool.
    pub fn into_outcome(self) -> Result<Output, ToolError> {
        if let Some(kind) = self.error {
            let mut message = self.content.to_text();
            self.context.iter().for_each(|it| message.push_str(&format!("\n{it}")));
            return Err(ToolError { kind, message, data: self.data.map(Box::new) });
        }
        let mut content = self.content;
        content.0.extend(self.context.into_iter().map(haft_types::Block::text));
        let rendering = match self.rendered {
            Some(rendered) => Rendering::new(move || rendered.clone().into()),
            None => Rendering::preview_of(content.to_text()),
        };
        Ok(Output {
            content,
            data: self.data.unwrap_or(Value::Null),
            new_messages: self.new_messages,
            changes: self.changes,
            meta: self.meta,
            rendering,
        })
    }
}
