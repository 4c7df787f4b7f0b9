use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
    path::{Component, Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::{PathError, expand, lexical};

/// The lexical and the real form of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolvedPath {
    /// Form that follows from the text alone; see the crate documentation.
    pub lexical: PathBuf,
    /// Form with all symlinks followed.
    pub real: PathBuf,
}

/// Expands a path and computes both forms. Reads the disk. `/proc/self/cwd` resolves to `cwd` (the
/// session's directory), which may differ from the working directory of this process.
pub fn locate(text: &Path, cwd: &Path, home: Option<&Path>) -> Result<ResolvedPath, PathError> {
    let path = expand(text, cwd, home)?;
    Ok(ResolvedPath { lexical: lexical(&path), real: follow(&path, Some(cwd))? })
}

/// Symlinks followed before `PathError::Loop`, as in the kernel (`ELOOP`).
const MAX_LINKS: usize = 40;

/// Resolves all symlinks of an absolute path. From the first component that does not exist or cannot be
/// read on, the rest is folded lexically.
///
/// Not `std::fs::canonicalize`, because that fails for a path that does not exist yet, and callers ask
/// where a write would go before the file exists. `/proc/self/root` and `/proc/self/cwd` are followed as
/// symlinks through `readlink`.
pub fn real(path: &Path) -> Result<PathBuf, PathError> {
    follow(path, None)
}

fn follow(path: &Path, cwd: Option<&Path>) -> Result<PathBuf, PathError> {
    if is_free_of_links(path) {
        return Ok(lexical(path));
    }
    step_by_step(path, cwd)
}

/// Whether the path exists and contains no symlink, so that the lexical form is the real one. The common
/// case: two system calls instead of one per component.
fn is_free_of_links(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, flags, Mode::empty(), resolve).is_ok()
}

fn step_by_step(path: &Path, cwd: Option<&Path>) -> Result<PathBuf, PathError> {
    let mut done = PathBuf::from("/");
    let mut todo: VecDeque<OsString> = components(path).collect();
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        if name == ".." {
            done.pop();
            continue;
        }
        done.push(&name);
        let Some(target) = link_target(&done, &name, cwd) else { continue };
        links += 1;
        if MAX_LINKS < links {
            return Err(PathError::Loop);
        }
        done.pop();
        if target.is_absolute() {
            done = PathBuf::from("/");
        }
        for component in components(&target).collect::<Vec<_>>().into_iter().rev() {
            todo.push_front(component);
        }
    }
    Ok(done)
}

/// Target of a symlink; `None` if `path` is not a symlink or cannot be read.
fn link_target(path: &Path, name: &OsStr, cwd: Option<&Path>) -> Option<PathBuf> {
    match cwd {
        Some(cwd) if name == "cwd" && is_own_cwd(path) => Some(cwd.to_owned()),
        _ => {
            let target = rustix::fs::readlink(path, Vec::new()).ok()?;
            Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
        }
    }
}

/// Whether `path`/`name` is `/proc/self/cwd`, after `self` or `thread-self` was followed.
fn is_own_cwd(path: &Path) -> bool {
    let own = Path::new("/proc").join(std::process::id().to_string());
    match path.strip_prefix(&own) {
        Ok(rest) => rest == Path::new("cwd") || rest.starts_with("task"),
        Err(_) => false,
    }
}

fn components(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn real_follows_symlinks_and_keeps_missing_components() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("rel")).unwrap();
        symlink(root.join("a/b"), root.join("abs")).unwrap();
        symlink("../rel/b", root.join("a/deep")).unwrap();
        symlink("gone/x", root.join("dangling")).unwrap();
        for (path, want) in [
            ("rel/b", "a/b"),
            ("abs/new/file", "a/b/new/file"),
            ("a/deep/../y", "a/y"),
            ("dangling", "gone/x"),
            ("rel/../z", "z"),
            ("missing/../z", "z"),
        ] {
            assert_eq!(real(&root.join(path)), Ok(root.join(want)), "{path}");
        }
    }

    #[test]
    fn locate_maps_proc_self_cwd_to_the_session_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        symlink("/proc/self/cwd", root.join("p")).unwrap();
        let pid = std::process::id();
        for path in [
            String::from("/proc/self/cwd/.env"),
            String::from("/proc/thread-self/cwd/.env"),
            String::from("/proc/self/root/proc/self/cwd/x/../.env"),
            String::from("p/.env"),
            format!("/proc/{pid}/cwd/.env"),
            format!("/proc/{pid}/task/{pid}/cwd/.env"),
        ] {
            let located = locate(Path::new(&path), &root, None).unwrap();
            assert_eq!(located.real, root.join(".env"), "{path}");
        }
    }

    #[test]
    fn fast_path_resolution_equals_step_by_step() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/f"), "").unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("f", root.join("a/to_f")).unwrap();
        for (path, quick) in [
            ("a/b", true),
            ("a/f", true),
            ("a/../a/./f", true),
            ("a/b/../../a/f", true),
            ("link/f", false),
            ("link/../a/f", false),
            ("a/to_f", false),
            ("a/gone", false),
            ("gone/../a/f", false),
            ("a/f/x", false),
        ] {
            let path = root.join(path);
            assert_eq!(is_free_of_links(&path), quick, "{path:?}");
            assert_eq!(real(&path), step_by_step(&path, None), "{path:?}");
        }
    }

    #[test]
    fn symlink_loop_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        assert_eq!(real(&dir.path().join("a/x")), Err(PathError::Loop));
    }

    #[test]
    fn real_equals_canonicalize_for_existing_paths() {
        for path in ["/proc/self/root/usr", "/usr/bin/../lib", "/bin/sh", "/etc/alternatives"] {
            if let Ok(want) = std::fs::canonicalize(path) {
                assert_eq!(real(Path::new(path)), Ok(want), "{path}");
            }
        }
    }
}
