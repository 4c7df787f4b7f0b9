//! Finds out which process holds a git lock.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Explains git's error about a lock file and what to do. Never removes the lock.
pub(super) async fn explained(said: &str) -> String {
    let lock = said.split('\'').find(|it| it.ends_with(".lock")).map(PathBuf::from);
    let Some(lock) = lock else {
        return String::from("Another git works in this repository and holds a lock. Wait until it is done.");
    };
    let about = tokio::task::spawn_blocking(move || about(&lock)).await;
    about.unwrap_or_else(|_| String::from("Another git works in this repository and holds a lock."))
}

fn about(lock: &Path) -> String {
    let shown = lock.display();
    let holders = holders(lock);
    if !holders.is_empty() {
        return format!(
            "Another git works in this repository and holds a lock ({}). Wait until it is done, then try again.",
            holders.join(", ")
        );
    }
    let age = fs::metadata(lock).and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
    match age {
        None => String::from("Another git held a lock, which is gone now. Try again."),
        Some(age) => format!(
            "Another git holds a lock, {shown}, {} old, and no process is seen that has it open: one may work elsewhere, \
             or was killed. If surely none runs, the person may remove the file.",
            words(age)
        ),
    }
}

fn words(age: Duration) -> String {
    match age.as_secs() {
        0..=119 => format!("{} s", age.as_secs()),
        120..=7199 => format!("{} minutes", age.as_secs() / 60),
        _ => format!("{} hours", age.as_secs() / 3600),
    }
}

/// Returns the processes that have the file open, as id and name.
fn holders(lock: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else { continue };
        let open = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        if open.filter_map(|it| fs::read_link(it.path()).ok()).any(|it| it == lock) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(format!("process {pid}, {}", haft_types::text::one_line(name.trim(), 40)));
        }
    }
    found
}
