use reqwest::Response;

/// Why there is no body.
#[derive(Debug)]
pub enum BodyError {
    /// It is larger than allowed.
    TooLarge,
    /// The connection broke, or took too long.
    Broken(reqwest::Error),
}

/// The whole body of an answer, if it holds no more than `limit` bytes. Not more
/// than the limit and one piece of the connection is ever in memory.
pub async fn read_body(mut response: Response, limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Broken)? {
        if limit < body.len() + chunk.len() {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The beginning of a body, at most `limit` bytes and as far as it arrives: for
/// answers that only explain an error.
pub async fn read_beginning(mut response: Response, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < limit
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk);
    }
    body.truncate(limit);
    body
}

/// How a body ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BodyEnd {
    /// All of it was read.
    Whole,
    /// There was more than the limit.
    Cut,
    /// The connection broke, for this reason.
    Broken(String),
}

/// As much of a body as there is below `limit`, and how it ended. What arrived
/// before a connection broke is kept. The limit counts unpacked bytes.
pub async fn read_up_to(response: &mut Response, limit: usize, into: &mut Vec<u8>) -> BodyEnd {
    loop {
        match response.chunk().await {
            Ok(None) => return BodyEnd::Whole,
            Ok(Some(chunk)) => {
                let room = limit.saturating_sub(into.len());
                into.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if room < chunk.len() {
                    return BodyEnd::Cut;
                }
            }
            Err(err) => return BodyEnd::Broken(crate::innermost(&err)),
        }
    }
}
