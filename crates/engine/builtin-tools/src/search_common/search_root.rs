use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use haft_paths::is_inside;
use haft_search::{SearchRoot, WalkLimits, display_text, open_file};
use haft_tool::{CallContext, ToolContext, ToolError};
use haft_workspace::text::{Charset, SampleExtent, detect};

/// A place to search: its path as requested, and the location that permission was granted for.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) asked: PathBuf,
    real: PathBuf,
    home: Option<PathBuf>,
}

/// What an opened place is.
#[derive(Debug)]
pub(crate) enum OpenedTarget {
    Dir(SearchRoot),
    File(File),
}

impl Place {
    pub(crate) fn new<P>(cx: &ToolContext<P>, asked: &Path) -> Result<Self, ToolError> {
        let real = cx.granted(asked)?.to_owned();
        let home = cx.home.as_deref().map(Path::to_owned);
        Ok(Self { asked: asked.to_owned(), real, home })
    }

    /// Opens the place. Does not follow symbolic links, since its location is already resolved.
    pub(crate) fn open(&self) -> io::Result<OpenedTarget> {
        match SearchRoot::open(&self.real) {
            Ok(root) => Ok(OpenedTarget::Dir(root)),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Ok(OpenedTarget::File(open_file(&self.real)?))
            }
            Err(error) => Err(error),
        }
    }

    /// From the home directory or above, a walk stays on one file system, because anything may be
    /// mounted there.
    pub(crate) fn limits(&self) -> WalkLimits {
        let holds_home = self.home.as_ref().is_some_and(|home| is_inside(home, &self.real));
        let is_top = self.real == Path::new("/");
        WalkLimits { one_file_system: holds_home || is_top, ..WalkLimits::default() }
    }

    /// Whether a file below may be shown, under both its requested and its real path.
    pub(crate) fn may_show<P>(&self, cx: &ToolContext<P>, rel: &[u8]) -> bool {
        let rel = Path::new(OsStr::from_bytes(rel));
        let below = |dir: &Path| if rel.as_os_str().is_empty() { dir.to_owned() } else { dir.join(rel) };
        cx.may_read(&below(&self.asked)) && (self.asked == self.real || cx.may_read(&below(&self.real)))
    }

    /// Returns the path of a file below, as requested.
    pub(crate) fn path_of(&self, rel: &[u8]) -> PathBuf {
        self.asked.join(OsStr::from_bytes(rel))
    }

    /// Returns the target of a symbolic link below.
    pub(crate) fn link_target(&self, rel: &[u8]) -> Option<PathBuf> {
        haft_paths::real(&self.real.join(OsStr::from_bytes(rel))).ok()
    }

    /// Describes an error for the model.
    pub(crate) fn failure(&self, error: &io::Error) -> ToolError {
        let path = display_text::path_text(self.asked.as_os_str().as_bytes());
        let text = error.to_string();
        let reason = text.find(" (os error").map_or(&*text, |end| &text[..end]);
        match error.kind() {
            io::ErrorKind::NotFound => ToolError::failed(format!(
                "{path} does not exist. Check the path, or find it with Glob from the working directory"
            )),
            io::ErrorKind::InvalidInput => {
                ToolError::failed(format!("{path} is a pipe, socket or device and cannot be searched"))
            }
            _ => ToolError::failed(format!("{path} cannot be searched: {reason}")),
        }
    }
}

/// Formats a path for the model: relative to the working directory if it is inside.
pub(crate) fn shown(cwd: &Path, dir: &Path, rel: &[u8]) -> String {
    let path = if rel.is_empty() { dir.to_owned() } else { dir.join(OsStr::from_bytes(rel)) };
    let path = match path.strip_prefix(cwd) {
        Ok(inside) if !inside.as_os_str().is_empty() => inside,
        Ok(_) => Path::new("."),
        Err(_) => &path,
    };
    display_text::path_text(path.as_os_str().as_bytes())
}

/// Makes a path absolute before hooks and rules see it. An invalid path is left unchanged; opening it
/// then reports the reason.
pub(crate) fn absolute(path: &mut Option<PathBuf>, cx: &CallContext) {
    if let Some(given) = path {
        crate::edit_common::canonical(given, cx);
    }
}

/// Detects the encoding of a file as Read and Edit do, so that what is found can be edited.
pub(crate) fn guess(bytes: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    match detect(bytes, SampleExtent::Head)?.charset {
        Charset::Legacy(encoding) => Some(encoding),
        _ => None,
    }
}
