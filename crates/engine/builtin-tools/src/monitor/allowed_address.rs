//! Decides which addresses a socket may connect to.

use std::{net::IpAddr, sync::Arc};

use haft_net::{AddressRule, CheckedResolver, is_public};

/// Whether a socket may connect to this machine or its local network.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LocalAddressPolicy {
    /// Public addresses only.
    #[default]
    Refused,
    /// Any address.
    Allowed,
}

impl AddressRule for LocalAddressPolicy {
    fn allows(&self, _host: &str, address: IpAddr) -> bool {
        *self == Self::Allowed || is_public(address)
    }

    fn refusal(&self, host: &str) -> String {
        format!("{host} has no public address")
    }
}

pub(crate) fn resolver(rule: LocalAddressPolicy) -> Arc<CheckedResolver> {
    CheckedResolver::new(Arc::new(rule))
}
