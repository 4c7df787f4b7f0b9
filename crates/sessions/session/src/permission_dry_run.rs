//! Permission decisions about hypothetical calls, also of tools that do not exist.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_permission::{Behavior, Decision, HookOpinion, Policy};
use haft_tool::{
    Access, AccessSet, BoxFuture, CallContext, DynCall, ErrorKind, Output, Permit, Rendered, ToolError,
    Verdict, example,
};
use haft_tool_runtime::Pool;
use haft_types::PermissionMode;
use serde_json::{Value, json};

use crate::environment::policy_of_rules;

/// Returns the permission decision about a call without running it. The tool need not exist.
pub fn judge(policy: &Policy, pool: &Pool, tool: &str, input: Value, cx: &CallContext) -> Decision {
    let call = call(pool, tool, input, cx);
    let name = pool.get(tool).map_or(tool, |tool| tool.name());
    policy.judge(name, call.as_ref(), cx, &HookOpinion::None)
}

/// Like [`judge`], and asks the model of auto mode if the policy leaves the call to it, which costs a
/// model request.
pub async fn judge_and_classify(
    policy: &Policy,
    pool: &Pool,
    tool: &str,
    input: Value,
    cx: &CallContext,
) -> Decision {
    let call = call(pool, tool, input, cx);
    let name = pool.get(tool).map_or(tool, |tool| tool.name());
    let decision = policy.judge(name, call.as_ref(), cx, &HookOpinion::None);
    policy.classify(decision, name, call.as_ref(), None).await
}

/// Whether rules with these patterns cover every part of a command line that does more than read.
pub(crate) fn rules_cover(patterns: &[String], line: &str, cwd: &Path, home: Option<&Path>) -> bool {
    let pool = Pool::assemble(Vec::new(), Vec::new());
    let cx = CallContext { home: home.map(Arc::from), ..CallContext::detached("sandbox", cwd) };
    let allows = |rules: Vec<String>| {
        let rules = [(Behavior::Allow, rules), (Behavior::Ask, Vec::new()), (Behavior::Deny, Vec::new())];
        let policy = policy_of_rules(cwd, home, PermissionMode::Default, rules, Vec::new());
        let input = json!({"command": line});
        judge(&policy, &pool, "Bash", input, &cx).behavior == Behavior::Allow
    };
    !allows(Vec::new()) && allows(patterns.iter().map(|it| format!("Bash({it})")).collect())
}

/// Binds an input to its tool. Policy tests name only what rules look at, so missing parameters are
/// filled in. An input the tool would reject is judged by its usual parameters.
fn call(pool: &Pool, tool: &str, input: Value, cx: &CallContext) -> Box<dyn DynCall> {
    let parsed = pool.get(tool).and_then(|tool| {
        let mut filled = example(&tool.spec().input_schema);
        if let (Some(filled), Some(given)) = (filled.as_object_mut(), input.as_object()) {
            filled.extend(given.clone());
        }
        Arc::clone(tool).parse(filled, cx).ok()
    });
    parsed.unwrap_or_else(|| Box::new(HypotheticalCall { tool: tool.to_owned(), input }))
}

/// A call of a tool that is only known by convention.
struct HypotheticalCall {
    tool: String,
    input: Value,
}

impl HypotheticalCall {
    fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.input.get(name)?.as_str()).map(str::to_owned)
    }
}

impl DynCall for HypotheticalCall {
    fn input(&self) -> &Value {
        &self.input
    }

    fn is_read_only(&self) -> bool {
        matches!(self.tool.as_str(), "Read" | "Glob" | "Grep" | "LS" | "Search")
    }

    fn is_concurrency_safe(&self) -> bool {
        false
    }

    fn is_destructive(&self) -> bool {
        false
    }

    fn reach(&self, cx: &CallContext) -> AccessSet {
        let access = match self.tool.as_str() {
            "Bash" | "Monitor" => self.text(&["command"]).map(|line| Access::Command(line.into())),
            "WebFetch" => self.text(&["url"]).map(Access::Fetch),
            "Skill" => self.text(&["skill", "name"]).map(Access::Named),
            "Agent" => self.text(&["subagent_type"]).map(Access::Named),
            "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => self
                .text(&["file_path", "notebook_path", "path"])
                .map(|path| Access::Write(PathBuf::from(path))),
            "Read" | "Glob" | "Grep" | "LS" | "Search" => {
                let path = self.text(&["file_path", "path"]).map(PathBuf::from);
                Some(Access::Read(path.unwrap_or_else(|| cx.cwd.to_path_buf())))
            }
            _ => None,
        };
        access.map_or(AccessSet::Undeclared, |access| AccessSet::Declared(vec![access]))
    }

    fn validate(&self, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    fn check_permissions(&self, _cx: &CallContext) -> Verdict {
        Verdict::Passthrough
    }

    fn describe(&self) -> String {
        format!("{} {}", self.tool, self.input)
    }

    fn classifier_input(&self) -> String {
        String::new()
    }

    fn render(&self) -> Rendered {
        Rendered::headline(self.describe())
    }

    fn run(
        self: Box<Self>,
        _permit: Permit,
        _cx: CallContext,
    ) -> BoxFuture<'static, Result<Output, ToolError>> {
        Box::pin(async { Err(ToolError::new(ErrorKind::Internal, "a call for judging only does not run")) })
    }
}
