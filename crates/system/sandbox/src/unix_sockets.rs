//! Determines which Unix sockets of the machine a command can reach.

use std::{
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use crate::{UnixSockets, helper_request::HelperSockets};

/// Well-known sockets through which any sandbox can be left. Covered always, because a listener in
/// another namespace is not in our kernel's list.
const NOTORIOUS: [&str; 6] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
];

/// Which sockets a command may create.
pub(super) fn creation(sockets: &UnixSockets) -> HelperSockets {
    match sockets {
        UnixSockets::Own => HelperSockets::Pairs,
        UnixSockets::Listed(_) | UnixSockets::All => HelperSockets::All,
    }
}

/// Existing sockets that are not allowed.
pub(super) fn to_cover(sockets: &UnixSockets) -> Vec<PathBuf> {
    let UnixSockets::Listed(allowed) = sockets else { return Vec::new() };
    let real = |path: &Path| path.canonicalize().ok();
    let allowed: Vec<PathBuf> = allowed.iter().map(|it| real(it).unwrap_or_else(|| it.clone())).collect();
    let listed = std::fs::read("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<PathBuf> = bound(&String::from_utf8_lossy(&listed))
        .chain(NOTORIOUS.map(PathBuf::from))
        .filter_map(|path| real(&path))
        .filter(|path| path.symlink_metadata().is_ok_and(|it| it.file_type().is_socket()))
        .filter(|path| !allowed.iter().any(|it| path.starts_with(it)))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Socket paths in `/proc/net/unix`.
fn bound(list: &str) -> impl Iterator<Item = PathBuf> {
    list.lines().filter_map(|line| line.find(" /").map(|at| PathBuf::from(&line[at + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_parses_proc_net_unix() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a b.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 12346\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 12347 @abstract/x\n";
        assert_eq!(bound(list).collect::<Vec<_>>(), [PathBuf::from("/run/a b.sock")]);
    }
}
