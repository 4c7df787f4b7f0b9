//! Files and directories mentioned in a prompt with `@`, which are attached to it.
//!
//! A mention by the user implies permission to read the file, so there is no prompt. Deny rules still
//! apply, and a symlink in the workspace that leads outside is not attached: the model can ask to read
//! it. Mentions in the text of a project's command, in the output of its programs or in its agent's
//! report do not come from the user: such files are only attached if reading them needs no prompt.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_agent::{Agent, Attachment, AttachmentKind};
use haft_permission::{Behavior, HookOpinion};
use haft_tool::{CallContext, Content, DynTool};
use serde_json::{Value, json};

use crate::{
    build::ReadOnlyTools,
    mcp_servers::{EditorContext, EditorSelection},
};

/// Maximum number of attached files; the model can read the others itself.
const MOST: usize = 20;

/// Maximum number of candidates; a text with more is not a prompt that mentions files.
const MAX_LOOKED_AT: usize = 200;

/// Punctuation that can follow a path in a sentence.
const PUNCTUATION: [char; 9] = ['.', ',', ';', ':', '!', '?', ')', ']', '\''];

/// A path mentioned in a prompt.
#[derive(Clone, Debug, Eq, PartialEq)]
struct PathMention {
    path: String,
    /// First and last line, if given (`@file#L3-9`).
    lines: Option<(u64, u64)>,
}

/// Delimiters of piped data in a prompt. Mentions in it are ignored: a diff written by someone else must
/// not select files for the model.
const DATA: [(&str, &str); 2] = [("<stdin>\n", "\n</stdin>"), ("<context path=\"", "\n</context>")];

/// Appends piped data to a prompt.
pub fn with_piped(prompt: &str, piped: &str) -> String {
    format!("{prompt}\n\n<stdin>\n{}\n</stdin>", inside("stdin", piped))
}

/// Formats data that an editor attaches to a prompt, with its name.
pub fn as_context(name: &str, data: &str) -> String {
    let name = name.replace('"', "&quot;");
    format!("<context path=\"{name}\">\n{}\n</context>", inside("context", data))
}

/// Escapes delimiters in the data, so that it cannot end its own block or imitate Haft.
fn inside(tag: &str, data: &str) -> String {
    haft_types::tags::neutral(data).replace(&format!("</{tag}>"), &format!("<\\/{tag}>"))
}

fn without_data(text: &str) -> Cow<'_, str> {
    let mut rest = Cow::Borrowed(text);
    for (begin, end) in DATA {
        let mut parts = rest.split(begin);
        let mut kept = String::from(parts.next().unwrap_or_default());
        if kept.len() == rest.len() {
            continue;
        }
        for part in parts {
            kept.push('\n');
            kept.push_str(part.split_once(end).map_or("", |(_, behind)| behind));
        }
        rest = Cow::Owned(kept);
    }
    rest
}

/// The paths mentioned in a text, without duplicates.
fn mentions(text: &str) -> Vec<PathMention> {
    let text = &*without_data(text);
    let mut found: Vec<PathMention> = Vec::new();
    for (at, _) in text.match_indices('@') {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|it| !it.is_whitespace() && it != '(') {
            continue;
        }
        let rest = &text[at + 1..];
        let path = match rest.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
            Some((quoted, _)) => quoted,
            None => rest.split(char::is_whitespace).next().unwrap_or_default(),
        };
        let mention = PathMention::parse(path);
        if !path.is_empty() && !found.contains(&mention) {
            found.push(mention);
        }
        if MAX_LOOKED_AT <= found.len() {
            break;
        }
    }
    found
}

impl PathMention {
    fn parse(text: &str) -> Self {
        let number = |it: &str| it.trim_start_matches('L').parse::<u64>().ok().filter(|it| 0 < *it);
        let ranged = text.rsplit_once("#L").and_then(|(path, range)| {
            let range = range.trim_end_matches(PUNCTUATION);
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((path, (number(first)?, number(last)?)))
        });
        match ranged {
            Some((path, lines)) => Self { path: path.to_owned(), lines: Some(lines) },
            None => Self { path: text.to_owned(), lines: None },
        }
    }

    /// The file or directory it refers to, if that exists.
    fn find(&self, cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
        let trimmed = self.path.trim_end_matches(PUNCTUATION);
        [self.path.as_str(), trimmed].into_iter().find_map(|path| {
            let path = haft_paths::expand(Path::new(path), cwd, home).ok()?;
            // Pipes and devices are excluded, because reading them could block.
            let about = std::fs::metadata(&path).ok()?;
            (about.is_file() || about.is_dir()).then_some(path)
        })
    }
}

/// Whether a text mentions an existing file.
pub(crate) fn names_something(text: &str, cwd: &Path, home: Option<&Path>) -> bool {
    mentions(text).iter().any(|it| it.find(cwd, home).is_some())
}

/// Who wrote the file mentions in a prompt.
pub(crate) enum NamedBy {
    /// The user.
    Person,
    /// A command: its file, the output of its programs, the report of its agent. Files that reading
    /// would prompt for are only attached if the mention is in vouched text.
    Command {
        /// What the user typed after the command's name.
        args: String,
        /// Further text that the user or the embedding program vouches for.
        vouched: String,
    },
}

impl NamedBy {
    fn is_by_person(&self, mention: &PathMention) -> bool {
        match self {
            Self::Person => true,
            Self::Command { args, vouched } => {
                let is_word = |word: &str| word.trim_matches(['"', '\'', '@']) == mention.path;
                without_data(args).split_whitespace().any(is_word)
                    || mentions(args).contains(mention)
                    || mentions(vouched).contains(mention)
            }
        }
    }
}

/// The attachments of a prompt, as shown by the read-only tools.
pub(crate) async fn attachments(
    agent: &Agent,
    text: &str,
    named_by: NamedBy,
    readers: &ReadOnlyTools,
) -> Vec<Attachment> {
    let state = &agent.tools.state;
    let mut attached: Vec<Attachment> = Vec::new();
    for mention in mentions(text) {
        let Some(path) = mention.find(&state.cwd, state.home.as_deref()) else { continue };
        let (kind, tool, input) = if path.is_dir() {
            (AttachmentKind::Directory, &readers.list, json!({"path": path.to_string_lossy(), "depth": 1}))
        } else {
            (AttachmentKind::File, &readers.read, mention.reading(&path))
        };
        let is_meant = named_by.is_by_person(&mention) && !leads_out(&path, &state.cwd);
        if !is_meant && !may_read(agent, tool, input.clone()) {
            continue;
        }
        let Some(content) = shown(agent, tool, input).await else { continue };
        let filename = haft_paths::lexical(&path).display().to_string();
        attached.push(Attachment { kind, filename, display_path: mention.path, content });
        if MOST <= attached.len() {
            break;
        }
    }
    attached
}

/// Whether a path inside a directory leads outside through a symlink.
fn leads_out(path: &Path, dir: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    haft_paths::lexical(path).starts_with(haft_paths::lexical(dir)) && !real(path).starts_with(real(dir))
}

/// Attachments from the user's editor: the selection, and mentioned files. Files that reading would
/// prompt for are left out.
pub(crate) async fn from_editor(
    agent: &Agent,
    news: &EditorContext,
    readers: &ReadOnlyTools,
) -> Vec<Attachment> {
    let (selected, mentioned) = news.take();
    let mut attached = Vec::new();
    for EditorSelection { path, lines, .. } in mentioned {
        let mention = PathMention { path: path.display().to_string(), lines };
        let Some(content) = shown(agent, &readers.read, mention.reading(&path)).await else { continue };
        let filename = haft_paths::lexical(&path).display().to_string();
        attached.push(Attachment {
            kind: AttachmentKind::File,
            filename,
            display_path: mention.path,
            content,
        });
    }
    if let Some(EditorSelection { path, lines, text }) = selected {
        let mention = PathMention { path: path.display().to_string(), lines };
        // The selection may be unsaved, so the editor's text is used if the file may be read.
        if may_read(agent, &readers.read, mention.reading(&path)) {
            let (first, last) = lines.unwrap_or((1, 1));
            let display_path = if first == last {
                format!("{} (line {first})", path.display())
            } else {
                format!("{} (lines {first} to {last})", path.display())
            };
            let filename = haft_paths::lexical(&path).display().to_string();
            let content = Content::text(text);
            attached.push(Attachment { kind: AttachmentKind::Selection, filename, display_path, content });
        }
    }
    attached
}

impl PathMention {
    fn reading(&self, path: &Path) -> Value {
        let mut input = json!({"file_path": path.to_string_lossy()});
        if let Some((first, last)) = self.lines {
            input["offset"] = json!(first);
            input["limit"] = json!(last.saturating_sub(first) + 1);
        }
        input
    }
}

/// Whether a file may be read without a prompt.
fn may_read(agent: &Agent, tool: &Arc<dyn DynTool>, input: Value) -> bool {
    let state = &agent.tools.state;
    let mut cx = CallContext::detached("selected", Arc::clone(&state.cwd));
    cx.home.clone_from(&state.home);
    let Ok(call) = Arc::clone(tool).parse(input, &cx) else { return false };
    let policy = agent.tools.pipeline.gate.permissions().policy();
    let decision = policy.judge(tool.name(), call.as_ref(), &cx, &HookOpinion::default());
    call.validate(&cx).is_ok() && decision.behavior == Behavior::Allow
}

/// Runs a read-only tool, unless a rule denies it.
async fn shown(agent: &Agent, tool: &Arc<dyn DynTool>, input: Value) -> Option<Content> {
    let state = &agent.tools.state;
    let mut cx = CallContext::detached(format!("attached-{}", uuid::Uuid::new_v4()), Arc::clone(&state.cwd));
    cx.home.clone_from(&state.home);
    let call = Arc::clone(tool).parse(input, &cx).ok()?;
    call.validate(&cx).ok()?;
    let policy = agent.tools.pipeline.gate.permissions().policy();
    let decision = policy.judge(tool.name(), call.as_ref(), &cx, &HookOpinion::default());
    let permit = decision.approved().ok()?;
    Some(call.run(permit, cx).await.ok()?.content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_sentences() {
        let check = |text: &str, want: &[(&str, Option<(u64, u64)>)]| {
            let found: Vec<_> = mentions(text).into_iter().map(|it| (it.path, it.lines)).collect();
            let want: Vec<_> = want.iter().map(|(path, lines)| ((*path).to_owned(), *lines)).collect();
            assert_eq!(found, want, "{text}");
        };
        check("plain", &[]);
        check("@a.txt", &[("a.txt", None)]);
        check("see @a.txt, and\n@/b/c.", &[("a.txt,", None), ("/b/c.", None)]);
        check("me@a.txt @ @", &[]);
        check("@\"with space.txt\" (@x)", &[("with space.txt", None), ("x)", None)]);
        check(
            "@a.rs#L3-9 @a.rs#L4 @a.rs#Lx",
            &[("a.rs", Some((3, 9))), ("a.rs", Some((4, 4))), ("a.rs#Lx", None)],
        );
        check("@a @a", &[("a", None)]);
        check(&with_piped("@a", "+ @b\n</stdin> @c\n<stdin>\n@d"), &[("a", None)]);
        check(&format!("@a {} @z", as_context("\"x @y", "@b\n</context> @c")), &[("a", None), ("z", None)]);
        check("@ü\u{2003}@\"unclosed", &[("ü", None), ("\"unclosed", None)]);
    }

    #[test]
    fn only_what_is_there_is_found() {
        let Ok(dir) = tempfile::tempdir() else { return };
        let there = dir.path().join("a.txt");
        std::fs::write(&there, "x").ok();
        let find = |text: &str| PathMention::parse(text).find(dir.path(), Some(dir.path()));
        assert_eq!(find("a.txt"), Some(there.clone()));
        assert_eq!(find("a.txt?!"), Some(there.clone()));
        assert_eq!(find("~/a.txt,"), Some(there));
        assert_eq!(find("b.txt"), None);
        assert_eq!(find("/dev/null"), None);
    }
}
