use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::tags;

/// One block of a tool result, in the format of the Messages API.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// The image data.
        source: MediaSource,
    },
    /// A document, such as a PDF.
    Document {
        /// The document data.
        source: MediaSource,
        /// Display name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// Loads a deferred tool by name, on providers that support it.
    ToolReference {
        /// The tool's wire name.
        tool_name: String,
    },
}

/// Data of an image or a document.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MediaSource {
    /// Inline data.
    Base64 {
        /// MIME type.
        media_type: String,
        /// Data encoded as base64.
        data: String,
    },
    /// Data at a URL.
    Url {
        /// The URL.
        url: String,
    },
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// An image block of base64 data.
    pub fn image(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self::Image { source: MediaSource::Base64 { media_type: media_type.into(), data: data.into() } }
    }

    /// The text, if this is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

/// Content of one tool result as the model reads it. Never empty when sent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Content(pub Vec<Block>);

impl Content {
    /// One text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self(vec![Block::text(text)])
    }

    /// The text of all text blocks, joined by newlines, plus a phrase for each tool reference.
    pub fn to_text(&self) -> String {
        let texts = self.0.iter().filter_map(|block| match block {
            Block::Text { text } => Some(Cow::Borrowed(text.as_str())),
            Block::ToolReference { tool_name } => Some(Cow::Owned(format!("[{tool_name} is loaded]"))),
            Block::Image { .. } | Block::Document { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Escapes Haft's own tags in every text ([`crate::tags`]). Returns whether there were any.
    pub fn neutralise(&mut self) -> bool {
        let mut any = false;
        for block in &mut self.0 {
            any |= match block {
                Block::Text { text } => tags::neutralise_text(text),
                Block::Document { title, .. } => title.as_mut().is_some_and(tags::neutralise_text),
                Block::Image { .. } | Block::ToolReference { .. } => false,
            };
        }
        any
    }

    /// Number of characters in all text blocks; compared with a result limit.
    pub fn chars(&self) -> usize {
        self.0.iter().filter_map(Block::as_text).map(|text| text.chars().count()).sum()
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<Vec<Block>> for Content {
    fn from(blocks: Vec<Block>) -> Self {
        Self(blocks)
    }
}
