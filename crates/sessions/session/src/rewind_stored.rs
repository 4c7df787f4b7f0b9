//! Rewinds a stored session (files, conversation, or both) without opening it.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
};

use haft_types::SessionId;
use serde_json::Value;

use crate::{
    RewindReport, SessionLogs, environment::SessionEnvironment, rewind_files::rewind, session_logs::copy_log,
};

/// A prompt in a stored session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PastPrompt {
    /// Uuid of its log line.
    pub uuid: String,
    /// Uuid of the preceding line, if there is one.
    pub after: Option<String>,
    /// Text of the prompt.
    pub text: String,
}

/// What to rewind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RewindScope {
    /// Files, and the conversation as a new session.
    Both,
    /// Files only.
    Files,
    /// The conversation only, as a new session.
    Talk,
}

/// Result of a rewind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RewindOutcome {
    /// Result for the files, if they were included.
    pub files: Option<RewindReport>,
    /// The new session, which ends before the prompt; the old session is not changed. `None` if nothing
    /// precedes the prompt.
    pub session: Option<SessionId>,
}

/// The user's prompts in a log, in order.
pub fn said_prompts(log: &Path) -> std::io::Result<Vec<PastPrompt>> {
    let mut said = Vec::new();
    for line in BufReader::new(File::open(log)?).lines() {
        let line = line?;
        if line.contains("\"user\"")
            && let Ok(value) = serde_json::from_str::<Value>(&line)
        {
            said.extend(said_prompt(&value));
        }
    }
    Ok(said)
}

fn said_prompt(line: &Value) -> Option<PastPrompt> {
    let is_set = |name: &str| line[name] == true;
    if line["type"] != "user" || is_set("isMeta") || is_set("isSidechain") || is_set("isCompactSummary") {
        return None;
    }
    let content = &line["message"]["content"];
    let blocks = content.as_array();
    if blocks.is_some_and(|it| it.iter().any(|block| block["type"] == "tool_result")) {
        return None;
    }
    let texts = blocks.into_iter().flatten().filter_map(|block| block["text"].as_str());
    let text = match content.as_str() {
        Some(text) => text.to_owned(),
        None => texts.collect::<Vec<_>>().join("\n"),
    };
    let after = line["parentUuid"].as_str().map(str::to_owned);
    Some(PastPrompt { uuid: line["uuid"].as_str()?.to_owned(), after, text })
}

/// Rewinds a stored session to before a prompt. The conversation becomes a new session, so the old one
/// is not lost. Files that were changed by others since are not restored and listed.
pub fn rewind_session(
    premises: &SessionEnvironment,
    logs: &SessionLogs,
    session: &SessionId,
    prompt: &PastPrompt,
    scope: RewindScope,
) -> Result<RewindOutcome, String> {
    let log = logs.path(session.as_str());
    let mut rewound = RewindOutcome { files: None, session: None };
    if scope != RewindScope::Talk {
        rewound.files = Some(rewind(premises, session, &log, &prompt.uuid, false)?);
    }
    if let (Some(line), true) = (&prompt.after, scope != RewindScope::Files) {
        let id = SessionId::from(uuid::Uuid::new_v4().to_string());
        let copied = copy_log(&log, &logs.dir().join(format!("{id}.jsonl")), id.as_str(), Some(line));
        copied.map_err(|err| format!("the conversation could not be copied: {err}"))?;
        rewound.session = Some(id);
    }
    Ok(rewound)
}

/// Previews which files would change.
pub fn rewind_preview(
    premises: &SessionEnvironment,
    logs: &SessionLogs,
    session: &SessionId,
    prompt: &PastPrompt,
) -> Result<RewindReport, String> {
    rewind(premises, session, &logs.path(session.as_str()), &prompt.uuid, true)
}
