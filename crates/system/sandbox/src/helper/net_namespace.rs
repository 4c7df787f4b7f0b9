//! Creates a network namespace for the whole session; it lives as long as the receiver keeps the
//! descriptors.

use std::{fs::File, io::IoSlice, net::TcpListener, os::fd::AsFd as _};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{namespaces, sys};

/// Creates the namespaces and a listener inside, and sends the three descriptors through standard input.
pub(super) fn serve() -> Result<(), String> {
    namespaces::enter_empty_network().map_err(|err| format!("enter a network of our own: {err}"))?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|err| format!("listen: {err}"))?;
    let user = File::open("/proc/self/ns/user").map_err(|err| format!("hold the namespace: {err}"))?;
    let net = File::open("/proc/self/ns/net").map_err(|err| format!("hold the namespace: {err}"))?;
    let fds = [user.as_fd(), net.as_fd(), listener.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&fds));
    let socket = sys::inherited(0);
    sendmsg(&socket, &[IoSlice::new(b"!")], &mut message, SendFlags::empty())
        .map_err(|err| format!("send the namespaces: {err}"))?;
    std::process::exit(0)
}
