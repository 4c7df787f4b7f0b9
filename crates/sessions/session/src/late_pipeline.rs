//! Access to hooks and rules for tools that are created before them.

use std::{
    path::Path,
    sync::{Arc, OnceLock, Weak},
};

use haft_hooks::{EventInput, HookEvent, HookInput, HooksOutcome, OtherInput};
use haft_permission::HookOpinion;
use haft_tool::{CallContext, DynTool};
use haft_tool_runtime::Pipeline;
use serde_json::{Value, json};

/// The call pipeline, once it is built. A weak reference.
#[derive(Default)]
pub(crate) struct LatePipeline(OnceLock<Weak<Pipeline>>);

impl LatePipeline {
    /// Sets the pipeline.
    pub(crate) fn set(&self, pipeline: &Arc<Pipeline>) {
        self.0.set(Arc::downgrade(pipeline)).ok();
    }

    pub(crate) fn get(&self) -> Option<Arc<Pipeline>> {
        self.0.get()?.upgrade()
    }

    /// Whether any hook runs at this event.
    pub(crate) fn listens(&self, event: HookEvent) -> bool {
        self.get().is_some_and(|it| it.gate.hooks().get().listens(event))
    }

    /// Runs the hooks of an event on behalf of a call.
    pub(crate) async fn run(&self, event: HookEvent, fields: Value, cx: &CallContext) -> HooksOutcome {
        let Some(pipeline) = self.get() else { return HooksOutcome::default() };
        let hooks = pipeline.gate.hooks().get();
        if !hooks.listens(event) {
            return HooksOutcome::default();
        }
        let mut base = pipeline.gate.hooks().base(cx.cwd.to_path_buf(), pipeline.gate.mode());
        base.agent_id = cx.agent_id.child().map(|_| cx.agent_id.clone());
        let fields = fields.as_object().cloned().unwrap_or_default();
        let event = EventInput::from(OtherInput { event, subject: None, fields });
        hooks.run(&HookInput { base, event, aliases: Vec::new() }).await
    }

    /// Returns a check whether a file may be read under the current rules.
    pub(crate) fn reading(
        &self,
        read: &Arc<dyn DynTool>,
        cx: &CallContext,
    ) -> impl Fn(&Path) -> bool + use<> {
        let policy = self.get().map(|it| it.gate.permissions().policy());
        let (read, cx) = (Arc::clone(read), cx.clone());
        move |path: &Path| {
            let Some(policy) = &policy else { return false };
            // A path that is not UTF-8 cannot appear in a tool input, so no rule allows it.
            let Some(path) = path.to_str() else { return false };
            let Ok(call) = Arc::clone(&read).parse(json!({"file_path": path}), &cx) else { return false };
            policy.judge(read.name(), call.as_ref(), &cx, &HookOpinion::default()).approved().is_ok()
        }
    }
}
