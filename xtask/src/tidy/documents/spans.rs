/// A code span in a document.
pub(super) struct NamedText {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Returns all code spans, and all commands of the program in shell blocks. Blocks in other languages
/// are ignored.
pub(super) fn named_texts(document: &str) -> Vec<NamedText> {
    let mut found = Vec::new();
    let mut block = None;
    for (number, line) in document.lines().enumerate() {
        let line_number = number + 1;
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language.trim().to_owned()) };
            continue;
        }
        let texts = match block.as_deref() {
            Some("sh") => commands_of(line),
            Some("text") => overview_of(line),
            Some(_) => Vec::new(),
            None => line.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
        };
        found.extend(texts.into_iter().map(|text| NamedText { line: line_number, text }));
    }
    found
}

/// Returns the program's commands in a shell line.
fn commands_of(line: &str) -> Vec<String> {
    let line = line.split(" # ").next().unwrap_or(line).split("  #").next().unwrap_or(line);
    let parts = line.split("&&").flat_map(|part| part.split(" | "));
    parts.map(str::trim).filter(|part| part.starts_with("haft ")).map(str::to_owned).collect()
}

/// Parses a line of an overview: a command, two spaces, a description.
fn overview_of(line: &str) -> Vec<String> {
    let command = line.trim().split("  ").next().unwrap_or_default();
    if command.starts_with("haft ") { vec![command.to_owned()] } else { Vec::new() }
}
