//! Parses how long a response may be reused, from its HTTP headers.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{self, HeaderMap, HeaderName};

/// What a server says about caching a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CacheControl {
    /// The response must not be cached.
    Never,
    /// The response may be reused this long; after that it must be revalidated.
    For(Duration),
    /// The headers say nothing about caching.
    Unsaid,
}

impl CacheControl {
    /// Reads the caching headers of a response.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
        let control = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|it| it.to_str().ok());
        let control = control.collect::<Vec<_>>().join(",").to_ascii_lowercase();
        let directives: Vec<(&str, &str)> = control
            .split(',')
            .map(|it| it.split_once('=').unwrap_or((it, "")))
            .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
            .collect();
        let said = |wanted: &str| directives.iter().find(|it| it.0 == wanted).map(|it| it.1);
        // With `Vary: *` a cached response never matches a request.
        if said("no-store").is_some() || text(header::VARY).is_some_and(|it| it.trim() == "*") {
            return Self::Never;
        }
        if said("no-cache").is_some() {
            return Self::For(Duration::ZERO);
        }
        if let Some(value) = said("max-age") {
            // An unreadable number counts as 0.
            let seconds = value.parse::<u64>().unwrap_or(0);
            let age = text(header::AGE).and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0);
            return Self::For(Duration::from_secs(seconds.saturating_sub(age)));
        }
        if directives.iter().all(|it| it.0.is_empty())
            && text(header::PRAGMA).is_some_and(|it| it.to_ascii_lowercase().contains("no-cache"))
        {
            return Self::For(Duration::ZERO);
        }
        match text(header::EXPIRES) {
            Some(expires) => Self::For(until(expires, text(header::DATE)).unwrap_or_default()),
            None => Self::Unsaid,
        }
    }
}

/// Returns the time between the creation of a response and its expiry; `None` if a date is invalid or it
/// has expired.
fn until(expires: &str, made: Option<&str>) -> Option<Duration> {
    let time = |text: &str| jiff::fmt::rfc2822::parse(text.trim()).ok().map(|it| it.timestamp());
    let made = made.and_then(time).unwrap_or_else(Timestamp::now);
    let seconds = time(expires)?.as_second().checked_sub(made.as_second())?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn cache_headers_are_parsed() {
        let seconds = |it: u64| CacheControl::For(Duration::from_secs(it));
        for (said, want) in [
            (&[][..], CacheControl::Unsaid),
            (&[("cache-control", "public")], CacheControl::Unsaid),
            (&[("cache-control", "private, No-Store")], CacheControl::Never),
            (&[("cache-control", "max-age=60"), ("cache-control", "no-store")], CacheControl::Never),
            (&[("cache-control", "x=\"no-store-at-all\"")], CacheControl::Unsaid),
            (&[("vary", "*")], CacheControl::Never),
            (&[("vary", "Accept")], CacheControl::Unsaid),
            (&[("cache-control", "no-cache, max-age=60")], seconds(0)),
            (&[("cache-control", "no-cache=\"set-cookie\"")], seconds(0)),
            (&[("cache-control", "MAX-AGE=\"60\"")], seconds(60)),
            (&[("cache-control", "max-age=60"), ("age", "45")], seconds(15)),
            (&[("cache-control", "max-age=60"), ("age", "99")], seconds(0)),
            (&[("cache-control", "max-age=-1")], seconds(0)),
            (&[("cache-control", "max-age=99999999999999999999")], seconds(0)),
            (&[("cache-control", "s-maxage=60")], CacheControl::Unsaid),
            (&[("pragma", "no-cache")], seconds(0)),
            (&[("cache-control", "max-age=9"), ("pragma", "no-cache")], seconds(9)),
            (&[("expires", "0")], seconds(0)),
            (&[("expires", "Thu, 01 Jan 1970 00:00:00 GMT")], seconds(0)),
            (
                &[("date", "Tue, 17 Nov 2026 05:00:00 GMT"), ("expires", "Tue, 17 Nov 2026 05:01:30 GMT")],
                seconds(90),
            ),
            (&[("cache-control", "max-age=5"), ("expires", "Thu, 01 Jan 1970 00:00:00 GMT")], seconds(5)),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in said {
                headers.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(CacheControl::from_headers(&headers), want, "{said:?}");
        }
    }
}
