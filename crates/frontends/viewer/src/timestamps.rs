//! Timestamps in logs.

/// Parses a timestamp such as `2026-11-16T23:10:53.109Z` to milliseconds since 1970; `None` for other
/// formats.
pub(crate) fn millis(moment: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| moment.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let thousandths = number(20..23).unwrap_or(0);
    // Days since 1970 of a Gregorian date, with years starting in March.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + thousandths)
}

/// Returns year, month and day.
fn date(millis: i64) -> (i64, i64, i64) {
    let days = millis.div_euclid(86_400_000) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Formats the date (UTC): `2026-11-16`.
pub(crate) fn day(millis: i64) -> String {
    let (year, month, day) = date(millis);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Formats date and time (UTC): `2026-11-16 23:10:53`.
pub(crate) fn moment(millis: i64) -> String {
    format!("{} {}", day(millis), time_of_day(millis))
}

/// Formats the time (UTC): `23:10:53`.
pub(crate) fn time_of_day(millis: i64) -> String {
    let seconds = millis.div_euclid(1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_parsed() {
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
        for written in
            ["1970-01-01 00:00:00", "2026-11-16 23:10:53", "2024-02-29 12:00:00", "1999-12-31 23:59:59"]
        {
            let read = millis(&written.replace(' ', "T")).unwrap_or_default();
            assert_eq!(moment(read), written);
        }
    }
}
