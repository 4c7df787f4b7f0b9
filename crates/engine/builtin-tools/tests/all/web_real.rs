//! Pages installed on this machine: the Rust documentation and system packages. None is part of this
//! repository, so texts are not compared with stored ones; properties that hold for every page are
//! checked.
#![allow(clippy::print_stderr, reason = "test code")]

use crate::web_rig::{Rig, Site, reply};

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

/// Maximum number of pages tested.
const PAGES: usize = 40;

/// Directories that may contain pages.
fn places() -> Vec<PathBuf> {
    let root = Command::new("rustc").args(["--print", "sysroot"]).output().ok();
    let root = root.map(|it| PathBuf::from(String::from_utf8_lossy(&it.stdout).trim()));
    let rust = root.map(|it| it.join("share/doc/rust/html"));
    let of_rust = ["book", "std/vec", "std/io", "reference", "cargo", "rustc", "nomicon", "error_codes"];
    let mut places: Vec<PathBuf> = rust.into_iter().flat_map(|dir| of_rust.map(|it| dir.join(it))).collect();
    places.extend(
        ["/usr/share/doc", "/usr/share/javadoc", "/usr/lib/python3/dist-packages"].map(PathBuf::from),
    );
    places.extend(["/usr/lib/node_modules", "/usr/share/nodejs"].map(PathBuf::from));
    places
}

/// Finds pages of a typical size below a directory.
fn pages(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path()).collect();
    entries.sort();
    for path in entries {
        let Ok(about) = std::fs::symlink_metadata(&path) else { continue };
        if about.is_dir() && 0 < depth && found.len() < 20_000 {
            pages(&path, depth - 1, found);
        }
        let is_page = path.extension().is_some_and(|it| it == "html" || it == "htm");
        if about.is_file() && is_page && (2_000..1 << 20).contains(&about.len()) {
            found.push(path);
        }
    }
}

/// Selects pages evenly from every directory.
fn chosen() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for place in places() {
        let mut found = Vec::new();
        pages(&place, 5, &mut found);
        let step = (found.len() / 8).max(1);
        all.extend(found.into_iter().step_by(step).take(8));
    }
    let step = (all.len() / PAGES).max(1);
    all.into_iter().step_by(step).take(PAGES).collect()
}

/// Returns the visible words, found in the simplest way: outside tags and elements that are never
/// displayed.
fn words(html: &str) -> Vec<String> {
    let lower = html.to_ascii_lowercase();
    let (mut text, mut at) = (String::new(), 0);
    let unseen =
        ["script", "style", "noscript", "template", "svg", "head", "button", "select", "iframe", "object"];
    while let Some(open) = html[at..].find('<').map(|it| it + at) {
        text.push_str(&html[at..open]);
        text.push(' ');
        if html[open..].starts_with("<!--") {
            at = html[open..].find("-->").map_or(html.len(), |it| open + it + 3);
            continue;
        }
        let name: String = lower[open + 1..].chars().take_while(|it| it.is_ascii_alphanumeric()).collect();
        let close = format!("</{name}");
        let skipped = unseen.contains(&name.as_str()).then(|| lower[open..].find(&close)).flatten();
        let from = skipped.map_or(open, |it| open + it);
        at = html[from..].find('>').map_or(html.len(), |it| from + it + 1);
        // Inline tags do not split words.
        if ["a", "b", "i", "em", "strong", "code", "span", "wbr", "tt", "u"]
            .contains(&name.trim_start_matches('/'))
        {
            text.pop();
        } else if html[open..].starts_with("</") {
            let name: String =
                lower[open + 2..].chars().take_while(|it| it.is_ascii_alphanumeric()).collect();
            if ["a", "b", "i", "em", "strong", "code", "span", "tt", "u"].contains(&name.as_str()) {
                text.pop();
            }
        }
    }
    text.push_str(&html[at.min(html.len())..]);
    plain_words(&text)
}

/// Returns the words of letters that are long enough to be significant.
fn plain_words(text: &str) -> Vec<String> {
    let words = text.split(|it: char| !it.is_ascii_alphabetic()).filter(|it| (5..20).contains(&it.len()));
    words.map(str::to_owned).collect()
}

fn counted(words: Vec<String>) -> HashMap<String, usize> {
    let mut all = HashMap::new();
    words.into_iter().for_each(|it| *all.entry(it).or_default() += 1);
    all
}

/// Removes code, which may contain anything.
fn prose(markdown: &str) -> String {
    let mut fence: Option<String> = None;
    let mut kept = String::new();
    for line in markdown.lines() {
        let marks: String = line.trim_start().chars().take_while(|it| *it == '`').collect();
        match &fence {
            None if 3 <= marks.len() => fence = Some(marks),
            Some(open) if *open == marks && line.trim() == marks => fence = None,
            Some(_) => (),
            None => {
                kept.extend(line.split('`').step_by(2));
                kept.push('\n');
            }
        }
    }
    assert_eq!(fence, None, "a fence that is not closed");
    kept
}

#[tokio::test]
async fn installed_pages_convert_without_defects() {
    let files = chosen();
    if files.len() < 30 {
        return eprintln!(
            "SKIPPED: there are only {} pages on this machine (rustup component rust-docs)",
            files.len()
        );
    }
    let mut wrong = Vec::new();
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        let html = String::from_utf8_lossy(&bytes).into_owned();
        let site = Site::raw(vec![("/docs/guide/page.html", reply(200, "text/html", &bytes))]).await;
        let rig = Rig::near(&site);
        let (mut text, mut next) = (String::new(), Some(json!({"url": site.url("/docs/guide/page.html")})));
        let mut is_shell = false;
        while let Some(input) = next.take() {
            let got = match rig.call(input).await {
                Ok(got) => got.data,
                Err(err) => {
                    wrong.push(format!("{}: {}", file.display(), err.message));
                    break;
                }
            };
            text.push_str(got["result"].as_str().unwrap_or_default());
            is_shell |= got["notes"].to_string().contains("JavaScript");
            next = got["nextOffset"]
                .as_u64()
                .map(|it| json!({"url": site.url("/docs/guide/page.html"), "offset": it}));
        }
        if is_shell {
            continue;
        }
        for problem in problems(&html, &text) {
            wrong.push(format!("{}: {problem}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} pages:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

/// Returns the defects of a converted page.
fn problems(html: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (seen, told) = (counted(words(html)), counted(plain_words(text)));
    // Menus and hidden labels of keys and buttons are not counted as lost.
    let mut lost: Vec<&str> =
        seen.keys().filter(|word| !told.contains_key(*word)).map(String::as_str).collect();
    lost.sort_unstable();
    if 60 < seen.len() && (seen.len() / 20).max(12) < lost.len() {
        let some = &lost[..lost.len().min(12)];
        wrong.push(format!("{} of {} words are lost: {some:?}", lost.len(), seen.len()));
    }
    // Superscripts and subscripts have no Markdown form.
    let prose =
        ["<sup>", "</sup>", "<sub>", "</sub>"].iter().fold(prose(text), |it, tag| it.replace(tag, ""));
    let tags = [
        "<div", "<span", "<p>", "<td", "<tr", "<table", "<li", "<ul", "<a href", "</", "<details", "<h1",
        "<h2",
    ];
    let left: Vec<&str> = tags.into_iter().filter(|it| prose.contains(it)).collect();
    if !left.is_empty() {
        let at = prose.find(left[0]).unwrap_or_default();
        wrong.push(format!("tags are left: {left:?}: {:.80}", &prose[at..]));
    }
    for (at, _) in prose.match_indices("](") {
        let to = prose[at + 2..].split([')', ' ']).next().unwrap_or_default();
        let is_whole = to.is_empty() || to.starts_with('#') || to.starts_with('<') || to.contains(':');
        if !is_whole {
            wrong.push(format!("a link leads nowhere from here: {to}"));
            break;
        }
    }
    wrong
}

/// The check itself detects defects.
#[test]
fn defect_check_detects_defects() {
    let letters = || (b'a'..=b'z').map(char::from);
    let many: String = letters().flat_map(|a| ['x', 'y', 'z'].map(|b| format!("words{a}{b} "))).collect();
    let html = format!(
        "<html><head><title>title</title></head><body><p>{many} <b>impor</b>tant <script>hidden()</script></p>\
         <pre>example code</pre></body></html>"
    );
    let whole = format!("{many} important\n\n```\nexample <div> code\n```\n");
    assert_eq!(problems(&html, &whole), Vec::<String>::new());
    for (text, want) in [
        (whole.replace("words", ""), "words are lost"),
        (format!("{whole}<div>x</div>"), "tags are left"),
        (format!("{whole}[example](../x.html)"), "leads nowhere"),
    ] {
        let found = problems(&html, &text).join("\n");
        assert!(found.contains(want), "{text}: {found}");
    }
}
