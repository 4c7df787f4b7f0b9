//! Limits shared by many sessions: rate limits per provider key, and budgets.

mod budget;
mod limited_provider;
mod rate_limits;

pub(crate) use budget::{RunBudget, money_of};
pub(crate) use limited_provider::{LimitWait, LimitedProvider};
pub(crate) use rate_limits::RateLimiter;
pub use rate_limits::{KeyLimit, KeyLimits};
