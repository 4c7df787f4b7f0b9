use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

/// What was read.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(tag = "type", content = "file", rename_all = "snake_case")]
pub enum Output {
    /// Lines of text.
    Text(TextFile),
    /// A picture.
    Image(ImageFile),
    /// A Jupyter notebook.
    Notebook(NotebookFile),
    /// Pages of a PDF, as text.
    Pdf(PdfFile),
    /// Pages of a PDF, as pictures in a directory.
    Parts(Parts),
    /// The same as an earlier result that is still in the conversation.
    FileUnchanged(Unchanged),
    /// A file that is no text, described.
    Binary(BinaryFile),
}

/// Lines of text.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextFile {
    /// The file.
    pub file_path: PathBuf,
    /// The lines, without numbers.
    pub content: String,
    /// How many lines are shown.
    pub num_lines: u64,
    /// The number of the first one.
    pub start_line: u64,
    /// How many lines the file has.
    pub total_lines: u64,
    /// Whether the budget ended the page.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated_by_token_cap: bool,
    /// The letters of each line's mark, where marks were asked for and the line
    /// is shown whole.
    #[serde(skip)]
    pub marks: Vec<Option<String>>,
    /// How the file is spelt, where it is not plain UTF-8 with line feeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// What follows the lines for the model: what is cut, how to read on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A picture.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageFile {
    /// The picture as it is sent.
    pub base64: String,
    /// Its MIME type.
    #[serde(rename = "type")]
    pub media_type: String,
    /// Bytes of the file.
    pub original_size: u64,
    /// Sizes in pixels.
    pub dimensions: Dimensions,
}

/// Sizes in pixels.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dimensions {
    /// Of the file.
    pub original_width: u32,
    /// Of the file.
    pub original_height: u32,
    /// As sent.
    pub display_width: u32,
    /// As sent.
    pub display_height: u32,
}

/// A Jupyter notebook.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotebookFile {
    /// The file.
    pub file_path: PathBuf,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// What follows the cells for the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// A cell of a notebook.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Cell {
    /// Its id, or its number where it has none.
    pub cell_id: String,
    /// `code`, `markdown` or `raw`.
    pub cell_type: String,
    /// Its text.
    pub source: String,
    /// Of code cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Of code cells that ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_count: Option<Value>,
    /// What the cell put out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<CellOutput>,
}

/// Something a cell put out.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct CellOutput {
    /// As text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// As a picture: MIME type and base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<(String, String)>,
}

impl CellOutput {
    pub(super) fn say(&mut self, line: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }
}

/// Pages of a PDF, as text.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PdfFile {
    /// The file.
    pub file_path: PathBuf,
    /// The whole file, where it is sent as it is; else empty.
    pub base64: String,
    /// Bytes of the file.
    pub original_size: u64,
    /// How many pages it has.
    pub page_count: usize,
    /// The pages shown, as number and text.
    pub pages: Vec<(usize, String)>,
    /// Pages shown as pictures, in the result only: number, MIME type, base64.
    #[serde(skip)]
    pub images: Vec<(usize, String, String)>,
    /// What follows the pages for the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// Something too large for one result, as files in a directory.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Parts {
    /// The file.
    pub file_path: PathBuf,
    /// Bytes of the file.
    pub original_size: u64,
    /// How many parts there are.
    pub count: usize,
    /// The directory with one file for each; empty where they are in the result
    /// alone.
    pub output_dir: PathBuf,
    /// The first page shown.
    pub first_page: usize,
    /// How many pages the file has.
    pub page_count: usize,
    /// The pages as pictures, in the result only: MIME type and base64.
    #[serde(skip)]
    pub images: Vec<(String, String)>,
    /// What follows for the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// The same as before.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unchanged {
    /// The file.
    pub file_path: PathBuf,
    /// The call that showed it.
    pub shown_by: String,
}

/// A file that is no text.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BinaryFile {
    /// The file.
    pub file_path: PathBuf,
    /// Bytes of the file.
    pub original_size: u64,
    /// What its first bytes say it is.
    pub sniffed: String,
    /// Its first bytes, in hexadecimal and as text.
    pub first_bytes: String,
    /// What else is worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}
