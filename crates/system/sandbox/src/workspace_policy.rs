//! The default policy for working in a directory.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::{
    Hidden, IfMissing, Network, PathKind, Protected, SandboxPolicy, UnixSockets,
    sandbox_policy::{PathKind::Directory, PathKind::File},
};

/// Configuration that decides what may run: a command that changes it could extend the rights of the
/// next one. `true` where an empty placeholder is harmless.
const PROTECTED: [(&str, PathKind, bool); 52] = [
    (".claude/agents", Directory, false),
    (".claude/commands", Directory, false),
    (".claude/hooks", Directory, false),
    (".claude/settings.json", File, true),
    (".claude/settings.local.json", File, true),
    (".claude/skills", Directory, false),
    (".haft", Directory, true),
    (".mcp.json", File, true),
    (".vscode", Directory, true),
    (".idea", Directory, true),
    (".husky", Directory, false),
    (".cargo", Directory, false),
    (".devcontainer", Directory, false),
    (".yarn/plugins", Directory, false),
    (".yarn/releases", Directory, false),
    (".mvn", Directory, false),
    (".config/git", Directory, false),
    (".bash_login", File, false),
    (".bash_logout", File, false),
    (".bash_profile", File, false),
    (".bashrc", File, false),
    (".bazeliskrc", File, false),
    (".bazelrc", File, false),
    (".bazelversion", File, false),
    (".bunfig.toml", File, false),
    (".claude.json", File, false),
    (".devcontainer.json", File, false),
    (".envrc", File, false),
    (".gitconfig", File, false),
    (".gitmodules", File, false),
    (".lefthook.yaml", File, false),
    (".lefthook.yml", File, false),
    (".npmrc", File, false),
    (".pnp.cjs", File, false),
    (".pnp.loader.mjs", File, false),
    (".pnpmfile.cjs", File, false),
    (".pre-commit-config.yaml", File, false),
    (".profile", File, false),
    (".ripgreprc", File, false),
    (".yarnrc", File, false),
    (".yarnrc.yml", File, false),
    (".zlogin", File, false),
    (".zlogout", File, false),
    (".zprofile", File, false),
    (".zshenv", File, false),
    (".zshrc", File, false),
    ("bunfig.toml", File, false),
    ("gradle/wrapper/gradle-wrapper.properties", File, false),
    ("lefthook.yaml", File, false),
    ("lefthook.yml", File, false),
    ("pyrightconfig.json", File, false),
    (".mvn/wrapper/maven-wrapper.properties", File, false),
];

/// Files of a git directory that make git run a program or read another directory.
const GIT_PROTECTED: [(&str, PathKind, IfMissing); 4] = [
    ("hooks", Directory, IfMissing::Prevent),
    ("config", File, IfMissing::Prevent),
    ("config.worktree", File, IfMissing::TakeBack),
    // An empty `commondir` would break git.
    ("commondir", File, IfMissing::TakeBack),
];

/// Cargo's downloads. Builds outside the sandbox compile and run them without verifying checksums again,
/// so sandboxed writes go to an overlay.
const LAYERS: [&str; 2] = [".cargo/registry", ".cargo/git"];

/// Cargo's lock for these directories; an empty file.
const LOCKS: [&str; 1] = [".cargo/.package-cache"];

/// Inputs of the default policy.
#[derive(Clone, Debug)]
pub struct WorkspacePolicy<'a> {
    /// The workspace and added directories.
    pub roots: &'a [PathBuf],
    /// The session's directory for temporary files.
    pub scratch: &'a Path,
    /// The home directory.
    pub home: Option<&'a Path>,
    /// Additional writable paths.
    pub write: &'a [PathBuf],
    /// Additional read-only paths.
    pub protect: &'a [PathBuf],
    /// Unreadable paths.
    pub hide: &'a [Hidden],
}

impl WorkspacePolicy<'_> {
    /// The workspace and the session's temporary directory are writable; everything else is read-only.
    /// Reads the disk.
    pub fn policy(&self, network: Network) -> SandboxPolicy {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut write: Vec<PathBuf> = self.roots.iter().chain(self.write).map(|it| real(it)).collect();
        write.push(real(self.scratch));
        let of_home = |names: &[&str]| -> Vec<PathBuf> {
            let paths = names.iter().filter_map(|name| Some(self.home?.join(name)));
            paths.filter(|path| path.exists()).map(|path| real(&path)).collect()
        };
        write.extend(of_home(&LOCKS).into_iter().filter(|it| it.is_file()));
        // A path named in the settings is meant to be written.
        let named: Vec<PathBuf> = self.write.iter().map(|it| real(it)).collect();
        let mut layers = of_home(&LAYERS);
        layers.retain(|it| it.is_dir() && !named.iter().any(|named| it.starts_with(named)));
        let mut protect: Vec<Protected> = Vec::new();
        for root in self.roots.iter().map(|it| real(it)) {
            protect.extend(PROTECTED.iter().map(|(name, kind, quiet)| Protected {
                path: root.join(name),
                kind: *kind,
                absent: if *quiet { IfMissing::Prevent } else { IfMissing::TakeBack },
            }));
            // Files that git outside the sandbox would obey, also if they do not exist yet.
            protect.extend(dot_git(&root));
            for nested in nested_repositories(&root) {
                protect.extend(dot_git(&nested));
                protect.extend(git_directories(&nested).iter().flat_map(|git| obeyed_by_git(git)));
            }
            for git in git_directories(&root) {
                // A linked worktree uses the main repository's git directory.
                if !write.iter().any(|it| git.starts_with(it)) {
                    write.push(git.clone());
                }
                protect.extend(obeyed_by_git(&git));
            }
        }
        protect.extend(self.protect.iter().map(|path| Protected {
            path: real(path),
            kind: if path.is_dir() { Directory } else { File },
            absent: IfMissing::Prevent,
        }));
        protect.sort_by(|a, b| a.path.cmp(&b.path));
        protect.dedup_by(|a, b| a.path == b.path);
        SandboxPolicy {
            write,
            write_rule: String::from(
                "only the workspace and the session's own temporary directory may be written",
            ),
            layers,
            protect,
            hide: self.hidden(),
            network,
            sockets: UnixSockets::Own,
            scratch: Some(real(self.scratch)),
        }
    }
}

impl WorkspacePolicy<'_> {
    /// The hidden files, also under other hard links in the workspace. Searches at most `MAX_LOOKED`
    /// entries; links beyond that are not found.
    fn hidden(&self) -> Vec<Hidden> {
        let mut hidden = self.hide.to_vec();
        let linked: Vec<(u64, u64, &Hidden)> = self
            .hide
            .iter()
            .filter_map(|it| Some((it.path.metadata().ok()?, it)))
            .filter(|(meta, _)| meta.is_file() && 1 < meta.nlink())
            .map(|(meta, it)| (meta.dev(), meta.ino(), it))
            .collect();
        if linked.is_empty() {
            return hidden;
        }
        let mut open: Vec<PathBuf> = self.roots.to_vec();
        let mut looked = 0;
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                looked += 1;
                if MAX_LOOKED < looked {
                    return hidden;
                }
                let Ok(meta) = entry.metadata() else { continue };
                if meta.is_dir() {
                    open.push(entry.path());
                } else if let Some(it) = linked.iter().find(|it| (it.0, it.1) == (meta.dev(), meta.ino())) {
                    hidden.push(Hidden { path: entry.path(), rule: it.2.rule.clone() });
                }
            }
        }
        hidden
    }
}

/// The `.git` of a worktree or of a repository that does not exist yet: created inside the sandbox, git
/// outside would obey it.
fn dot_git(root: &Path) -> Option<Protected> {
    let path = root.join(".git");
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => None,
        Ok(_) => Some(Protected { path, kind: File, absent: IfMissing::Prevent }),
        Err(_) => Some(Protected { path, kind: Directory, absent: IfMissing::TakeBack }),
    }
}

/// Security-relevant files of a git directory, its submodules included.
fn obeyed_by_git(git: &Path) -> Vec<Protected> {
    let mut out = Vec::new();
    let mut open = vec![(git.to_owned(), 0)];
    while let Some((git, depth)) = open.pop() {
        out.extend(GIT_PROTECTED.iter().map(|(name, kind, absent)| Protected {
            path: git.join(name),
            kind: *kind,
            absent: *absent,
        }));
        if depth < 3 {
            open.extend(directories(&git.join("modules")).map(|dir| (dir, depth + 1)));
        }
    }
    out.retain(|it| it.path.parent().is_some_and(|dir| dir.join("HEAD").exists() || dir == git));
    out
}

/// Maximum depth for nested repositories, and maximum number of directories searched.
const DEEPEST: usize = 4;
const MAX_DIRECTORIES: usize = 4_000;

/// Directories below `root` that contain a repository.
fn nested_repositories(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, usize)> = directories(root).map(|dir| (dir, 1)).collect();
    let mut looked = 0;
    while let Some((dir, depth)) = open.pop() {
        looked += 1;
        if MAX_DIRECTORIES < looked {
            break;
        }
        if dir.join(".git").symlink_metadata().is_ok() {
            found.push(dir.clone());
        }
        if depth < DEEPEST {
            open.extend(directories(&dir).map(|dir| (dir, depth + 1)));
        }
    }
    found
}

/// Subdirectories, without build output and dependencies.
fn directories(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()))
        .filter(|entry| {
            let name = entry.file_name();
            !["node_modules", "target", ".git", ".venv"].iter().any(|it| name == *it)
        })
        .map(|entry| entry.path())
}

/// Maximum number of directory entries searched for other hard links of hidden files.
const MAX_LOOKED: usize = 100_000;

/// The git directory of a workspace and the one it shares with other worktrees.
fn git_directories(root: &Path) -> Vec<PathBuf> {
    let dot = root.join(".git");
    let Ok(meta) = dot.symlink_metadata() else { return Vec::new() };
    if meta.is_dir() {
        return vec![dot];
    }
    let Ok(text) = std::fs::read_to_string(&dot) else { return Vec::new() };
    let Some(target) = text.strip_prefix("gitdir:").map(str::trim) else { return Vec::new() };
    let Ok(own) = root.join(target).canonicalize() else { return Vec::new() };
    let common = std::fs::read_to_string(own.join("commondir")).ok();
    let common = common.and_then(|text| own.join(text.trim()).canonicalize().ok());
    // `.git` is a file that anybody may have written: it is trusted only if the git directory refers
    // back to this worktree.
    let linked = |common: &PathBuf| {
        own.parent() == Some(common.join("worktrees").as_path())
            && common.join("HEAD").is_file()
            && common.join("objects").is_dir()
            && back_link(&own).is_some_and(|back| back == dot)
    };
    match common {
        Some(common) if linked(&common) => vec![common, own],
        _ => Vec::new(),
    }
}

/// The `.git` file recorded in a worktree's own git directory.
fn back_link(own: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(own.join("gitdir")).ok()?;
    let path = PathBuf::from(text.trim());
    let parent = path.parent()?.canonicalize().ok()?;
    Some(parent.join(path.file_name()?))
}
