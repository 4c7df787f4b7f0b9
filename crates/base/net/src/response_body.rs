use reqwest::{Response, header::CONTENT_ENCODING};

use crate::content_encoding::{BodyDecoder, DecodeStep, packings};

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
    /// It is packed in a way that nobody can unpack further, for this reason.
    Damaged(&'static str),
}

/// The body of an answer while it is read, unpacked as the server says that it
/// is packed. What we do not unpack is given as it came.
pub struct WebBody {
    response: Response,
    /// The outermost first.
    layers: Vec<BodyDecoder>,
    packed: Option<String>,
    ended: bool,
}

/// Why a body does not go on.
enum BodyReadError {
    Broken(reqwest::Error),
    Damaged(&'static str),
}

impl WebBody {
    /// Of this answer.
    pub fn new(response: Response) -> Self {
        let said = response.headers().get_all(CONTENT_ENCODING).iter();
        let said = said.map(|it| String::from_utf8_lossy(it.as_bytes())).collect::<Vec<_>>().join(", ");
        let (layers, packed) = match packings(&said) {
            Some(layers) => (layers.into_iter().map(BodyDecoder::new).collect(), None),
            None => (Vec::new(), Some(said)),
        };
        Self { response, layers, packed, ended: false }
    }

    /// How it is packed, where nobody unpacks it.
    pub fn packed(&self) -> Option<&str> {
        self.packed.as_deref()
    }

    /// Reads on until `into` holds `most` bytes or somewhat more: what is over is
    /// neither lost nor read again. `told` hears how much there is now and then.
    pub async fn read(&mut self, most: usize, into: &mut Vec<u8>, told: &(dyn Fn(usize) + Sync)) -> BodyEnd {
        let mut last = into.len();
        loop {
            match self.more(into).await {
                Ok(true) => {}
                Ok(false) => return BodyEnd::Whole,
                Err(BodyReadError::Broken(err)) => return BodyEnd::Broken(crate::innermost(&err)),
                Err(BodyReadError::Damaged(why)) => return BodyEnd::Damaged(why),
            }
            if last + (256 << 10) < into.len() {
                last = into.len();
                told(last);
            }
            if most < into.len() {
                return BodyEnd::Cut;
            }
        }
    }

    /// Adds some of the body; false where there is no more of it.
    async fn more(&mut self, into: &mut Vec<u8>) -> Result<bool, BodyReadError> {
        let before = into.len();
        while !self.unpack(into)? {
            if self.ended {
                let whole = self.layers.iter().all(BodyDecoder::may_end);
                return if whole { Ok(false) } else { Err(BodyReadError::Damaged("it ends in the middle")) };
            }
            match (self.response.chunk().await.map_err(BodyReadError::Broken)?, self.layers.first_mut()) {
                (None, _) => self.ended = true,
                (Some(chunk), None) => into.extend_from_slice(&chunk),
                (Some(chunk), Some(first)) => first.push(&chunk),
            }
            if before < into.len() {
                break;
            }
        }
        Ok(true)
    }

    /// Unpacks a step of what came; false where nothing came out of it.
    fn unpack(&mut self, into: &mut Vec<u8>) -> Result<bool, BodyReadError> {
        let before = into.len();
        // The innermost layers first, so that none holds more than a step.
        let mut at = self.layers.len();
        while let Some(index) = at.checked_sub(1) {
            let (outer, inner) = self.layers.split_at_mut(at);
            let Some(layer) = outer.last_mut() else { break };
            let mut some = Vec::new();
            let done = match inner.first_mut() {
                None => layer.step(into),
                Some(next) => layer.step(&mut some).inspect(|_| next.push(&some)),
            };
            match done.map_err(BodyReadError::Damaged)? {
                DecodeStep::Waits => at = index,
                // What came out goes on inwards.
                DecodeStep::Some if before < into.len() => return Ok(true),
                DecodeStep::Some => at = self.layers.len(),
            }
        }
        Ok(false)
    }
}
