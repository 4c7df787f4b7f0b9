//! Sends one query to one server: waits until it is ready, and retries answers that are not final.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_lsp::{
    CallItem, CallLink, CheckState, CodeAction, LspClient, LspError, ResolvedPosition, WorkspaceChange,
    code_actions, hover_text, line_at, resolve, spots, symbols, uri_of, workspace_change,
};
use haft_tool::{ToolContext, ToolError};
use serde_json::{Value, json};

use super::{
    Input, LspProgress, Operation, Output,
    result_text::{AnswerFormatter, Page},
};

/// How long a query waits for a server that is indexing the project.
const INDEXES: Duration = Duration::from_secs(30);
/// Timeout of one request.
const ANSWERS: Duration = Duration::from_secs(30);
/// Timeout for the diagnostics of a file.
const CHECKS: Duration = Duration::from_secs(20);
/// Delay between retries of an answer that may not be final.
const AGAIN: Duration = Duration::from_millis(700);
/// How long after its start a server that reports no progress is assumed to be indexing.
const YOUNG: Duration = Duration::from_secs(6);
/// Maximum number of code actions that are resolved.
const RESOLVED: usize = 10;

pub(super) struct LspQuery<'a> {
    pub(super) client: Arc<LspClient>,
    pub(super) input: &'a Input,
    pub(super) cx: &'a ToolContext<LspProgress>,
    /// The file the query is about, if any.
    pub(super) file: Option<QueriedFile>,
}

/// The file a query is about.
pub(super) struct QueriedFile {
    pub(super) path: PathBuf,
    pub(super) language: String,
    pub(super) text: String,
}

/// A response, with a note for the model.
struct LspAnswer {
    value: Value,
    note: Option<String>,
}

impl LspQuery<'_> {
    /// Runs the query and formats the answer.
    pub(super) async fn answer(self) -> Result<Output, ToolError> {
        let mut output = Output {
            operation: self.input.operation.name().to_owned(),
            file_path: self.input.file_path.as_ref().map(|it| it.display().to_string()).unwrap_or_default(),
            server: self.client.plan().name.clone(),
            ..Output::default()
        };
        let shower = AnswerFormatter::new(self.cx, self.client.encoding());
        let page = match self.input.operation {
            Operation::Diagnostics => self.diagnostics(&shower).await?,
            Operation::WorkspaceSymbol => self.workspace_symbols(&shower).await?,
            Operation::DocumentSymbol => self.document_symbols(&shower).await?,
            _ => self.about_place(&shower).await?,
        };
        if let Some(trouble) = self.client.readiness().trouble() {
            output.notes.push(format!("{} says: {trouble}", output.server));
        }
        let Page { text, count, files, notes } = page;
        (output.result, output.result_count, output.file_count) = (text, count, files);
        output.notes.extend(notes);
        Ok(output)
    }

    fn file(&self) -> Result<&QueriedFile, ToolError> {
        self.file.as_ref().ok_or_else(|| ToolError::invalid("filePath is missing"))
    }

    fn nonsense(&self, method: &str, why: String) -> ToolError {
        let (server, method) = (self.client.plan().name.clone(), method.to_owned());
        ToolError::failed(LspError::Nonsense { server, method, why }.to_string())
    }

    async fn know(&self) -> Result<(i32, Instant), ToolError> {
        let file = self.file()?;
        let known = self.client.know(&file.path, &file.language, &file.text).await;
        known.map_err(|fault| ToolError::failed(fault.to_string()))
    }

    /// Returns the LSP method; fails if the server lacks the capability.
    fn must_offer(&self) -> Result<&'static str, ToolError> {
        let (method, capability) = self.input.operation.method();
        if self.client.offers(capability) {
            Ok(method)
        } else {
            Err(ToolError::failed(format!(
                "{} does not offer {}; use Grep or Search, or another operation",
                self.client.plan().name,
                self.input.operation.name()
            )))
        }
    }

    /// Retries until the answer is final. An empty answer is not final while the server is indexing.
    async fn ask(&self, method: &str, params: &Value) -> Result<LspAnswer, ToolError> {
        let began = Instant::now();
        let deadline = began + INDEXES;
        let waits = self.input.operation.needs_index();
        let mut tries = 0;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if waits && self.client.readiness().is_busy() {
                self.cx.progress(&LspProgress { note: self.busy() });
                self.client.settle(left).await;
            }
            tries += 1;
            let answer = self.client.ask(method, params, ANSWERS).await;
            let busy = self.client.readiness().is_busy();
            match answer {
                Ok(value) if !is_empty(&value) => {
                    let note = (busy && waits).then(|| format!("{}; there may be more", self.busy()));
                    return Ok(LspAnswer { value, note });
                }
                Ok(value) if !waits && self.is_final(tries) => return Ok(LspAnswer { value, note: None }),
                Ok(_) if busy && deadline <= Instant::now() => return Err(self.not_ready()),
                Ok(value) if !busy && self.is_final(tries) => return Ok(LspAnswer { value, note: None }),
                // A server may not know the file until it has indexed the project.
                Err(fault @ LspError::Refused { .. }) if !busy && (self.is_final(tries) || !waits) => {
                    return Err(ToolError::failed(fault.to_string()));
                }
                Ok(_) | Err(LspError::Refused { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(AGAIN).await;
                }
                Ok(_) => return Err(self.not_ready()),
                Err(fault) => return Err(ToolError::failed(fault.to_string())),
            }
        }
    }

    fn is_final(&self, tries: usize) -> bool {
        let speaks = self.client.readiness().reports_progress();
        YOUNG <= self.client.age() || (speaks && 2 <= tries)
    }

    fn busy(&self) -> String {
        format!("{} still reads the project: {}", self.client.plan().name, self.client.readiness().words())
    }

    fn not_ready(&self) -> ToolError {
        ToolError::failed(format!(
            "{}. Nothing is known yet, which does not mean that there is nothing: ask again in a while, or use Grep meanwhile",
            self.busy()
        ))
    }

    fn place(&self) -> Result<ResolvedPosition, ToolError> {
        let Input { line, character, symbol, .. } = self.input;
        let file = self.file()?;
        let found = resolve(&file.text, *line, *character, symbol.as_deref());
        found.map_err(|why| ToolError::invalid(format!("{}: {why}", file.path.display())))
    }

    async fn about_place(&self, shower: &AnswerFormatter<'_>) -> Result<Page, ToolError> {
        let method = self.must_offer()?;
        let place = self.place()?;
        self.know().await?;
        let file = self.file()?;
        let content = line_at(&file.text, place.place.line).unwrap_or_default();
        let column = self.client.encoding().column(content, place.place.byte);
        let position = json!({"line": place.place.line, "character": column});
        let mut params = json!({"textDocument": {"uri": uri_of(&file.path)}, "position": position});
        let name = place.name.as_deref().unwrap_or("this place");
        let mut page = match self.input.operation {
            Operation::Hover => {
                let answer = self.ask(method, &params).await?;
                let text = hover_text(&answer.value).map_err(|why| self.nonsense(method, why))?;
                shower.hover(text, name, answer.note)
            }
            Operation::PrepareCallHierarchy | Operation::IncomingCalls | Operation::OutgoingCalls => {
                self.calls(&params, name, shower).await?
            }
            Operation::Rename => {
                params["newName"] = json!(self.input.new_name);
                let answer = self.ask(method, &params).await?;
                let change = workspace_change(&answer.value).map_err(|why| self.nonsense(method, why))?;
                shower
                    .rename(&change, name, self.input.new_name.as_deref().unwrap_or_default(), answer.note)
                    .await
            }
            Operation::CodeActions => self.actions(file, &position, shower).await?,
            operation => {
                if operation == Operation::FindReferences {
                    params["context"] = json!({"includeDeclaration": true});
                }
                let answer = self.ask(method, &params).await?;
                let found = spots(&answer.value).map_err(|why| self.nonsense(method, why))?;
                shower.spots(operation, found, name, self.input.offset.unwrap_or(0), answer.note).await
            }
        };
        page.notes.splice(0..0, place.note);
        Ok(page)
    }

    async fn calls(
        &self,
        params: &Value,
        name: &str,
        shower: &AnswerFormatter<'_>,
    ) -> Result<Page, ToolError> {
        let (method, _) = self.input.operation.method();
        let prepared = self.ask(method, params).await?;
        let items = CallItem::read_all(&prepared.value).map_err(|why| self.nonsense(method, why))?;
        if self.input.operation == Operation::PrepareCallHierarchy || items.is_empty() {
            return Ok(shower.call_items(&items, name, prepared.note));
        }
        let (method, end) = match self.input.operation {
            Operation::IncomingCalls => ("callHierarchy/incomingCalls", "from"),
            _ => ("callHierarchy/outgoingCalls", "to"),
        };
        let mut links = Vec::new();
        let mut note = prepared.note;
        for item in items.iter().take(10) {
            let answer = self.ask(method, &json!({"item": item.raw})).await?;
            links.extend(CallLink::read_all(&answer.value, end).map_err(|why| self.nonsense(method, why))?);
            note = note.or(answer.note);
        }
        Ok(shower.calls(self.input.operation, &links, name, self.input.offset.unwrap_or(0), note))
    }

    async fn actions(
        &self,
        file: &QueriedFile,
        position: &Value,
        shower: &AnswerFormatter<'_>,
    ) -> Result<Page, ToolError> {
        let (method, capability) = self.input.operation.method();
        let line = position["line"].as_u64().unwrap_or(0);
        let (version, since) = self.know().await?;
        let checked = self.client.check(&file.path, version, since, CHECKS / 4).await;
        let problems = match checked {
            Ok(CheckState::Now(items)) => items,
            _ => Vec::new(),
        };
        let near = problems.iter().filter(|it| u64::from(it.line) <= line && line <= u64::from(it.end.0));
        let context: Vec<Value> = near.map(raw_problem).collect();
        let params = json!({
            "textDocument": {"uri": uri_of(&file.path)},
            "range": {"start": position, "end": position},
            "context": {"diagnostics": context, "triggerKind": 1},
        });
        let answer = self.ask(method, &params).await?;
        let mut actions = code_actions(&answer.value).map_err(|why| self.nonsense(method, why))?;
        if self.client.resolves(capability) {
            for action in actions.iter_mut().filter(|it| it.change.is_none()).take(RESOLVED) {
                action.change = self.resolved(action).await;
            }
        }
        Ok(shower.actions(&actions, answer.note).await)
    }

    /// Returns the changes of a code action, resolving it if necessary.
    async fn resolved(&self, action: &CodeAction) -> Option<WorkspaceChange> {
        let answer = self.client.ask("codeAction/resolve", &action.raw, ANSWERS).await.ok()?;
        answer.get("edit").filter(|it| !it.is_null()).and_then(|it| workspace_change(it).ok())
    }

    async fn document_symbols(&self, shower: &AnswerFormatter<'_>) -> Result<Page, ToolError> {
        let method = self.must_offer()?;
        self.know().await?;
        let file = self.file()?;
        let answer = self.ask(method, &json!({"textDocument": {"uri": uri_of(&file.path)}})).await?;
        let found = symbols(&answer.value).map_err(|why| self.nonsense(method, why))?;
        Ok(shower.document_symbols(&found, &file.path, self.input.offset.unwrap_or(0)))
    }

    async fn workspace_symbols(&self, shower: &AnswerFormatter<'_>) -> Result<Page, ToolError> {
        let method = self.must_offer()?;
        if self.file.is_some() {
            // Some servers load a project only when one of its files is opened.
            self.know().await?;
        }
        let query = self.input.query.as_deref().or(self.input.symbol.as_deref()).unwrap_or_default();
        let answer = self.ask(method, &json!({"query": query})).await?;
        let found = symbols(&answer.value).map_err(|why| self.nonsense(method, why))?;
        Ok(shower.workspace_symbols(&found, query, self.input.offset.unwrap_or(0), answer.note))
    }

    async fn diagnostics(&self, shower: &AnswerFormatter<'_>) -> Result<Page, ToolError> {
        let Some(file) = &self.file else {
            let asked = self.client.check_all(CHECKS).await;
            let asked = asked.map_err(|fault| ToolError::failed(fault.to_string()))?;
            let reports = self.client.reports();
            let all = reports.into_iter().map(|(path, report)| (path, report.items)).collect();
            return Ok(shower.all_problems(all, asked, self.input.offset.unwrap_or(0)).await);
        };
        let (version, since) = self.know().await?;
        let busy = || self.client.readiness().is_busy();
        if busy() {
            self.cx.progress(&LspProgress { note: self.busy() });
            self.client.settle(INDEXES).await;
        }
        let checked = self.client.check(&file.path, version, since, CHECKS).await;
        let checked = checked.map_err(|fault| ToolError::failed(fault.to_string()))?;
        Ok(match checked {
            CheckState::Now(items) => {
                let note = busy().then(|| format!("{}; there may be more", self.busy()));
                shower.problems(&file.path, &file.text, items, self.input.offset.unwrap_or(0), note)
            }
            CheckState::NotYet => Page::of(format!(
                "{} was not checked yet: {} has said nothing about it as it is now. Ask again in a while.",
                shower.name(&file.path),
                self.client.plan().name
            )),
        })
    }

    /// Returns the known diagnostics of a file, for comparison with later ones.
    pub(super) fn known(client: &LspClient, path: &Path) -> Option<Vec<haft_lsp::Diagnostic>> {
        client.report(path).map(|it| it.items)
    }
}

fn raw_problem(it: &haft_lsp::Diagnostic) -> Value {
    json!({
        "range": {"start": {"line": it.line, "character": it.column}, "end": {"line": it.end.0, "character": it.end.1}},
        "message": it.message, "code": it.code, "source": it.source,
        "severity": it.severity as u8 + 1,
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        _ => false,
    }
}
