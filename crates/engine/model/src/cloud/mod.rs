//! Authentication and stream formats of cloud providers.

#[cfg(feature = "bedrock")]
pub(crate) mod aws;
#[cfg(feature = "bedrock")]
pub(crate) mod eventstream;
#[cfg(feature = "vertex")]
pub(crate) mod google;
