//! Lists the known languages, their servers, and which ones a project uses.

use std::path::{Path, PathBuf};

use crate::{LANGUAGES, LspSettings, ProgramPath, ServedLanguage, ServerUnavailable};

/// Maximum directory entries read to find the project's languages.
const MAX_ENTRIES: usize = 2_000;
/// Maximum directory depth below the project root.
const DEPTH: usize = 2;
/// Directories with third-party or generated code.
const OF_OTHERS: [&str; 6] = ["node_modules", "target", "vendor", "dist", "build", "venv"];

/// A language and the availability of its server.
#[derive(Clone, Debug)]
pub struct LanguageStatus {
    pub language: &'static str,
    /// Whether the project has files of it near its root.
    pub in_project: bool,
    /// Name and path of the server, or why there is none.
    pub server: Result<(String, PathBuf), ServerUnavailable>,
}

impl ProgramPath {
    /// Surveys all known languages. Reads the disk, starts nothing.
    pub fn survey(&self, top: &Path, settings: &LspSettings) -> Vec<LanguageStatus> {
        let mut extensions = Vec::new();
        let mut left = MAX_ENTRIES;
        collect(top, DEPTH, &mut left, &mut extensions);
        let has = |it: &ServedLanguage| {
            it.roots.iter().any(|root| top.join(root).is_file())
                || it.extensions.iter().any(|(known, _)| extensions.iter().any(|it| it == known))
        };
        let about = |it: &ServedLanguage| {
            let extension = it.extensions.first().map_or("", |it| it.0);
            let plan = self.plan(&top.join(format!("x.{extension}")), top, settings);
            let server = plan.map(|plan| (plan.name, plan.program));
            LanguageStatus { language: it.name, in_project: has(it), server }
        };
        LANGUAGES.iter().map(about).collect()
    }
}

fn collect(dir: &Path, depth: usize, left: &mut usize, into: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let (name, kind) = (entry.file_name(), entry.file_type());
        let is_dir = kind.as_ref().is_ok_and(|it| it.is_dir());
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if is_dir && 0 < depth && !hidden && !OF_OTHERS.iter().any(|it| name == *it) {
            collect(&entry.path(), depth - 1, left, into);
        }
        let path = Path::new(&name);
        if let Some(extension) = path.extension().and_then(|it| it.to_str()).filter(|_| !is_dir)
            && !into.iter().any(|it| it == extension)
        {
            into.push(extension.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn survey_lists_project_languages_and_servers() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (bin, work) = (top.join("bin"), top.join("work"));
        for (path, text) in [
            ("bin/gopls", ""),
            ("work/cmd/tool/main.go", "package main"),
            ("work/a.py", ""),
            ("work/node_modules/x/y.rb", ""),
            ("work/.hidden/y.lua", ""),
        ] {
            std::fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
            std::fs::write(top.join(path), text).unwrap();
        }
        std::fs::set_permissions(bin.join("gopls"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let programs = ProgramPath { path: vec![bin.clone()], never: vec![work.clone()] };
        let found = programs.survey(&work, &LspSettings::default());
        let here: Vec<&str> = found.iter().filter(|it| it.in_project).map(|it| it.language).collect();
        assert_eq!(here, ["Python", "Go"]);
        let served: Vec<&str> = found.iter().filter(|it| it.server.is_ok()).map(|it| it.language).collect();
        assert_eq!(served, ["Go"]);
        let python = found.iter().find(|it| it.language == "Python").unwrap();
        assert!(
            matches!(&python.server, Err(ServerUnavailable::Missing { install, .. }) if install.contains("pip"))
        );
    }
}
