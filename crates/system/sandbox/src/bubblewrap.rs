//! Builds the same sandbox with bubblewrap, where we may not create namespaces ourselves.

use std::{
    collections::BTreeSet,
    ffi::{CString, OsString},
    io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use crate::helper_request::Order;

/// The command line before the program that runs inside.
pub(super) fn arguments(bwrap: &Path, order: &Order, closed: bool) -> io::Result<Vec<CString>> {
    let mut words: Vec<OsString> = vec![bwrap.into()];
    words.extend(["--unshare-user", "--unshare-ipc", "--cap-drop", "ALL"].map(OsString::from));
    words.extend(
        ["--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--tmpfs", "/dev/shm"].map(OsString::from),
    );
    if closed {
        words.push("--unshare-net".into());
    }
    let mut bind = |kind: &str, from: &Path, to: &Path| {
        words.extend([OsString::from(kind), from.into(), to.into()]);
    };
    for root in order.write.iter().filter(|it| it.exists()) {
        bind("--bind", root, root);
    }
    let mut pinned = BTreeSet::new();
    for path in order.layers.iter().map(|it| &it.path).chain(&order.protect) {
        let Some(root) = order.write.iter().find(|root| path.starts_with(root)) else { continue };
        let mut between: Vec<&Path> =
            path.ancestors().skip(1).take_while(|it| *it != root.as_path()).collect();
        between.reverse();
        for dir in between {
            if pinned.insert(dir.to_owned()) {
                bind("--bind", dir, dir);
            }
        }
        bind("--ro-bind", path, path);
    }
    for path in &order.hide {
        if path.is_dir() {
            words.extend([
                OsString::from("--tmpfs"),
                path.into(),
                OsString::from("--remount-ro"),
                path.into(),
            ]);
        } else {
            words.extend([OsString::from("--ro-bind"), OsString::from("/dev/null"), path.into()]);
        }
    }
    for path in &order.cover {
        words.extend([OsString::from("--ro-bind"), OsString::from("/dev/null"), path.into()]);
    }
    // For these, root inside is root outside.
    for path in ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"] {
        if Path::new(path).exists() {
            words.extend(["--ro-bind", path, path].map(OsString::from));
        }
    }
    words.push("--".into());
    words.into_iter().map(|word| Ok(CString::new(word.as_bytes())?)).collect()
}
