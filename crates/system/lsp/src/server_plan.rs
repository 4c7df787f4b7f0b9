//! Which program serves a file, and from which root. Looks at the disk, starts
//! nothing.

use std::{
    collections::BTreeMap,
    fmt,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    lsp_settings::{ConfiguredServer, LspSettings},
    server_table::{KnownLspServer, ServedLanguage, ServerNeeds, language_of},
};

/// How long a server may take until it is there.
const STARTUP: Duration = Duration::from_secs(45);

/// A server that can be started for a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerPlan {
    /// What it is called.
    pub name: String,
    /// The program, by its whole path.
    pub program: PathBuf,
    /// Its words.
    pub args: Vec<String>,
    /// Where it starts, and what it looks at.
    pub root: PathBuf,
    /// What it calls the file.
    pub language: String,
    /// Variables on top of the session's.
    pub env: BTreeMap<String, String>,
    /// What it is told at its start.
    pub initialization_options: Value,
    /// What it is told when it asks for its settings.
    pub settings: Value,
    /// How long it may take until it is there.
    pub startup: Duration,
    /// How often within five minutes it may end before it is left alone.
    pub most_ends: u32,
}

/// What tells servers apart.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ServerKey {
    /// The program and its words.
    pub line: String,
    /// Its root.
    pub root: PathBuf,
    /// What holds it, in the words of whoever launches it.
    pub held: String,
}

impl ServerPlan {
    /// The command line, for people and rules.
    pub fn line(&self) -> String {
        let words = std::iter::once(self.program.to_string_lossy().into_owned()).chain(self.args.clone());
        words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
    }

    /// What tells it apart from others.
    pub fn key(&self, held: &str) -> ServerKey {
        let line = format!("{} {:?} {}", self.line(), self.env, self.initialization_options);
        ServerKey { line, root: self.root.clone(), held: held.to_owned() }
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_./=:@+,".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Why no server can be started for a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ServerUnavailable {
    /// Nobody knows a server for such files.
    Unknown {
        /// The extension.
        extension: String,
    },
    /// None of the known ones is there.
    Missing {
        /// The language.
        language: String,
        /// The programs that were looked for.
        tried: Vec<String>,
        /// How people get one.
        install: String,
    },
    /// Settings want none of them.
    Disabled {
        /// The language.
        language: String,
    },
}

impl fmt::Display for ServerUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { extension } if extension.is_empty() => {
                f.write_str("no language server is known for files without an extension")
            }
            Self::Unknown { extension } => write!(
                f,
                "no language server is known for .{extension} files; settings can name one (lsp.servers). Use Grep or Search instead"
            ),
            Self::Missing { language, tried, install } => write!(
                f,
                "there is no language server for {language} on the PATH (looked for {}). The person can install one: {install}. \
                 It is found without a restart; until then use Grep or Search",
                tried.join(", ")
            ),
            Self::Disabled { language } => {
                write!(
                    f,
                    "settings want no language server for {language} (lsp.disabled); use Grep or Search"
                )
            }
        }
    }
}

/// Where programs are looked for.
#[derive(Clone, Debug, Default)]
pub struct ProgramPath {
    /// Directories, the first first.
    pub path: Vec<PathBuf>,
    /// Directories whose programs are never run: those of the project itself.
    pub never: Vec<PathBuf>,
}

impl ProgramPath {
    /// A program by its name; one by its path only where settings name it.
    fn find(&self, name: &str) -> Option<PathBuf> {
        let dirs = self.path.iter().filter(|dir| dir.is_absolute());
        dirs.map(|dir| dir.join(name)).find(|file| {
            let real = file.canonicalize().unwrap_or_else(|_| file.clone());
            is_program(file) && !self.never.iter().any(|it| real.starts_with(it) || file.starts_with(it))
        })
    }

    /// The plan for a file: servers of settings first, then those of the table.
    /// Roots are looked for no higher than `top`, where the file is below it.
    pub fn plan(
        &self,
        file: &Path,
        top: &Path,
        settings: &LspSettings,
    ) -> Result<ServerPlan, ServerUnavailable> {
        let extension = file.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let known = language_of(extension);
        let mut tried = Vec::new();
        for server in settings.servers.iter().filter(|it| !settings.is_disabled(&it.name)) {
            // One that has the name of a known server serves what that one does.
            let same = known.filter(|(language, _)| {
                server.extension_to_language.is_empty()
                    && language
                        .servers
                        .iter()
                        .any(|it| server.name == it.program || server.command == it.program)
            });
            let language = server.language(extension).or_else(|| same.map(|it| it.1.to_owned()));
            let Some(language) = language else { continue };
            match self.named(&server.command) {
                Some(program) => {
                    let markers = same.map(|it| it.0.roots).unwrap_or_default();
                    return Ok(configured(server, program, language, root(file, top, server, markers)));
                }
                None => tried.push(server.command.clone()),
            }
        }
        let Some((language, id)) = known else {
            return Err(if tried.is_empty() {
                ServerUnavailable::Unknown { extension: extension.to_owned() }
            } else {
                ServerUnavailable::Missing {
                    language: format!(".{extension} files"),
                    tried,
                    install: String::from("see lsp.servers in the settings"),
                }
            });
        };
        self.plan_of_table(file, top, settings, language, id, tried)
    }

    fn plan_of_table(
        &self,
        file: &Path,
        top: &Path,
        settings: &LspSettings,
        language: &ServedLanguage,
        id: &str,
        mut tried: Vec<String>,
    ) -> Result<ServerPlan, ServerUnavailable> {
        let root = match language.name {
            "Rust" => cargo_root(file, top).unwrap_or_else(|| nearest(file, top, language.roots)),
            _ => nearest(file, top, language.roots),
        };
        let wanted: Vec<&KnownLspServer> =
            language.servers.iter().filter(|it| !settings.is_disabled(it.program)).collect();
        if wanted.is_empty() && tried.is_empty() {
            return Err(ServerUnavailable::Disabled { language: language.name.to_owned() });
        }
        for server in wanted {
            match self.find(server.program).filter(|program| fits(server.needs, program, &root)) {
                Some(program) => return Ok(of_table(server, program, root, id)),
                None => tried.push(server.program.to_owned()),
            }
        }
        Err(ServerUnavailable::Missing {
            language: language.name.to_owned(),
            tried,
            install: language.install.to_owned(),
        })
    }

    /// A command of settings, which may be a path.
    fn named(&self, command: &str) -> Option<PathBuf> {
        let path = Path::new(command);
        if path.is_absolute() { is_program(path).then(|| path.to_owned()) } else { self.find(command) }
    }
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

fn of_table(server: &KnownLspServer, program: PathBuf, root: PathBuf, id: &str) -> ServerPlan {
    ServerPlan {
        name: match server.needs {
            ServerNeeds::TypeScriptFrom(_) => String::from("typescript"),
            _ => server.program.to_owned(),
        },
        program,
        args: server.args.iter().map(|it| (*it).to_owned()).collect(),
        root,
        language: id.to_owned(),
        env: BTreeMap::new(),
        initialization_options: usual_options(server.program),
        settings: Value::Null,
        startup: STARTUP,
        most_ends: 3,
    }
}

/// What a server is told at its start where settings say nothing. The checker
/// of Rust would hold the lock of the person's own builds.
fn usual_options(program: &str) -> Value {
    match program {
        "rust-analyzer" => json!({"checkOnSave": false, "cachePriming": {"enable": false}}),
        _ => Value::Null,
    }
}

fn configured(server: &ConfiguredServer, program: PathBuf, language: String, root: PathBuf) -> ServerPlan {
    let options = match &server.initialization_options {
        Value::Null => program.file_name().and_then(|it| it.to_str()).map(usual_options).unwrap_or_default(),
        said => said.clone(),
    };
    let restarts = match server.restart_on_crash {
        Some(false) => 0,
        _ => server.max_restarts.unwrap_or(2),
    };
    ServerPlan {
        name: server.name.clone(),
        program,
        args: server.args.clone(),
        root,
        language,
        env: server.env.clone(),
        initialization_options: options,
        settings: server.settings.clone(),
        startup: server.startup().unwrap_or(STARTUP),
        most_ends: restarts.saturating_add(1),
    }
}

fn root(file: &Path, top: &Path, server: &ConfiguredServer, markers: &[&str]) -> PathBuf {
    if let Some(folder) = &server.workspace_folder {
        return top.join(folder);
    }
    if server.root_markers.is_empty() {
        nearest(file, top, markers)
    } else {
        nearest(file, top, &server.root_markers.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The directories above a file, no higher than `top` where it is below that.
fn above<'a>(file: &'a Path, top: &'a Path) -> impl Iterator<Item = &'a Path> {
    let inside = file.starts_with(top);
    file.ancestors().skip(1).take_while(move |dir| !inside || dir.starts_with(top))
}

/// The nearest directory above a file that holds one of these; else `top`, or
/// where the file is.
fn nearest(file: &Path, top: &Path, markers: &[&str]) -> PathBuf {
    let found = above(file, top).find(|dir| markers.iter().any(|it| dir.join(it).is_file()));
    found.map_or_else(|| fallback(file, top), Path::to_owned)
}

fn fallback(file: &Path, top: &Path) -> PathBuf {
    if file.starts_with(top) { top.to_owned() } else { file.parent().unwrap_or(top).to_owned() }
}

/// The workspace of a crate, or the crate itself.
fn cargo_root(file: &Path, top: &Path) -> Option<PathBuf> {
    let crates: Vec<&Path> = above(file, top).filter(|dir| dir.join("Cargo.toml").is_file()).collect();
    let is_workspace = |dir: &&&Path| {
        let text = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
        text.lines().any(|line| line.trim_start().starts_with("[workspace"))
    };
    let found = crates.iter().find(is_workspace).or(crates.first());
    found.map(|dir| dir.to_path_buf())
}

fn fits(needs: ServerNeeds, program: &Path, root: &Path) -> bool {
    match needs {
        ServerNeeds::Nothing => true,
        ServerNeeds::RootFile(names) => names.iter().any(|it| root.join(it).is_file()),
        ServerNeeds::TypeScriptFrom(version) => typescript_version(program).is_some_and(|it| version <= it),
    }
}

/// The first number of the version of the TypeScript a program belongs to.
fn typescript_version(program: &Path) -> Option<u32> {
    let real = program.canonicalize().ok()?;
    let package = real.ancestors().skip(1).take(4).find_map(|dir| {
        let text = std::fs::read_to_string(dir.join("package.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()
    })?;
    package.get("version")?.as_str()?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(dir: &Path, name: &str) {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::write(dir.join(name), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn which_server_and_where() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (bin, work) = (top.join("bin"), top.join("work"));
        program(&bin, "rust-analyzer");
        program(&bin, "pylsp");
        program(&work.join("node_modules/.bin"), "typescript-language-server");
        let member = file(&work, "crates/a/src/lib.rs", "");
        file(&work, "crates/a/Cargo.toml", "[package]\n");
        file(&work, "Cargo.toml", "[workspace]\n");
        let python = file(&work, "py/x/y.py", "");
        file(&work, "py/pyproject.toml", "");
        let programs = ProgramPath {
            path: vec![work.join("node_modules/.bin"), bin.clone()],
            never: vec![work.clone()],
        };
        let settings = LspSettings::default();
        let plan = programs.plan(&member, &work, &settings).unwrap();
        assert_eq!((plan.root, plan.name.as_str()), (work.clone(), "rust-analyzer"));
        let plan = programs.plan(&python, &work, &settings).unwrap();
        assert_eq!((plan.root, plan.name.as_str()), (work.join("py"), "pylsp"));
        // A program of the project itself is never taken.
        let missing = programs.plan(&work.join("a.ts"), &work, &settings).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "there is no language server for TypeScript and JavaScript on the PATH (looked for deno, tsc, \
             typescript-language-server, vtsls). The person can install one: npm install -g typescript@7, or npm install \
             -g typescript-language-server typescript@5. It is found without a restart; until then use Grep or Search"
        );
        program(&bin, "typescript-language-server");
        assert!(programs.plan(&work.join("a.ts"), &work, &settings).is_ok());
        let unknown = programs.plan(&work.join("a.xyz"), &work, &settings).unwrap_err();
        assert!(unknown.to_string().starts_with("no language server is known for .xyz files"));
        let disabled =
            LspSettings { disabled: vec![String::from("rust-analyzer")], ..LspSettings::default() };
        assert!(matches!(programs.plan(&member, &work, &disabled), Err(ServerUnavailable::Disabled { .. })));
    }

    #[test]
    fn settings_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (bin, work) = (top.join("bin"), top.join("work"));
        program(&bin, "rust-analyzer");
        program(&bin, "mine");
        let source = file(&work, "deep/src/lib.rs", "");
        file(&work, "deep/mark", "");
        let programs = ProgramPath { path: vec![bin.clone()], never: vec![work.clone()] };
        let mut settings = LspSettings::default();
        let said = json!({"own": {"command": bin.join("mine"), "args": ["a b"], "extensionToLanguage": {".rs": "rusty"},
            "rootMarkers": ["mark"], "startupTimeout": 5, "maxRestarts": 0, "initializationOptions": {"a": 1}}});
        assert_eq!(settings.read_servers(&said), Vec::<String>::new());
        let plan = programs.plan(&source, &work, &settings).unwrap();
        assert_eq!(plan.line(), format!("{} 'a b'", bin.join("mine").display()));
        assert_eq!((plan.language.as_str(), plan.root.clone()), ("rusty", work.join("deep")));
        assert_eq!((plan.startup, plan.most_ends), (Duration::from_millis(5), 1));
        assert_ne!(plan.key(""), ServerPlan { root: work.clone(), ..plan.clone() }.key(""));
        assert_ne!(plan.key(""), plan.key("walls"));
        // The name of a known server with other options.
        let mut settings = LspSettings::default();
        settings.read_servers(&json!({"rust-analyzer": {"command": "rust-analyzer", "initializationOptions": {"checkOnSave": true}}}));
        let plan = programs.plan(&source, &work, &settings).unwrap();
        assert_eq!(plan.initialization_options, json!({"checkOnSave": true}));
        assert_eq!(plan.language, "rust");
    }

    #[test]
    fn typescript_is_its_own_server_from_seven_on() {
        for (version, want) in [("7.0.2", true), ("5.9.3", false)] {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().canonicalize().unwrap();
            let package = top.join("lib/typescript");
            program(&package.join("bin"), "tsc");
            file(&package, "package.json", &format!("{{\"version\": \"{version}\"}}"));
            let bin = top.join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            std::os::unix::fs::symlink(package.join("bin/tsc"), bin.join("tsc")).unwrap();
            let programs = ProgramPath { path: vec![bin], never: Vec::new() };
            let plan = programs.plan(&top.join("w/a.ts"), &top.join("w"), &LspSettings::default());
            assert_eq!(plan.is_ok(), want, "{version}");
        }
    }
}
