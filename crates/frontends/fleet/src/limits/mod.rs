//! Limits that many sessions share: what a provider's key takes in a minute, and
//! money.

mod between;
mod keys;
mod money;

pub(crate) use between::{LimitWait, LimitedProvider};
pub(crate) use keys::RateLimiter;
pub use keys::{KeyLimit, KeyLimits};
pub(crate) use money::{RunBudget, money_of};
