//! Loads all settings files and flags.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};

use crate::{
    McpScope, PendingTrust, Settings, SettingsLayer, SettingsNotice, SettingsPaths, SettingsSourceKind,
    SettingsText, TrustMode,
    last_good::LastGood,
    mcp_servers,
    setting_units::take_apart,
    settings::EffectiveUnit,
    settings_document::SettingsDocument,
    settings_paths::SettingsCandidate,
    stable_read::{FileFingerprint, LARGEST, ReadError, read},
    trust::{AdmittedSettings, TrustList, admit, folder_key},
};

/// Which layers are loaded, and settings from the command line.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Which of the user, project and local files are read.
    pub layers: Vec<SettingsLayer>,
    /// Settings from the command line, in ascending precedence.
    pub arguments: Vec<FlagSettings>,
    /// Whether untrusted project settings wait for the user's approval.
    pub trust: TrustMode,
}

impl Default for LoadOptions {
    fn default() -> Self {
        let layers = vec![SettingsLayer::User, SettingsLayer::Project, SettingsLayer::Local];
        Self { layers, arguments: Vec::new(), trust: TrustMode::Ask }
    }
}

/// A command line argument that contains settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FlagSettings {
    /// Name of the argument, for messages.
    pub name: String,
    /// Precedence: [`SettingsLayer::Flag`] or [`SettingsLayer::Managed`].
    pub layer: SettingsLayer,
    pub content: FlagContent,
}

/// Content of an argument.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FlagContent {
    /// JSON text.
    Json(String),
    /// Path of a JSON file.
    File(PathBuf),
}

impl FlagSettings {
    /// The value of `--settings`: JSON if it starts with a brace, else a path relative to `cwd`.
    pub fn settings(value: &str, cwd: &Path) -> Self {
        Self {
            name: "--settings".to_owned(),
            layer: SettingsLayer::Flag,
            content: FlagContent::parse(value, cwd),
        }
    }

    /// Settings that come from individual flags.
    pub fn flags(values: &Map<String, Value>) -> Self {
        let json = Value::Object(values.clone()).to_string();
        let content = FlagContent::Json(json);
        Self { name: "the command line".to_owned(), layer: SettingsLayer::Flag, content }
    }

    /// The value of `--managed-settings`.
    pub fn managed(json: &str) -> Self {
        let content = FlagContent::Json(json.to_owned());
        Self { name: "--managed-settings".to_owned(), layer: SettingsLayer::Managed, content }
    }
}

impl FlagContent {
    fn parse(value: &str, cwd: &Path) -> Self {
        if value.trim_start().starts_with('{') {
            Self::Json(value.to_owned())
        } else {
            Self::File(cwd.join(value))
        }
    }
}

/// Result of loading.
#[derive(Clone, Debug, Default)]
pub struct LoadedSettings {
    /// The merged settings of all layers.
    pub settings: Settings,
    /// Harmless findings: unknown keys, duplicate keys.
    pub warnings: Vec<SettingsNotice>,
    /// Errors the user should fix: texts that cannot be parsed, values that are ignored.
    pub problems: Vec<SettingsNotice>,
    /// Keys of these texts that other programs use and Haft ignores; the message of each notice is the
    /// key's name.
    pub without_effect: Vec<SettingsNotice>,
    /// Project settings that need the user's approval.
    pub pending_trust: Option<PendingTrust>,
    pub(crate) watched: Vec<(PathBuf, FileFingerprint)>,
}

/// Returns the file that stores trust decisions.
pub(crate) fn trust_file(places: &SettingsPaths) -> Option<PathBuf> {
    places.state.as_ref().map(|state| state.join("trust.json"))
}

/// Maximum bytes read of another program's file, which may contain a long history.
const MAX_FOREIGN_BYTES: u64 = 64 * 1024 * 1024;

/// Reads and merges all settings. Blocks.
pub(crate) fn load(places: &SettingsPaths, options: &LoadOptions, last_good: &LastGood) -> LoadedSettings {
    let folder = std::fs::canonicalize(&places.project).unwrap_or_else(|_| places.project.clone());
    let mut loader = Loader {
        places,
        options,
        last_good,
        folder,
        trust: TrustList::default(),
        loaded: LoadedSettings::default(),
        speeches: Vec::new(),
        pending: Vec::new(),
    };
    loader.read_trust();
    let mut texts = loader.read_files();
    texts.extend(loader.read_arguments());
    // A stable sort: files are in ascending precedence, arguments go between them.
    texts.sort_by_key(|(source, _)| source.layer);
    for (source, document) in texts {
        loader.speak(source, &document);
    }
    let servers = loader.servers();
    loader.finish(servers)
}

struct Loader<'a> {
    places: &'a SettingsPaths,
    options: &'a LoadOptions,
    last_good: &'a LastGood,
    folder: PathBuf,
    trust: TrustList,
    loaded: LoadedSettings,
    speeches: Vec<EffectiveUnit>,
    pending: Vec<crate::PendingItem>,
}

impl Loader<'_> {
    fn read_trust(&mut self) {
        let Some(path) = trust_file(self.places) else { return };
        let (document, _) = self.read_file(&path, LARGEST, Fallback::NoTrust);
        let file = document.map(|it| it.value).unwrap_or_default();
        self.trust = TrustList::read(&file, &folder_key(&self.folder));
    }

    fn read_files(&mut self) -> Vec<(Arc<SettingsText>, SettingsDocument)> {
        for directory in self.places.listed_directories() {
            self.loaded.watched.push((directory.clone(), FileFingerprint::at(&directory)));
        }
        let wanted = |it: &SettingsCandidate| {
            it.layer == SettingsLayer::Managed || self.options.layers.contains(&it.layer)
        };
        let candidates: Vec<SettingsCandidate> =
            self.places.candidates().into_iter().filter(wanted).collect();
        let mut texts = Vec::new();
        for SettingsCandidate { layer, path, base } in candidates {
            if let (Some(document), _) = self.read_file(&path, LARGEST, Fallback::LastGood) {
                let place = SettingsSourceKind::File(path);
                let source = SettingsText::new(layer, place, base, Arc::clone(&document.text));
                texts.push((Arc::new(source), document));
            }
        }
        texts
    }

    fn read_arguments(&mut self) -> Vec<(Arc<SettingsText>, SettingsDocument)> {
        let mut texts = Vec::new();
        for argument in &self.options.arguments {
            let (place, document) = match &argument.content {
                FlagContent::File(path) => {
                    let (document, state) = self.read_file(path, LARGEST, Fallback::LastGood);
                    if state == LoadedFileState::Absent {
                        self.problem(
                            SettingsSourceKind::File(path.clone()),
                            None,
                            format!("{}: there is no such file", argument.name),
                        );
                    }
                    (SettingsSourceKind::File(path.clone()), document)
                }
                FlagContent::Json(json) => {
                    let place = SettingsSourceKind::Argument(argument.name.clone());
                    let document = match SettingsDocument::parse(json.as_bytes()) {
                        Ok(document) => Some(document),
                        Err(broken) => {
                            self.problem(place.clone(), Some(broken.position), broken.message);
                            None
                        }
                    };
                    (place, document)
                }
            };
            if let Some(document) = document {
                let (layer, base) = (argument.layer, self.places.cwd.clone());
                let source = SettingsText::new(layer, place, base, Arc::clone(&document.text));
                texts.push((Arc::new(source), document));
            }
        }
        texts
    }

    fn problem(&mut self, place: SettingsSourceKind, position: Option<(usize, usize)>, message: String) {
        self.loaded.problems.push(SettingsNotice { place, position, message });
    }

    /// Reads a file; uses `fallback` if it cannot be parsed.
    fn read_file(
        &mut self,
        path: &Path,
        largest: u64,
        fallback: Fallback,
    ) -> (Option<SettingsDocument>, LoadedFileState) {
        let (parsed, print) = match read(path, largest) {
            Ok(contents) => {
                let parsed = SettingsDocument::parse(&contents.bytes);
                if let (Ok(_), Fallback::LastGood) = (&parsed, fallback) {
                    self.last_good.keep(path, &contents.bytes);
                }
                (parsed.map_err(|broken| (Some(broken.position), broken.message)), contents.print)
            }
            Err(ReadError::Absent) => {
                self.loaded.watched.push((path.to_owned(), FileFingerprint::Absent));
                self.last_good.forget(path);
                return (None, LoadedFileState::Absent);
            }
            Err(ReadError::NotAFile) => {
                (Err((None, "this is not a regular file".to_owned())), FileFingerprint::at(path))
            }
            Err(ReadError::TooLarge(size)) => {
                let limit = largest / (1024 * 1024);
                (Err((None, format!("{size} bytes are more than {limit} MiB"))), FileFingerprint::at(path))
            }
            Err(ReadError::Failed(error)) => (Err((None, error.to_string())), FileFingerprint::at(path)),
        };
        self.loaded.watched.push((path.to_owned(), print));
        match parsed {
            Ok(document) => (Some(document), LoadedFileState::Good),
            Err((position, message)) => {
                let good = match fallback {
                    Fallback::LastGood => self.last_good.of(path),
                    Fallback::Nothing | Fallback::NoTrust => None,
                };
                let counts = match (&good, fallback) {
                    (Some(_), _) => "the last good version of this file counts until it is repaired",
                    (None, Fallback::LastGood | Fallback::Nothing) => {
                        "nothing in this file counts until it is repaired"
                    }
                    (None, Fallback::NoTrust) => "nothing is trusted until it is repaired",
                };
                self.problem(
                    SettingsSourceKind::File(path.to_owned()),
                    position,
                    format!("{message}; {counts}"),
                );
                (good, LoadedFileState::Broken)
            }
        }
    }

    /// Splits a text into units and adds those that take effect.
    fn speak(&mut self, source: Arc<SettingsText>, document: &SettingsDocument) {
        let findings = take_apart(document, &source);
        self.loaded.warnings.extend(findings.warnings);
        self.loaded.problems.extend(findings.problems);
        self.loaded.without_effect.extend(findings.without_effect);
        let units = if source.layer.is_of_the_project() {
            self.admit(findings.units, &source, document)
        } else {
            findings.units
        };
        self.speeches.push(EffectiveUnit { source, units });
    }

    fn admit(
        &mut self,
        units: Vec<crate::setting_units::SettingUnit>,
        source: &Arc<SettingsText>,
        document: &SettingsDocument,
    ) -> Vec<crate::setting_units::SettingUnit> {
        let AdmittedSettings { units, pending, refused, scripts } =
            admit(units, source, &self.trust, &self.folder, self.options.trust);
        for (name, pointer) in refused {
            let message = format!("{name} cannot be set like this by a project; it does not count");
            self.problem(source.place.clone(), document.position(&pointer), message);
        }
        self.loaded.watched.extend(scripts);
        self.pending.extend(pending);
        units
    }

    /// Returns the MCP servers of user and project.
    fn servers(&mut self) -> Vec<crate::McpServer> {
        let mut servers = Vec::new();
        let own = self.places.user_mcp_file();
        let people: Vec<PathBuf> = self.places.claude_json.iter().cloned().chain(own).collect();
        let mut local = Vec::new();
        if self.options.layers.contains(&SettingsLayer::User) {
            for path in people {
                let Some((source, document)) = self.server_file(&path, SettingsLayer::User) else {
                    continue;
                };
                mcp_servers::add(
                    &mut servers,
                    mcp_servers::units(&document.value, ""),
                    McpScope::User,
                    &source,
                );
                let project = folder_key(&self.folder);
                let here = document.value.get("projects").and_then(|it| it.get(&project)?.as_object());
                if let Some(here) = here {
                    let at = format!("/projects{}", crate::json_spans::step(&project));
                    local.push((mcp_servers::units(here, &at), source));
                }
            }
        }
        if self.options.layers.contains(&SettingsLayer::Project)
            && let Some((source, document)) =
                self.server_file(&self.places.project_mcp(), SettingsLayer::Project)
        {
            let units = self.admit(mcp_servers::units(&document.value, ""), &source, &document);
            mcp_servers::add(&mut servers, units, McpScope::Project, &source);
        }
        for (units, source) in local {
            mcp_servers::add(&mut servers, units, McpScope::Local, &source);
        }
        servers
    }

    fn server_file(
        &mut self,
        path: &Path,
        layer: SettingsLayer,
    ) -> Option<(Arc<SettingsText>, SettingsDocument)> {
        let (largest, fallback) = if self.places.claude_json.as_deref() == Some(path) {
            (MAX_FOREIGN_BYTES, Fallback::Nothing)
        } else {
            (LARGEST, Fallback::LastGood)
        };
        let (document, _) = self.read_file(path, largest, fallback);
        let document = document?;
        let (place, base) = (SettingsSourceKind::File(path.to_owned()), self.places.project.clone());
        let source = SettingsText::new(layer, place, base, Arc::clone(&document.text));
        self.loaded.problems.extend(mcp_servers::problems(&document, &source));
        Some((Arc::new(source), document))
    }

    fn finish(mut self, servers: Vec<crate::McpServer>) -> LoadedSettings {
        self.loaded.settings = Settings::from_units(&self.speeches, servers);
        if !self.pending.is_empty() {
            self.loaded.pending_trust = Some(PendingTrust { folder: self.folder, items: self.pending });
        }
        self.loaded
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fallback {
    /// Use the last valid version.
    LastGood,
    /// Treat the file as empty. Copies of other programs' files are not stored, because they may contain
    /// secrets.
    Nothing,
    /// Treat the file as empty, so that nothing is trusted.
    NoTrust,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LoadedFileState {
    Good,
    Broken,
    Absent,
}
