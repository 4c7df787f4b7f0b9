//! What is known about a server before it is asked.

mod server;

pub use server::{Endpoint, HttpEndpoint, OAuthSettings, Scope, ServerConfig, Timeouts, Trust};
