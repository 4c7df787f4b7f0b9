use std::time::{Duration, SystemTime};

/// When a request is sent again.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// How often at most.
    pub most: u32,
    /// How long to wait the first time; it doubles.
    pub base: Duration,
    /// The longest wait we choose ourselves.
    pub longest: Duration,
    /// The longest wait the provider may ask for; beyond it the error is told
    /// instead.
    pub patience: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            most: 5,
            base: Duration::from_millis(500),
            longest: Duration::from_secs(16),
            patience: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// How long to wait before retry `attempt` (from 1); `None` for too long.
    /// What the provider asks for counts; else it grows, with up to a quarter
    /// less so that not everybody comes back at once.
    pub(crate) fn wait(&self, attempt: u32, asked: Option<Duration>) -> Option<Duration> {
        if attempt > self.most {
            return None;
        }
        if let Some(asked) = asked {
            return (asked <= self.patience).then_some(asked);
        }
        let doubled = self.base.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        Some(doubled.min(self.longest).mul_f64(1.0 - 0.25 * fastrand::f64()))
    }
}

/// How long to wait for bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StreamTimeouts {
    /// Until a connection is made.
    pub connect: Duration,
    /// Until the answer begins.
    pub first_byte: Duration,
    /// Between two pieces of the answer. Thinking and large inputs come in
    /// bursts, so this is not short.
    pub idle: Duration,
    /// Between two pieces while text is written.
    pub idle_text: Duration,
}

impl Default for StreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            idle_text: Duration::from_secs(10),
        }
    }
}

impl StreamTimeouts {
    /// For a model that runs on this machine: it may have to be loaded first, and
    /// reads a long prompt for minutes without a byte. What somebody has set to
    /// another value than the usual one stays.
    pub(crate) fn of_this_machine(self) -> Self {
        const LOCAL: Duration = Duration::from_secs(15 * 60);
        let usual = Self::default();
        let longer = |limit: Duration, usual: Duration| if limit == usual { LOCAL } else { limit };
        Self {
            connect: self.connect,
            first_byte: longer(self.first_byte, usual.first_byte),
            idle: longer(self.idle, usual.idle),
            idle_text: longer(self.idle_text, usual.idle_text),
        }
    }

    /// The same limit for every silence.
    pub fn idle(limit: Duration) -> Self {
        Self { idle: limit, idle_text: limit, ..Self::default() }
    }
}

/// What the headers of a failed answer ask for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RetryAfter {
    /// When to come back.
    pub(crate) after: Option<Duration>,
    /// Whether to come back at all, if the provider says.
    pub(crate) should: Option<bool>,
}

impl RetryAfter {
    pub(crate) fn parse<'a>(header: impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Self {
        let millis =
            header("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok()).map(|ms| ms / 1000.0);
        let seconds = header("retry-after").and_then(|text| text.trim().parse::<f64>().ok());
        let date = header("retry-after").and_then(|text| httpdate::parse_http_date(text.trim()).ok());
        let from_date = date.map(|date| date.duration_since(now).unwrap_or_default());
        let from_number = millis.or(seconds).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let should = match header("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        Self { after: from_number.or(from_date), should }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_providers_are_heard() {
        let policy = RetryPolicy::default();
        for attempt in 1..=5 {
            let full = Duration::from_millis(500 << (attempt - 1)).min(policy.longest);
            let wait = policy.wait(attempt, None).unwrap();
            assert!(wait <= full && wait >= full.mul_f64(0.75), "{attempt}: {wait:?}");
        }
        assert_eq!(policy.wait(6, None), None);
        assert_eq!(policy.wait(1, Some(Duration::from_secs(7))), Some(Duration::from_secs(7)));
        assert_eq!(policy.wait(1, Some(Duration::from_secs(700))), None);
    }

    #[test]
    fn models_of_this_machine_may_take_their_time() {
        let local = StreamTimeouts::default().of_this_machine();
        assert_eq!((local.first_byte, local.idle), (Duration::from_secs(900), Duration::from_secs(900)));
        let said =
            StreamTimeouts { idle: Duration::from_secs(5), ..StreamTimeouts::default() }.of_this_machine();
        assert_eq!((said.first_byte, said.idle), (Duration::from_secs(900), Duration::from_secs(5)));
    }

    #[test]
    fn headers_are_understood() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let hint = |name: &'static str, value: &'static str| {
            RetryAfter::parse(move |asked| (asked == name).then_some(value), now)
        };
        for (name, value, after) in [
            ("retry-after", "3", Some(Duration::from_secs(3))),
            ("retry-after", "0.5", Some(Duration::from_millis(500))),
            ("retry-after-ms", "250", Some(Duration::from_millis(250))),
            ("retry-after", "Sun, 09 Sep 2001 01:46:50 GMT", Some(Duration::from_secs(10))),
            ("retry-after", "Sun, 09 Sep 2001 01:46:30 GMT", Some(Duration::ZERO)),
            ("retry-after", "-5", None),
            ("retry-after", "NaN", None),
            ("retry-after", "soon", None),
        ] {
            assert_eq!(hint(name, value).after, after, "{name}: {value}");
        }
        assert_eq!(hint("x-should-retry", "false").should, Some(false));
        assert_eq!(hint("x-should-retry", "maybe").should, None);
    }
}
