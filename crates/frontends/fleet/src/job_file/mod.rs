//! Job files: accepted as a whole, or rejected with all errors.

mod file_problem;
mod job_body;
mod job_names;
mod job_plan;
mod located_yaml;
mod needs_section;
mod parse;
mod placeholders;
mod rows;
mod units;

pub use file_problem::{FileLocation, FileProblem, FileRefused};
pub use job_body::{
    CheckoutSpec, CheckpointWhen, JobBody, JobLimits, OnQuestion, OnUnknown, ResultsSpec, RetryOn, RetrySpec,
    WorkspaceSource,
};
pub use job_names::job_id;
pub use job_plan::{BatchBudget, BatchRate, JobPlan, PlanDefaults, PlannedJob};
pub use units::{Share, StartRate, duration_of, size_of};
