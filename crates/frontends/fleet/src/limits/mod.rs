//! Limits that many sessions share: what a provider's key takes in a minute, and
//! money.

mod between;
mod keys;
mod money;

pub(crate) use between::{SharedLimits, WaitNews};
pub(crate) use keys::KeyDesk;
pub use keys::{KeyLimit, KeyLimits};
pub(crate) use money::{MoneyDesk, money_of};
