//! Runs every command in the documentation pages against a scripted model, in a project with a session
//! to show. `table.rs` has the values of placeholders, the expected exit codes, and the commands that
//! cannot be run, with the reason.

mod table;

use std::{
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use haft_testkit::{MockModel, Script, Turn, haft_binary};
use serde_json::{Value, json};

use self::table::{How, TABLE};
use crate::common::Haft;

/// Pages that `crate::readme` runs, and the generated help page.
const ELSEWHERE: &[&str] = &["docs/start/tutorial.md", "docs/reference/cli.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The pages: path in the repository, and text.
fn pages() -> Vec<(String, String)> {
    let mut names = ["README.md", "CONTRIBUTING.md", "AGENTS.md"].map(String::from).to_vec();
    pages_below("docs", &mut names);
    names.retain(|it| !ELSEWHERE.contains(&it.as_str()));
    names.sort();
    let text = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    names.into_iter().map(|name| (name.clone(), text(&name))).collect()
}

/// Collects the Markdown files of a directory, recursively.
fn pages_below(dir: &str, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(root().join(dir)).unwrap().map(|it| it.unwrap()) {
        let name = format!("{dir}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            pages_below(&name, names)
        } else if name.ends_with(".md") {
            names.push(name)
        }
    }
}

/// The commands of a page with their line numbers: lines of shell blocks, and text in backticks that
/// begins with `haft` or pipes into it.
fn commands(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut block) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        if let Some(info) = line.trim().strip_prefix("```") {
            let is_shell = matches!(info, "" | "sh" | "bash" | "console" | "text");
            block = block.is_none().then_some(is_shell);
            continue;
        }
        let parts: Vec<&str> = match block {
            Some(true) => vec![line],
            Some(false) => continue,
            None => line.split('`').skip(1).step_by(2).collect(),
        };
        for part in parts {
            // After two spaces comes an explanation.
            let part = part.trim().trim_start_matches("$ ").split("  ").next().unwrap_or_default();
            let part = part.split(" #").next().unwrap_or_default().trim();
            if part.starts_with("haft ") || part.contains("| haft ") {
                found.push((at + 1, part.to_owned()));
            }
        }
    }
    found
}

/// How to run a command of a page: unchanged, unless the table says otherwise.
fn how(command: &str) -> How {
    let row = TABLE.iter().find(|(named, _)| *named == command);
    row.map_or(How::AsItStands, |(_, how)| *how)
}

/// A project with a session, an undoable change, a recording, a plugin, a trigger and a table of jobs.
struct Project {
    haft: Haft,
    model: String,
    session: String,
}

impl Project {
    fn make(model: String) -> Self {
        let haft = Haft::new();
        let bin = haft.dir.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        symlink(haft_binary(), bin.join("haft")).unwrap();
        haft.write("README.md", "# A project\n");
        haft.write("src/lib.rs", "pub fn twice(x: u32) -> u32 { x * 2 }\n");
        haft.write("repos.csv", "repo,target\none,two\n");
        haft.write("model.json", r#"{"turns": [{"times": "always", "reply": [{"text": "yes"}]}]}"#);
        haft.write("plugin/.claude-plugin/plugin.json", r#"{"name": "good", "version": "1.0.0", "userConfig": {"mood": {"type": "string", "title": "Mood", "description": "How it feels"}}}"#);
        haft.write("plugin/commands/c.md", "Say c.");
        let list = json!({"name": "near", "owner": {"name": "me"}, "plugins": [{"name": "good", "source": "./plugin"}]});
        haft.write(".claude-plugin/marketplace.json", &list.to_string());
        let trigger =
            json!({"dir": haft.ws(), "prompt": "Look.", "scheme": "github", "secret": {"env": "HOOK_KEY"}});
        haft.write_home(".haft/settings.json", &json!({"triggers": {"review": trigger}}).to_string());
        let mut project = Self { haft, model, session: String::new() };
        for line in [
            "git init -q && git add README.md && git -c user.name=me -c user.email=me@x commit -qm one",
            "haft -p 'Write a file.' --permission-mode acceptEdits --record run.cassette",
        ] {
            let output = project.shell(line);
            assert!(output.status.success(), "{line}: {}", said(&output));
        }
        let listed = said(&project.shell("haft sessions --json"));
        let listed: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        project.session = listed["id"].as_str().unwrap().to_owned();
        project
    }

    /// A shell in the project with the program and the model configured.
    fn command(&self, line: &str) -> Command {
        let bin = self.haft.dir.path().join("bin");
        let rest = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&rest))).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.haft.ws()).env_clear();
        command.env("PATH", path).env("HOME", self.haft.home()).env("TMPDIR", self.haft.dir.path());
        command.env("ANTHROPIC_BASE_URL", &self.model).env("HOOK_KEY", "key").env("ID", &self.session);
        command.stdin(Stdio::null());
        command
    }

    fn shell(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs a server until it prints `words`, and stops it.
    fn serve(&self, line: &str, words: &str) -> Result<(), String> {
        let mut command = self.command(&format!("exec {line} 2>&1"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut told = String::new();
        while !told.contains(words) {
            if output.read_line(&mut told).unwrap_or(0) == 0 {
                child.wait().unwrap();
                return Err(format!("{line} does not say {words:?}: {told}"));
            }
        }
        let ended = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(ended.success(), "{line}");
        output.read_to_string(&mut told).ok();
        child.wait().unwrap();
        Ok(())
    }

    /// Runs a command; returns what is wrong, if anything.
    fn problem(&self, command: &str) -> Option<String> {
        let (line, codes): (&str, &[i32]) = match how(command) {
            How::AsItStands => (command, &[0]),
            How::As(line) => (line, &[0]),
            How::Ends(line, codes) => (line, codes),
            How::Serves(line, words) => return self.serve(line, words).err(),
            How::Not(_) => return None,
        };
        let output = self.shell(line);
        let is_fine = output.status.code().is_some_and(|it| codes.contains(&it));
        (!is_fine).then(|| format!("{line}: {}: {}", output.status, said(&output)))
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A model that writes a file when asked to, and otherwise answers with text.
fn script() -> Script {
    let write = Turn::tool("Write", json!({"file_path": "new.txt", "content": "x\n"}));
    Script::from_turns(vec![write, Turn::text("yes").always()])
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_every_page_work() {
    let mut commands_of_pages: Vec<(String, String)> = Vec::new();
    for (page, text) in pages() {
        for (line, command) in commands(&text) {
            if !commands_of_pages.iter().any(|(known, _)| *known == command) {
                commands_of_pages.push((command, format!("{page}:{line}")));
            }
        }
    }
    assert!(100 < commands_of_pages.len(), "{}", commands_of_pages.len());
    for (named, _) in TABLE {
        assert!(commands_of_pages.iter().any(|(it, _)| it == named), "no page names {named}");
    }
    let not: Vec<_> = TABLE.iter().filter(|(_, how)| matches!(how, How::Not(_))).collect();
    assert!(not.len() <= table::MAX_NOT_RUN, "{} commands are not run", not.len());

    // Four groups in parallel, each command in its own project.
    let shares: Vec<Vec<(String, String)>> =
        (0..4).map(|at| commands_of_pages.iter().skip(at).step_by(4).cloned().collect()).collect();
    let runs = shares.into_iter().map(|share| {
        tokio::spawn(async move {
            let mut problems = Vec::new();
            for (command, place) in share.into_iter().filter(|(it, _)| !matches!(how(it), How::Not(_))) {
                let model = MockModel::start(script()).await.unwrap();
                let url = model.url();
                let problem = tokio::task::spawn_blocking(move || Project::make(url).problem(&command));
                problems.extend(problem.await.unwrap().map(|it| format!("{place}: {it}")));
            }
            problems
        })
    });
    let mut problems = Vec::new();
    for run in runs.collect::<Vec<_>>() {
        problems.extend(run.await.unwrap());
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The repository's own commands named in the pages exist.
#[test]
fn commands_of_the_repository_exist() {
    let source = std::fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    let mut count = 0;
    for (page, text) in pages() {
        for part in text.split("cargo xtask ").skip(1) {
            let name: String = part.chars().take_while(|it| it.is_ascii_lowercase() || *it == '-').collect();
            count += 1;
            assert!(source.contains(&format!("Some(\"{name}\")")), "{page}: cargo xtask {name}");
        }
    }
    assert!(10 < count, "{count}");
}
