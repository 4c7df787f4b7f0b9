//! Lossless paths in JSON: text if they are UTF-8, bytes otherwise.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum PathText {
    Text(String),
    Bytes { bytes: Vec<u8> },
}

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => PathText::Text(text.to_owned()),
        None => PathText::Bytes { bytes: path.as_os_str().as_bytes().to_vec() },
    }
    .serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(match PathText::deserialize(deserializer)? {
        PathText::Text(text) => PathBuf::from(text),
        PathText::Bytes { bytes } => PathBuf::from(OsString::from_vec(bytes)),
    })
}

/// For lists of paths.
pub(crate) mod list {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize, Serialize)]
    struct PathItem(#[serde(with = "super")] PathBuf);

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().cloned().map(PathItem))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<PathItem>::deserialize(deserializer)?.into_iter().map(|it| it.0).collect())
    }
}
