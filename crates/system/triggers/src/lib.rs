//! Prompts that others start: a delivery proves who sent it, counts once, and
//! becomes a prompt by a template the person wrote.
//!
//! A [`Trigger`] is one entry of the person's settings; [`verify`] judges a
//! delivery; a [`TriggerStore`] remembers deliveries, keeps what waits, and what
//! came of runs.
//!
//! **Does not know** servers, sessions or models: who listens and who runs is
//! decided above. The feature `http` reads a delivery from a request.
//!
//! **Invariant:** nothing of a delivery is read before its signature was found
//! right over its raw bytes, in constant time.
//!
//! **Invariant:** a delivery that was accepted is on disk, and starts one run at
//! most, also after a crash and with several programs that listen.

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
