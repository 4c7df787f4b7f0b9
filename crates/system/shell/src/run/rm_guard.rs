//! A shell function that guards `rm`.

use std::{
    collections::BTreeSet,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Shell code of an `rm` function that refuses to remove `precious` directories and their ancestors. It
/// sees the arguments after expansion and follows symlinks on the way.
///
/// It compares directories by device and inode and starts no process per argument, because globs produce
/// thousands of them.
pub(crate) fn rm_guard(precious: &[PathBuf]) -> String {
    if precious.is_empty() {
        return String::new();
    }
    let forms = precious.iter().flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten();
    let above = forms.flat_map(|path| path.ancestors().map(PathBuf::from).collect::<Vec<_>>());
    let refused: BTreeSet<PathBuf> = above.map(|path| path.canonicalize().unwrap_or(path)).collect();
    let quoted: Vec<String> = refused.iter().map(|path| quoted(path)).collect();
    format!(
        "rm() {{\n\
         \\builtin local __haft_word __haft_place __haft_names=\n\
         for __haft_word in \"$@\"; do\n\
         case $__haft_names$__haft_word in --) __haft_names=1; continue ;; -*) continue ;; esac\n\
         if [ -L \"$__haft_word\" ] || ! [ -d \"$__haft_word\" ]; then continue; fi\n\
         for __haft_place in {}; do\n\
         [ \"$__haft_word\" -ef \"$__haft_place\" ] || continue\n\
         \\builtin printf 'haft: refused to remove %s\\n' \"$__haft_place\" >&2; return 125\n\
         done\n\
         done\n\
         \\builtin command rm \"$@\"\n}}\n",
        quoted.join(" ")
    )
}

/// Quotes a path for the shell, whatever its bytes are.
fn quoted(path: &Path) -> String {
    let bytes = || path.as_os_str().as_bytes().iter().map(|byte| format!("\\x{byte:02x}"));
    path.to_str().map_or_else(|| format!("$'{}'", bytes().collect::<String>()), crate::env::quote)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, os::unix::fs::symlink, process::Command};

    use super::*;

    fn bash(guard: &str, line: &str, cwd: &Path) -> Option<i32> {
        let run = Command::new("bash").arg("-c").arg(format!("{guard}{line}")).current_dir(cwd).output();
        run.unwrap().status.code()
    }

    #[test]
    fn guarded_rm_refuses_precious_directories_under_every_name() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let (home, ws) = (top.join("home"), top.join("home/-ws"));
        fs::create_dir_all(&ws).unwrap();
        symlink(&home, top.join("link")).unwrap();
        symlink("link", top.join("again")).unwrap();
        let odd = top.join(OsStr::from_bytes(b"odd\xff'"));
        fs::create_dir(&odd).unwrap();
        let guard = rm_guard(&[ws.clone(), odd.clone()]);
        for (line, code) in [
            ("rm -rf home/*", 125),
            ("rm -rf h*", 125),
            ("rm -rf home/../home", 125),
            ("rm -rf link/", 125),
            ("rm -rf again/-ws", 125),
            ("cd home; rm -rf -- -ws", 125),
            ("cd home; rm -rf -- -*", 125),
            ("D=$PWD; rm -rf \"$D\"", 125),
            ("touch x y; rm -rf x y home", 125),
            ("mkdir d; touch d/x -- -f; rm -rf d -- -f", 0),
            ("rm again; rm -rf link", 0),
            ("rm -rf odd*", 125),
            ("rm -f missing", 0),
            ("rm missing", 1),
        ] {
            assert_eq!(bash(&guard, line, &top), Some(code), "{line}");
            assert!(ws.is_dir() && odd.is_dir(), "{line}");
        }
    }

    #[test]
    fn guarded_rm_of_many_names_starts_one_process() {
        let temp = tempfile::tempdir().unwrap();
        let (dir, log) = (temp.path().join("d"), temp.path().join("log"));
        let guard = rm_guard(std::slice::from_ref(&dir));
        let forks = |names: usize| {
            fs::create_dir_all(&dir).unwrap();
            for name in 0..names {
                fs::create_dir(dir.join(format!("{name}.d"))).unwrap();
                fs::write(dir.join(format!("{name}.o")), "").unwrap();
            }
            let traced = Command::new("strace")
                .args(["-f", "-qq", "-e", "trace=clone,clone3,fork,vfork", "-e", "signal=none", "-o"])
                .arg(&log)
                .args(["bash", "-c", &format!("{guard}rm -rf d/*; :")])
                .current_dir(temp.path())
                .status();
            if !traced.is_ok_and(|it| it.success()) {
                return None;
            }
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
            Some(fs::read_to_string(&log).unwrap().lines().filter(|it| it.contains("= ")).count())
        };
        match (forks(2), forks(200)) {
            (Some(few), Some(many)) => assert_eq!((few, many), (1, 1)),
            _ => eprintln!("SKIPPED: strace is not installed or not permitted here"),
        }
    }
}
