//! Job files: read as a whole, or refused as a whole.

mod body;
mod located;
mod measures;
mod needs;
mod placeholders;
mod plan;
mod planned;
mod problem;
mod rows;
mod words;

pub use body::{
    CheckoutSpec, CheckpointWhen, JobBody, JobLimits, OnQuestion, OnUnknown, ResultsSpec, RetryOn, RetrySpec,
    WorkspaceSource,
};
pub use measures::{Share, StartRate, duration_of, size_of};
pub use planned::{BatchBudget, BatchRate, JobPlan, PlanDefaults, PlannedJob};
pub use problem::{FileLocation, FileProblem, FileRefused};
pub use words::job_id;
