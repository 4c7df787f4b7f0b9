use std::path::PathBuf;

use haft_search::{GlobFilter, GrepOptions, GrepPage, GrepQuery, Mode, WalkFilter, file_type};
use haft_tool::{CallContext, ToolError};
use haft_types::nearest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::search_common;

/// Finds text in files with a regular expression (ripgrep's syntax: no look-around or backreferences;
/// escape literal braces, `interface\{\}`). Leaves out ignored, hidden and binary files; an answer with
/// hardly any matches says what was left out and whether it would have matched. Reads other encodings than UTF-8 too.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The regular expression.
    pub pattern: String,
    /// File or directory to search. The working directory if left out. A place that is named is searched
    /// even if it is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Only files that fit, such as `*.ts`, `src/**/*.{c,h}` or `!*.min.js`; several with commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
    /// Only files of this type, such as `rust`, `py`, `ts`, `go`, `java`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub file_type: Option<String>,
    /// What to answer with: paths of files with a match (the default), the lines, or the number of matching
    /// lines per file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_mode: Option<OutputMode>,
    /// Lines to show after each match, in content mode.
    #[serde(default, rename = "-A", skip_serializing_if = "Option::is_none")]
    pub after: Option<usize>,
    /// Lines to show before each match, in content mode.
    #[serde(default, rename = "-B", skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// Lines to show before and after each match, in content mode.
    #[serde(default, rename = "-C", skip_serializing_if = "Option::is_none")]
    pub around: Option<usize>,
    /// The same as `-C`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// Show line numbers in content mode. On if left out.
    #[serde(default, rename = "-n", skip_serializing_if = "Option::is_none")]
    pub line_numbers: Option<bool>,
    /// Take upper and lower case as the same.
    #[serde(default, rename = "-i", skip_serializing_if = "Option::is_none")]
    pub ignore_case: Option<bool>,
    /// Show only what matched instead of whole lines, in content mode.
    #[serde(default, rename = "-o", skip_serializing_if = "Option::is_none")]
    pub only_matching: Option<bool>,
    /// Let matches span lines; `.` matches line breaks too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiline: Option<bool>,
    /// At most this many lines or files; 250 if left out, 0 for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_limit: Option<usize>,
    /// Pass over this many lines or files first: the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// Also search what .gitignore and the like leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_ignored: Option<bool>,
    /// Also search files and directories whose name begins with a dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_hidden: Option<bool>,
}

/// What to answer with.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = plain_enum)]
pub enum OutputMode {
    /// Matching lines.
    Content,
    /// Paths of files with a match.
    #[default]
    FilesWithMatches,
    /// Number of matching lines per file.
    Count,
}

/// Reduces the schema to the names of the variants; the parameter's description explains them.
fn plain_enum(schema: &mut schemars::Schema) {
    schema.remove("oneOf");
    schema.insert(String::from("type"), "string".into());
    schema.insert(String::from("enum"), serde_json::json!(["content", "files_with_matches", "count"]));
}

/// Default maximum lines or files of an answer.
const USUAL_LIMIT: usize = 250;

/// Upper bound of the offset parameter; no answer is as long.
const MAX_OFFSET: usize = 1 << 40;

/// Maximum lines of context around a match.
const MAX_CONTEXT: usize = 10_000;

/// Maximum number of globs in one parameter; more are rejected.
const MAX_GLOBS: usize = 64;

impl Input {
    pub(super) fn mode(&self) -> OutputMode {
        self.output_mode.unwrap_or_default()
    }

    pub(super) fn shows_numbers(&self) -> bool {
        self.line_numbers.unwrap_or(true)
    }

    pub(super) fn page(&self) -> GrepPage {
        let limit = match self.head_limit {
            None => USUAL_LIMIT,
            Some(0) => usize::MAX,
            Some(limit) => limit,
        };
        GrepPage { offset: self.offset.unwrap_or(0).min(MAX_OFFSET), limit }
    }

    fn is_on(flag: Option<bool>) -> bool {
        flag.unwrap_or(false)
    }

    pub(super) fn query(&self) -> Result<GrepQuery, ToolError> {
        let around = self.around.or(self.context).unwrap_or(0);
        let options = GrepOptions {
            mode: match self.mode() {
                OutputMode::Content => Mode::Content,
                OutputMode::FilesWithMatches => Mode::Files,
                OutputMode::Count => Mode::Count,
            },
            ignore_case: Self::is_on(self.ignore_case),
            multiline: Self::is_on(self.multiline),
            before: self.before.unwrap_or(around).min(MAX_CONTEXT),
            after: self.after.unwrap_or(around).min(MAX_CONTEXT),
            only_matching: Self::is_on(self.only_matching),
        };
        let query =
            GrepQuery::new(&self.pattern, options).map(|query| query.with_guess(search_common::guess));
        query.map_err(|problem| {
            let hint = match () {
                () if problem.spans_lines => "Set multiline: true to match across lines",
                () if problem.message.contains("look-around")
                    || problem.message.contains("backreference") =>
                {
                    "Use a wider pattern without it and pick from the matches"
                }
                () if problem.message.contains("size limit") => "Use smaller repetitions",
                () => "To search for text as it stands, put a backslash before each of \\.+*?()|[]{}^$",
            };
            ToolError::invalid(format!("The pattern is not a valid regular expression: {problem}\n{hint}."))
        })
    }

    pub(super) fn filter(&self, cx: &CallContext) -> Result<WalkFilter, ToolError> {
        let globs = self.glob.as_deref().map(split_globs).unwrap_or_default();
        if MAX_GLOBS < globs.len() {
            return Err(ToolError::invalid(format!("glob holds more than {MAX_GLOBS} patterns; use fewer")));
        }
        let mut places = vec![&*cx.cwd];
        places.extend(self.path.as_deref());
        let globs = GlobFilter::new(&globs, &places).map_err(|problem| {
            ToolError::invalid(format!(
                "glob is not valid: {problem}. Write it like *.rs or src/**/*.{{ts,tsx}}"
            ))
        })?;
        let types = match &self.file_type {
            None => None,
            Some(name) => Some(file_type(name).map_err(|unknown| {
                let near = nearest(name, unknown.known.iter().map(String::as_str), 3);
                let meant = if near.is_empty() {
                    String::new()
                } else {
                    format!(" Did you mean {}?", near.join(" or "))
                };
                ToolError::invalid(format!(
                    "There is no file type {name}.{meant} Or use glob, such as *.{name}."
                ))
            })?),
        };
        Ok(WalkFilter {
            respect_ignore: !Self::is_on(self.include_ignored),
            skip_hidden: !Self::is_on(self.include_hidden),
            globs,
            types,
            ..WalkFilter::default()
        })
    }
}

/// Splits several globs in one text: at commas outside braces, and at spaces if every part looks like a
/// glob (`*.ts *.tsx`, but not `my dir/*`).
fn split_globs(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_usize;
    for char in text.chars() {
        match char {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => (),
        }
        if let Some(part) = parts.last_mut() {
            part.push(char);
        }
    }
    let is_glob = |word: &str| word.contains(['*', '?', '[', '{']) || word.starts_with('!');
    let mut globs = Vec::new();
    for part in parts {
        let words: Vec<&str> = part.split_whitespace().collect();
        if 1 < words.len() && words.iter().all(|word| is_glob(word)) {
            globs.extend(words.into_iter().map(str::to_owned));
        } else if !part.trim().is_empty() {
            globs.push(part.trim().to_owned());
        }
    }
    globs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_lists_are_split_at_commas_and_spaces() {
        for (text, want) in [
            ("*.ts", "*.ts"),
            ("*.ts,*.tsx", "*.ts|*.tsx"),
            ("*.{ts,tsx}, !*.d.ts", "*.{ts,tsx}|!*.d.ts"),
            ("*.ts *.tsx", "*.ts|*.tsx"),
            ("my dir/*", "my dir/*"),
            ("[a,b].c", "[a,b].c"),
            ("", ""),
        ] {
            assert_eq!(split_globs(text).join("|"), want, "{text}");
        }
    }
}
