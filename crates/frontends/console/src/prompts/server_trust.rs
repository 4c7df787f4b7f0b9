//! Asks the user whether an MCP server of the project may start.

use std::{
    fs::OpenOptions,
    io::{BufRead as _, BufReader, Write as _},
};

use haft_session::WaitingServer;

use crate::style::clean;

/// Shows the server's command and asks at the terminal. Blocks. False without a terminal.
pub(crate) fn may_start(waiting: &WaitingServer) -> bool {
    ask(waiting).unwrap_or(false)
}

fn ask(waiting: &WaitingServer) -> std::io::Result<bool> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let news = if waiting.has_changed() { "has changed the MCP server" } else { "names the MCP server" };
    write!(
        terminal,
        "The project {news} {}:\n  {}\nStart it from now on, exactly as it is? [y]es, [n]o: ",
        clean(&waiting.server.name),
        clean(&waiting.server.summary()),
    )?;
    terminal.flush()?;
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
