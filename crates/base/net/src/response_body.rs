use reqwest::{Response, header::CONTENT_ENCODING};

use crate::content_encoding::{BodyDecoder, DecodeStep, packings};

/// Why [`read_body`] failed.
#[derive(Debug)]
pub enum BodyError {
    /// The body is longer than the limit.
    TooLarge,
    /// The connection failed or timed out.
    Broken(reqwest::Error),
}

/// Reads the whole body. Fails with [`BodyError::TooLarge`] if it exceeds `limit` bytes; at most the
/// limit plus one chunk is in memory.
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

/// Reads up to `limit` bytes of a body and ignores read errors. For error responses.
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

/// Why [`WebBody::read`] stopped.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BodyEnd {
    /// The body is complete.
    Whole,
    /// The limit was reached before the end.
    Cut,
    /// The connection failed; the reason.
    Broken(String),
    /// Decoding failed; the reason.
    Damaged(&'static str),
}

/// A response body that is decoded while it is read. A body in an unsupported encoding is returned
/// undecoded.
pub struct WebBody {
    response: Response,
    /// Decoders, outermost encoding first.
    layers: Vec<BodyDecoder>,
    packed: Option<String>,
    ended: bool,
}

/// Why reading failed.
enum BodyReadError {
    Broken(reqwest::Error),
    Damaged(&'static str),
}

impl WebBody {
    pub fn new(response: Response) -> Self {
        let said = response.headers().get_all(CONTENT_ENCODING).iter();
        let said = said.map(|it| String::from_utf8_lossy(it.as_bytes())).collect::<Vec<_>>().join(", ");
        let (layers, packed) = match packings(&said) {
            Some(layers) => (layers.into_iter().map(BodyDecoder::new).collect(), None),
            None => (Vec::new(), Some(said)),
        };
        Self { response, layers, packed, ended: false }
    }

    /// The `Content-Encoding` if this crate does not decode it; the body is then returned as received.
    pub fn packed(&self) -> Option<&str> {
        self.packed.as_deref()
    }

    /// Reads until `into` holds more than `most` bytes (it may exceed it by a chunk or decode step) or
    /// the body ends. Can be called again with a larger limit to continue. Calls `told` with the length
    /// about every 256 KiB. Waits without a timeout.
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

    /// Appends some of the body to `into`. Returns false at the end of the body.
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

    /// Runs one decode step. Returns false if it produced nothing.
    fn unpack(&mut self, into: &mut Vec<u8>) -> Result<bool, BodyReadError> {
        let before = into.len();
        // Inner layers first, so that no layer buffers more than one step.
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
                // Feed the output to the next inner layer.
                DecodeStep::Some if before < into.len() => return Ok(true),
                DecodeStep::Some => at = self.layers.len(),
            }
        }
        Ok(false)
    }
}
