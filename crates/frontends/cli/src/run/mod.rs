//! Turns flags into a session spec, and runs the frontends.

#[cfg(feature = "acp")]
pub(crate) mod acp;
pub(crate) mod diagnostic_log;
#[cfg(feature = "fleet")]
pub(crate) mod fleet_job_flags;
pub(crate) mod ide_bridge;
pub(crate) mod local_model_servers;
pub(crate) mod piped_input;
pub(crate) mod print;
pub(crate) mod sdk;
pub(crate) mod session_spec;
pub(crate) mod thread_limit;
pub(crate) mod unattended;

#[cfg(not(feature = "acp"))]
pub(crate) use crate::commands::absent::acp;
