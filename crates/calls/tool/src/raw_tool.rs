use std::sync::Arc;

use serde_json::Value;

use crate::{
    AccessSet, BoxFuture, CallContext, DynCall, DynTool, Exposure, Output, Permit, Rendered, ToolContext,
    ToolError, ToolSpec, Verdict, input, schema,
};

type RawHandler =
    dyn Fn(Value, ToolContext<Value>) -> BoxFuture<'static, Result<Output, ToolError>> + Send + Sync;
type RawValidate = dyn Fn(&Value) -> Result<(), ToolError> + Send + Sync;

/// A tool whose schema is known only at run time: of an MCP server, or registered by an SDK user.
///
/// Its claims about itself are untrusted hints, so the safe defaults apply until [`RawTool::trust`] is
/// called.
pub struct RawTool {
    spec: ToolSpec,
    aliases: Vec<String>,
    feature: Option<&'static str>,
    needs_user: bool,
    output_schema: Option<Value>,
    checked: Arc<Value>,
    claims: ToolHints,
    precheck: Option<Box<RawValidate>>,
    verdict: Verdict,
    handler: Arc<RawHandler>,
}

/// Claims of a [`RawTool`] about itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ToolHints {
    /// See [`crate::Tool::is_read_only`].
    pub read_only: bool,
    /// See [`crate::Tool::is_concurrency_safe`].
    pub concurrency_safe: bool,
    /// See [`crate::Tool::is_destructive`].
    pub destructive: bool,
}

impl RawTool {
    /// Creates a tool from a specification and a function. Input is checked against the given schema;
    /// the model gets its [`crate::wire_form`].
    pub fn new<F>(mut spec: ToolSpec, handler: F) -> Self
    where
        F: Fn(Value, ToolContext<Value>) -> BoxFuture<'static, Result<Output, ToolError>>
            + Send
            + Sync
            + 'static,
    {
        let checked = std::mem::take(&mut spec.input_schema);
        spec.input_schema = Arc::new(schema::wire_form(&checked));
        Self {
            spec,
            aliases: Vec::new(),
            feature: None,
            needs_user: false,
            output_schema: None,
            checked,
            claims: ToolHints::default(),
            precheck: None,
            verdict: Verdict::Passthrough,
            handler: Arc::new(handler),
        }
    }

    /// Trusts these claims.
    pub fn trust(mut self, claims: ToolHints) -> Self {
        self.claims = claims;
        self
    }

    /// Accepts these alternative names.
    pub fn with_aliases(mut self, aliases: Vec<String>) -> Self {
        self.aliases = aliases;
        self
    }

    /// Sets the schema of structured results.
    pub fn with_output_schema(mut self, schema: Option<Value>) -> Self {
        self.output_schema = schema;
        self
    }

    /// Requires this feature to be enabled in the settings.
    pub fn with_feature(mut self, feature: Option<&'static str>) -> Self {
        self.feature = feature;
        self
    }

    /// Exists only in sessions with a user who answers, if `needs_user`.
    pub fn with_needs_user(mut self, needs_user: bool) -> Self {
        self.needs_user = needs_user;
        self
    }

    /// Sets a verdict for every call, for example for a tool that changed since the user approved it.
    pub fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = verdict;
        self
    }

    /// Adds a check without side effects that runs directly after the schema check.
    pub fn with_precheck(
        mut self,
        precheck: impl Fn(&Value) -> Result<(), ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.precheck = Some(Box::new(precheck));
        self
    }
}

impl DynTool for RawTool {
    fn name(&self) -> &str {
        &self.spec.name
    }

    fn aliases(&self) -> Vec<String> {
        self.aliases.clone()
    }

    fn feature(&self) -> Option<&str> {
        self.feature
    }

    fn needs_user(&self) -> bool {
        self.needs_user
    }

    fn is_enabled(&self) -> bool {
        true
    }

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn exposure(&self) -> Exposure {
        self.spec.exposure
    }

    fn output_schema(&self) -> Option<Value> {
        self.output_schema.clone()
    }

    fn parse(self: Arc<Self>, mut input: Value, _cx: &CallContext) -> Result<Box<dyn DynCall>, ToolError> {
        input::check(&self.spec.name, &self.checked, &mut input)?;
        if let Some(precheck) = &self.precheck {
            precheck(&input)?;
        }
        Ok(Box::new(RawCall { tool: self, input }))
    }
}

struct RawCall {
    tool: Arc<RawTool>,
    input: Value,
}

impl DynCall for RawCall {
    fn input(&self) -> &Value {
        &self.input
    }

    fn is_read_only(&self) -> bool {
        self.tool.claims.read_only
    }

    fn is_concurrency_safe(&self) -> bool {
        self.tool.claims.concurrency_safe
    }

    fn is_destructive(&self) -> bool {
        self.tool.claims.destructive
    }

    fn reach(&self, _cx: &CallContext) -> AccessSet {
        AccessSet::Undeclared
    }

    fn validate(&self, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    fn check_permissions(&self, _cx: &CallContext) -> Verdict {
        self.tool.verdict.clone()
    }

    fn describe(&self) -> String {
        format!("{} {}", self.tool.spec.name, haft_types::text::one_line(&self.input.to_string(), 120))
    }

    fn classifier_input(&self) -> String {
        String::new()
    }

    fn render(&self) -> Rendered {
        Rendered::headline(self.describe())
    }

    fn run(
        self: Box<Self>,
        permit: Permit,
        cx: CallContext,
    ) -> BoxFuture<'static, Result<Output, ToolError>> {
        (self.tool.handler)(self.input, ToolContext::new(cx, permit))
    }
}
