use std::sync::Arc;

use haft_tool::{AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CronServices, session_jobs::SessionJobs};

/// Deletes a scheduled prompt by its id; CronList shows the ids.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Which.
    pub id: String,
}

/// What was deleted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Which.
    pub id: String,
}

pub struct CronDelete {
    services: CronServices,
    jobs: Arc<SessionJobs>,
}

impl CronDelete {
    pub(super) fn new(services: CronServices, jobs: Arc<SessionJobs>) -> Self {
        Self { services, jobs }
    }
}

impl Tool for CronDelete {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "CronDelete";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "cancel delete scheduled cron job",
            exposure: Exposure::Deferred,
            feature: Some("cron"),
            ..Traits::default()
        }
    }

    // Deleting a job only reduces what runs, so it never asks.
    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    async fn call(&self, input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        if self.jobs.stop(&input.id).await {
            return Ok(Output { id: input.id }.into());
        }
        let (store, id) = (Arc::clone(&self.services.store), input.id.clone());
        let removed = tokio::task::spawn_blocking(move || store.remove(&id)).await;
        match removed.map_err(|err| ToolError::failed(err.to_string()))? {
            Ok(true) => Ok(Output { id: input.id }.into()),
            Ok(false) => Err(ToolError::failed(format!(
                "There is no scheduled prompt {:?}; CronList shows them.",
                input.id
            ))),
            Err(err) => Err(ToolError::failed(format!("{} could not be deleted: {err}", input.id))),
        }
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(format!("Deleted {}.", output.id))
    }
}
