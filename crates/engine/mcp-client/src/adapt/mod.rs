//! Remote tools as tools of ours: names, schemas, descriptions, results.

mod media;
mod names;
mod result;
mod schema;
mod tool;
mod visible;
mod weight;

pub use media::{MediaDirectory, MediaSink, ModelImage};
pub(crate) use names::{sanitised, server_part, tool_names};
pub use names::{tool_name, tool_prefix};
pub(crate) use result::contents_text;
pub(crate) use tool::{BuiltTool, PinCheck, remote_tool};
pub(crate) use visible::visible;
