//! Parses what the gate needs of nextest's JUnit report: which tests ran, how long, and their output.

use std::{fs, path::Path};

/// Prefix printed by tests that are skipped because something they need is missing.
const SKIPPED: &str = "SKIPPED: ";

/// A test of a run.
#[derive(Debug, PartialEq)]
pub(crate) struct TestCase {
    /// `package::binary name`, as printed by nextest.
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) outcome: TestOutcome,
}

#[derive(Debug, PartialEq)]
pub(crate) enum TestOutcome {
    Passed,
    /// The test was skipped, for this reason.
    Skipped(String),
    Failed,
}

/// Reads the report at `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<TestCase>, String> {
    let text = fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?;
    let cases = parse(&text);
    if cases.is_empty() { Err(format!("{} names no test", path.display())) } else { Ok(cases) }
}

/// Parses a report. nextest writes one `<testcase>` element per test and escapes all text, so searching
/// for tags is sufficient without an XML parser.
fn parse(text: &str) -> Vec<TestCase> {
    let mut cases = Vec::new();
    for element in text.split("<testcase ").skip(1) {
        let Some((head, body)) = element.split_once('>') else { continue };
        let body =
            if head.ends_with('/') { "" } else { body.split("</testcase>").next().unwrap_or_default() };
        let attribute = |name: &str| {
            let value = head.split_once(&format!("{name}=\""))?.1;
            Some(unescape(value.split('"').next()?))
        };
        let (Some(name), Some(binary)) =
            (attribute(" name").or_else(|| head_name(head)), attribute("classname"))
        else {
            continue;
        };
        cases.push(TestCase {
            name: format!("{binary} {name}"),
            seconds: attribute("time").and_then(|it| it.parse().ok()).unwrap_or_default(),
            outcome: outcome(body),
        });
    }
    cases
}

/// Returns the `name` attribute, if it is the first one.
fn head_name(head: &str) -> Option<String> {
    Some(unescape(head.strip_prefix("name=\"")?.split('"').next()?))
}

fn outcome(body: &str) -> TestOutcome {
    if body.contains("<failure") || body.contains("<error") {
        return TestOutcome::Failed;
    }
    match body.lines().find_map(|line| line.split_once(SKIPPED)) {
        Some((_, reason)) => {
            let reason = reason.split("</system-").next().unwrap_or_default();
            TestOutcome::Skipped(unescape(reason.trim()))
        }
        None => TestOutcome::Passed,
    }
}

fn unescape(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_report_yields_name_time_and_outcome() {
        let report = r#"<testsuites><testsuite name="haft-x::all" tests="4">
            <testcase name="a::b" classname="haft-x::all" timestamp="t" time="0.25"/>
            <testcase name="c" classname="haft-x::all" time="1"><system-out>ok
</system-out><system-err>SKIPPED: no &quot;tmux&quot;</system-err></testcase>
            <testcase name="d" classname="haft-x" time="2"><failure type="test failure">SKIPPED: no</failure></testcase>
            <testcase name="e" classname="haft-x" time="3"><system-out>fine</system-out></testcase>
        </testsuite></testsuites>"#;
        let case = |name: &str, seconds, outcome| TestCase { name: name.to_owned(), seconds, outcome };
        assert_eq!(
            parse(report),
            [
                case("haft-x::all a::b", 0.25, TestOutcome::Passed),
                case("haft-x::all c", 1.0, TestOutcome::Skipped(String::from("no \"tmux\""))),
                case("haft-x d", 2.0, TestOutcome::Failed),
                case("haft-x e", 3.0, TestOutcome::Passed),
            ]
        );
    }
}
