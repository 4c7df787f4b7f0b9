use std::{fmt, str::FromStr, time::Duration};

use crate::{ErrorEffect, HandlerKind};

macro_rules! events {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// The moments at which hooks run.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum HookEvent {
            $(#[doc = $doc] $name,)*
        }

        impl HookEvent {
            /// Every event, in the order of the public list.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The public name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// When it happens, in a sentence.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$name => $doc.trim(),)*
                }
            }
        }
    };
}

events! {
    /// Before a tool runs, after its input was checked.
    PreToolUse,
    /// After a tool succeeded.
    PostToolUse,
    /// After a tool failed.
    PostToolUseFailure,
    /// After all calls of one message are done.
    PostToolBatch,
    /// When the user would be asked for permission.
    PermissionRequest,
    /// After a call was denied.
    PermissionDenied,
    /// When the user gets a notification.
    Notification,
    /// Before a prompt of the user reaches the model.
    UserPromptSubmit,
    /// Before a slash command is expanded into a prompt.
    UserPromptExpansion,
    /// When a session begins or is resumed.
    SessionStart,
    /// When a session ends.
    SessionEnd,
    /// Once, when a project is set up.
    Setup,
    /// When the agent is about to stop.
    Stop,
    /// When a turn ended with an error.
    StopFailure,
    /// When a sub-agent starts.
    SubagentStart,
    /// When a sub-agent is about to stop.
    SubagentStop,
    /// Before the conversation is compacted.
    PreCompact,
    /// After the conversation was compacted.
    PostCompact,
    /// Before the model is switched.
    PreModelSwitch,
    /// After the model was switched.
    PostModelSwitch,
    /// When a team member runs out of work.
    TeammateIdle,
    /// When a task is created.
    TaskCreated,
    /// When a task is completed.
    TaskCompleted,
    /// When an MCP server asks the user for input.
    Elicitation,
    /// When the user has answered an MCP server.
    ElicitationResult,
    /// When a settings file changed.
    ConfigChange,
    /// When a worktree is to be created.
    WorktreeCreate,
    /// When a worktree is to be removed.
    WorktreeRemove,
    /// When instruction files were read.
    InstructionsLoaded,
    /// When the working directory changed.
    CwdChanged,
    /// When a watched file changed.
    FileChanged,
    /// When a directory was added to the session.
    DirectoryAdded,
    /// When a message is shown.
    MessageDisplay,
}

/// Effect of a blocking answer at an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockEffect {
    /// The operation is prevented.
    Prevents,
    /// The operation has already happened; the model gets the reason.
    TellsModel,
    /// None; the user sees the reason.
    Nothing,
}

impl HookEvent {
    /// Effect of a blocking answer at this event.
    pub const fn block_effect(self) -> BlockEffect {
        match self {
            Self::PreToolUse
            | Self::UserPromptSubmit
            | Self::UserPromptExpansion
            | Self::Stop
            | Self::SubagentStop
            | Self::PreCompact
            | Self::PreModelSwitch
            | Self::TeammateIdle
            | Self::TaskCreated
            | Self::TaskCompleted
            | Self::Elicitation
            | Self::ElicitationResult
            | Self::ConfigChange
            | Self::WorktreeCreate => BlockEffect::Prevents,
            Self::PostToolUse | Self::PostToolUseFailure | Self::PostToolBatch => BlockEffect::TellsModel,
            _ => BlockEffect::Nothing,
        }
    }

    /// Whether Haft triggers this event. Other names are known so that settings written for another
    /// agent are valid.
    pub const fn happens(self) -> bool {
        !matches!(
            self,
            Self::UserPromptExpansion
                | Self::Setup
                | Self::PreModelSwitch
                | Self::PostModelSwitch
                | Self::ConfigChange
                | Self::CwdChanged
                | Self::FileChanged
                | Self::DirectoryAdded
                | Self::MessageDisplay
        )
    }

    /// Effect of a failed hook if its definition does not set one.
    ///
    /// `PreToolUse` and `UserPromptSubmit` hooks exist to keep something out, so they block (but see
    /// [`ErrorEffect`] for failing commands). At other events a failed hook is ignored: blocking `Stop`
    /// would keep the agent running forever, blocking `PreCompact` would make a full context
    /// unrecoverable, and for `PermissionRequest` the user is asked anyway.
    pub const fn default_on_error(self) -> ErrorEffect {
        match self {
            Self::PreToolUse | Self::UserPromptSubmit => ErrorEffect::Closed,
            _ => ErrorEffect::Open,
        }
    }

    /// Default timeout of a handler.
    pub const fn default_timeout(self, kind: HandlerKind) -> Duration {
        match (self, kind) {
            (Self::SessionEnd, _) => Duration::from_millis(1500),
            (Self::MessageDisplay, _) => Duration::from_secs(10),
            (Self::UserPromptSubmit, _) | (_, HandlerKind::Prompt) => Duration::from_secs(30),
            (_, HandlerKind::Agent | HandlerKind::Callback) => Duration::from_secs(60),
            _ => Duration::from_secs(600),
        }
    }

    /// Maximum timeout in a definition.
    pub const fn longest_timeout(self) -> Duration {
        match self {
            // The user has closed the session and waits for the shell prompt.
            Self::SessionEnd => Duration::from_secs(60),
            _ => Duration::from_secs(24 * 60 * 60),
        }
    }

    /// Whether this kind of handler can run at this event. Before a session exists, no model and no HTTP
    /// client is available.
    pub const fn supports(self, kind: HandlerKind) -> bool {
        match self {
            Self::SessionStart | Self::Setup => {
                matches!(kind, HandlerKind::Command | HandlerKind::McpTool | HandlerKind::Callback)
            }
            _ => true,
        }
    }

    /// Whether `if` rules, which match a tool and its input, can apply.
    pub const fn is_about_a_tool(self) -> bool {
        matches!(
            self,
            Self::PreToolUse
                | Self::PostToolUse
                | Self::PostToolUseFailure
                | Self::PermissionRequest
                | Self::PermissionDenied
        )
    }

    /// Whether plain text on standard output is passed to the model.
    pub const fn text_is_context(self) -> bool {
        matches!(
            self,
            Self::SessionStart | Self::UserPromptSubmit | Self::UserPromptExpansion | Self::SubagentStart
        )
    }

    pub(crate) const fn bit(self) -> u64 {
        1 << (self as u64)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An unknown event name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownEvent(pub String);

impl fmt::Display for UnknownEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no hook event called {:?}", self.0)
    }
}

impl std::error::Error for UnknownEvent {}

impl FromStr for HookEvent {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<Self, UnknownEvent> {
        let found = Self::ALL.iter().find(|event| event.as_str() == text);
        found.copied().ok_or_else(|| UnknownEvent(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_public_name_parses_and_nothing_else() {
        assert_eq!(HookEvent::ALL.len(), 33);
        for event in HookEvent::ALL {
            assert_eq!(event.as_str().parse(), Ok(*event));
        }
        for wrong in ["", "pretooluse", "PreToolUse ", "PreTool"] {
            assert_eq!(wrong.parse::<HookEvent>(), Err(UnknownEvent(wrong.to_owned())));
        }
    }
}
