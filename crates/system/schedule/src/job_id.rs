use std::{
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    ops::Deref,
};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Id of a stored job: eight hexadecimal digits, so it is safe in a path.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
pub struct CronJobId([u8; 8]);

impl CronJobId {
    /// Creates a random, unpredictable id.
    pub fn random() -> Self {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u128(Timestamp::now().as_nanosecond().unsigned_abs());
        Self::numbered(u32::try_from(hasher.finish() >> 32).unwrap_or_default())
    }

    /// The id with this numeric value.
    pub fn numbered(number: u32) -> Self {
        let mut digits = [0; 8];
        for (digit, shift) in digits.iter_mut().zip((0..8).rev()) {
            *digit = b"0123456789abcdef"[(number >> (4 * shift)) as usize & 0xf];
        }
        Self(digits)
    }

    /// Parses an id.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = <[u8; 8]>::try_from(text.as_bytes()).ok()?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(Self(digits))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Deref for CronJobId {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for CronJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for CronJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for CronJobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for CronJobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("the id of a job has eight hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_id_parse_accepts_eight_hexadecimal_digits() {
        for (text, is_one) in [
            ("0a1b2c3d", true),
            ("0A1B2C3D", true),
            ("0a1b2c3", false),
            ("0a1b2c3d4", false),
            ("../../..", false),
            ("0a1b2c3g", false),
            ("größe", false),
            ("", false),
        ] {
            assert_eq!(CronJobId::parse(text).map(|it| it.to_string()), is_one.then(|| text.to_owned()));
            let written = serde_json::to_string(text).unwrap();
            assert_eq!(serde_json::from_str::<CronJobId>(&written).is_ok(), is_one, "{text}");
        }
        assert_eq!(CronJobId::numbered(0x0a1b_2c3d).as_str(), "0a1b2c3d");
        assert_ne!(CronJobId::random(), CronJobId::random());
        let made = CronJobId::random();
        assert_eq!(CronJobId::parse(&made), Some(made));
    }
}
