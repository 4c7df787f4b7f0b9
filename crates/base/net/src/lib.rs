//! HTTP requests to URLs that a model, a server or a project chose, protected against SSRF.
//!
//! [`AddressClass`] classifies an IP address by network distance, in any notation. An [`AddressRule`] is
//! the policy of one user of this crate. [`CheckedResolver`] resolves names under such a rule and
//! returns only allowed addresses, so that the checked address is the one that is connected to (no DNS
//! rebinding). [`WebClient`] fetches web pages: a [`WebUrl`] is a URL that all parsers read alike, every
//! redirect is checked like the first URL, and a redirect to another host is returned instead of
//! followed. [`RedirectPolicy`] bounds redirects, and [`read_body`] reads responses up to a limit.
//!
//! **Does not know** callers, their purpose or the text of a refusal: each user has its own rule and messages.
//!
//! **Invariant:** an IPv6 address that embeds an IPv4 address is classified as that IPv4 address.
//!
//! **Invariant:** no body is read beyond the caller's limit.

mod address_class;
mod content_encoding;
mod error_chain;
mod redirects;
mod resolver;
mod response_body;
mod transport;
mod web_client;
mod web_url;

pub use address_class::{AddressClass, host_of, is_public, is_this_machine, literal_address};
pub use error_chain::{causes, innermost, with_causes};
pub use redirects::{RedirectHop, RedirectPolicy};
pub use resolver::{AddressRule, CheckedResolver, look_up};
pub use response_body::{BodyEnd, BodyError, WebBody, read_beginning, read_body};
pub use transport::{ConnectVia, NetFuture, ProxyChoice, SingleRequest, SystemNetwork, WebNetwork};
pub use web_client::{CrossHostRedirect, FetchError, FetchOutcome, WebClient, WebLimits, WebPage};
pub use web_url::{PrivateHosts, WebUrl, WebUrlError};
