use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Map, Value};

use crate::{
    LoadOptions, LoadedSettings, PendingTrust, SettingsLayer, SettingsPaths, SettingsScope,
    SettingsSourceKind, SettingsText, UpdateError,
    json_file::JsonFile,
    last_good::LastGood,
    load::{load, trust_file},
    set_value::{self, SetError},
    setting_units::take_apart,
    settings_document::SettingsDocument,
    stable_read::{FileChangeCheck, FileFingerprint},
    trust::{TrustItem, add_items, folder_key, forget},
};

/// The settings of a session: loaded, reloaded after changes, and updated.
///
/// All methods do blocking disk I/O; asynchronous callers must run them on a blocking thread.
#[derive(Debug)]
pub struct SettingsStore {
    places: SettingsPaths,
    options: RwLock<LoadOptions>,
    current: RwLock<Arc<LoadedSettings>>,
    last_good: LastGood,
    /// The files that were read and their state at that time. The lock also serialises loading.
    watched: Mutex<Vec<(PathBuf, FileFingerprint)>>,
    /// Set when this process has changed a file since loading, so that several changes in a row are
    /// followed by a single reload.
    stale: AtomicBool,
}

impl SettingsStore {
    /// Loads the settings. Never fails; problems are part of the result.
    pub fn open(places: SettingsPaths, options: LoadOptions) -> Self {
        let last_good = LastGood::below(places.state.as_deref());
        let mut loaded = load(&places, &options, &last_good);
        let watched = Mutex::new(std::mem::take(&mut loaded.watched));
        let current = RwLock::new(Arc::new(loaded));
        Self {
            places,
            options: RwLock::new(options),
            current,
            last_good,
            watched,
            stale: AtomicBool::new(false),
        }
    }

    pub fn places(&self) -> &SettingsPaths {
        &self.places
    }

    /// Returns the effective settings; reloads them after an update by this process.
    pub fn current(&self) -> Arc<LoadedSettings> {
        if self.stale.load(Ordering::Acquire) {
            return self.reload();
        }
        self.as_read()
    }

    fn as_read(&self) -> Arc<LoadedSettings> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reloads the settings if a file has changed; `None` if none has. Costs one system call per file;
    /// call it whenever current settings matter.
    pub fn reload_if_changed(&self) -> Option<Arc<LoadedSettings>> {
        let mut watched = self.watched();
        let changed = self.stale.load(Ordering::Acquire) || have_changed(&mut watched);
        changed.then(|| self.read_again(&mut watched))
    }

    fn watched(&self) -> MutexGuard<'_, Vec<(PathBuf, FileFingerprint)>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the command line settings, as an SDK client may do, and reloads.
    pub fn set_options(&self, options: LoadOptions) -> Arc<LoadedSettings> {
        let mut watched = self.watched();
        *self.options.write().unwrap_or_else(PoisonError::into_inner) = options;
        self.read_again(&mut watched)
    }

    pub fn options(&self) -> LoadOptions {
        self.options.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read_again(&self, watched: &mut Vec<(PathBuf, FileFingerprint)>) -> Arc<LoadedSettings> {
        // Reset before reading, so that a change during reading sets it again.
        self.stale.store(false, Ordering::Release);
        let mut loaded = load(&self.places, &self.options(), &self.last_good);
        *watched = std::mem::take(&mut loaded.watched);
        let loaded = Arc::new(loaded);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&loaded);
        loaded
    }

    pub(crate) fn reload(&self) -> Arc<LoadedSettings> {
        self.read_again(&mut self.watched())
    }

    /// Changes one settings file. `change` edits the newest content as a value; text it does not touch
    /// stays byte for byte. On success the change is on disk, regardless of concurrent writers; on
    /// failure the file is unchanged.
    ///
    /// What is written into a project's file this way comes from the user and is trusted at once.
    pub fn update<T>(
        &self,
        scope: SettingsScope,
        change: impl FnOnce(&mut Map<String, Value>) -> T,
    ) -> Result<T, UpdateError> {
        let path = self.places.written(scope).ok_or(UpdateError::NoPlace)?;
        let (mode, inside, layer) = match scope {
            SettingsScope::User => (0o600, None, SettingsLayer::User),
            SettingsScope::Project => (0o644, Some(self.places.project.as_path()), SettingsLayer::Project),
            SettingsScope::Local => (0o600, Some(self.places.project.as_path()), SettingsLayer::Local),
        };
        let locks = self.locks();
        let file = JsonFile { path: &path, mode, inside, locks: locks.as_deref() };
        let updated = file.update(change)?;
        if layer.is_of_the_project() && updated.before != updated.after {
            let known = self.items(&path, layer, updated.before);
            let mut items = self.items(&path, layer, updated.after);
            items.retain(|it| !known.contains(it));
            // On failure the change stays and waits for approval, like one made by another person.
            let _pending = self.add_items(&items);
        }
        self.stale.store(true, Ordering::Release);
        Ok(updated.result)
    }

    /// Sets a setting by its dotted name; null removes it.
    pub fn set(&self, scope: SettingsScope, name: &str, value: &Value) -> Result<(), SetError> {
        let key = set_value::key_of(name).ok_or_else(|| SetError::Unknown(name.to_owned()))?;
        match key.shape.misfit(value).filter(|_| !value.is_null()) {
            Some(expected) => Err(SetError::Misfit { name: name.to_owned(), expected }),
            None => {
                self.update(scope, |it| set_value::set(it, name, value.clone())).map_err(SetError::Update)
            }
        }
    }

    /// Adds strings to a list such as `permissions.allow`; skips those already present.
    pub fn add_to_list(&self, scope: SettingsScope, name: &str, texts: &[String]) -> Result<(), UpdateError> {
        self.change_list(scope, name, |list| {
            for text in texts {
                if !list.iter().any(|it| it == text) {
                    list.push(text.as_str().into());
                }
            }
        })
    }

    /// Removes strings from a list.
    pub fn remove_from_list(
        &self,
        scope: SettingsScope,
        name: &str,
        texts: &[String],
    ) -> Result<(), UpdateError> {
        self.change_list(scope, name, |list| list.retain(|it| !texts.iter().any(|text| it == text)))
    }

    fn change_list(
        &self,
        scope: SettingsScope,
        name: &str,
        mut change: impl FnMut(&mut Vec<Value>),
    ) -> Result<(), UpdateError> {
        self.update(scope, |settings| set_value::list(settings, name, &mut change))
    }

    /// Trusts the pending items with exactly the content that was shown.
    pub fn trust(&self, pending: &PendingTrust) -> Result<Arc<LoadedSettings>, UpdateError> {
        let items: Vec<TrustItem> = pending.items.iter().map(|it| it.item.clone()).collect();
        let folder = folder_key(&pending.folder);
        self.update_trust(|file| add_items(file, &folder, &items))?;
        Ok(self.reload())
    }

    /// Revokes all trust in the project.
    pub fn revoke_trust(&self) -> Result<Arc<LoadedSettings>, UpdateError> {
        let folder = folder_key(&self.real_project());
        self.update_trust(|file| forget(file, &folder))?;
        Ok(self.reload())
    }

    pub(crate) fn add_items(&self, items: &[TrustItem]) -> Result<(), UpdateError> {
        if items.is_empty() {
            return Ok(());
        }
        let folder = folder_key(&self.real_project());
        self.update_trust(|file| add_items(file, &folder, items))
    }

    fn update_trust(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), UpdateError> {
        let path = trust_file(&self.places).ok_or(UpdateError::NoPlace)?;
        let locks = self.locks();
        let file = JsonFile { path: &path, mode: 0o600, inside: None, locks: locks.as_deref() };
        file.update(change).map(|_| ())
    }

    /// Changes a JSON file in Haft's own directory, with the guarantees of [`update`](Self::update). A
    /// new file is readable by its owner only.
    pub fn update_own_file<T>(
        &self,
        inside: &Path,
        change: impl FnOnce(&mut Map<String, Value>) -> T,
    ) -> Result<T, UpdateError> {
        let path = self.places.state.as_ref().ok_or(UpdateError::NoPlace)?.join(inside);
        let locks = self.locks();
        let file = JsonFile { path: &path, mode: 0o600, inside: None, locks: locks.as_deref() };
        file.update(change).map(|it| it.result)
    }

    pub(crate) fn locks(&self) -> Option<PathBuf> {
        self.places.state.as_ref().map(|state| state.join("locks"))
    }

    pub(crate) fn real_project(&self) -> PathBuf {
        std::fs::canonicalize(&self.places.project).unwrap_or_else(|_| self.places.project.clone())
    }

    /// Returns the items of a project's file that need trust.
    fn items(&self, path: &Path, layer: SettingsLayer, value: Map<String, Value>) -> Vec<TrustItem> {
        let text: Arc<str> = Value::Object(value.clone()).to_string().into();
        let base = self.places.project.clone();
        let place = SettingsSourceKind::File(path.to_owned());
        let source = SettingsText::new(layer, place, base, Arc::clone(&text));
        let findings = take_apart(&SettingsDocument { text, value }, &source);
        let project = self.real_project();
        findings.units.iter().map(|unit| TrustItem::from_unit(unit, &project).0).collect()
    }
}

/// Whether any file has changed. Updates fingerprints that have become cheaper to compare.
fn have_changed(watched: &mut [(PathBuf, FileFingerprint)]) -> bool {
    for (path, print) in watched {
        match print.look(path) {
            FileChangeCheck::Changed => return true,
            FileChangeCheck::Same => (),
            FileChangeCheck::Settled(settled) => *print = settled,
        }
    }
    false
}
