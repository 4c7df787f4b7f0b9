use serde::{Deserialize, Serialize};

/// API of a request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MockForm {
    /// Anthropic Messages, at Anthropic, Vertex or Foundry.
    Messages,
    /// Anthropic Messages in the Bedrock event stream.
    Bedrock,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Google's Gemini API.
    Gemini,
}

/// What a path requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route {
    pub(crate) form: MockForm,
    pub(crate) ask: RouteKind,
    /// Model named in the path, for APIs without a model in the body.
    pub(crate) model: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RouteKind {
    /// An answer, streamed if the body says so.
    Answer,
    /// A streamed answer, according to the path.
    Stream,
    /// A non-streamed answer, according to the path.
    Whole,
    /// A token count.
    Count,
    /// The list of models.
    Models,
}

impl Route {
    pub(crate) fn parse(method: &str, path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        let route = |form, ask| Some(Self { form, ask, model: None });
        if method == "GET" {
            return path.ends_with("/models").then_some(Self {
                form: MockForm::Messages,
                ask: RouteKind::Models,
                model: None,
            });
        }
        if method != "POST" {
            return None;
        }
        if path.ends_with("/messages") {
            return route(MockForm::Messages, RouteKind::Answer);
        }
        if path.ends_with("/messages/count_tokens") || path.ends_with("/models/count-tokens:rawPredict") {
            return route(MockForm::Messages, RouteKind::Count);
        }
        if path.ends_with("/chat/completions") {
            return route(MockForm::Chat, RouteKind::Answer);
        }
        if path.ends_with("/responses") {
            return route(MockForm::Responses, RouteKind::Answer);
        }
        Self::vertex(path).or_else(|| Self::gemini(path)).or_else(|| Self::bedrock(path))
    }

    fn vertex(path: &str) -> Option<Self> {
        let (_, last) = path.rsplit_once("/publishers/anthropic/models/")?;
        let (model, verb) = last.rsplit_once(':')?;
        let ask = match verb {
            "streamRawPredict" => RouteKind::Stream,
            "rawPredict" => RouteKind::Whole,
            _ => return None,
        };
        Some(Self { form: MockForm::Messages, ask, model: Some(percent_decode(model)) })
    }

    fn gemini(path: &str) -> Option<Self> {
        let (_, last) = path.rsplit_once("/models/")?;
        let (model, verb) = last.rsplit_once(':')?;
        let ask = match verb {
            "streamGenerateContent" => RouteKind::Stream,
            "generateContent" => RouteKind::Whole,
            "countTokens" => RouteKind::Count,
            _ => return None,
        };
        Some(Self { form: MockForm::Gemini, ask, model: Some(percent_decode(model)) })
    }

    fn bedrock(path: &str) -> Option<Self> {
        let (_, rest) = path.split_once("/model/")?;
        let (model, verb) = rest.rsplit_once('/')?;
        let ask = match verb {
            "invoke-with-response-stream" => RouteKind::Stream,
            "invoke" => RouteKind::Whole,
            "count-tokens" => RouteKind::Count,
            _ => return None,
        };
        Some(Self { form: MockForm::Bedrock, ask, model: Some(percent_decode(model)) })
    }
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = (*first == b'%').then(|| tail.get(..2)).flatten();
        let code = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = match code {
            Some(code) => {
                bytes.push(code);
                &tail[2..]
            }
            None => {
                bytes.push(*first);
                tail
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_select_api_and_model() {
        for (method, path, want) in [
            ("POST", "/v1/messages", Some((MockForm::Messages, RouteKind::Answer, None))),
            ("POST", "/anthropic/v1/messages", Some((MockForm::Messages, RouteKind::Answer, None))),
            ("POST", "/v1/messages/count_tokens", Some((MockForm::Messages, RouteKind::Count, None))),
            (
                "POST",
                "/v1/projects/p/locations/global/publishers/anthropic/models/claude-x@1:streamRawPredict",
                Some((MockForm::Messages, RouteKind::Stream, Some("claude-x@1"))),
            ),
            (
                "POST",
                "/model/anthropic.claude%3A0/invoke-with-response-stream",
                Some((MockForm::Bedrock, RouteKind::Stream, Some("anthropic.claude:0"))),
            ),
            (
                "POST",
                "/model/arn:aws:x%2Fy/invoke",
                Some((MockForm::Bedrock, RouteKind::Whole, Some("arn:aws:x/y"))),
            ),
            ("POST", "/v1/chat/completions", Some((MockForm::Chat, RouteKind::Answer, None))),
            ("POST", "/v1/responses", Some((MockForm::Responses, RouteKind::Answer, None))),
            (
                "POST",
                "/v1beta/models/gemini-3-pro:streamGenerateContent",
                Some((MockForm::Gemini, RouteKind::Stream, Some("gemini-3-pro"))),
            ),
            (
                "POST",
                "/v1beta/models/gemini-3-pro:countTokens",
                Some((MockForm::Gemini, RouteKind::Count, Some("gemini-3-pro"))),
            ),
            ("POST", "/v1beta/models/gemini-3-pro:embedContent", None),
            ("GET", "/v1/models", Some((MockForm::Messages, RouteKind::Models, None))),
            ("GET", "/v1/messages", None),
            ("POST", "/v1/embeddings", None),
        ] {
            let got = Route::parse(method, path);
            let want = want.map(|(form, ask, model)| Route { form, ask, model: model.map(str::to_owned) });
            assert_eq!(got, want, "{method} {path}");
        }
    }
}
