use std::error::Error;

/// The causes of an error, without the error itself: that of an HTTP client
/// names the address, which may hold secrets.
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut found = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        found.push(cause.to_string());
        source = cause.source();
    }
    found
}

/// An error with its causes: the outermost one rarely says anything.
pub fn with_causes(error: &dyn Error) -> String {
    let mut words = vec![error.to_string()];
    words.extend(causes(error));
    words.join(": ")
}

/// The last cause of an error, which is the error itself if it has none.
pub fn innermost(error: &dyn Error) -> String {
    causes(error).pop().unwrap_or_else(|| error.to_string())
}
