//! Classification of provider errors, as reported to SDK clients.

use haft_model::ModelError;

/// A failed model request, classified with the error kinds of the Agent SDKs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiFailure {
    /// The complete error message, for users.
    pub text: String,
    /// Error kind of the Agent SDKs.
    pub kind: &'static str,
    /// HTTP status: as received for server errors, otherwise the usual one of the error kind. `None` for
    /// network errors and timeouts.
    pub status: Option<u16>,
}

impl ApiFailure {
    /// Classifies an error of the provider.
    pub fn from_error(error: &ModelError) -> Self {
        use ModelError as E;
        let (kind, status, words) = match error {
            E::Auth { message } => ("authentication_failed", Some(401), message.clone()),
            E::RateLimited { message, .. } => ("rate_limit", Some(429), message.clone()),
            E::Server { status, message } => {
                let kind = if *status == 529 { "overloaded" } else { "server_error" };
                (kind, Some(*status).filter(|it| *it != 0), message.clone())
            }
            E::TooLong { message, .. } | E::Invalid { message } => {
                ("invalid_request", Some(400), message.clone())
            }
            E::UnknownModel { message } => ("model_not_found", Some(404), message.clone()),
            E::Network { .. } | E::Stalled { .. } => ("server_error", None, error.to_string()),
            _ => ("unknown", None, error.to_string()),
        };
        let text = match status {
            Some(status) => format!("API Error: {status} {words}"),
            None => format!("API Error: {words}"),
        };
        Self { text, kind, status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_words() {
        let check = |error: ModelError, text: &str, kind: &str| {
            let found = ApiFailure::from_error(&error);
            assert_eq!((found.text.as_str(), found.kind), (text, kind));
        };
        check(ModelError::Invalid { message: "bad".into() }, "API Error: 400 bad", "invalid_request");
        check(
            ModelError::Server { status: 529, message: "busy".into() },
            "API Error: 529 busy",
            "overloaded",
        );
        check(ModelError::Server { status: 0, message: "cut".into() }, "API Error: cut", "server_error");
        check(ModelError::UnknownModel { message: "no x".into() }, "API Error: 404 no x", "model_not_found");
    }
}
