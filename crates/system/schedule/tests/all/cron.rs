//! Cron expressions and their next times, also across clock changes.

use haft_schedule::CronSpec;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use proptest::prelude::*;

fn fires(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let (spec, zone) = (CronSpec::parse(cron).unwrap(), TimeZone::get(zone).unwrap());
    let mut at: Timestamp = from.parse::<DateTime>().unwrap().to_zoned(zone.clone()).unwrap().timestamp();
    let mut seen = Vec::new();
    while seen.len() < count
        && let Some(next) = spec.next_after(at, &zone)
    {
        seen.push(next.to_zoned(zone.clone()).strftime("%m-%d %H:%M%:z").to_string());
        at = next;
    }
    seen
}

#[test]
fn next_after_in_utc_matches_expected_times() {
    for (cron, from, want) in [
        ("30 9 * * 1-5", "2026-11-13T10:00", vec!["11-16 09:30+00:00", "11-17 09:30+00:00"]),
        (
            "*/20 8-9 * * *",
            "2026-01-01T08:30",
            vec!["01-01 08:40+00:00", "01-01 09:00+00:00", "01-01 09:20+00:00"],
        ),
        ("0 0 31 * *", "2026-01-31T00:00", vec!["03-31 00:00+00:00", "05-31 00:00+00:00"]),
        (
            "0 0 13 * 5",
            "2026-11-01T00:00",
            vec!["11-06 00:00+00:00", "11-13 00:00+00:00", "11-20 00:00+00:00"],
        ),
        ("0 12 * * 7", "2026-11-16T00:00", vec!["11-22 12:00+00:00"]),
        (
            "5/20 0 1 1 *",
            "2026-01-01T00:00",
            vec!["01-01 00:05+00:00", "01-01 00:25+00:00", "01-01 00:45+00:00", "01-01 00:05+00:00"],
        ),
        ("0 0 29 2 *", "2026-01-01T00:00", vec!["02-29 00:00+00:00"]),
        ("59 23 31 12 *", "2026-12-31T23:59", vec!["12-31 23:59+00:00"]),
    ] {
        assert_eq!(fires(cron, "UTC", from, want.len()), want, "{cron}");
    }
    let never = CronSpec::parse("0 9 30 2 *").unwrap();
    assert_eq!(never.next_after(Timestamp::UNIX_EPOCH, &TimeZone::UTC), None);
}

#[test]
fn next_after_handles_clock_changes() {
    for (cron, zone, from, want) in [
        // 02:30 does not exist: it fires at the clock change, once.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", vec!["03-29 03:00+02:00", "03-30 02:30+02:00"]),
        ("*/15 2 * * *", "Europe/Berlin", "2026-03-28T12:00", vec!["03-29 03:00+02:00", "03-30 02:00+02:00"]),
        // 02:30 occurs twice: it fires the first time.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", vec!["10-25 02:30+02:00", "10-26 02:30+01:00"]),
        ("0 3 * * *", "Europe/Berlin", "2026-10-24T12:00", vec!["10-25 03:00+01:00", "10-26 03:00+01:00"]),
        // Every half hour follows elapsed time.
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25T01:45",
            vec![
                "10-25 02:00+02:00",
                "10-25 02:30+02:00",
                "10-25 02:00+01:00",
                "10-25 02:30+01:00",
                "10-25 03:00+01:00",
            ],
        ),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:15", vec!["03-29 01:30+01:00", "03-29 03:00+02:00"]),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00",
            vec!["11-01 01:30-04:00", "11-02 01:30-05:00"],
        ),
        (
            "30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00",
            vec!["03-08 03:00-04:00", "03-09 02:30-04:00"],
        ),
        // Half an hour is skipped.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T12:00",
            vec!["10-04 02:30+11:00", "10-05 02:15+11:00"],
        ),
        // Midnight itself is skipped.
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", vec!["04-24 01:00+03:00", "04-25 00:00+03:00"]),
        ("0 9 * * *", "Asia/Kolkata", "2026-03-28T12:00", vec!["03-29 09:00+05:30", "03-30 09:00+05:30"]),
    ] {
        assert_eq!(fires(cron, zone, from, want.len()), want, "{cron} in {zone}");
    }
}

#[test]
fn daily_expression_fires_once_per_day_in_a_year() {
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata"] {
        for cron in ["30 2 * * *", "0 0 * * *", "30 1 * * *", "59 23 * * *"] {
            let all = fires(cron, zone, "2026-01-01T12:00", 365);
            let mut days: Vec<&str> = all.iter().map(|it| &it[..5]).collect();
            days.dedup();
            assert_eq!(days.len(), 365, "{cron} in {zone}");
        }
        let hours = fires("0 * * * *", zone, "2026-01-01T00:00", 24 * 365);
        assert_eq!(hours.len(), 24 * 365);
    }
}

#[test]
fn invalid_expression_error_names_the_field() {
    for (text, want) in [
        ("* * * *", "has 4 fields"),
        ("0 9 * * * *", "has 6 fields"),
        ("@daily", "has 1 fields"),
        ("60 * * * *", "minute: \"60\" is no number from 0 to 59"),
        ("0 9 * * MON", "day of the week: \"MON\""),
        ("0 24 * * *", "hour"),
        ("0 0 0 * *", "day of the month"),
        ("*/0 * * * *", "minute"),
        ("5-1 * * * *", "goes backwards"),
        ("1,,2 * * * *", "minute"),
        ("+5 * * * *", "minute"),
    ] {
        let said = CronSpec::parse(text).unwrap_err().to_string();
        assert!(said.contains(want), "{text}: {said}");
    }
}

proptest! {
    #[test]
    fn next_after_equals_minute_by_minute_search(
        minute in prop_oneof![Just("*".to_owned()), (0..60_u32).prop_map(|it| it.to_string()), (1..30_u32).prop_map(|it| format!("*/{it}"))],
        hour in prop_oneof![Just("*".to_owned()), (0..24_u32).prop_map(|it| it.to_string()), (0..12_u32).prop_map(|it| format!("{it}-{}", it + 9))],
        weekday in prop_oneof![Just("*".to_owned()), (0..8_u32).prop_map(|it| it.to_string())],
        start in 1_700_000_000_i64..1_800_000_000,
    ) {
        let text = format!("{minute} {hour} * * {weekday}");
        let spec = CronSpec::parse(&text).unwrap();
        let after = Timestamp::from_second(start).unwrap();
        let next = spec.next_after(after, &TimeZone::UTC).unwrap();
        // Reference implementation: minute by minute.
        let fits = |at: Timestamp| {
            let time = at.to_zoned(TimeZone::UTC);
            let field = |text: &str, number: i64| match (text, text.split_once('/'), text.split_once('-')) {
                ("*", ..) => true,
                (_, Some((_, step)), _) => number % step.parse::<i64>().unwrap() == 0,
                (_, _, Some((low, high))) => (low.parse::<i64>().unwrap()..=high.parse::<i64>().unwrap()).contains(&number),
                (one, ..) => one.parse::<i64>().unwrap() == number,
            };
            let day = i64::from(time.weekday().to_sunday_zero_offset());
            field(&minute, time.minute().into()) && field(&hour, time.hour().into())
                && (weekday == "*" || weekday.parse::<i64>().unwrap() % 7 == day)
        };
        let mut at = start - start.rem_euclid(60) + 60;
        while !fits(Timestamp::from_second(at).unwrap()) {
            at += 60;
        }
        prop_assert_eq!(next.as_second(), at, "{}", text);
    }

    #[test]
    fn cron_parse_never_panics_on_arbitrary_text(text in "[ -~*/,0-9-]{0,30}") {
        CronSpec::parse(&text).ok();
    }
}
