//! What the editor can do, as it says at the beginning.

use serde_json::Value;

/// What the editor can do. What it does not say, it cannot.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct EditorCapabilities {
    /// Reads files with what is unsaved in them.
    pub(crate) reads_files: bool,
    /// Writes files through its buffers.
    pub(crate) writes_files: bool,
    /// Shows forms.
    pub(crate) forms: bool,
    /// Opens addresses a server asks for.
    pub(crate) addresses: bool,
    /// Shows notices.
    pub(crate) notices: bool,
    /// Runs the program in a terminal, for a login.
    pub(crate) terminal_login: bool,
    /// Shows that the conversation is summed up.
    pub(crate) compaction: bool,
}

impl EditorCapabilities {
    /// What `initialize` says.
    pub(crate) fn read(params: &Value) -> Self {
        let abilities = &params["clientCapabilities"];
        let has = |value: &Value| value.is_object();
        Self {
            reads_files: abilities["fs"]["readTextFile"] == true,
            writes_files: abilities["fs"]["writeTextFile"] == true,
            forms: has(&abilities["elicitation"]["form"]),
            addresses: has(&abilities["elicitation"]["url"]),
            notices: has(&abilities["session"]["notices"]),
            terminal_login: abilities["auth"]["terminal"] == true,
            compaction: has(&abilities["session"]["compaction"]),
        }
    }
}
