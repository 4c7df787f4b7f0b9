//! Times, sizes, rates and shares as people write them.

use std::time::Duration;

/// A time: `90`, `90s`, `45m`, `1h30m`, `2d`. A bare number counts seconds.
pub fn duration_of(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write 90s, 45m, 1h30m or 2d");
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let (mut rest, mut seconds) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = rest[digits..].chars().next().ok_or_else(wrong)?;
        let each = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        seconds = number.checked_mul(each).and_then(|it| seconds.checked_add(it)).ok_or_else(wrong)?;
        rest = &rest[digits + unit.len_utf8()..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

/// A size in bytes: `6G`, `512M`, `1.5G`, `4096`.
pub fn size_of(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size; write 512M or 6G");
    let text = text.trim();
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| wrong())?;
    let each = match text[end..].trim().trim_end_matches("iB").trim_end_matches('B') {
        "" => 1.0,
        "k" | "K" => 1024.0,
        "M" => 1024.0 * 1024.0,
        "G" => 1024.0 * 1024.0 * 1024.0,
        "T" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = number * each;
    // More than any machine has is a mistake.
    match bytes.is_finite() && (0.0..1e18).contains(&bytes) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was checked")]
        true => Ok(bytes as u64),
        false => Err(wrong()),
    }
}

/// How many jobs may start in a time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct StartRate {
    /// How many.
    pub most: u32,
    /// In how many seconds.
    pub seconds: u32,
}

impl StartRate {
    /// Reads `5/s`, `100/m`, `1000/h`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no rate; write 5/s, 100/m or 1000/h");
        let (most, unit) = text.trim().split_once('/').ok_or_else(wrong)?;
        let most: u32 = most.trim().parse().map_err(|_| wrong())?;
        let seconds = match unit.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            _ => return Err(wrong()),
        };
        if most == 0 { Err(wrong()) } else { Ok(Self { most, seconds }) }
    }
}

/// A part of all jobs of a batch.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub enum Share {
    /// So many.
    Count(usize),
    /// So many of a hundred.
    Percent(f64),
}

impl Share {
    /// Reads `5` or `5%`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no part of a batch; write 5 or 5%");
        match text.trim().strip_suffix('%') {
            None => text.trim().parse().map(Self::Count).map_err(|_| wrong()),
            Some(number) => {
                let number: f64 = number.trim().parse().map_err(|_| wrong())?;
                if (0.0..=100.0).contains(&number) { Ok(Self::Percent(number)) } else { Err(wrong()) }
            }
        }
    }

    /// How many that are of `all`: at least one of any.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => count.min(all),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a part of a number of jobs"
            )]
            Self::Percent(percent) => ((all as f64 * percent / 100.0).ceil() as usize).clamp(all.min(1), all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_sizes_rates_and_shares() {
        for (text, want) in [
            ("90", Some(90)),
            ("45m", Some(2700)),
            ("1h30m", Some(5400)),
            ("", None),
            ("5x", None),
            ("m", None),
        ] {
            assert_eq!(duration_of(text).ok().map(|it| it.as_secs()), want, "{text}");
        }
        for (text, want) in
            [("6G", Some(6 << 30)), ("1.5K", Some(1536)), ("4096", Some(4096)), ("6X", None), ("1e99G", None)]
        {
            assert_eq!(size_of(text).ok(), want, "{text}");
        }
        assert_eq!(StartRate::parse("5/s"), Ok(StartRate { most: 5, seconds: 1 }));
        assert!(StartRate::parse("0/s").is_err());
        for (text, all, want) in [("1", 10, 1), ("5%", 10, 1), ("100%", 10, 10), ("20", 10, 10), ("0%", 0, 0)]
        {
            assert_eq!(Share::parse(text).map(|it| it.of(all)), Ok(want), "{text}");
        }
    }
}
