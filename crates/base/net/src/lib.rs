//! Requests to addresses that a model, a server or a project named.
//!
//! [`AddressClass`] says how near an address is to this machine, whatever way it
//! is written. An [`AddressRule`] is what one user of this crate allows;
//! [`CheckedResolver`] looks names up under such a rule and hands on only the
//! addresses that were checked, so that the address that was judged is the one
//! that is connected to. [`WebClient`] asks for a page a model named: a
//! [`WebUrl`] is an address that can be read in one way only, every hop is
//! judged like the first, and another host is told and not followed. [`RedirectPolicy`] follows redirects no further than allowed, and
//! [`read_body`] reads answers within a limit.
//!
//! **Does not know** who asks, what for, or in which words a refusal is told:
//! every user keeps its own rule and its own messages.
//!
//! **Invariant:** an IPv6 form of an IPv4 address is judged as that IPv4
//! address.
//!
//! **Invariant:** nothing is read beyond the limit a caller gives.

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
