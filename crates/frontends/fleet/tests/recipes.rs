//! The example files for starting workers are valid for the programs that read them.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn recipe(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/fleet").join(name)
}

#[test]
fn yaml_recipes_parse_and_have_worker_settings() {
    for (name, wanted) in [
        ("kubernetes.yaml", &["kind: Deployment", "fleet, worker", "terminationGracePeriodSeconds: 90"][..]),
        ("github-actions.yml", &["haft fleet worker --drain", "haft fleet map"]),
    ] {
        let text = std::fs::read_to_string(recipe(name)).unwrap();
        for event in saphyr_parser::Parser::new_from_str(&text) {
            event.unwrap();
        }
        wanted.iter().for_each(|part| assert!(text.contains(part), "{name}: {part}"));
    }
}

#[test]
fn pilot_job_recipe_is_a_valid_script() {
    let read = Command::new("sh").arg("-n").arg(recipe("slurm-pilot.sh")).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn systemd_recipe_is_a_valid_unit() {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(recipe("haft-worker.service")).unwrap();
    // The recipe's program and user do not exist on this machine.
    let text = text.replace("/usr/bin/haft", "/bin/true").replace("User=haft", "User=root");
    let unit = dir.path().join("haft-worker.service");
    std::fs::write(&unit, text).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&unit).output() {
        Err(_) => eprintln!("SKIPPED: no systemd-analyze"),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            let wrong = said.lines().filter(|line| line.contains("haft-worker"));
            assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&str>::new());
        }
    }
}
