use std::time::{Duration, SystemTime};

/// When a failed request is sent again.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Maximum number of retries.
    pub most: u32,
    /// Delay before the first retry; doubles with each retry.
    pub base: Duration,
    /// Maximum delay of the exponential backoff.
    pub longest: Duration,
    /// Maximum delay accepted from the provider (`retry-after`). If it asks for more, the request fails
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
    /// Returns the delay before retry `attempt` (from 1), or `None` if there must be no further retry.
    /// `asked`, the delay requested by the provider, takes precedence. Otherwise exponential backoff
    /// with up to 25 % random reduction.
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

/// Timeouts of a streamed answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StreamTimeouts {
    /// Until the connection is established.
    pub connect: Duration,
    /// Until the response starts.
    pub first_byte: Duration,
    /// Between two chunks of the response. Thinking and large tool inputs arrive in bursts, so this is
    /// not short.
    pub idle: Duration,
    /// Between two chunks while text is being generated.
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
    /// Raises timeouts that still have their default to 15 minutes, for a model on this machine: it may
    /// have to be loaded first, and processes a long prompt for minutes without output. The connect
    /// timeout is unchanged.
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

    /// Returns the defaults with one limit for both idle timeouts.
    pub fn idle(limit: Duration) -> Self {
        Self { idle: limit, idle_text: limit, ..Self::default() }
    }
}

/// Retry hints in the headers of an error response.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RetryAfter {
    /// Requested delay.
    pub(crate) after: Option<Duration>,
    /// Whether the provider recommends a retry (`x-should-retry`), if it says so.
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
    fn retry_delay_grows_and_honours_provider_request() {
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
    fn local_model_gets_longer_default_timeouts() {
        let local = StreamTimeouts::default().of_this_machine();
        assert_eq!((local.first_byte, local.idle), (Duration::from_secs(900), Duration::from_secs(900)));
        let said =
            StreamTimeouts { idle: Duration::from_secs(5), ..StreamTimeouts::default() }.of_this_machine();
        assert_eq!((said.first_byte, said.idle), (Duration::from_secs(900), Duration::from_secs(5)));
    }

    #[test]
    fn retry_headers_are_parsed() {
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
