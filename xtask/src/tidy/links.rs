//! Links of the documents lead somewhere: files that exist, headings that are in
//! them, and, for pages of the book, nothing that the book does not hold. Reads
//! text and builds nothing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Component, Path, PathBuf},
};

use crate::command;

/// Pages with what they hold, by their path in the repository.
type Pages = BTreeMap<String, LinkedPage>;

/// What of a page matters to links.
#[derive(Debug, Default)]
struct LinkedPage {
    /// The names of its headings, as addresses spell them.
    anchors: BTreeSet<String>,
    /// Where its links lead, with the line each stands on.
    links: Vec<(usize, String)>,
}

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let root_text = root.to_string_lossy();
    let listed = command::output(
        "git",
        &["-C", &root_text, "ls-files", "--cached", "--others", "--exclude-standard"],
    )?;
    let files: BTreeSet<&str> = listed.lines().collect();
    let mut pages = Pages::new();
    for name in files.iter().filter(|name| is_page(name)) {
        let text = fs::read_to_string(root.join(name)).map_err(|err| format!("{name}: {err}"))?;
        pages.insert((*name).to_owned(), LinkedPage::read(&text));
    }
    Ok(problems(&pages, &files))
}

fn is_page(name: &str) -> bool {
    name.ends_with(".md") && (!name.contains('/') || name.starts_with("docs/"))
}

fn problems(pages: &Pages, files: &BTreeSet<&str>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, page) in pages {
        for (line, link) in &page.links {
            let wrong = problem_of(name, link, pages, files);
            problems.extend(wrong.map(|why| format!("{name}:{line}: [{link}] {why}")));
        }
    }
    problems
}

fn problem_of(page: &str, link: &str, pages: &Pages, files: &BTreeSet<&str>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    let target = if path.is_empty() { page.to_owned() } else { joined(page, path)? };
    let is_directory =
        || files.iter().any(|name| name.starts_with(&format!("{}/", target.trim_end_matches('/'))));
    if !files.contains(target.as_str()) && !is_directory() {
        return Some(format!("there is no {target}"));
    }
    if page.starts_with("docs/") && !target.starts_with("docs/") {
        return Some(String::from("is not in the book: name the file instead of linking it"));
    }
    let anchor = anchor?;
    match pages.get(&target) {
        Some(found) if found.anchors.contains(anchor) => None,
        Some(found) => {
            let known: Vec<&str> = found.anchors.iter().map(String::as_str).collect();
            Some(format!("{target} has no such heading; it has {}", known.join(", ")))
        }
        None => Some(format!("{target} has no headings")),
    }
}

/// A path as it is meant on a page; one that leaves the repository is none of its
/// files.
fn joined(page: &str, path: &str) -> Option<String> {
    let mut out = Path::new(page).parent().map(PathBuf::from).unwrap_or_default();
    for step in Path::new(path).components() {
        match step {
            Component::ParentDir => drop(out.pop()),
            Component::Normal(name) => out.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => (),
        }
    }
    out.to_str().map(str::to_owned)
}

impl LinkedPage {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut fence: Option<&str> = None;
        for (at, line) in text.lines().enumerate() {
            let start = line.trim_start();
            match fence {
                Some(end) if start.starts_with(end) => fence = None,
                Some(_) => (),
                None if start.starts_with("```") || start.starts_with("~~~") => fence = start.get(..3),
                None => {
                    if let Some(title) = heading(line) {
                        let anchor = anchor_of(title);
                        let count = seen.entry(anchor.clone()).or_default();
                        page.anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
                        *count += 1;
                    }
                    page.links.extend(links(line).into_iter().map(|link| (at + 1, link)));
                }
            }
        }
        page
    }
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let depth = line.len() - title.len();
    (1..=6).contains(&depth).then(|| title.strip_prefix(' ')).flatten()
}

/// The name of a heading in addresses, as books and code hosts make it: letters,
/// digits, dashes and underscores stay, blanks become dashes, the rest goes.
fn anchor_of(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Where the links of a line lead; what stands in backticks is none.
fn links(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let (mut rest, mut in_code) = (line, false);
    while let Some(at) = rest.find(['`', ']']) {
        let is_tick = rest.as_bytes()[at] == b'`';
        rest = &rest[at + 1..];
        if is_tick {
            in_code = !in_code;
        } else if let Some(link) = rest.strip_prefix('(').filter(|_| !in_code)
            && let Some(end) = link.find(')')
        {
            let target = link[..end].split_whitespace().next().unwrap_or_default();
            out.push(target.to_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_the_documents_leads_somewhere() {
        let found = check(&crate::tidy::root());
        assert_eq!(found, Ok(Vec::new()));
    }

    #[test]
    fn wrong_links_are_found() {
        let files = BTreeSet::from(["README.md", "docs/a.md", "docs/b.md", "docs/x.svg", "src/lib.rs"]);
        let page = |text: &str| LinkedPage::read(text);
        let heads = "# One\n\n## What `x --y` is, or not?\n\n```sh\n# no heading\n```\n## Two\n## Two\n";
        for (link, is_right) in [
            ("b.md", true),
            ("gone.md", false),
            ("b.md#one", true),
            ("b.md#what-x---y-is-or-not", true),
            ("b.md#two-1", true),
            ("b.md#two-2", false),
            ("b.md#no-heading", false),
            ("#here", true),
            ("#there", false),
            ("x.svg", true),
            ("x.svg#one", false),
            ("../README.md", false),
            ("https://example.com/gone", true),
        ] {
            let pages = Pages::from([
                ("docs/a.md".to_owned(), page(&format!("# Here\n\nSee [it]({link} \"title\").\n"))),
                ("docs/b.md".to_owned(), page(heads)),
            ]);
            assert_eq!(
                problems(&pages, &files).is_empty(),
                is_right,
                "{link}: {:?}",
                problems(&pages, &files)
            );
        }
        let readme =
            Pages::from([("README.md".to_owned(), page("[`a`](docs/a.md), [src](src/), `[no](gone)`"))]);
        assert_eq!(readme["README.md"].links, [(1, "docs/a.md".to_owned()), (1, "src/".to_owned())]);
        let pages: Pages = readme.into_iter().chain([("docs/a.md".to_owned(), page("# A"))]).collect();
        assert_eq!(problems(&pages, &files), Vec::<String>::new());
    }
}
