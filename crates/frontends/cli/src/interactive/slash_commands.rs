//! Slash commands of the terminal that need the session.

use std::sync::atomic::{AtomicU64, Ordering};

use haft_agent::SettingsChange;
use haft_model::Effort;
use haft_session::{Command, EventStream, ModeRefused, Reply, SessionHandle};
use haft_tool::{LineStyle, RenderedLine};
use haft_tui::{AlertKind, PagerText, PickerRow, SlashName, StatusUpdate, TermPreferences, UiUpdate};
use haft_types::{PermissionMode, text};
use serde_json::Value;

use super::{InteractiveSession, UpdateSink, rewind_picker, session_picker};

/// Explains why the session could not be opened. For a missing API key, four lines with the ways to go
/// on.
pub(super) fn open_error_help(problem: &str) -> Vec<String> {
    if !problem.contains("there is no key") {
        return vec![format!("The session cannot be opened: {problem}")];
    }
    vec![
        String::from("There is no key for a model yet. One of these, then start haft again:"),
        String::from("  haft login    keeps a key; so does export ANTHROPIC_API_KEY=… (or OPENAI_…)"),
        String::from("  haft models   lists servers here: haft --provider ollama needs no key"),
        String::from("  haft demo     shows a recorded model at work: no key, no network"),
    ]
}

/// Reads the settings of the terminal interface (keys, colours, collapsed lines).
pub(super) fn preferences(handle: &SessionHandle) -> Vec<UiUpdate> {
    let loaded = handle.premises().loaded();
    let setting = |name: &str| loaded.settings.get(name).map(|it| it.value);
    let words = setting("terminal").unwrap_or(Value::Null);
    let keys: Vec<(String, Vec<String>)> = words["keys"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(action, keys)| {
            let one = keys.as_str().map(|it| vec![it.to_owned()]);
            let many = || keys.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            (action.clone(), one.unwrap_or_else(|| many().collect()))
        })
        .collect();
    let texts = |value: &Value| -> Vec<(String, String)> {
        let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
        value.as_object().into_iter().flatten().map(|(name, it)| (name.clone(), text(it))).collect()
    };
    let theme = setting("theme").and_then(|it| it.as_str().map(|it| it.trim_end_matches("-ansi").to_owned()));
    let alert = setting("preferredNotifChannel").and_then(|it| it.as_str().and_then(AlertKind::named));
    let wanted = TermPreferences {
        keys,
        vi: setting("editorMode").is_some_and(|it| it == "vim"),
        still: setting("prefersReducedMotion").is_some_and(|it| it == true),
        by_words: words["wrap"] == "words",
        own_screen: words["screen"] == "alternate",
        theme,
        colours: texts(&words["colours"]),
        alert,
        folds: folds(&words["fold"]),
    };
    if wanted == TermPreferences::default() {
        Vec::new()
    } else {
        vec![UiUpdate::Preferences(Box::new(wanted))]
    }
}

/// Number of lines shown of a result before it is collapsed, by tool name.
fn folds(value: &Value) -> Vec<(String, usize)> {
    let lines = |it: &Value| match it.as_str() {
        Some("all") => Some(usize::MAX),
        Some("none") => Some(0),
        _ => it.as_u64().and_then(|it| usize::try_from(it).ok()),
    };
    let folds = value.as_object().into_iter().flatten();
    folds.filter_map(|(tool, it)| lines(it).map(|it| (tool.clone(), it))).collect()
}

/// Sends model, permission mode, directory and slash commands to the terminal.
pub(super) async fn introduce(handle: &SessionHandle, place: String, news: &UpdateSink) {
    let Some(introduction) = handle.ask(Command::Reload).await else { return };
    let model = handle.ask(Command::FlagSettings).await.map(|it| it.1);
    news.tell(UiUpdate::Meter(StatusUpdate {
        model,
        mode: Some(introduction.mode.to_string()),
        place: Some(place),
        ..StatusUpdate::default()
    }));
    let name = |it: &haft_session::SlashCommand| SlashName {
        name: it.name.clone(),
        about: text::one_line(&it.description, 100),
        hint: it.argument_hint.clone(),
    };
    let skills = introduction
        .skills
        .iter()
        .filter(|skill| !introduction.commands.iter().any(|it| it.name == skill.name));
    let names = introduction.commands.iter().chain(skills).map(name).collect();
    news.tell(UiUpdate::Ready(names));
}

/// Shows the session's cost. Skips the update if a turn ended while the cost was queried, because that
/// turn reported a newer one.
pub(super) async fn tell_bill(handle: &SessionHandle, turns_ended: &AtomicU64, news: &UpdateSink) {
    let before = turns_ended.load(Ordering::Relaxed);
    let usage = handle.ask(Command::Usage).await;
    if let Some(usage) = usage.filter(|_| turns_ended.load(Ordering::Relaxed) == before) {
        news.tell(UiUpdate::Meter(StatusUpdate { usd: Some(usage.bill.usd), ..StatusUpdate::default() }));
    }
}

fn panel(title: &str, text: String) -> UiUpdate {
    UiUpdate::Panel(PagerText { title: title.to_owned(), text, lines: Vec::new(), paged: true })
}

fn listed(title: &str, lines: Vec<String>) -> UiUpdate {
    let lines = lines.iter().map(|line| RenderedLine::new(LineStyle::Plain, line.as_str())).collect();
    UiUpdate::Panel(PagerText { title: title.to_owned(), text: String::new(), lines, paged: true })
}

impl InteractiveSession {
    /// Runs a slash command. Returns the event stream of the new session if the command opened one.
    pub(super) async fn command(
        &mut self,
        name: &str,
        arguments: &str,
        news: &UpdateSink,
    ) -> Option<EventStream> {
        if name == "doctor" {
            self.doctor(self.handle.as_ref(), news).await;
            return None;
        }
        if name == "permissions" {
            self.tell_permissions(news).await;
            return None;
        }
        if let Some(program) = own_command(name) {
            self.run_own(program, news);
            return None;
        }
        let Some(handle) = self.handle.clone() else {
            news.tell(UiUpdate::Notice(format!("/{name} needs a session, and there is none yet")));
            return (name == "resume").then(|| session_picker::pick(self, news)).and(None);
        };
        match name {
            "context" => {
                if let Some(usage) = handle.ask(Command::ContextUsage).await {
                    news.tell(panel("Context", usage.text()));
                }
            }
            "cost" => self.tell_cost(&handle, news).await,
            "status" => self.tell_status(&handle, news).await,
            "model" if arguments.is_empty() => self.pick_model(&handle, news).await,
            "model" => self.set_model(arguments, news).await,
            "effort" => self.set_effort(arguments, news),
            "mode" if arguments.is_empty() => pick_mode(news),
            "mode" => match arguments.parse::<PermissionMode>() {
                Ok(mode) => self.set_mode(mode, news).await,
                Err(why) => news.tell(UiUpdate::Notice(why)),
            },
            "resume" => session_picker::pick(self, news),
            "rewind" => rewind_picker::pick(self, &handle, news).await,
            "agents" | "skills" => self.list_extensions(&handle, name, news).await,
            "hooks" => list_hooks(&handle, news),
            "memory" => {
                if let Some(usage) = handle.ask(Command::ContextUsage).await {
                    let line = |(path, tokens): (std::path::PathBuf, u64)| {
                        format!("{}  {tokens} tokens", path.display())
                    };
                    let mut lines: Vec<String> = usage.memory().into_iter().map(line).collect();
                    if lines.is_empty() {
                        lines.push(String::from("No memory files are read here. #note begins one."));
                    }
                    news.tell(listed("Memory", lines));
                }
            }
            "export" => self.export(&handle, arguments, news).await,
            _ => news.tell(UiUpdate::Notice(format!("/{name} is not known here"))),
        }
        None
    }

    /// Handles the choice from a picker, by the picker's purpose. Returns the event stream of the new
    /// session if the choice opened one.
    pub(super) async fn picked(&mut self, purpose: &str, id: &str, news: &UpdateSink) -> Option<EventStream> {
        match purpose {
            "model" => self.set_model(id, news).await,
            "mode" => {
                if let Ok(mode) = id.parse::<PermissionMode>() {
                    self.set_mode(mode, news).await;
                }
            }
            "session" => return session_picker::take_up(self, id, news).await,
            "rewind" => rewind_picker::ask_how(self, id, news),
            "rewind-how" => return rewind_picker::go_back(self, id, news).await,
            "task" => self.task_tail(id, news).await,
            "task-stop" => {
                if let Some(handle) = &self.handle {
                    handle.send(Command::StopTask { task: id.to_owned(), reply: Reply::ignored() });
                }
            }
            _ => (),
        }
        None
    }

    pub(super) async fn set_mode(&mut self, mode: PermissionMode, news: &UpdateSink) {
        let Some(handle) = &self.handle else { return };
        match handle.ask(|reply| Command::SetMode { mode, reply }).await {
            Some(Ok(mode)) => {
                news.tell(UiUpdate::Meter(StatusUpdate {
                    mode: Some(mode.to_string()),
                    ..StatusUpdate::default()
                }));
            }
            Some(Err(ModeRefused::Forbidden)) => {
                news.tell(UiUpdate::Notice(format!("the settings forbid the mode {mode}")));
            }
            Some(Err(ModeRefused::NotLaunched)) => news.tell(UiUpdate::Notice(format!(
                "the mode {mode} has to be allowed when haft starts (--allow-dangerously-skip-permissions)"
            ))),
            None => (),
        }
    }

    async fn set_model(&mut self, model: &str, news: &UpdateSink) {
        let Some(handle) = &self.handle else { return };
        let model = Some(model.to_owned());
        match handle.ask(|reply| Command::SetModel { model, reply }).await {
            Some(Ok(model)) => {
                news.tell(UiUpdate::Notice(format!("from the next request on {model} answers")));
                news.tell(UiUpdate::Meter(StatusUpdate { model: Some(model), ..StatusUpdate::default() }));
            }
            Some(Err(refusal)) => news.tell(UiUpdate::Notice(refusal)),
            None => (),
        }
    }

    fn set_effort(&mut self, words: &str, news: &UpdateSink) {
        let effort = match words {
            "low" => Effort::Low,
            "medium" => Effort::Medium,
            "high" => Effort::High,
            "xhigh" => Effort::Xhigh,
            "max" => Effort::Max,
            _ => {
                return news.tell(UiUpdate::Notice(String::from("/effort low, medium, high, xhigh or max")));
            }
        };
        if let Some(handle) = &self.handle {
            handle.send(Command::Order(SettingsChange::Effort(Some(effort))));
            news.tell(UiUpdate::Meter(StatusUpdate {
                effort: Some(words.to_owned()),
                ..StatusUpdate::default()
            }));
        }
    }

    async fn pick_model(&self, handle: &SessionHandle, news: &UpdateSink) {
        let models = handle.ask(Command::Models).await.unwrap_or_default();
        let row = |(name, id): (String, String)| PickerRow {
            id: name.clone(),
            title: name,
            detail: id,
            preview: Vec::new(),
        };
        let rows = models.into_iter().map(row).collect();
        let (purpose, title) = (String::from("model"), String::from("Model"));
        news.tell(UiUpdate::Pick { purpose, title, rows, previewed: false });
    }

    async fn tell_cost(&self, handle: &SessionHandle, news: &UpdateSink) {
        let Some(usage) = handle.ask(Command::Usage).await else { return };
        let mut page =
            String::from("| model | input | cached | written to cache | output |\n|---|--:|--:|--:|--:|\n");
        for (model, it) in &usage.bill.models {
            page.push_str(&format!(
                "| {model} | {} | {} | {} | {} |\n",
                text::thousands(it.input_tokens),
                text::thousands(it.cache_read_input_tokens),
                text::thousands(it.cache_creation_input_tokens),
                text::thousands(it.output_tokens)
            ));
        }
        let (api, open) = (usage.api_ms / 1000, usage.open_ms / 1000);
        page.push_str(&format!("\n${:.4} · the model answered for {api} s of {open} s\n", usage.bill.usd));
        news.tell(UiUpdate::Panel(PagerText {
            title: String::from("Cost"),
            text: page,
            lines: Vec::new(),
            paged: false,
        }));
    }

    async fn tell_status(&self, handle: &SessionHandle, news: &UpdateSink) {
        let model = handle.ask(Command::FlagSettings).await.map(|it| it.1).unwrap_or_default();
        let mut lines = vec![
            format!("session   {}", handle.id()),
            format!("model     {model}"),
            format!("place     {}", self.spec.place.cwd.display()),
        ];
        lines.extend(handle.log_path().map(|path| format!("log       {}", path.display())));
        if let Some(introduction) = handle.ask(Command::Reload).await {
            lines.push(format!("mode      {}", introduction.mode));
            lines.push(format!("key       {}", introduction.key_source));
            lines.push(format!("style     {}", introduction.output_style));
        }
        news.tell(listed("Status", lines));
    }

    async fn task_tail(&self, id: &str, news: &UpdateSink) {
        let Some(handle) = &self.handle else { return };
        let task = id.to_owned();
        if let Some(Some(tail)) = handle.ask(|reply| Command::TaskTail { task, reply }).await {
            news.tell(listed(id, tail.text.lines().map(str::to_owned).collect()));
        }
    }

    async fn list_extensions(&self, handle: &SessionHandle, what: &str, news: &UpdateSink) {
        let Some(introduction) = handle.ask(Command::Reload).await else { return };
        let mut lines: Vec<String> = match what {
            "agents" => {
                let agent = |(name, about, model): &(String, String, Option<String>)| {
                    let model = model.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
                    format!("{name}{model}  {}", text::one_line(about, 200))
                };
                introduction.agents.iter().map(agent).collect()
            }
            _ => {
                let skill = |it: &haft_session::SlashCommand| {
                    format!("/{}  {}", it.name, text::one_line(&it.description, 200))
                };
                introduction.skills.iter().map(skill).collect()
            }
        };
        if lines.is_empty() {
            lines.push(format!("There are no {what} here."));
        }
        let title = if what == "agents" { "Agents" } else { "Skills" };
        news.tell(listed(title, lines));
    }

    /// Builds a command that runs this same program with these arguments, the session's directory and
    /// `--settings`. `None` if the program's path is unknown.
    pub(super) fn own(&self, arguments: &[&str]) -> Option<tokio::process::Command> {
        let mut command = tokio::process::Command::new(self.spec.place.program.clone()?);
        command.args(arguments).arg("--cwd").arg(&self.spec.place.cwd);
        if let Some(settings) = &self.options.settings {
            command.arg("--settings").arg(settings);
        }
        command.env("NO_COLOR", "1").stdin(std::process::Stdio::null()).kill_on_drop(true);
        Some(command)
    }

    /// Loads the preview of the selected picker row in the background.
    pub(super) fn preview(&self, purpose: &str, id: String, news: &UpdateSink) {
        let Some(handle) = self.handle.clone() else { return };
        let news = news.clone();
        match purpose {
            "session" => session_picker::preview(self, id, news),
            "rewind" => drop(tokio::spawn(async move { rewind_picker::preview(&handle, id, &news).await })),
            "task" => drop(tokio::spawn(async move {
                let task = id.clone();
                if let Some(Some(tail)) = handle.ask(|reply| Command::TaskTail { task, reply }).await {
                    let lines =
                        tail.text.lines().map(|line| RenderedLine::new(LineStyle::Plain, line)).collect();
                    news.tell(UiUpdate::Preview { id, lines });
                }
            })),
            _ => (),
        }
    }

    /// Runs a subcommand of this program in the background and shows its output.
    fn run_own(&self, arguments: &[&str], news: &UpdateSink) {
        let Some(mut command) = self.own(arguments) else { return };
        let (news, title) = (news.clone(), format!("haft {}", arguments.join(" ")));
        let is_short = matches!(arguments.first(), Some(&("undo" | "redo")));
        tokio::spawn(async move {
            let lines = said_by(&mut command).await;
            news.tell(UiUpdate::Panel(PagerText { title, text: String::new(), lines, paged: !is_short }));
        });
    }

    /// Shows the effective permission rules: those of settings and flags in the session's mode, plus
    /// what the user allowed until the session ends.
    async fn tell_permissions(&self, news: &UpdateSink) {
        let Some(mut command) = self.own(&["permissions", "list"]) else { return };
        let mode = match &self.handle {
            Some(handle) => handle.ask(Command::Reload).await.map(|it| it.mode),
            None => None,
        };
        if let Some(mode) = mode.or(self.options.permission_mode) {
            command.arg("--permission-mode").arg(mode.to_string());
        }
        for rules in &self.options.allowed_tools {
            command.arg("--allowedTools").arg(rules);
        }
        for rules in &self.options.disallowed_tools {
            command.arg("--disallowedTools").arg(rules);
        }
        let (news, agreed) = (news.clone(), self.agreed.clone());
        tokio::spawn(async move {
            let mut lines = said_by(&mut command).await;
            if !agreed.is_empty() {
                lines.push(RenderedLine::new(LineStyle::Plain, ""));
                lines.push(RenderedLine::new(LineStyle::Hunk, "Until this session ends"));
                lines.extend(
                    agreed.iter().map(|rule| RenderedLine::new(LineStyle::Plain, format!("  {rule}"))),
                );
            }
            let (title, text) = (String::from("Permissions"), String::new());
            news.tell(UiUpdate::Panel(PagerText { title, text, lines, paged: true }));
        });
    }

    async fn export(&self, handle: &SessionHandle, file: &str, news: &UpdateSink) {
        let messages = handle.ask(Command::Messages).await.unwrap_or_default();
        let id: String = handle.id().to_string().chars().take(8).collect();
        let file = if file.is_empty() { format!("haft-{id}.md") } else { file.to_owned() };
        let path = self.spec.place.cwd.join(file);
        let page = session_picker::as_markdown(&messages);
        let written = tokio::task::spawn_blocking({
            let path = path.clone();
            move || {
                std::fs::OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| {
                    use std::io::Write as _;
                    file.write_all(page.as_bytes())
                })
            }
        });
        news.tell(UiUpdate::Notice(match written.await {
            Ok(Ok(())) => format!("the conversation is in {}", path.display()),
            Ok(Err(err)) => format!("{}: {err}", path.display()),
            Err(_) => String::from("the conversation was not written"),
        }));
    }
}

/// Runs a command and returns its output as lines.
async fn said_by(command: &mut tokio::process::Command) -> Vec<RenderedLine> {
    let said = match command.output().await {
        Ok(output) => {
            let mut all = String::from_utf8_lossy(&output.stdout).into_owned();
            all.push_str(&String::from_utf8_lossy(&output.stderr));
            all
        }
        Err(err) => err.to_string(),
    };
    said.lines().map(|line| RenderedLine::new(style_of(line), line)).collect()
}

/// The `haft` subcommand that implements this slash command, if one does.
fn own_command(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "mcp" => &["mcp", "list"],
        "diff" => &["diff"],
        "undo" => &["undo"],
        "redo" => &["redo"],
        _ => return None,
    })
}

pub(super) fn style_of(line: &str) -> LineStyle {
    match line.as_bytes().first() {
        Some(b'+') => LineStyle::Added,
        Some(b'-') => LineStyle::Removed,
        Some(b'@') => LineStyle::Hunk,
        _ => LineStyle::Plain,
    }
}

fn pick_mode(news: &UpdateSink) {
    let about = |mode: PermissionMode| match mode {
        PermissionMode::Default => "reads inside the workspace run, everything else asks",
        PermissionMode::AcceptEdits => "edits of files inside the workspace run too",
        PermissionMode::Plan => "only reads run",
        PermissionMode::Auto => "a classifier answers instead of you",
        PermissionMode::DontAsk => "what would ask is denied",
        PermissionMode::BypassPermissions => "what would ask runs",
    };
    let row = |mode: PermissionMode| PickerRow {
        id: mode.to_string(),
        title: mode.to_string(),
        detail: about(mode).to_owned(),
        preview: Vec::new(),
    };
    let rows = PermissionMode::ALL.into_iter().map(row).collect();
    news.tell(UiUpdate::Pick {
        purpose: String::from("mode"),
        title: String::from("Permission mode"),
        rows,
        previewed: false,
    });
}

fn list_hooks(handle: &SessionHandle, news: &UpdateSink) {
    let loaded = handle.premises().loaded();
    let hooks = loaded.settings.get("hooks").map(|it| it.value).unwrap_or(Value::Null);
    let lines = match &hooks {
        Value::Object(map) if !map.is_empty() => {
            serde_json::to_string_pretty(&hooks).unwrap_or_default().lines().map(str::to_owned).collect()
        }
        _ => vec![String::from("There are no hooks. docs/guides/hooks.md explains them.")],
    };
    news.tell(listed("Hooks", lines));
}
