//! What the file tools share.

pub(crate) mod matching;
