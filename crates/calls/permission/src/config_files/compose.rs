//! Descriptions of containers.

use std::path::Path;

use super::{exists, read};

const FILES: &[&str] = &[
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "compose.override.yaml",
    "compose.override.yml",
    "docker-compose.override.yaml",
    "docker-compose.override.yml",
];

/// Every name that matters, in lower case.
pub(super) const NAMES: &[&str] = &[
    ".env",
    "compose.yaml",
    "compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "compose.override.yaml",
    "compose.override.yml",
    "docker-compose.override.yaml",
    "docker-compose.override.yml",
];

/// Words with which a description fetches others, reads files, or names
/// programs, and signs that stand for letters of such words.
const REACHING: &[&str] =
    &["include", "extends", "provider", "env_file", "!reset", "!override", "\\x", "\\u", "\\U"];

/// Whether what is described in this directory is all in its description.
pub(super) fn is_plain(dir: &Path) -> bool {
    let described = FILES
        .iter()
        .map(|name| dir.join(name))
        .filter(|path| exists(path))
        .all(|path| read(&path).is_some_and(|text| !REACHING.iter().any(|word| text.contains(word))));
    // Variables of this file say where the server is and which descriptions count.
    let variables = dir.join(".env");
    let settled = !exists(&variables)
        || read(&variables).is_some_and(|text| !text.contains("DOCKER_") && !text.contains("COMPOSE_"));
    described && settled
}
