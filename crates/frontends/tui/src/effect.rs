//! Effects requested by the user interface.

use crate::question_card::CardAnswer;

/// A query for files by name.
pub type FileQuery = String;

/// An effect, carried out by the terminal thread or the frontend.
#[derive(Clone, Debug, PartialEq)]
pub enum TermEffect {
    /// Send a message to the session. Only after the session is open.
    Send(String),
    /// Interrupt the current turn.
    Interrupt,
    /// Stop background agents.
    StopAgents,
    /// Answer a question.
    Answer {
        /// Id of the question.
        id: String,
        answer: CardAnswer,
    },
    /// Run a slash command that the frontend implements.
    Command {
        name: String,
        /// Text after the name.
        arguments: String,
    },
    /// The user has picked a row.
    Picked {
        /// Purpose of the picker.
        purpose: String,
        /// Id of the row.
        id: String,
    },
    /// Load the preview of a row.
    Preview {
        /// Purpose of the picker.
        purpose: String,
        /// Id of the row.
        id: String,
    },
    /// Check whether this text is the path of an image; answered by
    /// [`UiUpdate::Picture`](crate::UiUpdate::Picture).
    Picture(String),
    /// Read an image from the clipboard.
    ClipboardPicture,
    /// Switch to the next permission mode.
    NextMode,
    /// Search files.
    Files(FileQuery),
    /// Run the user's shell command and show its output.
    Shell(String),
    /// Save a note to the project's memory.
    Remember(String),
    /// Move running commands to the background, so that their calls return.
    ToBackground,
    /// Open this text in the user's editor.
    Edit(String),
    /// Copy to the clipboard.
    Copy(String),
    /// Notify the user.
    Alert(String),
    /// Suspend the program (Ctrl-Z).
    Suspend,
    /// Repaint everything.
    Redraw,
    /// Exit normally.
    Quit,
}
