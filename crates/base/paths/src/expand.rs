use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

/// Why a text is not a usable path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PathError {
    /// The text is empty.
    Empty,
    /// It contains a NUL byte.
    Nul,
    /// It is longer than any file system accepts.
    TooLong,
    /// Too many symlinks, usually a loop.
    Loop,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the path is empty; give the path of a file or directory",
            Self::Nul => "the path contains a NUL byte",
            Self::TooLong => "the path is longer than 4096 bytes",
            Self::Loop => "the path leads through a loop of symbolic links",
        })
    }
}

impl std::error::Error for PathError {}

/// Makes a path from a model or user absolute: expands `~` and `~/` to the home directory and joins a
/// relative path to `cwd`. Keeps `.` and `..`, because the kernel resolves `link/..` differently than
/// lexical folding does.
pub fn expand(text: &Path, cwd: &Path, home: Option<&Path>) -> Result<PathBuf, PathError> {
    let bytes = text.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        return Err(PathError::Empty);
    }
    if bytes.contains(&0) {
        return Err(PathError::Nul);
    }
    if 4096 < bytes.len() {
        return Err(PathError::TooLong);
    }
    match (text.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => Ok(home.to_owned()),
        (Ok(rest), Some(home)) => Ok(home.join(rest)),
        _ => Ok(cwd.join(text)),
    }
}

/// Folds `.` and `..` lexically, without disk access. `..` at the root stays at the root, as in the
/// kernel.
pub fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => (),
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(component),
        }
    }
    out
}

/// Whether `path` is `dir` or below it, compared by whole components. Both must be absolute and
/// lexically normalised.
pub fn is_inside(path: &Path, dir: &Path) -> bool {
    path.starts_with(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expand_and_lexical_resolve_home_and_dots() {
        let (cwd, home) = (Path::new("/ws"), Path::new("/home/u"));
        for (text, want) in [
            ("a", "/ws/a"),
            ("./a/../b", "/ws/b"),
            ("/x/./y//z/", "/x/y/z"),
            ("../../..", "/"),
            ("~", "/home/u"),
            ("~/k", "/home/u/k"),
            ("~x/k", "/ws/~x/k"),
            ("a~", "/ws/a~"),
        ] {
            let path = expand(Path::new(text), cwd, Some(home)).unwrap();
            assert_eq!(lexical(&path), Path::new(want), "{text}");
        }
    }

    #[test]
    fn expand_rejects_unusable_paths() {
        for (text, want) in
            [("", PathError::Empty), ("a\0b", PathError::Nul), (&*"x".repeat(4097), PathError::TooLong)]
        {
            assert_eq!(expand(Path::new(text), Path::new("/"), None), Err(want));
        }
    }

    #[test]
    fn is_inside_compares_whole_components() {
        for (path, dir, want) in
            [("/ws", "/ws", true), ("/ws/a", "/ws", true), ("/ws-evil/a", "/ws", false), ("/", "/ws", false)]
        {
            assert_eq!(is_inside(Path::new(path), Path::new(dir)), want, "{path} {dir}");
        }
    }
}
