//! A call for judging only: of a tool that is there, or of one that is not.

use std::{path::PathBuf, sync::Arc};

use haft_runtime::Pool;
use haft_tool::{
    Access, BoxFuture, CallContext, DynCall, ErrorKind, Output, Permit, Reach, Rendered, ToolError, Verdict,
    example,
};
use serde_json::Value;

/// Binds the input to the tool. Policy tests name only what rules look at, so
/// missing parameters are filled in; what the tool would refuse is judged as a
/// call that touches what its usual parameters name.
pub(super) fn call(pool: &Pool, tool: &str, input: Value, cx: &CallContext) -> Box<dyn DynCall> {
    let parsed = pool.get(tool).and_then(|tool| {
        let mut filled = example(&tool.spec().input_schema);
        if let (Some(filled), Some(given)) = (filled.as_object_mut(), input.as_object()) {
            filled.extend(given.clone());
        }
        Arc::clone(tool).parse(filled, cx).ok()
    });
    parsed.unwrap_or_else(|| Box::new(Phantom { tool: tool.to_owned(), input }))
}

/// A call of a tool we know only by convention.
struct Phantom {
    tool: String,
    input: Value,
}

impl Phantom {
    fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.input.get(name)?.as_str()).map(str::to_owned)
    }
}

impl DynCall for Phantom {
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

    fn reach(&self, cx: &CallContext) -> Reach {
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
        access.map_or(Reach::Undeclared, |access| Reach::Declared(vec![access]))
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
