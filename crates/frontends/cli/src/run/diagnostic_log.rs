//! The diagnostic log, for finding out why Haft hangs: `HAFT_LOG` sets the filter, `HAFT_LOG_FILE` the
//! file (default: standard error).
//!
//! **Invariant:** unless `HAFT_LOG` is set nothing is written, and no event is even formatted.
//! Secrets are masked before a line leaves the process.

use std::{
    fmt::{self, Write as _},
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

use haft_agent::Masker;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
    subscriber::Interest,
};

/// Maximum length of a line; the rest is cut.
const LONGEST: usize = 4_000;

/// Installs the log if `HAFT_LOG` is set. Fails if the filter is invalid or the file cannot be opened.
pub(crate) fn start() -> Result<(), String> {
    let Some(text) = std::env::var_os("HAFT_LOG").filter(|text| !text.is_empty()) else { return Ok(()) };
    let filter = LogFilter::parse(&text.to_string_lossy())?;
    let file = match std::env::var_os("HAFT_LOG_FILE").filter(|path| !path.is_empty()) {
        Some(path) => Some(opened(Path::new(&path))?),
        None => None,
    };
    let log = DiagnosticLog { filter, masker: Masker::of_env(std::env::vars()), file: Mutex::new(file) };
    tracing::subscriber::set_global_default(log).map_err(|err| err.to_string())
}

fn opened(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    opened.map_err(|err| format!("HAFT_LOG_FILE: {} cannot be written: {err}", path.display()))
}

/// A filter such as `debug` or `haft_model=trace,info`. The longest entry that is a prefix of the
/// event's target applies. A level without a target applies to Haft's crates only; other crates log
/// nothing unless named.
#[derive(Debug)]
struct LogFilter {
    directives: Vec<(String, LevelFilter)>,
}

impl LogFilter {
    fn parse(text: &str) -> Result<Self, String> {
        let mut directives = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (target, level) = part.split_once('=').unwrap_or(("haft", part));
            // `tracing` would parse an empty level as `error`.
            let level = Some(level.trim()).filter(|it| !it.is_empty()).unwrap_or("missing");
            let parsed = level.parse::<LevelFilter>();
            let level = parsed.map_err(|_| {
                format!(
                    "HAFT_LOG: `{part}` is neither a level (error, warn, info, debug, trace) nor TARGET=LEVEL"
                )
            })?;
            directives.push((target.trim().to_owned(), level));
        }
        directives.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(Self { directives })
    }

    fn allows(&self, target: &str, level: Level) -> bool {
        let fitting = self.directives.iter().find(|(start, _)| target.starts_with(start.as_str()));
        fitting.is_some_and(|(_, most)| level <= *most)
    }

    fn most(&self) -> LevelFilter {
        self.directives.iter().map(|(_, level)| *level).max().unwrap_or(LevelFilter::OFF)
    }
}

/// A `tracing` subscriber that writes one line per event.
struct DiagnosticLog {
    filter: LogFilter,
    masker: Masker,
    /// `None`: standard error.
    file: Mutex<Option<File>>,
}

impl Subscriber for DiagnosticLog {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.most())
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.filter.allows(metadata.target(), *metadata.level())
    }

    fn event(&self, event: &Event<'_>) {
        let line = line_of(event, SystemTime::now());
        let line = self.masker.mask(&line).unwrap_or(line) + "\n";
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One write per line. A failed write is ignored: logging must not stop the work.
        match file.as_mut() {
            Some(file) => file.write_all(line.as_bytes()).ok(),
            None => io::stderr().write_all(line.as_bytes()).ok(),
        };
    }

    // Spans are ignored; only events are logged.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Formats `SECONDS.MICROS LEVEL target message name=value …` on one line.
fn line_of(event: &Event<'_>, now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let metadata = event.metadata();
    let mut fields = FieldTexts::default();
    event.record(&mut fields);
    let mut line = format!(
        "{}.{:06} {:5} {} {}{}",
        since.as_secs(),
        since.subsec_micros(),
        metadata.level(),
        metadata.target(),
        fields.message,
        fields.rest
    );
    if LONGEST < line.len() {
        line.truncate(line.floor_char_boundary(LONGEST));
        line.push('…');
    }
    line
}

/// The message of an event, and its other fields in order.
#[derive(Default)]
struct FieldTexts {
    message: String,
    rest: String,
}

impl Visit for FieldTexts {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}").replace('\n', "\\n");
        if field.name() == "message" {
            self.message.push_str(&text);
        } else {
            write!(self.rest, " {}={text}", field.name()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        for (text, target, level, want) in [
            ("debug", "haft_model::engine", Level::DEBUG, true),
            ("debug", "haft_model::engine", Level::TRACE, false),
            ("debug", "hyper::client", Level::ERROR, false),
            ("haft_model=trace,info", "haft_model::engine", Level::TRACE, true),
            ("haft_model=trace,info", "haft_agent", Level::DEBUG, false),
            ("haft_model=trace,info", "haft_agent", Level::INFO, true),
            ("hyper=warn", "hyper::client", Level::WARN, true),
            ("hyper=warn", "haft_agent", Level::WARN, false),
            ("off", "haft_agent", Level::ERROR, false),
            (" , info ,", "haft", Level::WARN, true),
        ] {
            let filter = LogFilter::parse(text).unwrap();
            assert_eq!(filter.allows(target, level), want, "{text} {target} {level}");
        }
        for wrong in ["loud", "haft_model=", "a=b=c"] {
            assert!(LogFilter::parse(wrong).unwrap_err().contains("HAFT_LOG"), "{wrong}");
        }
    }
}
