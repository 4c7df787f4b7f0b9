//! Files and talk of a stored session back to before a prompt, without opening
//! the session.

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

/// Something a person said in a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PastPrompt {
    /// The name of its line in the log.
    pub uuid: String,
    /// The line it follows, if there is one.
    pub after: Option<String>,
    /// The words.
    pub text: String,
}

/// What goes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RewindScope {
    /// Files, and the conversation as a new session.
    Both,
    /// Files only.
    Files,
    /// The conversation only, as a new session.
    Talk,
}

/// What came of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RewindOutcome {
    /// What became of files.
    pub files: Option<RewindReport>,
    /// The session that ends where the prompt was said; the old one stays. None
    /// where nothing was said before.
    pub session: Option<SessionId>,
}

/// What a person said in a log, in order.
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

/// Goes back to before a prompt of a stored session. The talk becomes a new
/// session, so that nothing of the old one is lost; files that somebody changed
/// since stay and are named.
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

/// What files would change.
pub fn rewind_preview(
    premises: &SessionEnvironment,
    logs: &SessionLogs,
    session: &SessionId,
    prompt: &PastPrompt,
) -> Result<RewindReport, String> {
    rewind(premises, session, &logs.path(session.as_str()), &prompt.uuid, true)
}
