use std::fmt;

use jiff::{
    SignedDuration, Timestamp, ToSpan as _,
    civil::{Date, DateTime},
    tz::{Offset, TimeZone},
};

use crate::mask::FieldMask;

/// A cron expression: minute, hour, day of month, month, day of week. Each field is `*`, `n`, `a-b`,
/// `a,b` or one of these with `/n`. Sunday is 0 or 7. If both day fields are restricted, either may
/// match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CronSpec {
    text: String,
    minute: FieldMask,
    hour: FieldMask,
    day: FieldMask,
    month: FieldMask,
    weekday: FieldMask,
}

/// Why a text is not a cron expression.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CronError(String);

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CronError {}

/// Years searched for the next time.
const YEARS: i64 = 5;

impl CronSpec {
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(CronError(format!(
                "{text:?} has {} fields; a cron expression has 5: minute hour day-of-month month day-of-week, such as \"30 9 * * 1-5\"",
                fields.len()
            )));
        };
        let field = |name: &str, text: &str, low: u32, high: u32| {
            FieldMask::parse(text, low, high).map_err(|why| {
                CronError(format!("{name}: {why} (numbers only; names, L, W and ? are not known)"))
            })
        };
        let mut weekday = field("day of the week", weekday, 0, 7)?;
        if weekday.has(7) {
            weekday.bits |= 1;
        }
        Ok(Self {
            text: fields.join(" "),
            minute: field("minute", minute, 0, 59)?,
            hour: field("hour", hour, 0, 23)?,
            day: field("day of the month", day, 1, 31)?,
            month: field("month", month, 1, 12)?,
            weekday,
        })
    }

    /// The expression with single spaces.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first matching time after `after`. For an expression with fixed hours, a time skipped by a
    /// clock change fires at the change, and a repeated time fires only the first time. An expression
    /// for every hour follows elapsed hours. `None` if there is no match within five years.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let horizon = after.checked_add(SignedDuration::from_hours(24 * 366 * YEARS)).ok()?;
        let mut offset = zone.to_offset(after);
        let mut from = whole_minute(offset.to_datetime(after)).checked_add(1.minute()).ok()?;
        if self.is_fixed() {
            from = from.max(shown_before(after, offset, zone).unwrap_or(from));
        }
        let mut changes = zone.following(after);
        let mut change = changes.next();
        loop {
            let (turns_at, next_offset) = match &change {
                Some(change) => (change.timestamp(), Some(change.offset())),
                None => (horizon, None),
            };
            let found = self.next_civil(from, offset.to_datetime(turns_at.min(horizon)));
            if let Some(found) = found.and_then(|it| instant(it, offset)).filter(|it| after < *it) {
                return (found <= horizon).then_some(found);
            }
            let next_offset = next_offset.filter(|_| turns_at < horizon)?;
            let (old_end, new_start) = (offset.to_datetime(turns_at), next_offset.to_datetime(turns_at));
            if self.is_fixed()
                && old_end < new_start
                && self.next_civil(old_end.max(from), new_start).is_some()
            {
                return Some(turns_at);
            }
            // A fixed time that was shown before the clocks went back does not fire again.
            from = if self.is_fixed() { new_start.max(old_end) } else { new_start };
            offset = next_offset;
            change = changes.next();
        }
    }

    /// Whether the expression restricts the hours.
    fn is_fixed(&self) -> bool {
        !self.hour.wild
    }

    /// The first matching local time in `from..end`.
    fn next_civil(&self, from: DateTime, end: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut start = (u32::from(from.hour().unsigned_abs()), u32::from(from.minute().unsigned_abs()));
        while date <= end.date() {
            if !self.month.has(u32::from(date.month().unsigned_abs())) {
                date = date.last_of_month().tomorrow().ok()?;
                start = (0, 0);
                continue;
            }
            if self.has_date(date)
                && let Some((hour, minute)) = self.next_time(start)
            {
                let time = date.at(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0);
                return (time < end).then_some(time);
            }
            date = date.tomorrow().ok()?;
            start = (0, 0);
        }
        None
    }

    fn has_date(&self, date: Date) -> bool {
        let by_day = self.day.has(u32::from(date.day().unsigned_abs()));
        let by_weekday = self.weekday.has(u32::from(date.weekday().to_sunday_zero_offset().unsigned_abs()));
        match (self.day.wild, self.weekday.wild) {
            (false, false) => by_day || by_weekday,
            _ => by_day && by_weekday,
        }
    }

    /// The first matching time of day from `start` on.
    fn next_time(&self, start: (u32, u32)) -> Option<(u32, u32)> {
        (start.0..24).filter(|hour| self.hour.has(*hour)).find_map(|hour| {
            let first = if hour == start.0 { start.1 } else { 0 };
            (first..60).find(|minute| self.minute.has(*minute)).map(|minute| (hour, minute))
        })
    }
}

/// In the hour after the clocks went back: the local time up to which every time was already shown.
fn shown_before(after: Timestamp, offset: Offset, zone: &TimeZone) -> Option<DateTime> {
    let change = zone.preceding(after.checked_add(SignedDuration::from_nanos(1)).ok()?).next()?;
    let before = zone.to_offset(change.timestamp().checked_sub(SignedDuration::from_nanos(1)).ok()?);
    let old_end = before.to_datetime(change.timestamp());
    (offset.to_datetime(after) < old_end).then_some(old_end)
}

fn whole_minute(time: DateTime) -> DateTime {
    time.date().at(time.hour(), time.minute(), 0, 0)
}

fn instant(time: DateTime, offset: Offset) -> Option<Timestamp> {
    offset.to_timestamp(time).ok()
}
