//! Queries language servers about code.

mod diagnostic_changes;
mod document_text;
mod input;
mod lsp_query;
mod result_text;
mod servers;

use std::{path::Path, sync::Arc};

use haft_tool::{
    Access, AccessSet, CallContext, Content, Exposure, LineStyle, Outcome, Rendered, RenderedLine, Stage,
    Tool, ToolContext, ToolError, Traits, Verdict,
};
use serde::Serialize;

pub use diagnostic_changes::AgentNotifier;
pub use input::{Input, Operation, Output};
pub use servers::{ExtraProgramDirs, LspServers, OpenServerShell, ServerShell};

use self::lsp_query::{LspQuery, QueriedFile};
use crate::edit_common::{blocking, canonical, check_path, granted};

#[derive(Debug)]
pub struct Lsp {
    desk: Arc<LspServers>,
}

/// Progress of a query.
#[derive(Clone, Debug, Serialize)]
pub struct LspProgress {
    /// What the query waits for.
    pub note: String,
}

impl Lsp {
    pub fn new(desk: Arc<LspServers>) -> Self {
        Self { desk }
    }

    /// Runs a query that names no file. Goes to all running servers.
    async fn about_all(&self, input: &Input, cx: &ToolContext<LspProgress>) -> Result<Output, ToolError> {
        let inside = |it: &Arc<haft_lsp::LspClient>| {
            it.plan().root.starts_with(&*cx.cwd) || cx.cwd.starts_with(&it.plan().root)
        };
        let running: Vec<_> = self.desk.all_running().into_iter().filter(inside).collect();
        if running.is_empty() {
            return Err(ToolError::failed(
                "No language server runs yet. Give filePath: any file of the language that is meant",
            ));
        }
        let mut all = Output { operation: input.operation.name().to_owned(), ..Output::default() };
        let (mut servers, mut texts, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for client in running {
            let name = client.plan().name.clone();
            match (LspQuery { client, input, cx, file: None }).answer().await {
                Ok(one) => {
                    texts.push(one.result);
                    all.result_count = Some(all.result_count.unwrap_or(0) + one.result_count.unwrap_or(0));
                    all.notes.extend(one.notes);
                    servers.push(name);
                }
                Err(error) => failed.push(error),
            }
        }
        match (texts.is_empty(), failed.into_iter().next()) {
            (true, Some(error)) => return Err(error),
            (false, Some(error)) => all.notes.push(error.message),
            _ => (),
        }
        (all.result, all.server) = (texts.join("\n"), servers.join(", "));
        Ok(all)
    }

    async fn about_file(
        &self,
        path: &Path,
        input: &Input,
        cx: &ToolContext<LspProgress>,
    ) -> Result<Output, ToolError> {
        let (real, desk, cwd) = (granted(cx, path)?, Arc::clone(&self.desk), Arc::clone(&cx.cwd));
        let asked = path.to_owned();
        let (plan, file) = blocking(move || {
            if !real.is_file() {
                return Err(ToolError::failed(format!("{} is no file.", asked.display())));
            }
            let plan = desk.plan_for_call(&real, &cwd).map_err(|mut why| {
                why[..1].make_ascii_uppercase();
                ToolError::failed(format!("{why}."))
            })?;
            let text = document_text::read_text(&real).map_err(ToolError::failed)?;
            let language = plan.language.clone();
            Ok((plan, QueriedFile { path: real, language, text }))
        })
        .await?;
        // Library sources belong to the server of the project that uses them.
        let outside = !file.path.starts_with(&*cx.cwd);
        let elsewhere =
            self.desk.all_running().into_iter().find(|it| outside && it.plan().program == plan.program);
        let client = match elsewhere {
            Some(client) => client,
            None => {
                cx.progress(&LspProgress { note: format!("asking {}", plan.name) });
                self.desk.client(&plan, cx).await?
            }
        };
        let (asked, path) = (Arc::clone(&client), file.path.clone());
        let output = LspQuery { client, input, cx, file: Some(file) }.answer().await?;
        if input.operation == Operation::Diagnostics
            && let Some(items) = LspQuery::known(&asked, &path)
        {
            self.desk.news.knows(&path, &items);
        }
        Ok(output)
    }
}

impl Tool for Lsp {
    type Input = Input;
    type Output = Output;
    type Progress = LspProgress;
    const NAME: &'static str = "LSP";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            synonyms: &[
                ("file_path", "filePath"),
                ("path", "filePath"),
                ("file", "filePath"),
                ("column", "character"),
                ("col", "character"),
                ("new_name", "newName"),
                ("name", "symbol"),
            ],
            search_hint: "go to definition find references hover type symbols callers rename diagnostics language server",
            exposure: Exposure::Deferred,
            timeout: None,
            feature: Some("lsp"),
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn canonicalize(&self, input: &mut Input, cx: &CallContext) {
        if let Some(path) = &mut input.file_path {
            canonical(path, cx);
        }
    }

    fn path<'a>(&self, input: &'a Input) -> Option<&'a Path> {
        input.file_path.as_deref()
    }

    fn reach(&self, input: &Input, cx: &CallContext) -> AccessSet {
        let Some(path) = &input.file_path else { return AccessSet::read(cx.cwd.to_path_buf()) };
        let mut accesses = vec![Access::Read(path.clone())];
        // Starting a server runs a program that may execute code of the project.
        let line = self.desk.to_agree(path, &cx.cwd);
        accesses.extend(line.map(|line| Access::Command(line.into())));
        AccessSet::Declared(accesses)
    }

    fn check_permissions(&self, input: &Input, cx: &CallContext) -> Verdict {
        let why = input.file_path.as_ref().and_then(|path| self.desk.distrusted(path, &cx.cwd));
        why.map_or(Verdict::Passthrough, Verdict::Ask)
    }

    fn validate(&self, input: &Input, cx: &CallContext) -> Result<(), ToolError> {
        let missing =
            |what: &str| Err(ToolError::invalid(format!("{} needs {what}", input.operation.name())));
        if let Some(path) = &input.file_path {
            check_path(path, cx)?;
        }
        let blank = |text: &Option<String>| text.as_deref().is_none_or(|it| it.trim().is_empty());
        match input.operation {
            Operation::WorkspaceSymbol if blank(&input.query) && blank(&input.symbol) => {
                missing("query: the name, or a part of it")
            }
            Operation::WorkspaceSymbol | Operation::Diagnostics => Ok(()),
            _ if input.file_path.is_none() => missing("filePath"),
            Operation::Rename if blank(&input.new_name) => missing("newName"),
            it if it.needs_place() && input.line.is_none() && blank(&input.symbol) => {
                missing("line and character, or line and symbol, or symbol")
            }
            _ => Ok(()),
        }
    }

    fn describe(&self, input: &Input) -> String {
        let path = input.file_path.as_ref().map(|it| it.display().to_string());
        let line = input.line.map(|it| format!(":{it}")).unwrap_or_default();
        let what = input.symbol.as_deref().or(input.query.as_deref());
        let words =
            [Some(String::from(input.operation.name())), what.map(str::to_owned), path.map(|it| it + &line)];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    async fn call(&self, input: Input, cx: &ToolContext<LspProgress>) -> Result<Outcome<Output>, ToolError> {
        let asking = async {
            match &input.file_path {
                Some(path) => self.about_file(path, &input, cx).await,
                None => self.about_all(&input, cx).await,
            }
        };
        tokio::select! {
            answer = asking => {
                let mut answer = answer?;
                answer.notes.extend(self.desk.news_of_memory());
                Ok(answer.into())
            }
            () = cx.cancel.cancelled() => Err(ToolError::failed("Interrupted while a language server was asked")),
        }
    }

    fn to_content(&self, output: &Output) -> Content {
        let notes: String = output.notes.iter().map(|it| format!("\n[{it}]")).collect();
        Content::text(format!("{}{notes}", output.result.trim_end()))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Failed(error) => Rendered::error(&error.message),
            Stage::Done(output) => {
                let style = |line: &str| match line.trim_start().as_bytes().first() {
                    Some(b'+') => LineStyle::Added,
                    Some(b'-') => LineStyle::Removed,
                    _ => LineStyle::Plain,
                };
                let lines = output.result.lines().map(|it| RenderedLine::new(style(it), it)).collect();
                let note = |it: &String| RenderedLine::new(LineStyle::Dim, format!("[{it}]"));
                let notes = output.notes.iter().map(note).collect();
                let headline = format!("{} ({})", output.operation, output.server);
                Rendered { headline, lines, notes, ..Rendered::default() }
            }
        }
    }
}
