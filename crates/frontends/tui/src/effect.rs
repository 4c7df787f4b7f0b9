//! What is to be done.

use crate::question_card::CardAnswer;

/// A wish for files whose names fit.
pub type FileQuery = String;

/// Something that is to be done, by the thread of the terminal or by the face.
#[derive(Clone, Debug, PartialEq)]
pub enum TermEffect {
    /// Say this to the session. Comes only when the session is open.
    Send(String),
    /// Stop what is being worked on.
    Interrupt,
    /// Stop the agents that work in the background.
    StopAgents,
    /// A question is answered.
    Answer {
        /// The question.
        id: String,
        /// The answer.
        answer: CardAnswer,
    },
    /// A command of the terminal that only the face can carry out.
    Command {
        /// Its name.
        name: String,
        /// What followed it.
        arguments: String,
    },
    /// Something was chosen.
    Picked {
        /// What for.
        purpose: String,
        /// What.
        id: String,
    },
    /// What a row shows before it is chosen is wanted.
    Preview {
        /// What the choice is for.
        purpose: String,
        /// The row.
        id: String,
    },
    /// This may be the path of a picture; see
    /// [`UiUpdate::Picture`](crate::UiUpdate::Picture).
    Picture(String),
    /// A picture of the clipboard is wanted.
    ClipboardPicture,
    /// The next permission mode.
    NextMode,
    /// Find files.
    Files(FileQuery),
    /// Run a command of the person, and show what it prints.
    Shell(String),
    /// Keep a note in the project's memory.
    Remember(String),
    /// Calls that wait for their commands go on without them.
    ToBackground,
    /// Edit this text in the person's editor.
    Edit(String),
    /// Put this where it can be pasted from.
    Copy(String),
    /// Make the person look.
    Alert(String),
    /// Stop the program until the shell takes it up again.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// End the program, in order.
    Quit,
}
