//! The person's editor.

use haft_types::EnvVars;

/// Lets the person edit a text; none when the editor failed.
pub(super) fn edit(text: &str, variables: &EnvVars) -> Option<String> {
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| variables.text(name).filter(|it| !it.is_empty()));
    let editor = editor.unwrap_or_else(|| String::from("vi"));
    let file = tempfile::Builder::new().prefix("haft-").suffix(".md").tempfile().ok()?;
    std::fs::write(file.path(), text).ok()?;
    // Editors are named with arguments, as shells read them.
    let status = std::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("exec {editor} \"$1\""))
        .arg("haft")
        .arg(file.path())
        .status()
        .ok()?;
    status.success().then(|| std::fs::read_to_string(file.path()).ok()).flatten()
}
