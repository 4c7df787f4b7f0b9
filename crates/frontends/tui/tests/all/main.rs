//! From events to the screen of an emulator that wraps rows again on resize.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

mod asks;
mod broken;
mod foreign;
mod live;
mod resize;
mod rig;
mod scenarios;
mod screens;
mod work;
