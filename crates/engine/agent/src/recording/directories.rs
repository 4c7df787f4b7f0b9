use std::path::{Path, PathBuf};

use serde_json::Value;

/// Directories that differ between runs. Recordings contain names instead of their paths.
#[derive(Clone, Debug, Default)]
pub struct RecordingDirs {
    /// Path and name, longest path first.
    named: Vec<(String, &'static str)>,
}

const CWD: &str = "‹cwd›";
const SESSION: &str = "‹session›";
const HOME: &str = "‹home›";

impl RecordingDirs {
    /// The directories of a run: working directory, directory of large results, home directory.
    pub fn new(cwd: &Path, session: Option<&Path>, home: Option<&Path>) -> Self {
        let mut named: Vec<(String, &'static str)> = [(Some(cwd), CWD), (session, SESSION), (home, HOME)]
            .into_iter()
            .filter_map(|(path, name)| Some((path?, name)))
            .flat_map(|(path, name)| {
                let real = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
                [(path.to_path_buf(), name), (real, name)]
            })
            .map(|(path, name)| (path.display().to_string(), name))
            .filter(|(path, _)| 1 < path.len())
            .collect();
        named.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        named.dedup();
        Self { named }
    }

    /// Replaces paths by names.
    pub(crate) fn to_names(&self, value: &mut Value) {
        each_text(value, &mut |text| {
            for (path, name) in &self.named {
                if text.contains(path.as_str()) {
                    *text = replaced(text, path, name);
                }
            }
        });
    }

    /// Replaces names by the paths of this run.
    pub(crate) fn to_paths(&self, value: &mut Value) {
        each_text(value, &mut |text| {
            if text.contains('‹') {
                for (path, name) in &self.named {
                    *text = text.replace(name, path);
                }
            }
        });
    }
}

pub(super) fn each_text(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_text(field, change)),
        _ => (),
    }
}

/// Replaces complete occurrences of a path, not prefixes of longer names.
fn replaced(text: &str, path: &str, name: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(path) {
        let (before, found) = rest.split_at(at);
        let after = &found[path.len()..];
        let goes_on = after.starts_with(|it: char| it.is_alphanumeric() || matches!(it, '_' | '-'));
        out.push_str(before);
        out.push_str(if goes_on { path } else { name });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_have_names_and_get_them_back() {
        let places = RecordingDirs::new(
            Path::new("/no/home/desk"),
            Some(Path::new("/no/home/.haft/sessions/1")),
            Some(Path::new("/no/home")),
        );
        let there = json!({"a": ["/no/home/desk/x.rs", "cd /no/home/desk", "/no/home/desktop", "/no/home/.haft/sessions/1/tool-results/a"]});
        let mut value = there.clone();
        places.to_names(&mut value);
        assert_eq!(
            value,
            json!({"a": ["‹cwd›/x.rs", "cd ‹cwd›", "‹home›/desktop", "‹session›/tool-results/a"]})
        );
        places.to_paths(&mut value);
        assert_eq!(value, there);
    }
}
