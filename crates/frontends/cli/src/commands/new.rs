//! `haft new tool NAME`: creates a crate with a tool, its test, and an MCP server for it.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_line},
};

use super::update;
use crate::args::NewCommand;

/// Templates of the new crate. `tests/all/new_tool.rs` compiles and runs the result.
const MANIFEST: &str = include_str!("../../assets/new-tool/Cargo.toml.txt");
const TOOL: &str = include_str!("../../assets/new-tool/tool.rs.txt");
const SERVER: &str = include_str!("../../assets/new-tool/server.rs.txt");
const README: &str = include_str!("../../assets/new-tool/README.md.txt");
/// Path of the library crate in a source checkout of Haft.
const LIBRARY: &str = "crates/frontends/haft";

pub(crate) fn run(command: &NewCommand, options: &GlobalArgs) -> CommandExit {
    let NewCommand::Tool { name, dir, haft } = command;
    let names = ToolNames::parse(name)?;
    let here = options.cwd.clone().unwrap_or_default();
    let root = here.join(dir.clone().unwrap_or_else(|| PathBuf::from(&names.package)));
    let failed = |path: &Path, err: std::io::Error| CliError::Message(format!("{}: {err}", path.display()));
    let library = library(haft.as_ref().map(|it| here.join(it)))?;
    // An existing directory may contain the user's work.
    std::fs::create_dir(&root).map_err(|err| failed(&root, err))?;
    std::fs::create_dir(root.join("src")).map_err(|err| failed(&root, err))?;
    let filled = |text: &str| {
        text.replace("template-tool", &names.package)
            .replace("template_tool", &names.package.replace('-', "_"))
            .replace("TemplateTool", &names.tool)
            .replace("@HAFT@", &format!("{:?}", library.display().to_string()))
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
    };
    for (place, text) in
        [("Cargo.toml", MANIFEST), ("src/lib.rs", TOOL), ("src/main.rs", SERVER), ("README.md", README)]
    {
        let path = root.join(place);
        std::fs::write(&path, filled(text)).map_err(|err| failed(&path, err))?;
    }
    let shown = root.display();
    print_line(&format!(
        "{shown} holds the tool {}. It uses the source of Haft in {}.",
        names.tool,
        library.display()
    ))?;
    print_line(&format!("Try it: cd {shown} && cargo test --no-default-features"))?;
    print_line(&format!(
        "Give it to Haft: cargo build --release && haft mcp add {} -- $PWD/target/release/{}",
        names.package, names.package
    ))?;
    print_line("README.md there says what else it can be part of.")?;
    Ok(ExitCode::SUCCESS)
}

/// The directory this program was built in. Only set in debug builds: release builds must be
/// reproducible.
#[cfg(debug_assertions)]
const BUILT_IN: &str = env!("CARGO_MANIFEST_DIR");
#[cfg(not(debug_assertions))]
const BUILT_IN: &str = "";

/// The directory of the library crate: in the given checkout, or in the one this program was built or
/// installed from.
fn library(named: Option<PathBuf>) -> Result<PathBuf, CliError> {
    let in_source =
        |dir: &Path| dir.join(LIBRARY).canonicalize().ok().filter(|it| it.join("Cargo.toml").is_file());
    if let Some(source) = named {
        return in_source(&source).ok_or_else(|| {
            CliError::Message(format!("{} is no source of Haft: {LIBRARY} is missing", source.display()))
        });
    }
    let program = std::env::current_exe().and_then(|it| it.canonicalize()).unwrap_or_default();
    let installed = update::cargo_source(&program).unwrap_or_default();
    let places = [program.as_path(), installed.as_path(), Path::new(BUILT_IN)];
    places.into_iter().flat_map(Path::ancestors).find_map(in_source).ok_or_else(|| {
        CliError::Message(String::from(
            "there is no source of Haft beside this program, and the crate `haft` is in no registry yet: get the \
             source and name its directory with --haft DIR",
        ))
    })
}

/// The tool's name in its three spellings.
struct ToolNames {
    /// For example `word-count`.
    package: String,
    /// For example `WordCount`.
    tool: String,
}

impl ToolNames {
    fn parse(name: &str) -> Result<Self, CliError> {
        let mut words: Vec<String> = Vec::new();
        let mut starts = true;
        for it in name.chars() {
            if it == '-' || it == '_' {
                starts = true;
                continue;
            }
            if !it.is_ascii_alphanumeric() {
                return Err(CliError::Message(format!("{name:?}: a name is letters, digits and dashes")));
            }
            if starts || it.is_ascii_uppercase() {
                words.push(String::new());
                starts = false;
            }
            if let Some(word) = words.last_mut() {
                word.push(it.to_ascii_lowercase());
            }
        }
        if !words.first().is_some_and(|word| word.starts_with(|it: char| it.is_ascii_alphabetic())) {
            return Err(CliError::Message(format!("{name:?}: a name begins with a letter")));
        }
        let capital = |word: &String| word[..1].to_ascii_uppercase() + &word[1..];
        Ok(Self { package: words.join("-"), tool: words.iter().map(capital).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_form_in_every_place() {
        for (name, want) in [
            ("word-count", Some(("word-count", "WordCount"))),
            ("WordCount", Some(("word-count", "WordCount"))),
            ("x2", Some(("x2", "X2"))),
            ("2x", None),
            ("a b", None),
            ("größe", None),
            ("", None),
            ("../x", None),
        ] {
            let names = ToolNames::parse(name).ok();
            let got = names.as_ref().map(|it| (it.package.as_str(), it.tool.as_str()));
            assert_eq!(got, want, "{name}");
        }
    }
}
