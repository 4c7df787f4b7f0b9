//! Finds the bash that runs commands.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Error text for users and models if bash is missing.
pub const NO_BASH: &str = "there is no bash; install it (apk add bash, apt-get install bash, dnf install bash, \
                           nix-env -iA nixpkgs.bash) and start again";

/// Usual paths of bash. They take precedence over `PATH`, which others may have changed.
const PLACES: [&str; 4] =
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];

/// Finds bash: in the usual paths, then in the absolute entries of `path`.
pub fn find_bash(path: Option<&OsStr>) -> Option<PathBuf> {
    find_in(&PLACES.map(Path::new), path)
}

fn find_in(places: &[&Path], path: Option<&OsStr>) -> Option<PathBuf> {
    let usual = places.iter().map(|place| place.to_path_buf());
    let named = std::env::split_paths(path.unwrap_or_default()).filter(|dir| dir.is_absolute());
    usual.chain(named.map(|dir| dir.join("bash"))).find(|place| is_program(place))
}

/// Whether this is an executable file.
pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_bash_prefers_usual_places_and_skips_relative_entries() {
        let dir = tempfile::tempdir().unwrap();
        let made = |name: &str, mode: u32| {
            let dir = dir.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join("bash"), "").unwrap();
            std::fs::set_permissions(dir.join("bash"), std::fs::Permissions::from_mode(mode)).unwrap();
            dir
        };
        let (usual, named, dead) = (made("usual", 0o755), made("named", 0o755), made("dead", 0o644));
        let path = std::env::join_paths([Path::new("."), Path::new(""), &dead, &named]).unwrap();
        let missing = dir.path().join("missing");
        let rows: [(&Path, Option<&OsStr>, Option<PathBuf>); 5] = [
            (&usual.join("bash"), Some(&path), Some(usual.join("bash"))),
            (&missing, Some(&path), Some(named.join("bash"))),
            (&dead.join("bash"), Some(&path), Some(named.join("bash"))),
            (&missing, Some(OsStr::new("named:./named")), None),
            (&missing, None, None),
        ];
        for (place, path, want) in rows {
            assert_eq!(find_in(&[place], path), want, "{} {path:?}", place.display());
        }
    }
}
