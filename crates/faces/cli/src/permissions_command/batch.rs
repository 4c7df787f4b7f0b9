//! `haft permissions test --batch`: policy tests as JSON lines.

use std::{io::BufRead as _, path::PathBuf, process::ExitCode, sync::Arc};

use haft_permission::Behavior;
use haft_runtime::Pool;
use haft_session::{described_tools, judge, policy_of_rules};
use haft_tool::CallContext;
use haft_types::PermissionMode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::output::{Ended, print_line};

/// One question.
#[derive(Deserialize)]
struct Row {
    tool: String,
    #[serde(default)]
    input: Value,
    cwd: PathBuf,
    #[serde(default)]
    home: Option<PathBuf>,
    #[serde(default)]
    mode: PermissionMode,
    #[serde(default)]
    rules: Rules,
    #[serde(default)]
    additional_dirs: Vec<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Rules {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
}

/// One answer per line, in order. A line that cannot be read is denied, and
/// says why: a policy test must not pass because it was misspelt.
pub(super) fn run() -> Ended {
    let scratch = tempfile::tempdir()?;
    let pool = Pool::assemble(described_tools(scratch.path())?, Vec::new());
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = match serde_json::from_slice::<Row>(&line) {
            Ok(row) => answer(&pool, row),
            Err(err) => {
                json!({"decision": "deny", "reason": format!("the line cannot be read: {err}"), "parts": []})
            }
        };
        print_line(&answer.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(pool: &Pool, row: Row) -> Value {
    let rules = [
        (Behavior::Allow, row.rules.allow),
        (Behavior::Ask, row.rules.ask),
        (Behavior::Deny, row.rules.deny),
    ];
    let policy = policy_of_rules(&row.cwd, row.home.as_deref(), row.mode, rules, row.additional_dirs);
    let cx = CallContext {
        home: row.home.as_deref().map(Arc::from),
        ..CallContext::detached("test", row.cwd.as_path())
    };
    let decision = judge(&policy, pool, &row.tool, row.input, &cx);
    serde_json::to_value(&decision)
        .unwrap_or_else(|err| json!({"decision": "deny", "reason": err.to_string(), "parts": []}))
}
