use std::fmt;

/// A key or token. It never shows itself, neither in logs nor in errors; who
/// needs the text must say so with [`SecretString::expose`].
#[derive(Clone, Eq, PartialEq)]
pub struct SecretString(String);

impl SecretString {
    /// Takes a text as a secret; surrounding blanks are not part of it.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// The text itself, for the header it belongs into.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<'de> serde::Deserialize<'de> for SecretString {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}
