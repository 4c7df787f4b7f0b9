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
    /// When a person would be asked.
    PermissionRequest,
    /// After a call was refused.
    PermissionDenied,
    /// When the person is told something.
    Notification,
    /// Before a prompt of the person reaches the model.
    UserPromptSubmit,
    /// Before a typed command is expanded into a prompt.
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
    /// When a sub-agent begins.
    SubagentStart,
    /// When a sub-agent is about to stop.
    SubagentStop,
    /// Before the conversation is compacted.
    PreCompact,
    /// After the conversation was compacted.
    PostCompact,
    /// Before another model takes over.
    PreModelSwitch,
    /// After another model took over.
    PostModelSwitch,
    /// When a team member runs out of work.
    TeammateIdle,
    /// When a task is put on the board.
    TaskCreated,
    /// When a task is marked as done.
    TaskCompleted,
    /// When an MCP server asks the person something.
    Elicitation,
    /// When the person has answered an MCP server.
    ElicitationResult,
    /// When a settings file changed.
    ConfigChange,
    /// When a worktree is to be made.
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

/// What a blocking answer can still prevent at an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BlockEffect {
    /// What was about to happen does not happen.
    Prevents,
    /// It has happened; the reason is told to the model.
    TellsModel,
    /// Nothing: the reason is shown to the person only.
    Nothing,
}

impl HookEvent {
    /// What a blocking answer does at this event.
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

    /// Whether anything here makes it happen. The names of the others are known,
    /// so that settings that were written for another agent are no mistake.
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

    /// What a hook that broke means when its definition does not say.
    ///
    /// The two events whose hooks exist to keep something out are closed: a
    /// gate that breaks stays shut. Everywhere else a broken hook is an
    /// observer that stays out of the way: closing `Stop` would keep the agent
    /// working for ever, closing `PreCompact` would take away the way out of a
    /// full context, and a broken `PermissionRequest` hook leaves the question
    /// to the person, which is closed already.
    pub const fn default_on_error(self) -> ErrorEffect {
        match self {
            Self::PreToolUse | Self::UserPromptSubmit => ErrorEffect::Closed,
            _ => ErrorEffect::Open,
        }
    }

    /// How long a handler may run when its definition does not say.
    pub const fn default_timeout(self, kind: HandlerKind) -> Duration {
        match (self, kind) {
            (Self::SessionEnd, _) => Duration::from_millis(1500),
            (Self::MessageDisplay, _) => Duration::from_secs(10),
            (Self::UserPromptSubmit, _) | (_, HandlerKind::Prompt) => Duration::from_secs(30),
            (_, HandlerKind::Agent | HandlerKind::Callback) => Duration::from_secs(60),
            _ => Duration::from_secs(600),
        }
    }

    /// The longest timeout a definition may ask for.
    pub const fn longest_timeout(self) -> Duration {
        match self {
            // The person has closed the session and waits for the prompt.
            Self::SessionEnd => Duration::from_secs(60),
            _ => Duration::from_secs(24 * 60 * 60),
        }
    }

    /// Whether this kind of handler can run at this event. Before a session
    /// exists there is no model and nobody to answer over HTTP.
    pub const fn supports(self, kind: HandlerKind) -> bool {
        match self {
            Self::SessionStart | Self::Setup => {
                matches!(kind, HandlerKind::Command | HandlerKind::McpTool | HandlerKind::Callback)
            }
            _ => true,
        }
    }

    /// Whether `if` rules, which speak of a tool and its input, can apply.
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

    /// Whether plain text on standard output is meant for the model.
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

/// A text that names no event.
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
