//! Parses and judges commands, runs them, owns every process it starts, and
//! confines them.
//!
//! **Does not know** tools, permissions, agents or settings files.
//!
//! **Invariant:** every process a command leaves behind is known by a mark it
//! cannot lose, is listed, and ends with the session unless somebody detached
//! it. Nothing else is ever signalled.
//!
//! **Invariant:** nothing a command prints takes more memory or disk than its
//! limits say, and what is dropped is counted.

pub mod env;
pub mod output;
pub mod own;
pub mod run;
//pub mod sandbox;
