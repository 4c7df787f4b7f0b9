//! Enters new namespaces.

use std::{io, os::fd::AsFd as _};

use rustix::{
    process::{getgid, getuid},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space},
};

use super::sys;
use crate::helper_request::HelperNetwork;

/// Enters new user and mount namespaces, and the requested network.
pub(super) fn enter(net: HelperNetwork) -> io::Result<()> {
    let own = UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
    match net {
        HelperNetwork::Join { user, net } => {
            let (user, net) = (sys::inherited(user), sys::inherited(net));
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
            move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network))?;
            sys::leave(own)
        }
        HelperNetwork::Open | HelperNetwork::Closed | HelperNetwork::Refuse => {
            let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
            sys::leave(own | UnshareFlags::NEWUSER)?;
            map_ourselves(uid, gid)
        }
    }
}

/// Enters an empty network namespace.
pub(super) fn enter_empty_network() -> io::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    sys::leave(UnshareFlags::NEWUSER | UnshareFlags::NEWNET)?;
    map_ourselves(uid, gid)?;
    sys::loopback_up()
}

/// Maps our own user and group to themselves.
fn map_ourselves(uid: u32, gid: u32) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}
