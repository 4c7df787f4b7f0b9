//! Converts remote tools to Haft tools: names, schemas, descriptions, results.

mod media;
mod result;
mod schema;
mod schema_size;
mod tool;
mod tool_names;
mod visible_text;

pub use media::{MediaDirectory, MediaSink, ModelImage};
pub(crate) use result::contents_text;
pub(crate) use tool::{BuiltTool, PinCheck, remote_tool};
pub(crate) use tool_names::{sanitised, server_part, tool_names};
pub use tool_names::{tool_name, tool_prefix};
pub(crate) use visible_text::visible;
