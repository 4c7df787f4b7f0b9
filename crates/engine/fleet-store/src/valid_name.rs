//! Names that are valid in subjects, paths, columns and command lines without quoting.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a {1}: letters, digits, '-', '_' and '.' only, not first or last '.', at most {2} characters"
)]
pub struct NameError(String, &'static str, usize);

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $noun:literal, $most:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Validates a name.
            ///
            /// # Errors
            /// [`NameError`] for a name with other characters, or that is too long.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
                let is_name = !text.is_empty()
                    && text.len() <= $most
                    && text.chars().all(plain)
                    && !text.starts_with('.')
                    && !text.ends_with('.');
                if is_name {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(NameError(text.chars().take(80).collect(), $noun, $most))
                }
            }

            /// Returns the name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

name_type! {
    /// Name of a tenant, pool, batch, worker or schedule.
    FleetName, "name", 128
}

name_type! {
    /// Id of a run. Stays the same across retries and takeovers.
    RunId, "run id", 64
}

impl RunId {
    /// Creates a random, unique id.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_special_characters_are_rejected() {
        let long = "x".repeat(129);
        for (text, good) in [
            ("a", true),
            ("log4j-to_slf4j.2", true),
            ("", false),
            (".", false),
            ("a.", false),
            (".a", false),
            ("a b", false),
            ("a*", false),
            ("a>", false),
            ("a/b", false),
            ("ä", false),
            (long.as_str(), false),
        ] {
            assert_eq!(FleetName::parse(text).is_ok(), good, "{text:?}");
        }
        assert!(serde_json::from_str::<RunId>("\"a b\"").is_err());
    }
}
