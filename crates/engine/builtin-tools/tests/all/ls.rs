//! LS, tested through the tool contract.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::finding_rig;

use std::{os::unix::fs::symlink, sync::Arc};

use finding_rig::Rig;
use haft_builtin_tools::ls::Ls;
use haft_tool::{DynTool, erase};
use serde_json::{Value, json};

fn ls() -> Arc<dyn DynTool> {
    erase(Ls::default())
}

async fn check(rig: &Rig, input: Value, want: &[&str]) {
    let text = rig.text(&ls(), input.clone()).await;
    assert_eq!(text.lines().collect::<Vec<_>>(), want, "{input}");
}

fn project() -> Rig {
    let rig = Rig::new(&[
        ("README.md", "hello\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("src/deep/er/x.rs", "x"),
        (".git/HEAD", ""),
        (".github/ci.yml", "ci"),
        (".gitignore", "target/\n*.log\n"),
        ("target/big.o", "o"),
        ("y.log", ""),
    ]);
    std::fs::create_dir(rig.ws.join("empty")).unwrap();
    symlink("src/main.rs", rig.ws.join("link")).unwrap();
    rig
}

#[tokio::test]
async fn ls_shows_a_tree_with_sizes() {
    let rig = project();
    let left_out = [
        "[left out, ignored: target/, y.log — include_ignored: true]",
        "[left out, hidden: .github/, .gitignore — include_hidden: true]",
    ];
    let mut want = vec![
        "./",
        "  README.md  6 B",
        "  empty/  empty",
        "  link -> src/main.rs",
        "  src/  2 files, 14 B",
        "    deep/  1 file, 1 B",
        "      er/  1 file, 1 B",
        "    main.rs  13 B",
        "[4 files in 4 directories, 20 B]",
    ];
    want.extend(left_out);
    check(&rig, json!({}), &want).await;
    let mut want = vec![
        "./",
        "  README.md  6 B",
        "  empty/  empty",
        "  link -> src/main.rs",
        "  src/  2 files, 14 B",
        "[4 files in 4 directories, 20 B]",
    ];
    want.extend(left_out);
    check(&rig, json!({"depth": 1}), &want).await;
    let input = json!({"path": "src", "ignore": ["deep/"], "include_hidden": true});
    check(&rig, input, &["src/", "  main.rs  13 B", "[1 file in 0 directories, 13 B]"]).await;
    let all = rig.text(&ls(), json!({"include_hidden": true, "include_ignored": true, "depth": 1})).await;
    assert!(all.contains("  .github/") && all.contains("  target/") && !all.contains(".git/"), "{all}");
}

#[tokio::test]
async fn large_directory_does_not_hide_its_siblings() {
    let rig = Rig::new(&[]);
    for dir in ["a", "b", "c"] {
        for index in 0..300 {
            rig.write(&format!("{dir}/f{index:03}.txt"), "");
        }
    }
    let output = rig.run(&ls(), &json!({}), rig.context()).await.unwrap();
    let text = output.content.to_text();
    assert!(text.lines().count() <= 203, "{}", text.lines().count());
    for dir in ["a", "b", "c"] {
        assert!(text.contains(&format!("  {dir}/  300 files, 0 B")), "{text}");
    }
    assert!(text.matches("… ").count() == 3 && text.contains("… 236 more"), "{text}");
    assert_eq!(output.data["truncated"], true);
    assert_eq!(output.data["numFiles"], 900);
}

#[tokio::test]
async fn denied_files_are_hidden_and_special_names_escaped() {
    let mut rig = Rig::new(&[("a.txt", ""), ("secret.txt", ""), ("we\u{1b}ird", "")]);
    rig.deny(&["secret.txt"]);
    check(
        &rig,
        json!({}),
        &["./", "  a.txt  0 B", "  $'we\\x1bird'  0 B", "[2 files in 0 directories, 0 B]"],
    )
    .await;
}

#[tokio::test]
async fn ls_rejects_invalid_paths() {
    let rig = Rig::new(&[("a.txt", "")]);
    for (input, want) in [
        (json!({"path": "a.txt"}), "is a file, not a directory; use Read"),
        (json!({"path": "gone"}), "does not exist"),
        (json!({"path": "/sys"}), "belongs to the kernel"),
        (json!({"ignore": ["[a"]}), "not valid"),
        (json!({"depth": 0}), "depth"),
    ] {
        let text = rig.text(&ls(), input.clone()).await;
        assert!(text.starts_with("error: ") && text.contains(want), "{input}: {text}");
    }
}

#[test]
fn ls_description_matches_snapshot() {
    let tool = ls();
    let spec = tool.spec();
    insta::assert_json_snapshot!(json!({"description": spec.description, "input": spec.input_schema}));
}
