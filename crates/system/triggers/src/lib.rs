//! Prompts started by webhooks: a delivery is authenticated, deduplicated, and turned into a prompt with
//! the user's template.
//!
//! A [`Trigger`] is one entry of the user's settings; [`verify`] authenticates a delivery; a
//! [`TriggerStore`] stores received deliveries, queued runs and the run log.
//!
//! **Does not know** servers, sessions or models: the caller listens and runs. The feature `http` reads
//! a delivery from a request.
//!
//! **Invariant:** no content of a delivery is parsed before its signature over the raw bytes was verified in constant time.
//!
//! **Invariant:** an accepted delivery is on disk and starts at most one run, also after a crash and with several listening processes.

#[cfg(feature = "http")]
pub mod http;
mod signature;
mod store;
mod template;
mod trigger;

pub use signature::{DeliveryError, VerifiedDelivery, verify};
pub use store::{AcceptOutcome, QueuedRun, TriggerRun, TriggerStore};
pub use template::fill;
pub use trigger::{SecretSource, SignatureScheme, Trigger, TriggerMode, read_triggers};
