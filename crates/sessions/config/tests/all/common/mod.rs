//! A temporary home directory and project.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_config::{LoadOptions, LoadedSettings, SettingsNotice, SettingsPaths, SettingsStore};

pub struct World {
    pub directory: tempfile::TempDir,
    pub options: LoadOptions,
}

impl Default for World {
    fn default() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["home/.claude", "home/.haft", "project/.claude", "project/.haft", "etc"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        Self { directory, options: LoadOptions::default() }
    }
}

impl World {
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file in place, as an editor would.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn places(&self) -> SettingsPaths {
        SettingsPaths {
            user: vec![self.path("home/.claude"), self.path("home/.haft")],
            state: Some(self.path("home/.haft")),
            project: self.path("project"),
            cwd: self.path("project"),
            managed: vec![self.path("etc")],
            claude_json: Some(self.path("home/.claude.json")),
            ..SettingsPaths::default()
        }
    }

    pub fn store(&self) -> SettingsStore {
        SettingsStore::open(self.places(), self.options.clone())
    }

    pub fn load(&self) -> std::sync::Arc<LoadedSettings> {
        self.store().current()
    }
}

pub fn lines(notices: &[SettingsNotice]) -> Vec<String> {
    notices.iter().map(ToString::to_string).collect()
}

pub fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|it| it.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
