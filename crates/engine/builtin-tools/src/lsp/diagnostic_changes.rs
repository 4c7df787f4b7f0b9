//! Reports problems that edits introduced or fixed, with the result of the edit or with the next
//! request.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use haft_lsp::{CheckState, Diagnostic, DiagnosticSeverity, LspClient, character_of, line_at};
use haft_tool::BoxFuture;
use haft_types::{AgentId, tags};
use haft_workspace::{FileEvent, SessionFiles};
use tokio::sync::oneshot;

use super::{document_text::read_text, servers::LspServers};
use crate::edit_common::edit_observer::EditObserver;

/// How long the result of an edit waits for a language server that answered as fast the last time.
const WAITS: Duration = Duration::from_millis(150);
/// Number of consecutive edits without findings after which results no longer wait, if findings can be
/// delivered later.
const SILENT_EDITS: u32 = 3;
/// Maximum time to wait for the diagnostics of a file.
const COMES: Duration = Duration::from_secs(60);
/// Maximum number of problems reported per file, and in total.
const MAX_OF_FILE: usize = 10;
const MAX_IN_ALL: usize = 30;
/// Maximum number of other files checked after an edit.
const OTHERS: usize = 8;
/// Maximum number of files whose diagnostics are remembered; beyond it the oldest is forgotten.
const MAX_KNOWN: usize = 500;

/// Delivers a message to the main agent with its next request.
pub type AgentNotifier = Box<dyn Fn(String) + Send + Sync>;

/// The diagnostics the model knows of.
#[derive(Default)]
pub(super) struct DiagnosticTracker {
    /// Last reported diagnostics per file; only differences are reported.
    known: Mutex<HashMap<PathBuf, KnownFile>>,
    /// Number of edits per file; only the newest edit is reported.
    edits: Mutex<HashMap<PathBuf, u64>>,
    /// How long a server took to check the last edit, by its program and root.
    pace: Mutex<HashMap<(PathBuf, PathBuf), Duration>>,
    /// Number of consecutive edits that were checked without findings.
    silent: AtomicU32,
    /// Findings that could not be delivered yet, by agent.
    late: Mutex<HashMap<AgentId, Vec<String>>>,
    tell: OnceLock<AgentNotifier>,
}

struct KnownFile {
    items: Vec<Diagnostic>,
    at: Instant,
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DiagnosticTracker {
    /// Records the diagnostics the model now knows of a file. Returns those it knew before, if any.
    pub(super) fn knows(&self, path: &Path, items: &[Diagnostic]) -> Option<Vec<Diagnostic>> {
        let mut known = lock(&self.known);
        if MAX_KNOWN <= known.len() && !known.contains_key(path) {
            let oldest = known.iter().min_by_key(|(_, it)| it.at).map(|(path, _)| path.clone());
            oldest.and_then(|path| known.remove(&path));
        }
        let now = KnownFile { items: items.to_vec(), at: Instant::now() };
        known.insert(path.to_owned(), now).map(|it| it.items)
    }

    fn is_known(&self, path: &Path) -> bool {
        lock(&self.known).contains_key(path)
    }

    /// Returns the files checked most recently, except `but`.
    fn others(&self, but: &[PathBuf]) -> Vec<PathBuf> {
        let known = lock(&self.known);
        let mut others: Vec<(&PathBuf, Instant)> =
            known.iter().filter(|(path, _)| !but.contains(path)).map(|(path, it)| (path, it.at)).collect();
        others.sort_by_key(|it| std::cmp::Reverse(it.1));
        others.into_iter().take(OTHERS).map(|it| it.0.clone()).collect()
    }

    /// Records whether a checked edit had findings.
    fn was_looked_at(&self, has_news: bool) {
        if has_news {
            self.silent.store(0, Ordering::Relaxed)
        } else {
            self.silent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the result of an edit should wait for servers although findings could be delivered later:
    /// recent edits had findings, or a file has errors that the edit may have been meant to fix.
    fn is_worth_waiting(&self, paths: &[PathBuf]) -> bool {
        if self.silent.load(Ordering::Relaxed) < SILENT_EDITS {
            return true;
        }
        let known = lock(&self.known);
        let is_broken = |it: &KnownFile| it.items.iter().any(|it| it.severity == DiagnosticSeverity::Error);
        paths.iter().any(|path| known.get(path).is_some_and(is_broken))
    }

    fn begin(&self, path: &Path) -> u64 {
        let mut edits = lock(&self.edits);
        let count = edits.entry(path.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn is_last(&self, path: &Path, number: u64) -> bool {
        lock(&self.edits).get(path) == Some(&number)
    }
}

/// An edited file: path, language id, number of the edit.
type EditedFile = (PathBuf, String, u64);

/// Diagnostics to compare for one server after an edit.
struct Comparison {
    desk: Arc<LspServers>,
    client: Arc<LspClient>,
    cwd: PathBuf,
    /// Path, language id and number of each edit.
    edited: Vec<EditedFile>,
}

impl Comparison {
    async fn run(self) -> Option<String> {
        let began = Instant::now();
        let mut told = Vec::new();
        if !self.edited.iter().any(|(path, _, number)| self.desk.news.is_last(path, *number)) {
            // The check of a later edit covers this one.
            return None;
        }
        for (path, language, number) in &self.edited {
            let Some(items) = self.look(path, language).await else { continue };
            if !self.desk.news.is_last(path, *number) {
                continue;
            }
            let pace = (self.client.plan().program.clone(), self.client.plan().root.clone());
            lock(&self.desk.news.pace).insert(pace, began.elapsed());
            let before = self.desk.news.knows(path, &items);
            told.push(ProblemChange::compare(path, before, items));
        }
        let edited: Vec<PathBuf> = self.edited.iter().map(|it| it.0.clone()).collect();
        for path in self.desk.news.others(&edited) {
            let root = &self.client.plan().root;
            if path.extension() != edited.first()?.extension() || !path.starts_with(root) {
                continue;
            }
            let items = if self.client.offers("diagnosticProvider") {
                self.look(&path, &self.edited.first()?.1).await
            } else {
                self.client.report(&path).map(|it| it.items)
            };
            let Some(items) = items else { continue };
            let before = self.desk.news.knows(&path, &items);
            told.push(ProblemChange::compare(&path, before, items));
        }
        let has_looked = !told.is_empty();
        let news = words(&told, &self.cwd, self.client.encoding()).await;
        if has_looked {
            self.desk.news.was_looked_at(news.is_some());
        }
        news
    }

    /// Returns the server's diagnostics for a file as it is on disk; `None` if they are not available in
    /// time.
    async fn look(&self, path: &Path, language: &str) -> Option<Vec<Diagnostic>> {
        let file = path.to_owned();
        let text = tokio::task::spawn_blocking(move || read_text(&file).ok()).await.ok()??;
        let (version, since) = self.client.know(path, language, &text).await.ok()?;
        match self.client.check(path, version, since, COMES).await {
            Ok(CheckState::Now(items)) => Some(items),
            _ => None,
        }
    }
}

/// The changed diagnostics of one file.
struct ProblemChange {
    path: PathBuf,
    new: Vec<Diagnostic>,
    fixed: usize,
    /// Whether no errors or warnings are left.
    clean: bool,
}

impl ProblemChange {
    fn compare(path: &Path, before: Option<Vec<Diagnostic>>, now: Vec<Diagnostic>) -> Self {
        let counts = |it: &Diagnostic| match &before {
            Some(_) => it.severity <= DiagnosticSeverity::Warning,
            // The state before the edit is unknown, so only errors are reported.
            None => it.severity == DiagnosticSeverity::Error,
        };
        let mut old: Vec<Diagnostic> = before
            .iter()
            .flatten()
            .filter(|it| it.severity <= DiagnosticSeverity::Warning)
            .cloned()
            .collect();
        let mut new: Vec<Diagnostic> = Vec::new();
        let clean = !now.iter().any(|it| it.severity <= DiagnosticSeverity::Warning);
        for item in now.into_iter().filter(counts) {
            match old.iter().position(|it| it.print() == item.print()) {
                Some(at) => drop(old.swap_remove(at)),
                None => new.push(item),
            }
        }
        new.sort_by_key(|it| (it.severity, it.line));
        Self { path: path.to_owned(), new, fixed: old.len(), clean }
    }
}

/// Formats the changes for the model; `None` if there are none.
async fn words(told: &[ProblemChange], cwd: &Path, encoding: haft_lsp::ColumnEncoding) -> Option<String> {
    let mut lines = Vec::new();
    let mut room = MAX_IN_ALL;
    for change in told.iter().filter(|it| !it.new.is_empty() || 0 < it.fixed) {
        let path = change.path.clone();
        let text = tokio::task::spawn_blocking(move || read_text(&path).unwrap_or_default()).await;
        let text = text.unwrap_or_default();
        let shown = change.path.strip_prefix(cwd).unwrap_or(&change.path).display().to_string();
        let fixed = match (change.fixed, change.clean) {
            (0, _) => String::new(),
            (count, true) => format!(", {count} fixed: none left"),
            (count, false) => format!(", {count} fixed"),
        };
        lines.push(match change.new.len() {
            0 => format!("{shown}{}", fixed.replacen(", ", ": ", 1)),
            1 => format!("{shown}: 1 new problem{fixed}"),
            count => format!("{shown}: {count} new problems{fixed}"),
        });
        let most = room.min(MAX_OF_FILE);
        lines.extend(change.new.iter().take(most).map(|it| problem(it, &text, encoding)));
        room -= change.new.len().min(most);
        if most < change.new.len() {
            lines.push(format!("  … and {} more (LSP diagnostics lists them)", change.new.len() - most));
        }
    }
    (!lines.is_empty()).then(|| format!("<new-diagnostics>\n{}\n</new-diagnostics>", lines.join("\n")))
}

/// Formats a diagnostic. Its first line has the position.
pub(super) fn problem(it: &Diagnostic, text: &str, encoding: haft_lsp::ColumnEncoding) -> String {
    let line = line_at(text, it.line as usize).unwrap_or_default();
    let place = format!("{}:{}", it.line + 1, character_of(line, it.column as usize, encoding));
    let by: Vec<&str> = it.source.iter().chain(&it.code).map(String::as_str).collect();
    let by = if by.is_empty() { String::new() } else { format!(" [{}]", by.join(" ")) };
    let message = it.message.lines().map(str::trim_end).collect::<Vec<_>>().join("\n      ");
    format!("  {} {place} {message}{by}", it.severity.word())
}

impl LspServers {
    /// Starts tracking the files of a session: the diagnostics of a file are recorded when it is read.
    pub fn follow(self: &Arc<Self>, files: &SessionFiles, cwd: &Path) {
        let (desk, cwd) = (Arc::downgrade(self), cwd.to_owned());
        files.reads().listen(move |event| {
            if let (FileEvent::Read { path, .. }, Some(desk)) = (event, desk.upgrade()) {
                desk.was_read(path, &cwd);
            }
        });
    }

    /// Sets the channel for findings that arrive after the result of an edit. Only the first call has an
    /// effect.
    pub fn tell_with(&self, tell: AgentNotifier) {
        self.news.tell.set(tell).ok();
    }

    /// Records the diagnostics of a file that was read, in the background, so that a later edit can be
    /// compared with them.
    fn was_read(self: &Arc<Self>, path: &Path, cwd: &Path) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.all_running().is_empty() || self.news.is_known(path) || self.settings().quiet_edits {
            return;
        }
        let (desk, path, cwd) = (Arc::clone(self), path.to_owned(), cwd.to_owned());
        runtime.spawn(async move {
            let (there, file, top) = (Arc::clone(&desk), path.clone(), cwd.clone());
            let found = tokio::task::spawn_blocking(move || there.running(&file, &top)).await;
            let Ok(Some((client, language))) = found else { return };
            let number = lock(&desk.news.edits).get(&path).copied();
            let looking = Comparison { desk: Arc::clone(&desk), client, cwd, edited: Vec::new() };
            let Some(items) = looking.look(&path, &language).await else { return };
            // An edit in the meantime has newer diagnostics.
            if lock(&desk.news.edits).get(&path).copied() == number && !desk.news.is_known(&path) {
                desk.news.knows(&path, &items);
            }
        });
    }

    fn tell_late(&self, agent: &AgentId, text: String) {
        match self.news.tell.get().filter(|_| *agent == AgentId::Main) {
            Some(tell) => {
                tell(tags::reminder(&format!("A language server looked at your last edits.\n{text}")))
            }
            None => lock(&self.news.late).entry(agent.clone()).or_default().push(text),
        }
    }

    /// Whether findings can reach this agent after its call has ended.
    fn can_tell_late(&self, agent: &AgentId) -> bool {
        *agent == AgentId::Main && self.news.tell.get().is_some()
    }

    async fn after_edit(
        self: Arc<Self>,
        paths: Vec<PathBuf>,
        cwd: PathBuf,
        agent: AgentId,
    ) -> Option<String> {
        let mut told = lock(&self.news.late).remove(&agent).unwrap_or_default();
        if !self.all_running().is_empty() {
            let waits = !self.can_tell_late(&agent) || self.news.is_worth_waiting(&paths);
            let number = |path: PathBuf| (self.news.begin(&path), path);
            let edits: Vec<(u64, PathBuf)> = paths.into_iter().map(number).collect();
            if waits {
                told.extend(self.heard_soon(edits, cwd, agent).await)
            } else {
                drop(tokio::spawn(self.heard_later(edits, cwd, agent)))
            }
        }
        (!told.is_empty()).then(|| told.join("\n"))
    }

    /// Waits for the servers and delivers their findings with a later request.
    async fn heard_later(self: Arc<Self>, edits: Vec<(u64, PathBuf)>, cwd: PathBuf, agent: AgentId) {
        for (client, edited) in self.servers_of(edits, &cwd).await {
            let comparison = Comparison { desk: Arc::clone(&self), client, cwd: cwd.clone(), edited };
            if let Some(text) = comparison.run().await {
                self.tell_late(&agent, text);
            }
        }
    }

    /// Waits briefly for the servers and returns their findings; the rest is delivered later.
    async fn heard_soon(
        self: &Arc<Self>,
        edits: Vec<(u64, PathBuf)>,
        cwd: PathBuf,
        agent: AgentId,
    ) -> Vec<String> {
        let mut told = Vec::new();
        for (client, edited) in self.servers_of(edits, &cwd).await {
            let pace = (client.plan().program.clone(), client.plan().root.clone());
            let is_quick = lock(&self.news.pace).get(&pace).is_some_and(|it| *it < WAITS);
            let (desk, agent) = (Arc::clone(self), agent.clone());
            let comparison = Comparison { desk: Arc::clone(self), client, cwd: cwd.clone(), edited };
            let (sender, mut receiver) = oneshot::channel();
            tokio::spawn(async move {
                if let Some(text) = comparison.run().await
                    && let Err(text) = sender.send(text)
                {
                    desk.tell_late(&agent, text);
                }
            });
            if is_quick {
                let quick = tokio::time::timeout(WAITS, &mut receiver).await;
                told.extend(quick.ok().and_then(Result::ok));
            }
            receiver.close();
            if let Ok(text) = receiver.try_recv() {
                told.push(text);
            }
        }
        told
    }

    /// Returns the running servers that know these files, each with its files.
    async fn servers_of(
        self: &Arc<Self>,
        edits: Vec<(u64, PathBuf)>,
        cwd: &Path,
    ) -> Vec<(Arc<LspClient>, Vec<EditedFile>)> {
        let (desk, cwd) = (Arc::clone(self), cwd.to_owned());
        let found = tokio::task::spawn_blocking(move || {
            let mut found: Vec<(Arc<LspClient>, Vec<EditedFile>)> = Vec::new();
            if desk.settings().quiet_edits {
                return found;
            }
            for (number, path) in edits {
                let Some((client, language)) = desk.running(&path, &cwd) else { continue };
                match found.iter_mut().find(|(it, _)| Arc::ptr_eq(it, &client)) {
                    Some((_, edited)) => edited.push((path, language, number)),
                    None => found.push((client, vec![(path, language, number)])),
                }
            }
            found
        });
        found.await.unwrap_or_default()
    }
}

impl EditObserver for LspServers {
    fn after<'a>(
        self: Arc<Self>,
        paths: &'a [PathBuf],
        cwd: &'a Path,
        agent: &'a AgentId,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(self.after_edit(paths.to_vec(), cwd.to_owned(), agent.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn items(all: &[(u32, u32, &str)]) -> Vec<Diagnostic> {
        let item = |(severity, line, message): &(u32, u32, &str)| {
            let at = json!({"line": line, "character": 0});
            json!({"severity": severity, "message": message, "range": {"start": at, "end": at}})
        };
        Diagnostic::read_all(&all.iter().map(item).collect())
    }

    #[test]
    fn edits_stop_waiting_after_silent_checks() {
        let (state, a, b) =
            (DiagnosticTracker::default(), PathBuf::from("/w/a.py"), PathBuf::from("/w/b.py"));
        let waits = |paths: &[&PathBuf]| {
            state.is_worth_waiting(&paths.iter().map(|it| (*it).clone()).collect::<Vec<_>>())
        };
        let looks = |said: &[bool]| said.iter().for_each(|it| state.was_looked_at(*it));
        assert!(waits(&[&a]), "nothing is known of a server at first");
        looks(&[false, false]);
        assert!(waits(&[&a]));
        looks(&[false]);
        assert!(!waits(&[&a]));
        // After findings, the next edits wait again.
        looks(&[true]);
        assert!(waits(&[&a]));
        looks(&[false, false, false, false]);
        assert!(!waits(&[&a, &b]));
        // An edit of a file with errors was probably meant to fix them; warnings say nothing.
        state.knows(&a, &items(&[(2, 1, "w")]));
        assert!(!waits(&[&a]));
        state.knows(&a, &items(&[(1, 1, "x"), (2, 1, "w")]));
        assert!(waits(&[&a]) && waits(&[&b, &a]) && !waits(&[&b]));
        state.knows(&a, &[]);
        assert!(!waits(&[&a]));
    }

    #[tokio::test]
    async fn only_changed_diagnostics_are_reported() {
        let check = async |before: Option<&[(u32, u32, &str)]>, now: &[(u32, u32, &str)]| {
            let change = ProblemChange::compare(Path::new("/w/a.py"), before.map(items), items(now));
            words(&[change], Path::new("/w"), haft_lsp::ColumnEncoding::Utf16).await.unwrap_or_default()
        };
        let told = |text: &str| format!("<new-diagnostics>\n{text}\n</new-diagnostics>");
        assert_eq!(check(Some(&[]), &[]).await, "");
        // Moved lines are not a change.
        assert_eq!(check(Some(&[(1, 3, "x")]), &[(1, 9, "x")]).await, "");
        assert_eq!(check(Some(&[]), &[(4, 3, "hint")]).await, "");
        assert_eq!(check(Some(&[]), &[(1, 3, "x")]).await, told("a.py: 1 new problem\n  error 4:1 x"));
        assert_eq!(check(Some(&[(1, 3, "x")]), &[(4, 1, "hint")]).await, told("a.py: 1 fixed: none left"));
        assert_eq!(
            check(Some(&[(1, 3, "x"), (2, 1, "w")]), &[(1, 1, "y"), (2, 1, "w")]).await,
            told("a.py: 1 new problem, 1 fixed\n  error 2:1 y")
        );
        // A second identical problem counts as new.
        assert_eq!(
            check(Some(&[(1, 3, "x")]), &[(1, 3, "x"), (1, 4, "x")]).await,
            told("a.py: 1 new problem\n  error 5:1 x")
        );
        // Without a previous state only errors count.
        assert_eq!(check(None, &[(2, 3, "w")]).await, "");
        assert_eq!(check(None, &[(1, 3, "x")]).await, told("a.py: 1 new problem\n  error 4:1 x"));
        let many: Vec<(u32, u32, &str)> = (0..40).map(|it| (1, it, "x")).collect();
        let text = check(Some(&[]), &many).await;
        assert_eq!(text.lines().count(), 14);
        assert!(text.contains("… and 30 more"), "{text}");
    }
}
