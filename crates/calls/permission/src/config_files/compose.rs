//! Compose files.

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

/// Relevant file names in lower case.
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

/// Keys with which a Compose file includes others, reads files, or names programs, and escapes that
/// could hide such keys.
const REACHING: &[&str] =
    &["include", "extends", "provider", "env_file", "!reset", "!override", "\\x", "\\u", "\\U"];

/// Whether the Compose file in this directory is self-contained.
pub(super) fn is_plain(dir: &Path) -> bool {
    let described = FILES
        .iter()
        .map(|name| dir.join(name))
        .filter(|path| exists(path))
        .all(|path| read(&path).is_some_and(|text| !REACHING.iter().any(|word| text.contains(word))));
    // `.env` can select the server and the Compose files.
    let variables = dir.join(".env");
    let settled = !exists(&variables)
        || read(&variables).is_some_and(|text| !text.contains("DOCKER_") && !text.contains("COMPOSE_"));
    described && settled
}
