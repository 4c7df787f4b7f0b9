//! Runs the user's text editor.

use haft_types::EnvVars;

/// Opens `text` in `$VISUAL`, `$EDITOR` or `vi` and returns the edited text. Blocks until the editor
/// exits. Returns `None` if it cannot be started, exits with an error, or leaves text that is not UTF-8.
pub(super) fn edit(text: &str, variables: &EnvVars) -> Option<String> {
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| variables.text(name).filter(|it| !it.is_empty()));
    let editor = editor.unwrap_or_else(|| String::from("vi"));
    let file = tempfile::Builder::new().prefix("haft-").suffix(".md").tempfile().ok()?;
    std::fs::write(file.path(), text).ok()?;
    // `$EDITOR` may contain arguments, so a shell has to parse it.
    let status = std::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("exec {editor} \"$1\""))
        .arg("haft")
        .arg(file.path())
        .status()
        .ok()?;
    status.success().then(|| std::fs::read_to_string(file.path()).ok()).flatten()
}
