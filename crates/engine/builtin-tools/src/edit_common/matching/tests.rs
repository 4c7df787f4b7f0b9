use haft_workspace::text::{Splice, Text};
use proptest::prelude::*;

use super::{MatchCount, NotFound, find, nearest, rewrite};

fn apply(file: &str, splices: &[Splice]) -> String {
    let text = Text::decode(file.as_bytes().to_vec()).unwrap();
    String::from_utf8(text.splice(splices).unwrap().to_vec()).unwrap()
}

/// Returns the file after the edit and what was ignored, or why the text was not found.
fn edit(file: &str, old: &str, new: &str) -> Result<(String, Vec<&'static str>), NotFound> {
    let text = Text::decode(file.as_bytes().to_vec()).unwrap();
    let found = find(text.view(), old, MatchCount::One)?;
    let rewrite = rewrite(text.view(), &found, new);
    Ok((apply(file, &rewrite.splices), rewrite.ignored))
}

const CHARACTERS: &str = "how characters are written (quotes, dashes, spaces, accents)";

#[test]
fn unique_inexact_match_is_applied() {
    let python = "def f(x):\n\tif x:\n\t\treturn 1\n\treturn 2\n";
    let rows: [(&str, &str, &str, &str, &[&str]); 26] = [
        // Exact match.
        ("a b c", "b", "B", "a B c", &[]),
        ("a\nb\nc\n", "b\n", "", "a\nc\n", &[]),
        // Tabs against spaces; new lines get the file's style.
        (
            python,
            "    if x:\n        return 1\n",
            "    if x:\n        return 1\n    elif y:\n        return 3\n",
            "def f(x):\n\tif x:\n\t\treturn 1\n\telif y:\n\t\treturn 3\n\treturn 2\n",
            &["indentation"],
        ),
        (
            python,
            "        return 1",
            "        x += 1\n        if y:\n            return x",
            "def f(x):\n\tif x:\n\t\tx += 1\n\t\tif y:\n\t\t\treturn x\n\treturn 2\n",
            &["indentation"],
        ),
        (
            "    a {\n        b\n    }\n",
            "\ta {\n\t\tb\n\t}",
            "\ta {\n\t\tc\n\t\t\td\n\t}",
            "    a {\n        c\n            d\n    }\n",
            &["indentation"],
        ),
        // A block without any indentation.
        (
            "class A:\n    def f():\n        pass\n",
            "def f():\n    pass",
            "def f():\n    g()\n    h()",
            "class A:\n    def f():\n        g()\n        h()\n",
            &["indentation"],
        ),
        ("  x = 1\n", "x = 1", "x = 2", "  x = 2\n", &[]),
        // Trailing whitespace stays where the line stays.
        ("one  \ntwo\n", "one\ntwo", "one\nTWO", "one  \nTWO\n", &["trailing white space"]),
        ("one\ntwo\n", "one  \ntwo", "one  \nTWO", "one\nTWO\n", &["trailing white space"]),
        ("one  \ntwo\n", "one\ntwo", "ONE\ntwo", "ONE  \ntwo\n", &["trailing white space"]),
        // Quotes: the file's stay, new ones are written as given.
        ("it’s “fine” here", "it's \"fine\" here", "it's \"fine\" now", "it’s “fine” now", &[CHARACTERS]),
        ("don't stop", "don’t stop", "don’t go", "don't go", &[CHARACTERS]),
        ("say 'x'", "say 'x'", "say ’y’", "say ’y’", &[]),
        ("it’s x\n", "it's x", "it's x\nand it’s y", "it’s x\nand it’s y\n", &[CHARACTERS]),
        ("a – b", "a - b", "a - c", "a – c", &[CHARACTERS]),
        ("wait…", "wait...", "wait... more", "wait… more", &[CHARACTERS]),
        // Composed against decomposed accents.
        ("caf\u{e9} noir", "cafe\u{301} noir", "cafe\u{301} blanc", "caf\u{e9} blanc", &[CHARACTERS]),
        ("cafe\u{301} noir", "caf\u{e9} noir", "caf\u{e9} blanc", "cafe\u{301} blanc", &[CHARACTERS]),
        (
            "\u{1112}\u{1161}\u{11ab} x",
            "\u{d55c} x",
            "\u{d55c} y",
            "\u{1112}\u{1161}\u{11ab} y",
            &[CHARACTERS],
        ),
        // No-break spaces.
        ("a\u{a0}b = 1", "a b = 1", "a b = 2", "a\u{a0}b = 2", &[CHARACTERS]),
        ("a b = 1", "a\u{a0}b = 1", "a\u{a0}b = 2", "a b = 2", &[CHARACTERS]),
        ("x\u{200b}y = 1", "xy = 1", "xy = 2", "x\u{200b}y = 2", &[CHARACTERS]),
        // Line numbers copied from a listing.
        ("a\nb\nc\n", "     2→b\n     3→c", "     2→B\n     3→c", "a\nB\nc\n", &["copied line numbers"]),
        ("a\n  b\nc\n", "2\t  b\n3\tc", "  B\nc", "a\n  B\nc\n", &["copied line numbers"]),
        // Escaped once too often.
        ("a\n\"b\"\n", "a\\n\\\"b\\\"", "a\\n\\\"c\\\"", "a\n\"c\"\n", &["extra escaping"]),
        // Spacing within lines.
        ("let  x   = 1;\n", "let x = 1;", "let x = 2;", "let  x   = 2;\n", &["spacing"]),
    ];
    for (file, old, new, want, ignored) in rows {
        let got = edit(file, old, new);
        assert_eq!(got, Ok((want.to_owned(), ignored.to_vec())), "{old:?} in {file:?}");
    }
}

#[test]
fn ambiguous_and_missing_text_is_rejected() {
    let ambiguous = |places: &[usize]| NotFound::Ambiguous(places.to_vec());
    let rows: [(&str, &str, NotFound); 11] = [
        ("a a", "a", ambiguous(&[0, 2])),
        ("aaa", "aa", ambiguous(&[0, 1])),
        ("\tx = 1\n    x = 1\n", "\t\tx = 1", ambiguous(&[0, 7])),
        ("it’s it’s", "it's", ambiguous(&[0, 7])),
        ("hello world", "hallo world", NotFound::Missing),
        ("value = 1\n", "value = 2\n", NotFound::Missing),
        ("if a:\n    b\nc\n", "if a:\n    b\n    c", NotFound::Missing),
        ("x = foo()\n", "    foo()", NotFound::Missing),
        ("a\n", "\n\n", NotFound::Missing),
        ("", "x", NotFound::Missing),
        ("A", "a", NotFound::Missing),
    ];
    for (file, old, want) in rows {
        assert_eq!(edit(file, old, "new"), Err(want), "{old:?} in {file:?}");
    }
}

#[test]
fn replace_all_replaces_identical_places() {
    for (file, old, new, want) in [
        ("a b a\na", "a", "x", Some("x b x\nx")),
        ("aaaa", "aa", "b", Some("bb")),
        ("it’s it’s", "it's", "it's not", Some("it’s not it’s not")),
        ("it’s it‘s", "it's", "x", None),
    ] {
        let got = find(file, old, MatchCount::All)
            .ok()
            .map(|found| apply(file, &rewrite(file, &found, new).splices));
        assert_eq!(got.as_deref(), want, "{file:?}");
    }
}

/// A code block with every kind of deviation, alone and in pairs, must be found and changed; two copies
/// of it must be rejected as ambiguous.
#[test]
fn mangled_blocks_are_found_if_unique() {
    let blocks = [
        "fn main() {\n    let name = \"café\";\n    println!(\"it's {name}\");\n}\n",
        "\tif (a) {\n\t\treturn 'x';\n\t}\n\telse {\n\t\treturn “y”;\n\t}\n",
        "# Überschrift\n\nText – mit Strich…\n\n- eins  \n- zwei\n",
        "SELECT *\n  FROM t\n WHERE t.name = 'naïve'\n   AND x > 1\n",
    ];
    type Mangle = fn(&str) -> String;
    let mangles: [(&str, Mangle); 11] = [
        ("tabs", |it| it.replace("    ", "\t")),
        ("spaces", |it| it.replace('\t', "    ")),
        ("no trailing", |it| it.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")),
        ("trailing", |it| it.replace('\n', "  \n")),
        ("crlf", |it| it.replace('\n', "\r\n")),
        ("curly", |it| it.replace('\'', "’").replace('"', "“")),
        ("straight", |it| it.replace(['’', '‘'], "'").replace(['“', '”'], "\"")),
        ("decomposed", |it| it.replace('é', "e\u{301}").replace('Ü', "U\u{308}").replace('ï', "i\u{308}")),
        ("no-break", |it| it.replace(" = ", "\u{a0}=\u{a0}")),
        ("numbers", |it| {
            let lines = it.strip_suffix('\n').unwrap_or(it).split('\n').enumerate();
            lines.map(|(at, line)| format!("{:>6}→{line}", at + 41)).collect::<Vec<_>>().join("\n")
        }),
        ("plain", |it| it.replace('…', "...").replace('–', "-")),
    ];
    let mut rows = 0;
    for block in blocks {
        let file = format!("before\n{block}after\n");
        for (first, mangle) in mangles {
            for (second, again) in mangles {
                if first == "numbers" && second != "numbers" {
                    continue;
                }
                let old = if first == second { mangle(block) } else { again(&mangle(block)) };
                let old = old.replace("\r\n", "\n");
                let new = format!("{}\nadded ‘line’", old.trim_end_matches('\n'));
                let what = format!("{first}, {second}: {old:?}");
                let (got, _) = edit(&file, &old, &new).unwrap_or_else(|err| panic!("{what}: {err:?}"));
                let rest = block.trim_end_matches('\n');
                // The block's other lines stay; the new line is as given.
                assert!(got.starts_with(&format!("before\n{rest}")), "{what}\n{got}");
                assert!(got.contains("added ‘line’"), "{what}\n{got}");
                let twice = format!("{file}{file}");
                assert!(matches!(edit(&twice, &old, &new), Err(NotFound::Ambiguous(_))), "{what}");
                rows += 1;
            }
        }
    }
    assert!(200 < rows, "{rows}");
}

#[test]
fn missing_text_reports_the_nearest_place() {
    let file = "fn a() {}\n\nfn greet() {\n    let who = ’world’;\n    say(who);\n}\n";
    let rows = [
        (
            "fn greet() {\n    let who = 'word';\n    say(who);",
            3,
            "line 4, column 15: the file has U+2019 '’', old_string has U+0027 '''",
        ),
        (
            "    let whom = ’world’;",
            4,
            "line 4, column 12: the file has U+0020 (space), old_string has U+006D 'm'",
        ),
        (
            "fn a() {}\nfn greet() {",
            1,
            "line 2, column 1: the file has the end of the line, old_string has U+0066 'f'",
        ),
        ("say(who);\n}\n\nmore\n", 5, "line 7"),
    ];
    for (old, line, want) in rows {
        let found = nearest(file, old).unwrap();
        assert_eq!(found.first_line, line, "{old:?}");
        let difference = found.difference.unwrap_or_default();
        assert!(difference.contains(want) || line == 5, "{old:?}: {difference}");
    }
    let quotes = nearest("x = ‘a’; // one\n", "x = 'a'; // two\n").unwrap();
    assert_eq!(
        quotes.difference.as_deref(),
        Some(
            "first difference at line 1, column 5: the file has U+2018 '‘', old_string has U+0027 '''; what \
              prevents the match is at column 13: U+006F 'o' against U+0074 't'"
        )
    );
    assert_eq!(nearest("nothing alike\n", "zzzzzz qqqqq\n"), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For an exact match the result equals that of a plain replacement.
    #[test]
    fn exact_match_equals_plain_replacement(
        before in "[ab \n]{0,20}", old in "[cd’é\n]{1,10}", after in "[ab \n]{0,20}", new in "[cdab’é'\n]{0,14}",
    ) {
        let file = format!("{before}{old}{after}");
        let found = find(&file, &old, MatchCount::One);
        prop_assume!(found.is_ok());
        let got = apply(&file, &rewrite(&file, &found.unwrap(), &new).splices);
        prop_assert_eq!(got, file.replacen(&old, &new, 1));
    }

    /// For arbitrary input, splices are ascending and on character boundaries, and nothing outside the
    /// match changes.
    #[test]
    fn arbitrary_input_yields_ordered_splices(file in "(\\PC|[ \t\n'’\"“é…]){0,60}", at in any::<(prop::sample::Index, prop::sample::Index)>(), new in "\\PC{0,10}", mangle in 0_usize..5) {
        let boundaries: Vec<usize> = file.char_indices().map(|it| it.0).chain([file.len()]).collect();
        let (a, b) = (*at.0.get(&boundaries), *at.1.get(&boundaries));
        let old = &file[a.min(b)..a.max(b)];
        let old = match mangle {
            0 => old.replace('’', "'"),
            1 => old.replace('\t', "    "),
            2 => old.replace('\n', " \n"),
            3 => old.replace(' ', "\u{a0}"),
            _ => old.to_owned(),
        };
        if let Ok(found) = find(&file, &old, MatchCount::One) {
            let rewrite = rewrite(&file, &found, &new);
            let mut last = 0;
            for splice in &rewrite.splices {
                prop_assert!(last <= splice.range.start && splice.range.start <= splice.range.end);
                prop_assert!(file.is_char_boundary(splice.range.start) && file.is_char_boundary(splice.range.end));
                prop_assert!(found.spans[0].start <= splice.range.start && splice.range.end <= found.spans[0].end);
                last = splice.range.end;
            }
        }
        nearest(&file, &old);
    }
}
