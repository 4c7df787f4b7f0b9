//! `haft permissions test --batch`: policy tests as JSON lines.

use std::{io::BufRead as _, path::PathBuf, process::ExitCode, sync::Arc};

use haft_console::stdout::{CommandExit, print_line};
use haft_permission::{Behavior, Classifier, ClassifierAnswer, ClassifierRequest};
use haft_session::{described_tools, judge_and_classify, policy_of_rules};
use haft_tool::{BoxFuture, CallContext};
use haft_tool_runtime::Pool;
use haft_types::PermissionMode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::run::session_spec;

/// One test: a call, the rules, the mode.
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
    rules: BatchRules,
    #[serde(default)]
    additional_dirs: Vec<PathBuf>,
    /// The answer of auto mode's classifier in this test.
    #[serde(default)]
    classifier: Option<ClassifierStub>,
}

/// A fixed answer of auto mode's classifier.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ClassifierStub {
    Allow,
    Block,
    Ask,
}

impl Classifier for ClassifierStub {
    fn classify<'a>(&'a self, _request: &'a ClassifierRequest) -> BoxFuture<'a, ClassifierAnswer> {
        let answer = match self {
            Self::Allow => ClassifierAnswer::Approve,
            Self::Block => ClassifierAnswer::Block(String::from("the test says so")),
            Self::Ask => ClassifierAnswer::Abstain,
        };
        Box::pin(async { answer })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BatchRules {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
}

/// Prints one decision per input line, in order. An invalid line is denied with the reason: a policy
/// test must not pass because it was misspelled.
pub(super) fn run() -> CommandExit {
    let scratch = tempfile::tempdir()?;
    let runtime = session_spec::runtime()?;
    let pool = Pool::assemble(described_tools(scratch.path())?, Vec::new());
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = match serde_json::from_slice::<Row>(&line) {
            Ok(row) => runtime.block_on(answer(&pool, row)),
            Err(err) => {
                json!({"decision": "deny", "reason": format!("the line cannot be read: {err}"), "parts": []})
            }
        };
        print_line(&answer.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn answer(pool: &Pool, row: Row) -> Value {
    let rules = [
        (Behavior::Allow, row.rules.allow),
        (Behavior::Ask, row.rules.ask),
        (Behavior::Deny, row.rules.deny),
    ];
    let mut policy = policy_of_rules(&row.cwd, row.home.as_deref(), row.mode, rules, row.additional_dirs);
    if let Some(said) = row.classifier {
        policy = policy.to_builder().classifier(Arc::new(said)).build();
    }
    let cx = CallContext {
        home: row.home.as_deref().map(Arc::from),
        ..CallContext::detached("test", row.cwd.as_path())
    };
    let decision = judge_and_classify(&policy, pool, &row.tool, row.input, &cx).await;
    serde_json::to_value(&decision)
        .unwrap_or_else(|err| json!({"decision": "deny", "reason": err.to_string(), "parts": []}))
}
