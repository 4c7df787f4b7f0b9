use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::SettingsLayer;

/// Locations of settings. All of them are explicit paths, so that nothing in this crate reads
/// environment variables.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SettingsPaths {
    /// The user's directories, in ascending precedence: `~/.claude`, `~/.haft`.
    pub user: Vec<PathBuf>,
    /// Haft's own directory, which stores trust and last valid versions. Without a home directory there
    /// is none, and nothing can be trusted.
    pub state: Option<PathBuf>,
    /// Root directory of the project.
    pub project: PathBuf,
    /// Working directory.
    pub cwd: PathBuf,
    /// The organisation's directories, in ascending precedence.
    pub managed: Vec<PathBuf>,
    /// The user's MCP servers in Claude Code's format.
    pub claude_json: Option<PathBuf>,
    /// `~/.claude` and `~/.haft`, even if variables name other directories and these are unused: they
    /// stay write-protected.
    pub in_home: Vec<PathBuf>,
    /// Directory of stored keys if Haft's own directory has none: `~/.haft`, when `CLAUDE_CONFIG_DIR`
    /// alone moved Haft's directory.
    pub further_keys: Option<PathBuf>,
}

/// Validates the value of `HOME`. `None` if it is relative, or exists and is not a directory (services
/// use `/dev/null`). A directory that does not exist yet is accepted. Reads the disk.
pub fn home_directory(named: Option<OsString>) -> Option<PathBuf> {
    let home = named.map(PathBuf::from).filter(|it| it.is_absolute())?;
    std::fs::metadata(&home).map_or(true, |it| it.is_dir()).then_some(home)
}

/// A project's configuration directories, in ascending precedence.
const PROJECT_DIRECTORIES: [&str; 2] = [".claude", ".haft"];

/// A file that may contain settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SettingsCandidate {
    pub(crate) layer: SettingsLayer,
    pub(crate) path: PathBuf,
    pub(crate) base: PathBuf,
}

impl SettingsPaths {
    /// Detects all locations for a working directory. `variable` looks up an environment variable.
    ///
    /// `CLAUDE_CONFIG_DIR` or `HAFT_CONFIG_DIR` replaces all configuration of the home directory, unless
    /// it names the default directory. Haft's own directory is then `.haft` inside the former, or the
    /// latter.
    pub fn detect(cwd: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let directory = |name: &str| variable(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let home = home_directory(variable("HOME"));
        let (given_claude, given_haft) = (directory("CLAUDE_CONFIG_DIR"), directory("HAFT_CONFIG_DIR"));
        let in_home = |name: &str| home.as_ref().map(|home| home.join(name));
        let moved = |given: &Option<PathBuf>, name: &str| {
            given.clone().filter(|given| in_home(name).is_none_or(|usual| !is_same_directory(given, &usual)))
        };
        let (moved_claude, moved_haft) = (moved(&given_claude, ".claude"), moved(&given_haft, ".haft"));
        let claude_json = match (&given_claude, &moved_haft) {
            (Some(claude), _) => Some(claude.join(".claude.json")),
            (None, Some(_)) => None,
            (None, None) => in_home(".claude.json"),
        };
        let further_keys =
            moved_claude.as_ref().filter(|_| given_haft.is_none()).and_then(|_| in_home(".haft"));
        let haft = given_haft.or_else(|| match &moved_claude {
            Some(claude) => Some(claude.join(".haft")),
            None => in_home(".haft"),
        });
        let claude = given_claude.or_else(|| in_home(".claude").filter(|_| moved_haft.is_none()));
        let user: Vec<PathBuf> = claude.into_iter().chain(haft.clone()).collect();
        Self {
            project: project_of(cwd, home.as_deref()),
            cwd: cwd.to_owned(),
            user,
            state: haft,
            managed: vec![PathBuf::from("/etc/claude-code"), PathBuf::from("/etc/haft")],
            claude_json,
            in_home: [".claude", ".haft"].into_iter().filter_map(in_home).collect(),
            further_keys,
        }
    }

    /// Returns all directories with user settings, keys and trust, whether they are in use or not: no
    /// tool may change them.
    pub fn protected(&self) -> impl Iterator<Item = &PathBuf> {
        let counting = self.user.iter().chain(&self.state);
        counting.chain(
            self.in_home.iter().filter(|it| !self.user.contains(it) && self.state.as_ref() != Some(*it)),
        )
    }

    /// Returns the settings file Haft writes for a scope.
    pub(crate) fn written(&self, scope: SettingsScope) -> Option<PathBuf> {
        let project = self.project.join(".haft");
        match scope {
            SettingsScope::User => self.state.as_ref().map(|state| state.join("settings.json")),
            SettingsScope::Project => Some(project.join("settings.json")),
            SettingsScope::Local => Some(project.join("settings.local.json")),
        }
    }

    /// Returns every file that may contain settings, in ascending precedence.
    pub(crate) fn candidates(&self) -> Vec<SettingsCandidate> {
        let mut all: Vec<SettingsCandidate> = Vec::new();
        for directory in &self.user {
            let path = directory.join("settings.json");
            all.push(SettingsCandidate { layer: SettingsLayer::User, path, base: directory.clone() });
        }
        for (layer, file, base) in [
            (SettingsLayer::Project, "settings.json", &self.project),
            (SettingsLayer::Local, "settings.local.json", &self.cwd),
        ] {
            for directory in PROJECT_DIRECTORIES {
                let path = self.project.join(directory).join(file);
                // The home directory is not a project.
                if !all.iter().any(|it| is_same(&it.path, &path)) {
                    all.push(SettingsCandidate { layer, path, base: base.clone() });
                }
            }
        }
        for directory in &self.managed {
            let more = directory.join("managed-settings.d");
            let mut paths: Vec<PathBuf> = vec![directory.join("managed-settings.json")];
            let mut extra: Vec<PathBuf> =
                std::fs::read_dir(&more).into_iter().flatten().flatten().map(|it| it.path()).collect();
            extra.retain(|path| path.extension().is_some_and(|it| it == "json"));
            extra.sort();
            paths.append(&mut extra);
            let base = PathBuf::from("/");
            all.extend(paths.into_iter().map(|path| SettingsCandidate {
                layer: SettingsLayer::Managed,
                path,
                base: base.clone(),
            }));
        }
        all
    }

    /// Returns the file with the project's MCP servers.
    pub(crate) fn project_mcp(&self) -> PathBuf {
        self.project.join(".mcp.json")
    }

    /// Returns the file with the user's MCP servers, including those for a single project.
    pub(crate) fn user_mcp_file(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join("mcp.json"))
    }

    /// Returns the directories whose entries are the managed settings files.
    pub(crate) fn listed_directories(&self) -> impl Iterator<Item = PathBuf> {
        self.managed.iter().map(|it| it.join("managed-settings.d"))
    }
}

fn is_same_directory(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    a == b || real(a).is_some_and(|a| Some(a) == real(b))
}

fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| {
        let directory = path.parent().and_then(|it| std::fs::canonicalize(it).ok());
        directory.map(|directory| directory.join(path.file_name().unwrap_or_default()))
    };
    a == b || real(a).is_some_and(|a| Some(a) == real(b))
}

/// A settings file Haft may write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SettingsScope {
    User,
    /// `.haft/settings.json`, shared with all users of the project.
    Project,
    /// `.haft/settings.local.json`, for this user in this project.
    Local,
}

/// Returns the project root: the nearest ancestor of `cwd` with `.haft`, `.claude` or `.git`, else
/// `cwd`. Only checks whether these names exist, so a repository's content cannot redirect it. The
/// search stops below the home directory.
fn project_of(cwd: &Path, home: Option<&Path>) -> PathBuf {
    let marks = [".haft", ".claude", ".git"];
    let above = cwd.ancestors().take_while(|it| Some(*it) != home && it.parent().is_some());
    let found = above.into_iter().find(|it| marks.iter().any(|mark| it.join(mark).exists()));
    found.unwrap_or(cwd).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_moves_config_directories() {
        let detect = |pairs: &'static [(&str, &str)]| {
            let variable = move |name: &str| pairs.iter().find(|it| it.0 == name).map(|it| it.1.into());
            SettingsPaths::detect(Path::new("/nowhere/at/all"), &variable)
        };
        let plain = detect(&[("HOME", "/h")]);
        assert_eq!(plain.user, [Path::new("/h/.claude"), Path::new("/h/.haft")]);
        assert_eq!(plain.claude_json.as_deref(), Some(Path::new("/h/.claude.json")));
        let moved = detect(&[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c"), ("HAFT_CONFIG_DIR", "/x")]);
        assert_eq!(moved.user, [Path::new("/c"), Path::new("/x")]);
        assert_eq!(moved.state.as_deref(), Some(Path::new("/x")));
        assert_eq!(moved.further_keys, None);
        assert_eq!(detect(&[]).state, None);
        for none in [&[("HOME", "")], &[("HOME", "h")], &[("HOME", "./h")], &[("HOME", "/dev/null")]] {
            assert_eq!(detect(none).user, Vec::<PathBuf>::new());
        }
    }

    #[test]
    fn config_dir_variable_replaces_home_configuration() {
        let detect = |pairs: &'static [(&str, &str)]| {
            let variable = move |name: &str| match name {
                "HOME" => Some("/h".into()),
                name => pairs.iter().find(|it| it.0 == name).map(|it| it.1.into()),
            };
            SettingsPaths::detect(Path::new("/nowhere/at/all"), &variable)
        };
        const CLAUDE: &str = "CLAUDE_CONFIG_DIR";
        const HAFT: &str = "HAFT_CONFIG_DIR";
        for (pairs, user, state, json, keys) in [
            (&[][..], &["/h/.claude", "/h/.haft"][..], "/h/.haft", Some("/h/.claude.json"), None),
            (&[(CLAUDE, "/c")], &["/c", "/c/.haft"], "/c/.haft", Some("/c/.claude.json"), Some("/h/.haft")),
            (&[(HAFT, "/x")], &["/x"], "/x", None, None),
            // A variable that names the default directory changes nothing.
            (
                &[(CLAUDE, "/h/.claude/")],
                &["/h/.claude", "/h/.haft"],
                "/h/.haft",
                Some("/h/.claude/.claude.json"),
                None,
            ),
            (&[(HAFT, "/h/.haft")], &["/h/.claude", "/h/.haft"], "/h/.haft", Some("/h/.claude.json"), None),
            // The named directory is used.
            (
                &[(CLAUDE, "/h/.claude"), (HAFT, "/x")],
                &["/h/.claude", "/x"],
                "/x",
                Some("/h/.claude/.claude.json"),
                None,
            ),
            (
                &[(CLAUDE, "/c"), (HAFT, "/h/.haft")],
                &["/c", "/h/.haft"],
                "/h/.haft",
                Some("/c/.claude.json"),
                None,
            ),
            (
                &[(CLAUDE, ""), (HAFT, "")],
                &["/h/.claude", "/h/.haft"],
                "/h/.haft",
                Some("/h/.claude.json"),
                None,
            ),
        ] {
            let places = detect(pairs);
            assert_eq!(places.user, user.iter().map(PathBuf::from).collect::<Vec<_>>(), "{pairs:?}");
            assert_eq!(places.state, Some(PathBuf::from(state)), "{pairs:?}");
            assert_eq!(places.claude_json, json.map(PathBuf::from), "{pairs:?}");
            assert_eq!(places.further_keys, keys.map(PathBuf::from), "{pairs:?}");
            for dir in ["/h/.claude", "/h/.haft", state] {
                assert_eq!(
                    places.protected().filter(|it| *it == Path::new(dir)).count().min(1),
                    1,
                    "{pairs:?}"
                );
            }
        }
    }

    #[test]
    fn nearest_marker_is_project_and_home_is_not() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        for directory in ["repo/.git", "repo/a/b", "repo/inner/.claude/x", ".claude", "plain/deep"] {
            std::fs::create_dir_all(home.join(directory)).unwrap();
        }
        for (cwd, want) in [
            ("repo/a/b", "repo"),
            ("repo", "repo"),
            ("repo/inner", "repo/inner"),
            ("plain/deep", "plain/deep"),
            ("", ""),
        ] {
            assert_eq!(project_of(&home.join(cwd), Some(home)), home.join(want), "{cwd}");
        }
    }
}
