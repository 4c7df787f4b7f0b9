//! System calls without a safe wrapper.
#![expect(unsafe_code, reason = "rustix does not know these calls")]

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

const AT_RECURSIVE: libc::c_uint = 0x8000;
const AT_EMPTY_PATH: libc::c_uint = 0x1000;
const MOUNT_ATTR_RDONLY: u64 = 1;

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn mount_setattr(fd: i32, path: &Path, flags: libc::c_uint) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attr = MountAttr { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: path and attributes outlive the call, and the size is theirs.
    let failed = unsafe {
        libc::syscall(libc::SYS_mount_setattr, fd, path.as_ptr(), flags, &attr, size_of::<MountAttr>())
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a mount and all mounts below it read-only.
pub(super) fn read_only_tree(path: &Path) -> io::Result<()> {
    mount_setattr(libc::AT_FDCWD, path, AT_RECURSIVE)
}

/// Like [`read_only_tree`], for a detached mount.
pub(crate) fn read_only_mount(mount: BorrowedFd<'_>) -> io::Result<()> {
    mount_setattr(mount.as_raw_fd(), Path::new(""), AT_RECURSIVE | AT_EMPTY_PATH)
}

/// Unshares namespaces (`unshare`).
pub(crate) fn leave(flags: rustix::thread::UnshareFlags) -> io::Result<()> {
    // SAFETY: the helper has only one thread. Other callers run on a dedicated thread and unshare only
    // mounts, which leaves memory and descriptors shared.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// `SIOCSIFFLAGS`; its type differs between C libraries.
const SET_INTERFACE_FLAGS: libc::Ioctl = 0x8914;

/// Brings up the loopback device.
pub(super) fn loopback_up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: a request of zeros is a valid one; the name fits with its end.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        if libc::ioctl(socket.as_raw_fd(), SET_INTERFACE_FLAGS, &request) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Checks that the kernel supports seccomp filters that return an error.
pub(super) fn can_refuse_calls() -> io::Result<()> {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the number outlives the call, which only reads it.
    let failed =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0_u32, &raw const action) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Landlock ABI version of the kernel; zero if unsupported.
pub(super) fn landlock_version() -> i64 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: asks for a number; there is nothing to point to.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    version.max(0)
}

/// Takes ownership of an inherited descriptor.
pub(super) fn inherited(fd: i32) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd as _;
    // SAFETY: the process that started this helper passed the descriptor for it, and no other code here
    // uses it.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) }
}
