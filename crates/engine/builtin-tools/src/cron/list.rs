use std::sync::Arc;

use haft_schedule::{CronSpec, zone_named};
use haft_tool::{AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits};
use haft_types::text::one_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CronServices,
    session_jobs::{FireTime, SessionJobs},
    shown,
};

/// Lists scheduled prompts: those of this session, and stored ones of this person.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {}

/// What is scheduled.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Output {
    /// The jobs.
    pub jobs: Vec<ListedJob>,
    /// What is wrong with stored ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A scheduled prompt.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedJob {
    /// Its name.
    pub id: String,
    /// When.
    pub cron: String,
    /// What is asked, cut.
    pub prompt: String,
    /// Whether it runs again and again.
    pub recurring: bool,
    /// Whether it outlives the session.
    pub durable: bool,
    /// When it runs next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_fire_at: Option<String>,
}

pub struct CronList {
    services: CronServices,
    jobs: Arc<SessionJobs>,
}

impl CronList {
    pub(super) fn new(services: CronServices, jobs: Arc<SessionJobs>) -> Self {
        Self { services, jobs }
    }
}

impl Tool for CronList {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "CronList";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "list scheduled cron jobs timers",
            exposure: Exposure::Deferred,
            feature: Some("cron"),
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    async fn call(&self, _input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let (now, zone) = (self.services.clock.now(), self.services.clock.zone());
        // Ids are random, so jobs are sorted by their next run.
        let mut of_session = self.jobs.list();
        of_session.sort_by_cached_key(|job| {
            let next = self.jobs.next(job);
            (next.is_none(), next, job.prompt.clone())
        });
        let mut jobs: Vec<ListedJob> = of_session
            .iter()
            .map(|job| ListedJob {
                id: job.id.clone(),
                cron: match &job.when {
                    FireTime::Cron(spec) => spec.text().to_owned(),
                    FireTime::At(at) => shown(*at, &zone),
                },
                prompt: one_line(&job.prompt, 1_000),
                recurring: job.recurring,
                durable: false,
                next_fire_at: self.jobs.next(job).map(|it| shown(it, &zone)),
            })
            .collect();
        let store = Arc::clone(&self.services.store);
        let stored = tokio::task::spawn_blocking(move || store.list()).await.unwrap_or_default();
        jobs.extend(stored.jobs.iter().map(|job| {
            let zone = zone_named(&job.zone);
            let next = CronSpec::parse(&job.cron).ok().and_then(|it| it.next_after(now, &zone));
            ListedJob {
                id: job.id.to_string(),
                cron: job.cron.clone(),
                prompt: one_line(&job.prompt, 1_000),
                recurring: job.recurring,
                durable: true,
                next_fire_at: next.map(|it| shown(it, &zone)),
            }
        }));
        Ok(Output { jobs, problems: stored.problems }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        let mut text: String = output
            .jobs
            .iter()
            .map(|job| {
                let kind = match (job.durable, job.recurring) {
                    (true, true) => "stored",
                    (true, false) => "stored, once",
                    (false, true) => "this session",
                    (false, false) => "this session, once",
                };
                format!(
                    "{} {} ({kind}) next {}: {}\n",
                    job.id,
                    job.cron,
                    job.next_fire_at.as_deref().unwrap_or("never"),
                    one_line(&job.prompt, 200)
                )
            })
            .collect();
        if output.jobs.is_empty() {
            text.push_str("Nothing is scheduled.\n");
        }
        for problem in &output.problems {
            text.push_str(&format!("[{problem}]\n"));
        }
        Content::text(text.trim_end().to_owned())
    }
}
