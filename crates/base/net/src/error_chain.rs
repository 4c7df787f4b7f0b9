use std::error::Error;

/// Returns the sources of an error, outermost first, without the error itself: an HTTP client's
/// outermost error contains the URL, which may hold secrets.
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut found = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        found.push(cause.to_string());
        source = cause.source();
    }
    found
}

/// Formats an error followed by all its sources.
pub fn with_causes(error: &dyn Error) -> String {
    let mut words = vec![error.to_string()];
    words.extend(causes(error));
    words.join(": ")
}

/// Returns the last source of an error, or the error itself if it has none.
pub fn innermost(error: &dyn Error) -> String {
    causes(error).pop().unwrap_or_else(|| error.to_string())
}
