//! Tests of the conversion: which content must survive, and how much work it takes.

use proptest::prelude::*;

use super::html::{convert, convert_counting};

/// Maximum number of times each byte of a page may be read.
const MAX_PER_BYTE: u64 = 24;

/// Returns how often each byte was read, and the bytes written per byte.
fn effort(html: &str) -> (u64, usize) {
    let (page, work) = convert_counting(html, &"http://site.test/".parse().unwrap());
    (work / html.len().max(1) as u64, page.markdown.len() / html.len().max(1))
}

/// Input on which an implementation without bookkeeping takes quadratic time. Counts work instead of
/// measuring time, so the test fails on any machine.
#[test]
fn conversion_of_hostile_pages_is_linear() {
    let units = [
        "<div>",
        "<table><tr><td>",
        "<table>",
        "<table><tr><td>x</td>",
        "<a href=x>",
        "<b><i>",
        "<ul><li>x",
        "<blockquote>x",
        "<",
        "&amp",
        "<svg>",
        "<svg><svg></svg>",
        "<p hidden>",
        "<p hidden><p></p>",
        "<main>x<div>",
        "<title>",
        "<textarea>",
        "<iframe>",
        "<math>",
        "<pre>",
        "<pre><code>",
        "<pre><table>",
        "<a =\"<>\"",
        "<td rowspan=99999 colspan=1000>",
        "<tr><td>",
        "</table>",
        "<select>",
        "<pre><div>x</div>",
        "<table><td rowspan=9><pre>1<td><pre>x",
        "<noscript>",
        "<object><object></object>",
    ];
    for unit in units {
        for end in ["", "</table>", "</p>", "</pre>", "</svg>"] {
            let html = format!("{}{end}", unit.repeat(3_000));
            let (work, out) = effort(&html);
            assert!(work <= MAX_PER_BYTE, "{unit}…{end}: each byte was looked at {work} times");
            assert!(out <= 64, "{unit}…{end}: {out} bytes were written for each");
        }
    }
    let named: String = (0..3_000).map(|it| format!("<x{it} hidden><x{it}></x{it}>")).collect();
    assert!(effort(&named).0 <= MAX_PER_BYTE);
    let wide = format!("<table>{}{}", "<td rowspan=99999>".repeat(128), "<tr><td>".repeat(3_000));
    let (work, out) = effort(&wide);
    assert!(work <= MAX_PER_BYTE && out <= 64, "{work} {out}");
}

/// A documentation page of 1 MB takes no more work per byte than one of 10 kB.
#[test]
fn work_per_byte_is_independent_of_page_size() {
    let part = "<section id=\"part\"><h3>Function <code>open(path, mode)</code><a href=\"#part\">¶</a></h3>\
        <details open><summary>Examples</summary><p>Opens a <em>file</em> &amp; returns <a href=\"../io/file.html\">it</a>.</p>\
        <pre><code class=\"language-rust\">let file = open(\"a\", Mode::Read)?;\nfile.read()?;</code></pre></details>\
        <table><thead><tr><th>Argument</th><th>Meaning</th></tr></thead><tbody><tr><td>path</td><td>Where it lies</td></tr>\
        <tr><td>mode</td><td>What is done with it</td></tr></tbody></table>\
        <dl><dt>Errors</dt><dd>If there is none.</dd></dl><ul><li>One</li><li>Two<ul><li>Three</li></ul></li></ul></section>";
    let page = |bytes: usize| {
        format!("<!doctype html><title>t</title><main>{}</main>", part.repeat(bytes.div_ceil(part.len())))
    };
    let (small, large) = (effort(&page(10 << 10)), effort(&page(1 << 20)));
    assert!(large.0 <= small.0 + 1 && large.0 <= MAX_PER_BYTE, "{small:?} {large:?}");
    assert!(large.1 <= 1, "{large:?}");
}

/// Asserts that every word of a table appears exactly once in the output, and no table tag does.
fn is_kept(html: &str, words: usize) {
    let made = convert(html, &"http://site.test/".parse().unwrap()).markdown;
    for word in 0..words {
        assert_eq!(made.matches(&format!("w{word}w")).count(), 1, "w{word}w of {html} in {made}");
    }
    assert!(!made.contains("<table") && !made.contains("<td") && !made.contains("<tr"), "{made}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn tables_keep_every_word_and_leave_no_tag(parts in proptest::collection::vec(0_u8..14, 0..60)) {
        let (mut html, mut words) = (String::from("<p>before</p><table>"), 0);
        for part in parts {
            html.push_str(match part {
                0 => "<tr>",
                1 => "</tr>",
                2 => "<td>",
                3 => "<td rowspan=3>",
                4 => "<th colspan=2>",
                5 => "</td>",
                6 => "<td><table><tr><td>",
                7 => "</td></tr></table>",
                8 => "<td><ul><li>",
                9 => "</ul>",
                10 => "<p>",
                _ => "<td>",
            });
            if 10 < part {
                html.push_str(&format!("w{words}w"));
                words += 1;
            }
        }
        is_kept(&html, words);
    }

    #[test]
    fn conversion_of_arbitrary_pages_is_linear(unit in "(</?(table|tr|td|th|pre|svg|p|ul|li|main|div|code|a|title|math)( hidden| rowspan=9| class=line| x=\"| x='|)>|x|<|>|\"|\n){1,12}") {
        let (few, many) = (unit.repeat(200), unit.repeat(800));
        let (few, many) = (effort(&few).0, effort(&many).0);
        prop_assert!(many <= few * 2 + MAX_PER_BYTE / 2, "{}: {} then {}", unit, few, many);
    }
}

/// Reads a value of `/proc/self/status`, in bytes.
fn memory(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix(name));
    line.and_then(|it| it.trim().trim_end_matches(" kB").trim().parse::<usize>().ok()).unwrap_or_default()
        << 10
}

/// Pages that repeat one unit; the first is an ordinary page.
const UNITS: [&str; 16] = [
    "<p>Some <b>words</b> and <a href='/x/1'>a link</a> and some more of them here.</p>\n",
    "<table>",
    "<table></table>",
    "<table><tr><td>",
    "<table><tr><td>x</table>",
    "<tr>",
    "<td>a",
    "<tr><td rowspan=999>x<td>y",
    "<tr><td>one<td>two<td>three</tr>\n",
    "<nav>",
    "<nav>a</nav>",
    "<article>",
    "<article></article>",
    "<div>",
    "<b>",
    "<pre>",
];

/// Environment variable that tells a child process which page to convert.
const ROW: &str = "HAFT_TEST_PAGE_ROW";

/// Peak memory is at most three times the page size for an ordinary page, and five times for a hostile
/// one. Each page is converted in a process of its own, since memory freed after one page would hide the
/// need of the next.
#[test]
fn page_conversion_stays_within_memory_limits() {
    let begins = ["<body>", "<table>"];
    let row = |number: usize| (begins[number % begins.len()], UNITS[number / begins.len()]);
    if let Ok(number) = std::env::var(ROW) {
        let (begin, unit) = row(number.parse().unwrap());
        let site = "http://site.test/".parse().unwrap();
        convert(format!("{begin}{}", unit.repeat(20)), &site);
        let page = format!("{begin}{}", unit.repeat((2 << 20) / unit.len()));
        let (bytes, before) = (page.len(), memory("VmRSS:"));
        convert(page, &site);
        let more = memory("VmHWM:").saturating_sub(before) as f64 / bytes as f64;
        return std::fs::write(std::env::var("HAFT_TEST_PAGE_OUT").unwrap(), more.to_string()).unwrap();
    }
    let (dir, mut wrong) = (tempfile::tempdir().unwrap(), Vec::new());
    for number in 0..UNITS.len() * begins.len() {
        let out = dir.path().join(number.to_string());
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "html_tests::page_conversion_stays_within_memory_limits"]);
        let child = child.env(ROW, number.to_string()).env("HAFT_TEST_PAGE_OUT", &out).output().unwrap();
        assert!(child.status.success(), "{child:?}");
        let more: f64 = std::fs::read_to_string(&out).unwrap().parse().unwrap();
        let (begin, unit) = row(number);
        if (if unit == UNITS[0] { 3.0 } else { 5.0 }) < more {
            wrong.push(format!("{begin}{unit}…: {more:.1} times its size"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
