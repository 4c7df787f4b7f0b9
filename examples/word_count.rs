//! A whole tool, with everything it can say about itself: counts lines, words and characters of a text file.
//!
//! `cargo run --example word_count -p haft -- /path/to/file`

use std::path::{Path, PathBuf};

use haft::prelude::*;

/// Counts the lines, words and characters of a text file. Use it for statistics about size.
#[derive(Deserialize, JsonSchema, Serialize)]
struct Input {
    /// The absolute path of the text file.
    file_path: PathBuf,
}

struct WordCount;

impl Tool for WordCount {
    type Input = Input;
    type Output = String;
    type Progress = ();
    const NAME: &'static str = "WordCount";

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "count lines words characters in a text file",
            max_result_chars: Some(4096),
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _: &Input) -> bool {
        true
    }

    fn describe(&self, input: &Input) -> String {
        format!("Count lines, words and characters in {}", input.file_path.display())
    }

    fn classifier_input(&self, input: &Input) -> String {
        input.file_path.display().to_string()
    }

    fn render(&self, stage: Stage<'_, Input, String>) -> Rendered {
        match stage {
            Stage::Running(input) => {
                Rendered::headline(format!("Counting words in {}…", input.file_path.display()))
            }
            Stage::Done(counts) => Rendered::headline(counts),
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }

    fn path<'a>(&self, input: &'a Input) -> Option<&'a Path> {
        Some(&input.file_path)
    }

    fn validate(&self, input: &Input, _: &CallContext) -> Result<(), ToolError> {
        let path = input.file_path.display();
        if input.file_path.is_absolute() {
            return Ok(());
        }
        Err(ToolError::invalid(format!("file_path must be an absolute path; received: {path}")))
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<String>, ToolError> {
        let text = tokio::fs::read_to_string(cx.granted(&input.file_path)?).await?;
        let (lines, words) = (text.split('\n').count(), text.split_whitespace().count());
        let (path, chars) = (input.file_path.display(), text.chars().count());
        Ok(format!("{path}: {lines} lines, {words} words, {chars} characters").into())
    }
}

#[tokio::main]
async fn main() -> Result<(), BuildError> {
    let file_path = std::env::args().nth(1).unwrap_or_else(|| String::from("Cargo.toml"));
    let report =
        Tools::new(vec![erase(WordCount)])?.call(WordCount::NAME, json!({"file_path": file_path})).await;
    #[expect(clippy::print_stdout, reason = "an example shows what it did")]
    {
        println!("{}", report.content.to_text());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it says about itself.
    #[test]
    fn declares_what_it_is() {
        let tool = erase(WordCount);
        let spec = tool.spec();
        assert_eq!((spec.max_result_chars, spec.search_hint.is_empty()), (Some(4096), false));
        let cx = CallContext::detached("c", Path::new("/"));
        let call = tool.clone().parse(json!({"file_path": "/a.txt"}), &cx).unwrap();
        assert!(call.is_read_only() && call.is_concurrency_safe());
        assert_eq!(call.describe(), "Count lines, words and characters in /a.txt");
        assert_eq!(call.render().headline, "Counting words in /a.txt…");
        assert_eq!(call.user_facing_name(), "WordCount");
    }

    /// What the tutorial asks for: unknown keys are refused, counts are right,
    /// the model gets a readable line.
    #[tokio::test]
    async fn counts_and_refuses() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().canonicalize().unwrap().join("a.txt");
        let path = path.to_str().unwrap().to_owned();
        let mut tools = Tools::new(vec![erase(WordCount)]).unwrap();
        for (text, counts) in [
            ("one two\nthree\n", "3 lines, 3 words, 14 characters"),
            ("", "1 lines, 0 words, 0 characters"),
            ("größe", "1 lines, 1 words, 5 characters"),
        ] {
            std::fs::write(&path, text).unwrap();
            let report = tools.call("WordCount", json!({"file_path": path})).await;
            assert_eq!((report.error, report.content.to_text()), (None, format!("{path}: {counts}")));
        }
        for (input, want) in [
            (json!({"file_path": path, "extra": 1}), "`extra` is not a known parameter"),
            (json!({"file_path": "a.txt"}), "file_path must be an absolute path; received: a.txt"),
        ] {
            let report = tools.call("WordCount", input).await;
            assert_eq!(report.error, Some(ErrorKind::InvalidInput));
            assert!(report.content.to_text().contains(want), "{}", report.content.to_text());
        }
    }
}
