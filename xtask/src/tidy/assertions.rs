//! Every test must assert something, directly or through a helper. A test that only calls the program
//! would pass even if the program did nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::command;

/// Code that can make a test fail.
const FAILING: &[&str] =
    &["assert", "panic!", "unreachable!", "unwrap_err(", "expect_err(", "insta::", "should_panic"];

/// Tests that are processes started by another test.
const EXCEPTIONS: &[&str] = &["lock_holder", "writer"];

/// A function of a test program: crate and name.
type FunctionName = (String, String);

pub(super) fn check(root: &Path) -> Result<Vec<String>, String> {
    let root_text = root.to_string_lossy();
    let listed = command::output("git", &["-C", &root_text, "ls-files", "--cached", "*.rs"])?;
    let mut functions = Vec::new();
    for name in listed.lines() {
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        functions.extend(functions_in(name, &text));
    }
    Ok(tests_without_assertion(&functions))
}

struct TestFunction {
    crate_name: String,
    file: String,
    name: String,
    body: String,
    is_test: bool,
}

fn tests_without_assertion(functions: &[TestFunction]) -> Vec<String> {
    let mut bodies: BTreeMap<FunctionName, Vec<&str>> = BTreeMap::new();
    for it in functions {
        bodies.entry((it.crate_name.clone(), it.name.clone())).or_default().push(&it.body);
    }
    // A name counts only if all functions of that name in the crate assert, so that a common name such
    // as `new` does not hide others.
    let mut asserting: BTreeSet<FunctionName> = bodies
        .iter()
        .filter(|(_, all)| all.iter().all(|it| fails(it)))
        .map(|(name, _)| name.clone())
        .collect();
    let calls_asserting = |asserting: &BTreeSet<FunctionName>, crate_name: &str, body: &str| {
        called(body).any(|name| {
            [crate_name, "crates/dev/testkit", "crates/engine/fleet-store"]
                .iter()
                .any(|it| asserting.contains(&((*it).to_owned(), name.to_owned())))
        })
    };
    loop {
        let found: Vec<FunctionName> = bodies
            .iter()
            .filter(|(name, _)| !asserting.contains(*name))
            .filter(|((crate_name, _), all)| {
                all.iter().any(|body| calls_asserting(&asserting, crate_name, body))
            })
            .map(|(name, _)| name.clone())
            .collect();
        if found.is_empty() {
            break;
        }
        asserting.extend(found);
    }
    functions
        .iter()
        .filter(|it| it.is_test && !EXCEPTIONS.contains(&it.name.as_str()))
        .filter(|it| !fails(&it.body) && !calls_asserting(&asserting, &it.crate_name, &it.body))
        .map(|it| format!("{}: test {} asserts nothing", it.file, it.name))
        .collect()
}

fn fails(body: &str) -> bool {
    FAILING.iter().any(|it| body.contains(it))
}

/// Returns the names before a parenthesis.
fn called(body: &str) -> impl Iterator<Item = &str> {
    body.match_indices('(').filter_map(|(at, _)| {
        let before = &body[..at];
        let start = before.rfind(|it: char| !it.is_alphanumeric() && it != '_').map_or(0, |it| it + 1);
        (start < at).then(|| &before[start..])
    })
}

/// Returns the functions of a test program, or of the test modules of a library.
fn functions_in(file: &str, text: &str) -> Vec<TestFunction> {
    let code = without_strings(text);
    let tests_begin = if file.contains("/tests/") || file.ends_with("tests.rs") || file.contains("testkit") {
        0
    } else if let Some(at) = code.find("#[cfg(test)]") {
        at
    } else {
        return Vec::new();
    };
    let crate_name: Vec<&str> =
        file.split('/').take(if file.starts_with("crates/") { 3 } else { 1 }).collect();
    let mut functions = Vec::new();
    for (at, _) in code.match_indices("fn ").filter(|(at, _)| tests_begin <= *at) {
        let name: String =
            code[at + 3..].chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        let Some(body) = body_after(&code[at..]) else { continue };
        functions.push(TestFunction {
            crate_name: crate_name.join("/"),
            file: file.to_owned(),
            is_test: attributes_before(&code[..at]).contains("test]")
                || attributes_before(&code[..at]).contains("::test("),
            name,
            body: body.to_owned(),
        });
    }
    functions
}

/// Returns the text between the previous item and the function.
fn attributes_before(code: &str) -> &str {
    let start = code.rfind(['}', ';', '{']).map_or(0, |it| it + 1);
    &code[start..]
}

/// Returns the text from the first brace to the matching one.
fn body_after(code: &str) -> Option<&str> {
    let start = code.find('{').filter(|it| code.find(';').is_none_or(|end| *it < end))?;
    let mut depth = 0_usize;
    for (at, sign) in code[start..].char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&code[start..=start + at]);
                }
            }
            _ => {}
        }
    }
    None
}

/// Removes comments and the content of strings and characters.
fn without_strings(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if sign == '"' {
            string_length(rest)
        } else if let Some(length) = raw_string_length(rest).filter(|_| !ends_in_name(&out)) {
            length
        } else if sign == '\'' {
            character_length(rest).unwrap_or(0)
        } else {
            0
        };
        if skipped == 0 {
            out.push(sign);
            rest = &rest[sign.len_utf8()..];
        } else {
            rest = &rest[skipped..];
        }
    }
    out
}

fn ends_in_name(code: &str) -> bool {
    code.chars().next_back().is_some_and(|it| it.is_alphanumeric() || it == '_')
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        match sign {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Matches `r"…"`, `r#"…"#`, `br"…"`.
fn raw_string_length(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let content = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = content.find(&end).map_or(content.len(), |it| it + end.len());
    Some(text.len() - content.len() + length)
}

/// Matches `'x'` or `'\n'`, but not a lifetime.
fn character_length(text: &str) -> Option<usize> {
    let mut signs = text.char_indices().skip(1);
    let (_, first) = signs.next()?;
    if first == '\\' {
        signs.next()?;
        return text[1..].find('\'').filter(|it| *it != 1).map(|it| it + 2).or(Some(4));
    }
    let (at, second) = signs.next()?;
    (second == '\'').then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_without_assertion_are_found() {
        let file = r##"
            fn new() { assert!(true); }
            fn check(x: u8) { helper(x) }
            fn helper(x: u8) { assert_eq!(x, 1) }
            #[test]
            fn direct() { assert!('"' != 'a' && '\'' != 'b'); }
            #[tokio::test(flavor = "current_thread")]
            async fn through_helper() { check(1) }
            #[test]
            fn only_in_text() { let _ = "assert!(x)"; run(r#"panic!("#); } // assert
            #[test]
            fn nothing<'a>() { run(); }
            fn run() {}
        "##;
        let functions = functions_in("crates/a/b/tests/all/x.rs", file);
        let found = tests_without_assertion(&functions);
        let want = ["only_in_text", "nothing"]
            .map(|it| format!("crates/a/b/tests/all/x.rs: test {it} asserts nothing"));
        assert_eq!(found, want);
    }

    #[test]
    fn helpers_with_same_name_count_only_if_all_assert() {
        let one = functions_in("crates/a/b/tests/one.rs", "fn new() { assert!(x) } #[test] fn t() { new() }");
        let two = functions_in("crates/a/b/tests/two.rs", "fn new() {}");
        assert_eq!(tests_without_assertion(&one), Vec::<String>::new());
        let both: Vec<TestFunction> = one.into_iter().chain(two).collect();
        assert_eq!(tests_without_assertion(&both).len(), 1);
    }
}
