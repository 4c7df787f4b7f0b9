//! What the two ends say to each other: one JSON object per line.
//!
//! Every frame may come twice. A call, an order and a question go by a name; who
//! hears a name again answers as before.

use std::{path::PathBuf, sync::Arc};

use haft_permission::PermissionUpdate;
use haft_tool::{
    CollapsedLines, ContextChange, ErrorKind, LineStyle, Output, Rendered, RenderedLine, Rendering, ToolError,
};
use haft_tool_runtime::CallReport;
use haft_types::{AgentId, CallId, Content, Message};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The language both ends must speak. It changes when an older end would
/// misunderstand a newer one.
pub const PROTOCOL: u32 = 1;

/// What the near end says.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum ClientFrame {
    /// The first line.
    Hello(Hello),
    /// Runs a call, or tells what came of it if it ran already.
    Call(Box<CallFrame>),
    /// Tells what came of a call, and runs nothing.
    Find {
        /// Which.
        key: CallKey,
    },
    /// Nobody wants the call any more.
    Cancel {
        /// Which.
        key: CallKey,
    },
    /// What was answered to a question.
    Answer {
        /// Which question.
        question: u64,
        /// The answer.
        answer: AnswerFrame,
    },
    /// The report of a call was heard.
    Heard {
        /// Which.
        key: CallKey,
    },
    /// Something that is no call.
    Order {
        /// Orders of one caller count up.
        id: u64,
        /// What.
        order: HostCommand,
    },
    /// I am still here.
    Ping,
    /// The session is over: ends what it left running.
    Bye,
}

/// What the far end says.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum HostFrame {
    /// The caller may call.
    Welcome(Box<Welcome>),
    /// The caller may not call. The connection ends.
    Refused {
        /// Why, for programs.
        kind: AdmissionErrorKind,
        /// Why, and what to do.
        reason: String,
    },
    /// How far a call is.
    Progress {
        /// Which.
        key: CallKey,
        /// What the tool says.
        data: Value,
    },
    /// A rule wants the person to be asked.
    Ask(Box<QuestionFrame>),
    /// Nobody waits for the answer any more.
    Withdrawn {
        /// Which question.
        question: u64,
    },
    /// What came of a call.
    Report {
        /// Which.
        key: CallKey,
        /// What.
        report: Arc<ReportFrame>,
    },
    /// The call never came here: it had no effect.
    Absent {
        /// Which.
        key: CallKey,
    },
    /// What came of an order.
    Done {
        /// Which.
        id: u64,
        /// A value, or what went wrong in words.
        outcome: Result<Value, String>,
    },
    /// These agents have something to be told: see [`HostCommand::TakeNews`].
    NewsWaits {
        /// Which.
        agents: Vec<AgentId>,
    },
    /// Something the person should know.
    Notice {
        /// What.
        text: String,
    },
    /// I am still here.
    Ping,
}

/// Who calls.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Hello {
    /// See [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the near program.
    pub version: String,
    /// The session; its calls belong together.
    pub session: String,
    /// The process: one that is restarted has another.
    pub instance: String,
    /// The caller's turn, where somebody else counts turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The directory to work in; `~` is the far home.
    pub dir: String,
    /// Whether a person can be asked.
    pub attended: bool,
    /// How often the near end says that it is still here, in milliseconds.
    pub ping_ms: u64,
}

/// What the near end learns about the far one.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Welcome {
    /// See [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the far program.
    pub version: String,
    /// The caller's turn.
    pub epoch: u64,
    /// How often the far end says that it is still here, in milliseconds.
    pub ping_ms: u64,
    /// Where calls run.
    pub place: HostLocation,
    /// The names of the tools there are.
    pub tools: Vec<String>,
}

/// Where calls run, as a model should know it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct HostLocation {
    /// The working directory.
    pub cwd: PathBuf,
    /// What `~` means.
    pub home: Option<PathBuf>,
    /// Other directories that count as part of the workspace.
    #[serde(default)]
    pub extra_dirs: Vec<PathBuf>,
    /// Whether the directory is in a git repository.
    pub is_git_repository: bool,
    /// The operating system.
    pub platform: String,
    /// More lines about the place.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Which call: ids are one agent's.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct CallKey {
    /// Who called.
    pub agent: AgentId,
    /// The `tool_use` id.
    pub call: CallId,
}

/// A call.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CallFrame {
    /// Who calls, and when.
    #[serde(rename = "_meta")]
    pub meta: CallMeta,
    /// The tool's name.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// Where it runs; the far working directory when nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
}

/// Who calls, and when.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CallMeta {
    /// The session.
    pub session: String,
    /// The agent and the call.
    #[serde(flatten)]
    pub key: CallKey,
    /// The caller's turn: filled in with what the far end granted.
    pub epoch: u64,
}

/// Why a caller may not call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionErrorKind {
    /// The two ends speak different languages.
    Version,
    /// A later process has taken the session over.
    Fenced,
    /// The directory cannot be worked in.
    Place,
    /// Another process of the far machine has the session, or there is no room.
    Busy,
}

/// Something that is no call.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum HostCommand {
    /// What an agent has not been told yet about what runs in the background: a
    /// list of [`HostNotice`].
    TakeNews {
        /// Which agent.
        agent: AgentId,
    },
    /// Ends a task in the background.
    StopTask {
        /// Which.
        id: String,
    },
    /// Takes back what these calls changed, or says what that would be.
    Rewind {
        /// Which calls.
        calls: Vec<CallId>,
        /// Whether nothing is changed.
        dry_run: bool,
    },
    /// Takes a change back.
    Undo {
        /// Which call, entry or turn; the latest change when nothing is named.
        id: Option<String>,
        /// Whether the whole turn is meant.
        turn: bool,
    },
    /// Brings back what the latest undo took.
    Redo,
    /// What was changed, newest first.
    History,
}

/// What an agent is told about what runs in the background.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HostNotice {
    /// Which task.
    pub task: String,
    /// Whether it runs no more.
    pub ended: bool,
    /// In words.
    pub text: String,
}

/// A question of the far rules.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct QuestionFrame {
    /// Which question.
    pub question: u64,
    /// About which call.
    pub key: CallKey,
    /// The tool's name.
    pub tool: String,
    /// Its input, as the far side understands it.
    pub input: Value,
    /// One line that says what would happen.
    pub description: String,
    /// Whether it loses data that cannot be brought back.
    pub is_destructive: bool,
    /// What a person should see of it.
    pub shown: RenderedFrame,
    /// Why it is asked.
    pub reason: String,
    /// What would answer it for the rest of the session.
    #[serde(default)]
    pub suggestions: Vec<PermissionUpdate>,
}

/// What a person answered.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "behavior", rename_all = "snake_case")]
pub enum AnswerFrame {
    /// Run it.
    Allow {
        /// And allow this for the rest of the session.
        #[serde(default)]
        updates: Vec<PermissionUpdate>,
    },
    /// Do not run it.
    Deny {
        /// What the model is told.
        message: String,
        /// End the whole turn.
        interrupt: bool,
    },
}

/// What came of a call, whole.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ReportFrame {
    /// The tool's name.
    pub name: String,
    /// What the model reads.
    pub content: Content,
    /// Set when the call failed at any stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorKind>,
    /// The structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Messages to add after the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_messages: Vec<Message>,
    /// What far hooks want the model to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// Session changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ContextChange>,
    /// What the outside wants to see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// What a person sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<RenderedFrame>,
    /// What far hooks want the person to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// How a person lets a denied call run the next time, over there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
}

/// What a person sees of a call.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct RenderedFrame {
    /// See [`Rendered::headline`].
    pub headline: String,
    /// See [`Rendered::lines`].
    pub lines: Vec<(WireStyle, String)>,
    /// What stands below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<(WireStyle, String)>,
}

/// See [`LineStyle`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WireStyle {
    /// As it is.
    Plain,
    /// Less important.
    Dim,
    /// Was added.
    Added,
    /// Was removed.
    Removed,
    /// Where in a file.
    Hunk,
    /// Something went wrong.
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
            // A path means another file over there.
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
    /// A call that did not run, or failed.
    pub fn failure(name: &str, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), content: Content::text(message), error: Some(kind), ..Self::default() }
    }

    /// Without what only this machine may say to a session: a host changes where
    /// calls run and tells what they did, and nothing else. Modes, directories,
    /// messages of the user and tools are not its to give.
    pub(crate) fn harmless(&mut self) {
        self.changes.retain(|it| matches!(it, ContextChange::Cwd(_) | ContextChange::Trace(_)));
        self.new_messages.clear();
        self.content.0.retain(|it| !matches!(it, haft_types::Block::ToolReference { .. }));
        self.meta = None;
    }

    /// What a tool would have returned here.
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
