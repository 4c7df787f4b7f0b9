use std::path::{Path, PathBuf};

use url::Url;

/// The `file:` URI of a path.
pub fn uri_of(path: &Path) -> Option<String> {
    Url::from_file_path(path).ok().map(String::from)
}

/// The path of a `file:` URI; `None` for any other.
pub fn path_of(uri: &str) -> Option<PathBuf> {
    let url = Url::parse(uri).ok()?;
    let local = url.scheme() == "file" && url.host_str().is_none_or(|host| host == "localhost");
    url.to_file_path().ok().filter(|path| local && path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_of_path_round_trips() {
        for path in ["/a/b.rs", "/a b/ü%.py", "/a#b?c.ts", "/x/[y].c"] {
            let uri = uri_of(Path::new(path)).unwrap();
            assert!(uri.starts_with("file:///"), "{uri}");
            assert_eq!(path_of(&uri).as_deref(), Some(Path::new(path)));
        }
        for uri in ["http://a/b", "untitled:1", "jdt://x", "file://host/a", "", "a.rs"] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
        assert_eq!(path_of("file:///a/%5By%5D.c").as_deref(), Some(Path::new("/a/[y].c")));
    }
}
