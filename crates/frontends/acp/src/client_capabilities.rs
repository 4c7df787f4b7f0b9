//! Capabilities of the editor, from `initialize`.

use serde_json::Value;

/// Capabilities of the editor; false unless declared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct EditorCapabilities {
    /// `fs/read_text_file`, including unsaved changes.
    pub(crate) reads_files: bool,
    /// `fs/write_text_file`, through its buffers.
    pub(crate) writes_files: bool,
    /// Form elicitation.
    pub(crate) forms: bool,
    /// URL elicitation.
    pub(crate) addresses: bool,
    /// Notices to the user.
    pub(crate) notices: bool,
    /// Runs Haft in a terminal for a login.
    pub(crate) terminal_login: bool,
    /// Displays compaction of the conversation.
    pub(crate) compaction: bool,
}

impl EditorCapabilities {
    /// Parses the parameters of `initialize`.
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
