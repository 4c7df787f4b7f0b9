use std::path::{Path, PathBuf};

/// Directories of user-installed tools, relative to the home directory.
const TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".deno/bin",
    ".fnm",
    ".ghcup",
    ".juliaup",
    ".linuxbrew",
    ".local/bin",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman/candidates",
    ".volta",
    "go/bin",
];

/// Directories from which programs may be started: `PATH` and common tool directories. Never inside a
/// workspace root.
pub fn installed_programs(roots: &[PathBuf], home: Option<&Path>) -> Vec<PathBuf> {
    let real = |path: &Path| path.canonicalize().ok();
    let roots: Vec<PathBuf> = roots.iter().filter_map(|root| real(root)).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    // A tool may start programs in directories beside its `bin`.
    let named = named.flat_map(|dir| {
        let beside = dir.file_name().is_some_and(|it| it == "bin").then(|| dir.parent().map(Path::to_owned));
        [Some(dir), beside.flatten()].into_iter().flatten()
    });
    let usual = home.iter().flat_map(|home| TOOLCHAINS.iter().map(|it| home.join(it)));
    let homes = home.and_then(real);
    let temporary = ["/tmp", "/var/tmp", "/dev/shm"].map(Path::new);
    let mut found: Vec<PathBuf> = named
        .chain(usual)
        .filter_map(|dir| real(&dir))
        .filter(|dir| {
            let shallow =
                dir.components().count() < 3 && !dir.starts_with("/usr") && !dir.starts_with("/bin");
            let ours = roots.iter().any(|root| dir.starts_with(root) || root.starts_with(dir));
            let above = homes.as_deref().is_some_and(|home| home.starts_with(dir));
            !shallow && !ours && !above && !temporary.iter().any(|it| dir.starts_with(it))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}
