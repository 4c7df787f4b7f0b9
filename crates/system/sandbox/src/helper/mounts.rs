//! The mount namespace of a sandboxed command: read-only except for the writable paths, and without the
//! hidden paths.

use std::{
    collections::BTreeSet,
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
        open_tree,
    },
};

use super::sys;
use crate::helper_request::{Order, OverlayLayer};

/// Builds it. The command cannot undo it.
pub(super) fn build(order: &Order) -> Result<(), String> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|err| format!("make mounts private: {err}"))?;
    let roots = outermost(&order.write);
    let layers: Vec<(&Path, io::Result<OwnedFd>)> =
        order.layers.iter().map(|it| (it.path.as_path(), layered(it))).collect();
    // Mount copies made before everything becomes read-only stay writable.
    let mut copies = Vec::new();
    for root in &roots {
        let copy = copy_of(root).map_err(|err| format!("open {}: {err}", root.display()))?;
        copies.push((root, copy));
    }
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        tmpfs(shared_memory, c"mode=1777")
            .map_err(|err| format!("mount {}: {err}", shared_memory.display()))?;
    }
    let memory = shared_memory.is_dir().then(|| copy_of(shared_memory)).transpose();
    let memory = memory.map_err(|err| format!("open {}: {err}", shared_memory.display()))?;
    let hollow =
        EmptyMounts::make(&order.hollow).map_err(|err| format!("mount {}: {err}", order.hollow.display()))?;
    sys::read_only_tree(Path::new("/")).map_err(|err| format!("make / read-only: {err}"))?;
    for (root, copy) in copies {
        attach(&copy, root).map_err(|err| format!("mount {}: {err}", root.display()))?;
    }
    if let Some(memory) = memory {
        attach(&memory, shared_memory).map_err(|err| format!("mount {}: {err}", shared_memory.display()))?;
    }
    let mut pinned = BTreeSet::new();
    for (path, layer) in &layers {
        match layer {
            Ok(layer) => pin(path, &roots, &mut pinned).and_then(|()| attach(layer, path)),
            // Read-only where overlays are not supported.
            Err(_) => protect(path, &roots, &mut pinned),
        }
        .map_err(|err| format!("protect {}: {err}", path.display()))?;
    }
    for path in &order.protect {
        protect(path, &roots, &mut pinned).map_err(|err| format!("protect {}: {err}", path.display()))?;
    }
    for path in &order.hide {
        hollow.put_over(path).map_err(|err| format!("hide {}: {err}", path.display()))?;
    }
    for path in &order.cover {
        match hollow.put_over(path) {
            // Removed meanwhile, or not accessible anyway.
            Err(err) if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => (),
            done => done.map_err(|err| format!("cover {}: {err}", path.display()))?,
        }
    }
    Ok(())
}

/// Writable roots that are not inside another root.
fn outermost(write: &[PathBuf]) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = write.iter().filter(|path| path.exists()).cloned().collect();
    roots.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for root in roots {
        if !kept.iter().any(|it| root.starts_with(it)) {
            kept.push(root);
        }
    }
    kept
}

pub(crate) fn copy_of(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(&open(path)?, "", flags | OpenTreeFlags::AT_EMPTY_PATH)?)
}

/// Opens exactly this path without following symlinks, so that a symlink created after the check is not
/// followed.
fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let parent = path.parent().unwrap_or(Path::new("/"));
    let Some(name) = path.file_name() else { return Ok(rustix::fs::open("/", flags, Mode::empty())?) };
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let parent = openat2(CWD, parent, flags | OFlags::DIRECTORY, Mode::empty(), resolve)?;
    Ok(rustix::fs::openat(&parent, name, flags, Mode::empty())?)
}

pub(crate) fn attach(copy: &OwnedFd, path: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(copy, "", &open(path)?, "", flags)?)
}

/// Mounts an overlay over a directory and returns a copy of the mount that stays writable.
fn layered(layer: &OverlayLayer) -> io::Result<OwnedFd> {
    let Some((upper, work)) = &layer.store else { return Err(io::ErrorKind::Unsupported.into()) };
    let [lower, upper, work] = [open(&layer.path)?, open(upper)?, open(work)?];
    let place = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let options =
        format!("lowerdir={},upperdir={},workdir={},userxattr", place(&lower), place(&upper), place(&work));
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("overlay", place(&lower), "overlay", flags, CString::new(options)?.as_c_str())?;
    copy_of(&layer.path)
}

/// Makes a path inside a writable root read-only.
fn protect(path: &Path, roots: &[PathBuf], pinned: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !roots.iter().any(|root| path.starts_with(root)) {
        return Ok(());
    }
    pin(path, roots, pinned)?;
    let copy = copy_of(path)?;
    sys::read_only_mount(copy.as_fd())?;
    attach(&copy, path)
}

/// Turns the directories between a writable root and `path` into mount points, which cannot be renamed,
/// so that the path cannot be replaced.
fn pin(path: &Path, roots: &[PathBuf], pinned: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let Some(root) = roots.iter().find(|root| path.starts_with(root)) else { return Ok(()) };
    let between = path.ancestors().skip(1).take_while(|it| *it != root.as_path());
    let mut between: Vec<&Path> = between.collect();
    between.reverse();
    for dir in between {
        if pinned.insert(dir.to_owned()) {
            attach(&copy_of(dir)?, dir)?;
        }
    }
    Ok(())
}

fn tmpfs(path: &Path, options: &std::ffi::CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", path, "tmpfs", flags, options)?)
}

/// An empty file and an empty directory without permissions, to cover hidden paths.
struct EmptyMounts {
    file: OwnedFd,
    directory: OwnedFd,
}

impl EmptyMounts {
    fn make(place: &Path) -> io::Result<Self> {
        tmpfs(place, c"mode=0700,size=64k")?;
        let (file, directory) = (place.join("file"), place.join("directory"));
        fs::File::options().write(true).create_new(true).mode(0o000).open(&file)?;
        fs::DirBuilder::new().mode(0o000).create(&directory)?;
        let frozen = |path: &Path| -> io::Result<OwnedFd> {
            let copy = copy_of(path)?;
            sys::read_only_mount(copy.as_fd())?;
            Ok(copy)
        };
        Ok(Self { file: frozen(&file)?, directory: frozen(&directory)? })
    }

    fn put_over(&self, path: &Path) -> io::Result<()> {
        let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let nothing = if is_dir { &self.directory } else { &self.file };
        // Each target needs its own copy of the mount.
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
        attach(&open_tree(nothing, "", flags)?, path)
    }
}
