//! Fast parser for log lines that skips their content.

use std::{borrow::Cow, fmt};

use haft_types::Usage;
use memchr::memmem;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Maximum weight of an image in bytes of text; providers scale larger images down.
const HEAVIEST_PICTURE: usize = 5_600;

/// Start of system reminders in user messages.
pub(crate) const NOTE: &str = "<system-reminder>";

/// A log line. Strings are borrowed, not decoded.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkimmedLine<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    /// Kind of a Haft-specific line.
    #[serde(rename = "kind", borrow, default)]
    pub(crate) state: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) cwd: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) subtype: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) custom_title: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) is_sidechain: Option<bool>,
    #[serde(default)]
    pub(crate) is_meta: Option<bool>,
    #[serde(borrow, default)]
    pub(crate) message: Option<SkimmedMessage<'a>>,
}

/// The message of a line.
#[derive(Debug, Deserialize)]
pub(crate) struct SkimmedMessage<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) content: SkimmedContent<'a>,
}

impl SkimmedMessage<'_> {
    /// Returns the token usage, if readable.
    pub(crate) fn used(&self) -> Option<Usage> {
        serde_json::from_str(self.usage?.get()).ok()
    }
}

/// The blocks of a message.
#[derive(Debug, Default)]
pub(crate) struct SkimmedContent<'a>(pub(crate) Vec<SkimmedBlock<'a>>);

/// A block of a message.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SkimmedBlock<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) tool_use_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) is_error: Option<bool>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    /// Bytes of a message that is a single string.
    #[serde(skip)]
    whole: usize,
}

impl SkimmedBlock<'_> {
    /// Estimates the bytes of its text.
    pub(crate) fn weight(&self) -> usize {
        let parts = [self.text, self.thinking, self.input];
        let said: usize = parts.iter().flatten().map(|it| it.get().len()).sum();
        let source = self.source.map_or(0, |it| it.get().len());
        let source = if self.kind == "image" { source.min(HEAVIEST_PICTURE) } else { source };
        self.whole + said + source + self.content.map_or(0, content_weight)
    }

    /// Whether it is a system reminder in a user message.
    pub(crate) fn is_note(&self) -> bool {
        self.text.is_some_and(|it| it.get().strip_prefix('"').is_some_and(|it| it.starts_with(NOTE)))
    }

    /// Whether it is thinking without text.
    pub(crate) fn is_silent(&self) -> bool {
        self.thinking.is_none_or(|it| it.get().len() <= 2)
    }
}

/// Estimates the bytes of a result; images count by what the model sees.
fn content_weight(content: &RawValue) -> usize {
    let text = content.get();
    if memmem::find(text.as_bytes(), b"\"base64\"").is_none() {
        return text.len();
    }
    match serde_json::from_str::<Vec<SkimmedBlock<'_>>>(text) {
        Ok(blocks) => blocks.iter().map(SkimmedBlock::weight).sum(),
        Err(_) => text.len(),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for SkimmedContent<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SkimVisitor)
    }
}

struct SkimVisitor;

impl<'de> Visitor<'de> for SkimVisitor {
    type Value = SkimmedContent<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or blocks")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        // A plain string has no type, and only its length is stored.
        let whole = text.len();
        let kind = if text.is_empty() { Cow::Borrowed("empty") } else { Cow::Borrowed("text") };
        Ok(SkimmedContent(vec![SkimmedBlock { kind, whole, ..SkimmedBlock::default() }]))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(SkimmedContent::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut blocks = Vec::new();
        loop {
            match list.next_element::<SkimmedBlock<'de>>() {
                Ok(Some(block)) => blocks.push(block),
                Ok(None) => return Ok(SkimmedContent(blocks)),
                Err(err) => return Err(err),
            }
        }
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(SkimmedContent::default())
    }
}

/// Parses a line. After a crash it may contain zero bytes in place of data.
pub(crate) fn skim(line: &[u8]) -> Option<SkimmedLine<'_>> {
    let start = line.iter().position(|it| *it != 0)?;
    serde_json::from_slice(&line[start..]).ok()
}
