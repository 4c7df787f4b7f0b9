//! Detects that git waits for a signing program. Uses git's trace2 events, which report the programs git
//! starts and their exits.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    hash::{BuildHasher as _, RandomState},
    io::Read as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;

/// Maximum bytes of an event; longer lines are ignored.
const LONGEST: usize = 64 << 10;

/// Reads trace2 events while a command runs.
#[derive(Debug)]
pub(super) struct SignatureWatch {
    file: File,
    path: PathBuf,
    /// An incomplete line.
    rest: Vec<u8>,
    /// Running signing programs, by their parent and child id, and when each was first seen.
    signing: HashMap<(String, u64), Instant>,
}

impl SignatureWatch {
    /// Creates the event file in a directory; `None` if that fails.
    pub(super) fn in_directory(dir: &Path) -> Option<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let unique = RandomState::new().hash_one(std::process::id());
        let path = dir.join(format!("haft-git-{unique:016x}"));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path).ok()?;
        Some(Self { file, path, rest: Vec::new(), signing: HashMap::new() })
    }

    /// Returns the environment variables that make git write events.
    pub(super) fn variables(&self) -> [(String, String); 2] {
        [
            (String::from("GIT_TRACE2_EVENT"), self.path.display().to_string()),
            (String::from("GIT_TRACE2_EVENT_BRIEF"), String::from("1")),
        ]
    }

    /// Returns how long the oldest running signing program has been running; `None` if there is none.
    /// Reads a file.
    pub(super) fn waits(&mut self, now: Instant) -> Option<Duration> {
        let mut new = Vec::new();
        self.file.read_to_end(&mut new).ok()?;
        self.take(&new, now);
        self.signing.values().map(|since| now.saturating_duration_since(*since)).max()
    }

    fn take(&mut self, new: &[u8], now: Instant) {
        self.rest.extend_from_slice(new);
        let rest = std::mem::take(&mut self.rest);
        for line in rest.split_inclusive(|it| *it == b'\n') {
            if line.ends_with(b"\n") {
                self.note(line, now)
            } else if line.len() < LONGEST {
                self.rest = line.to_vec()
            }
        }
    }

    fn note(&mut self, line: &[u8], now: Instant) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
        let (Some(process), Some(child)) = (event["sid"].as_str(), event["child_id"].as_u64()) else {
            return;
        };
        let key = (process.to_owned(), child);
        match event["event"].as_str() {
            Some("child_start") if is_signer(&event) => drop(self.signing.insert(key, now)),
            Some("child_exit") => drop(self.signing.remove(&key)),
            _ => (),
        }
    }
}

impl Drop for SignatureWatch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

/// Whether the event starts a signing program (OpenPGP, X.509 or ssh), recognised by its arguments.
fn is_signer(event: &Value) -> bool {
    let words: Vec<&str> =
        event["argv"].as_array().into_iter().flatten().filter_map(Value::as_str).skip(1).collect();
    event["child_class"] != "hook" && (words.contains(&"-bsau") || words.starts_with(&["-Y", "sign"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_watch_waits_only_while_a_signer_runs() {
        let start = |id: u64, class: &str, argv: &str| {
            format!(
                "{{\"event\":\"child_start\",\"sid\":\"a\",\"child_id\":{id},\"child_class\":\"{class}\",\"argv\":{argv}}}\n"
            )
        };
        let exit = |id: u64| format!("{{\"event\":\"child_exit\",\"sid\":\"a\",\"child_id\":{id}}}\n");
        let gpg = "[\"/x/gpg\",\"--status-fd=2\",\"-bsau\",\"KEY\"]";
        let ssh = "[\"ssh-keygen\",\"-Y\",\"sign\",\"-n\",\"git\"]";
        for (name, said, waits) in [
            ("nothing", String::new(), false),
            ("a hook", start(0, "hook", "[\".git/hooks/pre-commit\"]"), false),
            ("a hook with its words", start(0, "hook", gpg), false),
            ("gpg", start(1, "?", gpg), true),
            ("ssh", start(1, "?", ssh), true),
            ("one that verifies", start(1, "?", "[\"ssh-keygen\",\"-Y\",\"verify\"]"), false),
            ("a done one", start(1, "?", gpg) + &exit(1), false),
            ("behind a hook", start(0, "hook", "[\"h\"]") + &exit(0) + &start(1, "?", gpg), true),
            ("the end of another", start(1, "?", gpg) + &exit(2), true),
            ("the second of two", start(1, "?", gpg) + &exit(1) + &start(2, "?", gpg), true),
            ("half a line", start(1, "?", gpg).trim_end().to_owned(), false),
            ("no JSON", String::from("{nonsense\n\n[]\n{\"event\":7}\n"), false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut watch = SignatureWatch::in_directory(dir.path()).unwrap();
            let began = Instant::now();
            // Events may arrive in arbitrary pieces.
            for piece in said.as_bytes().chunks(7) {
                std::io::Write::write_all(
                    &mut OpenOptions::new().append(true).open(&watch.path).unwrap(),
                    piece,
                )
                .unwrap();
                watch.waits(began);
            }
            let waited = watch.waits(began + Duration::from_secs(30));
            assert_eq!(waited.is_some_and(|it| Duration::from_secs(20) < it), waits, "{name}: {waited:?}");
            drop(watch);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{name}");
        }
    }
}
