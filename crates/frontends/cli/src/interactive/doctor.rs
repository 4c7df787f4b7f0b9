//! `/doctor`: runs the checks of `haft doctor` inside a session.

use haft_session::{Command, SessionHandle};
use haft_tool::{LineStyle, RenderedLine};
use haft_tui::{PagerText, TerminalCaps, UiUpdate};

use super::{InteractiveSession, UpdateSink, slash_commands::style_of};

impl InteractiveSession {
    /// Shows a panel with facts about terminal and session and the output of
    /// `haft mcp list` and `haft sandbox check`. Both run in the background, and the panel appears when
    /// both have ended.
    pub(super) async fn doctor(&self, handle: Option<&SessionHandle>, news: &UpdateSink) {
        let mut lines = self.terminal_facts();
        if let Some(handle) = handle {
            lines.extend(session_facts(handle).await);
        }
        let (news, own) = (news.clone(), [self.own(&["mcp", "list"]), self.own(&["sandbox", "check"])]);
        tokio::spawn(async move {
            for (title, command) in ["MCP servers", "Sandbox"].iter().zip(own) {
                lines.push(RenderedLine::new(LineStyle::Plain, ""));
                lines.push(RenderedLine::new(LineStyle::Hunk, *title));
                let Some(mut command) = command else { continue };
                let said = match command.output().await {
                    Ok(output) => [output.stdout, output.stderr].concat(),
                    Err(err) => err.to_string().into_bytes(),
                };
                let said = String::from_utf8_lossy(&said).into_owned();
                lines.extend(said.lines().map(|line| RenderedLine::new(style_of(line), line)));
            }
            let (title, text) = (String::from("Doctor"), String::new());
            news.tell(UiUpdate::Panel(PagerText { title, text, lines, paged: true }));
        });
    }

    fn terminal_facts(&self) -> Vec<RenderedLine> {
        let variable = |name: &str| self.spec.place.variables.text(name).filter(|it| !it.is_empty());
        let look = TerminalCaps::of_variables(variable);
        let said = |name: &str| variable(name).unwrap_or_else(|| String::from("not set"));
        let yes = |it: bool| if it { "yes" } else { "no" };
        let head = |text: &str| RenderedLine::new(LineStyle::Hunk, text);
        let fact =
            |name: &str, value: String| RenderedLine::new(LineStyle::Plain, format!("  {name:<13} {value}"));
        let within = ["TMUX", "STY", "ZELLIJ", "SSH_TTY"].iter().filter(|name| variable(name).is_some());
        let within: Vec<&str> = within.copied().collect();
        vec![
            head("Haft"),
            fact("version", env!("CARGO_PKG_VERSION").to_owned()),
            fact("place", self.spec.place.cwd.display().to_string()),
            RenderedLine::new(LineStyle::Plain, ""),
            head("Terminal"),
            fact("TERM", format!("{}, TERM_PROGRAM {}", said("TERM"), said("TERM_PROGRAM"))),
            fact("within", if within.is_empty() { String::from("nothing") } else { within.join(", ") }),
            fact("colours", format!("{:?}, NO_COLOR {}", look.colours, said("NO_COLOR"))),
            fact("links", yes(look.links).to_owned()),
            fact("wraps anew", yes(look.reflows).to_owned()),
            fact("tells you by", format!("{:?}", look.alert)),
            fact(
                "editor",
                variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| String::from("vi")),
            ),
        ]
    }
}

async fn session_facts(handle: &SessionHandle) -> Vec<RenderedLine> {
    let fact =
        |name: &str, value: String| RenderedLine::new(LineStyle::Plain, format!("  {name:<13} {value}"));
    let mut lines =
        vec![RenderedLine::new(LineStyle::Plain, ""), RenderedLine::new(LineStyle::Hunk, "Session")];
    lines.push(fact("id", handle.id().to_string()));
    let model = handle.ask(Command::FlagSettings).await.map(|it| it.1).unwrap_or_default();
    lines.push(fact("model", model));
    if let Some(introduction) = handle.ask(Command::Reload).await {
        lines.push(fact("key", introduction.key_source.to_string()));
        lines.push(fact("mode", introduction.mode.to_string()));
    }
    lines.extend(handle.log_path().map(|path| fact("log", path.display().to_string())));
    lines
}
