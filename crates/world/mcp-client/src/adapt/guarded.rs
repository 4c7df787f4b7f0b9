use std::sync::Arc;

use haft_tool::{
    BoxFuture, CallContext, DynCall, DynTool, Output, Permit, Reach, Rendered, ToolError, ToolSpec, Verdict,
};
use serde_json::Value;

/// A tool that has an opinion on every call of it: one that changed since the
/// user agreed to it, or one that wants a person to look.
pub(super) struct Guarded<T> {
    pub(super) tool: Arc<T>,
    pub(super) verdict: Verdict,
}

impl<T: DynTool + 'static> DynTool for Guarded<T> {
    fn name(&self) -> &str {
        self.tool.name()
    }

    fn aliases(&self) -> Vec<String> {
        self.tool.aliases()
    }

    fn feature(&self) -> Option<&str> {
        self.tool.feature()
    }

    fn is_enabled(&self) -> bool {
        self.tool.is_enabled()
    }

    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn parse(self: Arc<Self>, input: Value, cx: &CallContext) -> Result<Box<dyn DynCall>, ToolError> {
        let call = Arc::clone(&self.tool).parse(input, cx)?;
        Ok(Box::new(GuardedCall { call, verdict: self.verdict.clone() }))
    }
}

struct GuardedCall {
    call: Box<dyn DynCall>,
    verdict: Verdict,
}

impl DynCall for GuardedCall {
    fn input(&self) -> &Value {
        self.call.input()
    }

    fn is_read_only(&self) -> bool {
        self.call.is_read_only()
    }

    fn is_concurrency_safe(&self) -> bool {
        self.call.is_concurrency_safe()
    }

    fn is_destructive(&self) -> bool {
        self.call.is_destructive()
    }

    fn reach(&self, cx: &CallContext) -> Reach {
        self.call.reach(cx)
    }

    fn validate(&self, cx: &CallContext) -> Result<(), ToolError> {
        self.call.validate(cx)
    }

    fn check_permissions(&self, cx: &CallContext) -> Verdict {
        self.call.check_permissions(cx).max(self.verdict.clone())
    }

    fn describe(&self) -> String {
        self.call.describe()
    }

    fn classifier_input(&self) -> String {
        self.call.classifier_input()
    }

    fn render(&self) -> Rendered {
        self.call.render()
    }

    fn run(
        self: Box<Self>,
        permit: Permit,
        cx: CallContext,
    ) -> BoxFuture<'static, Result<Output, ToolError>> {
        self.call.run(permit, cx)
    }
}
