//! Moments of a log.

/// Milliseconds since 1970 of a moment such as `2026-11-16T23:10:53.109Z`; nothing
/// for what is spelled otherwise.
pub(crate) fn millis(moment: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| moment.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let thousandths = number(20..23).unwrap_or(0);
    // Days since 1970 of a date in the Gregorian calendar, counting years from March.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        for (moment, want) in [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2026-11-16T23:10:53.109Z", Some(1_794_870_653_109)),
            ("2024-02-29T12:00:00Z", Some(1_709_208_000_000)),
            ("yesterday", None),
            ("", None),
            ("2026-11-1éT", None),
        ] {
            assert_eq!(millis(moment), want, "{moment}");
        }
    }
}
