//! A tool that runs on a host under its usual name.
//!
//! Name, schema, scope and permission rules are those of the local tool; only the execution is remote.

use std::sync::Arc;

use haft_tool::{
    AccessSet, BoxFuture, CallContext, DynCall, DynTool, Exposure, Output, Permit, Rendered, ToolContext,
    ToolError, ToolSpec, UserInteraction, Verdict,
};
use haft_types::Content;
use serde_json::{Value, json};

use super::{
    HostSet,
    link::RemoteCallEvent,
    remote_call::{RemoteCaller, heard},
};
use crate::protocol::{CallFrame, CallKey, CallMeta};

/// Name of the parameter that selects a host.
const HOST: &str = "host";

/// Maximum characters of a host's result if the tool limits its own results.
const MAX_CHARS: usize = 400_000;

/// A tool that runs on a host.
pub(super) struct HostTool {
    inner: Arc<dyn DynTool>,
    set: Arc<HostSet>,
    spec: ToolSpec,
    /// Whether its input may name a local task.
    may_be_near: bool,
}

impl HostTool {
    pub(super) fn new(inner: Arc<dyn DynTool>, set: Arc<HostSet>, may_be_near: bool) -> Self {
        let mut spec = inner.spec().clone();
        // The host's pipeline enforces timeout and size; allow for what is added to a result there.
        spec.timeout = None;
        spec.max_result_chars = Some(spec.max_result_chars.map_or(MAX_CHARS, |it| it * 2));
        if set.is_several() {
            let names = set.names();
            let usual = names.first().cloned().unwrap_or_default();
            let parameter = json!({
                "type": "string",
                "enum": names,
                "description": format!("Which machine; {usual} unless given."),
            });
            if let Some(properties) = Arc::make_mut(&mut spec.input_schema)["properties"].as_object_mut() {
                properties.insert(HOST.to_owned(), parameter);
            }
        }
        Self { inner, set, spec, may_be_near }
    }
}

impl DynTool for HostTool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> Vec<String> {
        self.inner.aliases()
    }

    fn feature(&self) -> Option<&str> {
        self.inner.feature()
    }

    fn needs_user(&self) -> bool {
        self.inner.needs_user()
    }

    fn is_enabled(&self) -> bool {
        self.inner.is_enabled()
    }

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn exposure(&self) -> Exposure {
        self.inner.exposure()
    }

    fn output_schema(&self) -> Option<Value> {
        self.inner.output_schema()
    }

    fn reworded(&self, data: &Value) -> Option<Content> {
        self.inner.reworded(data)
    }

    fn translate(&self, called: &str, input: &mut Value) {
        self.inner.translate(called, input);
    }

    fn parse(self: Arc<Self>, mut input: Value, cx: &CallContext) -> Result<Box<dyn DynCall>, ToolError> {
        if self.may_be_near && self.set.is_near(&input) {
            return Arc::clone(&self.inner).parse(input, cx);
        }
        let named = match (&mut input, self.set.is_several()) {
            (Value::Object(fields), true) => fields.shift_remove(HOST),
            _ => None,
        };
        let host = self.set.index_of(named.as_ref(), &input)?;
        let call = Arc::clone(&self.inner).parse(input, &self.set.context(host, cx))?;
        let mut shown = call.input().clone();
        if let (Value::Object(fields), true) = (&mut shown, self.set.is_several()) {
            fields.insert(HOST.to_owned(), json!(self.set.name(host)));
        }
        Ok(Box::new(HostCall {
            set: Arc::clone(&self.set),
            host,
            tool: self.inner.name().to_owned(),
            call,
            shown,
        }))
    }
}

/// A call prepared for a host.
struct HostCall {
    set: Arc<HostSet>,
    host: usize,
    tool: String,
    call: Box<dyn DynCall>,
    /// Input including the host.
    shown: Value,
}

impl HostCall {
    fn on_host(&self, text: &str) -> String {
        format!("{text} (on {})", self.set.name(self.host))
    }
}

impl DynCall for HostCall {
    fn input(&self) -> &Value {
        &self.shown
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

    fn reach(&self, cx: &CallContext) -> AccessSet {
        self.call.reach(&self.set.context(self.host, cx))
    }

    fn validate(&self, cx: &CallContext) -> Result<(), ToolError> {
        self.call.validate(&self.set.context(self.host, cx))
    }

    fn check_permissions(&self, cx: &CallContext) -> Verdict {
        self.call.check_permissions(&self.set.context(self.host, cx))
    }

    fn user_interaction(&self) -> UserInteraction {
        self.call.user_interaction()
    }

    fn describe(&self) -> String {
        self.on_host(&self.call.describe())
    }

    fn classifier_input(&self) -> String {
        self.call.classifier_input()
    }

    fn user_facing_name(&self) -> String {
        self.call.user_facing_name()
    }

    fn render(&self) -> Rendered {
        let mut shown = self.call.render();
        shown.headline = self.on_host(&shown.headline);
        shown
    }

    fn run(
        self: Box<Self>,
        permit: Permit,
        cx: CallContext,
    ) -> BoxFuture<'static, Result<Output, ToolError>> {
        Box::pin(async move {
            let Self { set, host, tool, call, .. } = *self;
            let cx = ToolContext::<Value>::new(cx, permit);
            let key = CallKey { agent: cx.agent_id.clone(), call: cx.call_id.clone() };
            let frame = CallFrame {
                meta: CallMeta { session: set.session.clone(), key: key.clone(), epoch: 0 },
                tool: tool.clone(),
                input: call.input().clone(),
                cwd: Some(set.context(host, &cx).cwd.to_path_buf()),
            };
            drop(call);
            let Some(news) = set.hosts.get(host).map(|it| it.link.call(frame)) else {
                return Err(ToolError::failed("there is no such host"));
            };
            let maker = RemoteCaller { set: &set, host, tool: &tool, key };
            match heard(&maker, news, Some(&cx)).await {
                RemoteCallEvent::Report(report) => set.taken(host, &cx.agent_id, *report),
                RemoteCallEvent::Lost { trouble, was_sent } => Err(set.lost(host, &tool, &trouble, was_sent)),
                _ => Err(ToolError::failed("the host does not know the call")),
            }
        })
    }
}
