//! The program under test, for the end-to-end tests.
//!
//! They are a crate of their own, so cargo does not tell them where the program is
//! and does not build it for them.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::SystemTime,
};

/// Names the program under test instead of the one beside the test program.
const VARIABLE: &str = "HAFT_BIN";

/// The path of the program `haft`: `HAFT_BIN`, else the one that cargo built in the
/// directory above the test program (`target/debug/haft` for `target/debug/deps/…`).
///
/// # Panics
/// If that program is missing, or older than one of its sources: a test of an old
/// program would report the wrong result. `HAFT_BIN` is taken as it is.
pub fn haft_binary() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let found = match env::var_os(VARIABLE) {
            Some(path) => Ok(PathBuf::from(path)),
            None => built_binary(),
        };
        match found {
            Ok(path) => path.to_string_lossy().into_owned(),
            Err(problem) => panic!("{problem}; build it: cargo build -p haft-cli --bin haft"),
        }
    })
}

fn built_binary() -> Result<PathBuf, String> {
    let test = env::current_exe().map_err(|err| format!("the path of the test program: {err}"))?;
    let directory = test.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let program = directory.join("haft");
    let built = modified(&program).map_err(|err| format!("{}: {err}", program.display()))?;
    // What cargo writes beside a program: its path, a colon, and its sources.
    let sources = fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    match newer_source(&sources, built) {
        Some(source) => Err(format!("{} is older than {source}", program.display())),
        None => Ok(program),
    }
}

/// The first file of a dependency list that changed after `built`.
fn newer_source(list: &str, built: SystemTime) -> Option<&str> {
    let (_, sources) = list.lines().next()?.split_once(": ")?;
    // The time of a directory changes with its entries, and cargo lists both.
    let is_newer = |path: &&str| {
        fs::metadata(path).is_ok_and(|it| it.is_file() && it.modified().is_ok_and(|time| built < time))
    };
    sources.split(' ').find(is_newer)
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn program_older_than_a_source_is_reported() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/haft_binary.rs");
        let changed = modified(Path::new(source)).unwrap();
        let list = format!("/t/haft: /gone/lib.rs {} {source}\n", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(newer_source(&list, changed - Duration::from_secs(1)), Some(source));
        assert_eq!(newer_source(&list, changed), None);
        assert_eq!(newer_source("", changed), None);
    }
}
