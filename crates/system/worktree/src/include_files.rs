//! `.worktreeinclude`: ignored files that are copied into new worktrees.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Component, Path, PathBuf},
};

use crate::{git_runner::GitRunner, repository::RepositoryInfo, worktree_record::IncludedFile};

/// The pattern file, in the main checkout.
const PATTERNS: &str = ".worktreeinclude";
/// Maximum number of files copied.
const MAX_FILES: usize = 2_000;
/// Maximum bytes copied.
const MAX_BYTES: u64 = 256 << 20;

/// Copied files, and notes about others.
#[derive(Debug, Default)]
pub(crate) struct IncludeReport {
    pub(crate) files: Vec<IncludedFile>,
    pub(crate) notes: Vec<String>,
}

impl GitRunner {
    /// Copies ignored files that match the patterns from one checkout to another. `may_copy` decides
    /// whether a file may be read.
    pub(crate) fn include(
        &self,
        repository: &RepositoryInfo,
        to: &Path,
        may_copy: &dyn Fn(&Path) -> bool,
    ) -> IncludeReport {
        let top = &repository.top;
        let patterns = top.join(PATTERNS);
        if !patterns.symlink_metadata().is_ok_and(|it| it.is_file()) {
            return IncludeReport::default();
        }
        let others = || repository.line("ls-files").flag("--others").flag("--ignored").flag("-z");
        let wanted = others().value("--exclude-from=", &patterns.to_string_lossy()).text();
        let ignored = others().flag("--exclude-standard").text();
        let listed = |line: &str| Some(paths_of(&self.run(top, line).ok()?.checked("git").ok()?.stdout));
        let (Some(wanted), Some(ignored)) = (listed(&wanted), listed(&ignored)) else {
            let notes = vec![format!("{PATTERNS} could not be followed: nothing was copied")];
            return IncludeReport { files: Vec::new(), notes };
        };
        let ignored: std::collections::HashSet<PathBuf> = ignored.into_iter().collect();
        let both = wanted.into_iter().filter(|it| ignored.contains(it)).collect();
        copy_all(both, top, to, may_copy)
    }
}

fn copy_all(wanted: Vec<PathBuf>, from: &Path, to: &Path, may_copy: &dyn Fn(&Path) -> bool) -> IncludeReport {
    let (mut done, mut bytes) = (IncludeReport::default(), 0);
    let (mut failed, mut over) = (Vec::new(), 0_usize);
    for path in wanted {
        let source = from.join(&path);
        let len = match source.symlink_metadata() {
            Ok(meta) if meta.is_file() && may_copy(&source) => meta.len(),
            _ => {
                failed.push(path.display().to_string());
                continue;
            }
        };
        if MAX_FILES <= done.files.len() || MAX_BYTES < bytes + len {
            over += 1;
            continue;
        }
        match copy_one(&source, to, &path) {
            Ok(file) => {
                bytes += file.len;
                done.files.push(file);
            }
            Err(_) => failed.push(path.display().to_string()),
        }
    }
    if !done.files.is_empty() {
        done.notes
            .push(format!("{} ignored file(s) named in {PATTERNS} were copied into it.", done.files.len()));
    }
    if !failed.is_empty() {
        failed.truncate(10);
        done.notes.push(format!("Not copied, although {PATTERNS} names them: {}.", failed.join(", ")));
    }
    if 0 < over {
        done.notes
            .push(format!("{over} more file(s) that {PATTERNS} names are too many or too large to copy."));
    }
    done
}

/// Copies a file to a new path without following symlinks.
fn copy_one(source: &Path, to: &Path, path: &Path) -> io::Result<IncludedFile> {
    let mut dir = to.to_owned();
    for step in path.parent().into_iter().flat_map(Path::components) {
        let Component::Normal(step) = step else { return Err(io::ErrorKind::InvalidInput.into()) };
        dir.push(step);
        match fs::create_dir(&dir) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(err),
            _ => (),
        }
        if !dir.symlink_metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
    }
    let target = to.join(path);
    let mut reader = fs::File::open(source)?;
    let mut writer = fs::OpenOptions::new().write(true).create_new(true).open(&target)?;
    io::copy(&mut reader, &mut writer)?;
    let mode = reader.metadata()?.permissions().mode() & 0o777;
    writer.set_permissions(fs::Permissions::from_mode(mode))?;
    let meta = writer.metadata()?;
    Ok(IncludedFile { path: path.to_owned(), len: meta.len(), changed: changed(&meta) })
}

/// Modification time in nanoseconds since 1970.
pub(crate) fn changed(meta: &fs::Metadata) -> i128 {
    i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec())
}

/// Parses NUL-separated paths.
pub(crate) fn paths_of(printed: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let names = printed.split(|it| *it == 0).filter(|it| !it.is_empty());
    names.map(|it| PathBuf::from(std::ffi::OsStr::from_bytes(it))).collect()
}
