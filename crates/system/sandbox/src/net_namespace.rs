//! The closed network of a session.

use std::{
    ffi::CString,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    net::TcpListener,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, net::UnixStream},
    },
    path::Path,
    sync::Arc,
    time::Duration,
};

use haft_process::SpawnRequest;
use rustix::{
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::{WaitId, WaitIdOptions, waitid},
};

use crate::{
    helper_request::HELPER,
    proxy::{Lookup, Proxy},
};

/// Maximum time to create it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A network namespace that lives as long as this value, so that one sandboxed command can reach a
/// server started by another.
#[derive(Debug)]
pub(crate) struct NetNamespace {
    pub(crate) user: OwnedFd,
    pub(crate) net: OwnedFd,
    pub(crate) port: u16,
    pub(crate) proxy: Arc<Proxy>,
    serving: tokio::task::JoinHandle<()>,
}

impl NetNamespace {
    /// Creates a namespace. Its proxy, on the only address that leads out, refuses everything until
    /// domains are set.
    pub(crate) fn make(helper: &Path, lookup: Arc<dyn Lookup>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(TIMEOUT))?;
        let program = CString::new(helper.as_os_str().as_bytes())?;
        let word = CString::new(HELPER)?;
        let launch = SpawnRequest {
            program: &program,
            argv: &[&program, &word, c"net"],
            environment: &[],
            directory: c"/",
            descriptors: &[(theirs.as_fd(), 0)],
            terminal: None,
        };
        let pid = launch.start()?;
        drop(theirs);
        let received = receive(&ours);
        if received.is_err() {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
        rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)).ok();
        let [user, net, listener] = received?;
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let proxy = Proxy::new(lookup);
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let serving = tokio::spawn(Arc::clone(&proxy).serve(listener));
        Ok(Self { user, net, port, proxy, serving })
    }
}

impl Drop for NetNamespace {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn receive(socket: &UnixStream) -> io::Result<[OwnedFd; 3]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    // With a timeout it is not restarted after a signal, whatever the handler asks for.
    rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    fds.try_into().map_err(|_| io::Error::other("the helper could not make a network of its own"))
}
