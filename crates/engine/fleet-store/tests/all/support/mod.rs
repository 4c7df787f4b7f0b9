//! Servers, stores and jobs for tests.

pub mod cluster;
pub mod jobs;
pub mod nets;
pub mod servers;
pub mod small_disk;
pub mod wires;
pub mod writers;

use std::path::PathBuf;

/// Reports that a test cannot run here; CI counts it as skipped.
pub fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// Directory for installed tools and stored data.
pub fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().find(|it| it.join("CACHEDIR.TAG").is_file()).unwrap().to_owned()
}
