//! Making lines: harmless forms with holes, and in the holes whatever could make
//! a program read them otherwise than the judge does.

use super::{programs::PROGRAMS, random::Random};

/// Pieces that end, hide or begin something in one language or another.
const JUNK: &[&str] = &[
    "/",
    "/",
    "\"",
    "\"",
    "[",
    "]",
    "[[:alpha:]",
    "[[:alpha:]]",
    "[[.a.]]",
    "[^",
    "[]",
    "[^]",
    "[!",
    "\\",
    "\\\\",
    "\\/",
    "\\]",
    "\\[",
    "\\n",
    "#",
    "{",
    "}",
    "(",
    ")",
    ";",
    ",",
    "a",
    "x",
    "1",
    " ",
    "\n",
    "\\\n",
    "|",
    "&",
    "$",
    ".",
    "*",
    "^",
    "+",
    "++",
    "-",
    "~",
    "!",
    "?",
    ":",
    "=",
    "<",
    ">",
    "in",
    "\t",
    "é",
    "\\c",
    "\\x2f",
    "\\57",
    "@",
    "%",
    "'\\''",
];

/// What must not happen, in awk.
const AWK_ACTS: &[&str] = &[
    "system(\"touch P\")",
    "print > \"P\"",
    "print >> \"P\"",
    "print | \"touch P\"",
    "\"touch P\" | getline",
    "while ((getline l < \"../outside/secret\") > 0) print l",
    "printf \"x\" > \"P\"",
    "{system(\"touch P\")}",
    "print \"x\" > \"P\"",
    "BEGIN{system(\"touch P\")}",
    "getline < \"../outside/secret\"; print",
    "print \"a\" |& \"touch P\"",
    "ARGV[1]=\"../outside/secret\"; ARGC=2",
    "@load \"x\"",
    "close(\"x\"); print > \"P\"",
    // Of gawk alone: names that are called, files that are read in, sockets.
    "f = \"system\"; @f(\"touch P\")",
    "@include \"P.awk\"\n",
    "\"touch P\" |& getline",
    "print \"x\" |& \"/inet/tcp/0/127.0.0.1/9\"",
    "BEGINFILE{system(\"touch P\")}",
    "printf(\"x\") > \"P\"",
    "@/a/{system(\"touch P\")}",
    "switch (x) { case /\"/: system(\"touch P\") }",
];

/// What is fine, in awk.
const AWK_PIECES: &[&str] = &[
    "print",
    "print $1",
    "print $1, $2",
    "x = 1",
    "x++",
    "NR == 1",
    "NR",
    "x",
    "/a/",
    "$1 ~ /b/",
    "length",
    "length($0)",
    "s += $2",
    "a[$1]++",
    "if (x) print",
    "if (NR > 1) { print }",
    "for (k in a) print k",
    "for (i = 0; i < 2; i++) print i",
    "gsub(/a/, \"b\")",
    "print (1 > 2)",
    "x = y / 2",
    "print x / 2, y / 3",
    "next",
    "exit",
    "printf \"%s\", $1",
    "print substr($0, 1, 2)",
    "!x",
    "1",
    "BEGIN { x = 1 }",
    "END { print x }",
    "{ print }",
    "while (i < 2) i++",
    "do i++; while (i < 3)",
    "delete a",
    "x = $1 ? \"a\" : \"b\"",
    "$1",
    "(x)",
    "x in a",
    "print -x",
    "print \"a\" \"b\"",
    "print a[1]",
    "split($0, f, /x/)",
    "print toupper($1)",
];

const SED_ACTS: &[&str] = &[
    "w P",
    "1w P",
    "e touch P",
    "1e touch P",
    "s/a/b/w P",
    "s/.*/touch P/e",
    "r ../outside/secret",
    "R ../outside/secret",
    "W P",
    "s/a/touch P/e",
    "{w P\n}",
    ";w P",
    "\nw P",
    "}w P",
    "$w P",
    "/a/w P",
];

const SED_PIECES: &[&str] = &[
    "p",
    "1p",
    "$p",
    "/a/p",
    "/a/,/b/p",
    "2,+1p",
    "1~2p",
    "0,/a/d",
    "s/a/b/",
    "s/a/b/g",
    "s|a|b|2p",
    "s,a,b,I",
    "y/ab/cd/",
    "d",
    "n",
    "N",
    "G;h",
    "1!G",
    "$!d",
    ":a",
    "ba",
    "ta",
    "b",
    "t",
    "q",
    "2q",
    "=",
    "l",
    "l 5",
    "a text",
    "i text",
    "c text",
    "a\\text",
    "# note",
    "{p}",
    "{p;p}",
    "1{p;q}",
    "\\,a,p",
    "s/[abc]/x/",
    "s/[[:space:]]*$//",
    "s/[^,]*//",
    "F",
    "z",
    "x",
    "D",
    "P",
    "T",
    "r a",
    "s/\\//x/",
    "s/a/\\n/",
    "/a/I p",
    "/a/!p",
];

pub fn line(random: &mut Random) -> String {
    match random.below(10) {
        0..=2 => awk(random),
        3..=5 => sed(random),
        6 => glob(random),
        _ => program(random),
    }
}

/// Junk, with what must not happen in the middle of it.
fn junk(random: &mut Random, acts: &[&str], most: usize) -> String {
    let mut out = String::new();
    for _ in 0..random.below(most) {
        out.push_str(random.pick(JUNK));
    }
    if random.chance(2) {
        out.push_str(random.pick(acts));
    }
    for _ in 0..random.below(most) {
        out.push_str(random.pick(JUNK));
    }
    out
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Pieces in a row, some of them with a hole, and now and then one character
/// more or less.
fn script(
    random: &mut Random,
    pieces: &[&str],
    acts: &[&str],
    holes: &[&str],
    separators: &[&str],
) -> String {
    let mut out = String::new();
    for _ in 0..=random.below(4) {
        match random.below(5) {
            0 | 1 => {
                let hole = random.pick(holes);
                let junk = junk(random, acts, 5);
                out.push_str(&hole.replace('@', &junk));
            }
            2 if random.chance(4) => out.push_str(random.pick(acts)),
            _ => out.push_str(random.pick(pieces)),
        }
        out.push_str(random.pick(separators));
    }
    if random.chance(4) {
        let at = random.below(out.chars().count() + 1);
        let (front, back): (String, String) =
            (out.chars().take(at).collect(), out.chars().skip(at).collect());
        out = match random.below(2) {
            0 => format!("{front}{}{back}", random.pick(JUNK)),
            _ => format!("{front}{}", back.chars().skip(1).collect::<String>()),
        };
    }
    out
}

fn awk(random: &mut Random) -> String {
    let holes = [
        "/@/",
        "/@/{print}",
        "$1 ~ /@/",
        "\"@\"",
        "print \"@\"",
        "{print \"@\"}",
        "# @\n",
        "x = \"@\"",
        "{x = y / 2 @ / 3}",
        "NR@",
        "{print @}",
        "{@}",
        "gsub(/@/, \"x\")",
        "{if (x) @}",
        "{x@}",
        "@",
        "/a/@",
        "{print $1@}",
        "(@)",
        "{a[@]}",
    ];
    let separators = ["", " ", "\n", ";", "; ", " \n", "{print}", "\n\n"];
    let program = script(random, AWK_PIECES, AWK_ACTS, &holes, &separators);
    let wrapped = match random.below(4) {
        0 => format!("{{{program}}}"),
        1 => format!("BEGIN{{{program}}}"),
        _ => program,
    };
    let option = random.pick(&[
        "",
        "",
        "",
        "-F: ",
        "-v x=1 ",
        "-F '[' ",
        "-- ",
        "-f P.awk ",
        "-v 'x=\\n' ",
        "--version ",
        "-F/ ",
        "-dP ",
        "-oP ",
        "-pP ",
        "-i P.awk ",
        "-e 1 ",
        "--prof=P ",
        "-S ",
        "-vRS=/ ",
    ]);
    let file = random.pick(&[
        "a",
        "a b",
        "< a",
        "",
        "x=1 a",
        "link",
        "*",
        "- < a",
        "a --version",
        "-f P.awk",
        "[ab]",
    ]);
    let name = random.pick(&["awk", "awk", "awk", "gawk", "mawk", "nawk"]);
    format!("{name} {option}{} {file}", quoted(&wrapped))
}

fn sed(random: &mut Random) -> String {
    let holes = [
        "s/@/x/", "s/a/@/", "s/@/@/", "/@/p", "/@/d", "s|@|x|g", "\\,@,p", "y/@/ab/", "a @", "i\\@", "c @",
        "# @", ":@", "b@", "t@", "s/a/b/@", "p@", "@", "r @", "{@}", "q@", "1,@p", "/a/,/@/p", "l@", "1@p",
        "!@",
    ];
    let separators = ["", ";", "\n", ";", "; ", " ; ", "}", " "];
    let option = random.pick(&[
        "",
        "-n ",
        "-E ",
        "-r ",
        "-s ",
        "-z ",
        "-n -e ",
        "-ne ",
        "--posix ",
        "-f P.sed ",
        "-i ",
        "--debug ",
        "-u ",
        "-En ",
    ]);
    let first = script(random, SED_PIECES, SED_ACTS, &holes, &separators);
    let second = if random.chance(6) {
        format!(" -e {}", quoted(&script(random, SED_PIECES, SED_ACTS, &holes, &separators)))
    } else {
        String::new()
    };
    let option = if second.is_empty() { option.to_owned() } else { format!("{option}-e ") };
    let file = random.pick(&["a", "a b", "< a", "", "link", "-i a", "-n a", "[ab]"]);
    format!("sed {option}{}{second} {file}", quoted(&first))
}

/// Patterns that may find what lies outside.
fn glob(random: &mut Random) -> String {
    let pieces = [
        "l",
        "i",
        "n",
        "k",
        "link",
        "[[:alpha:]]",
        "[[.l.]]",
        "[l]",
        "[!\\]]",
        "[!x]",
        "[^x]",
        "?",
        "*",
        "[a-z]",
        "[[:lower:]]",
        "[\\l]",
        "\\l",
        "'l'",
        "[k-m]",
        "[]l]",
        "[!]]",
        "[[=l=]]",
        "[[:graph:]]",
        "sub/",
        "out",
        "/",
        "sec",
        "ret",
    ];
    let mut pattern = String::new();
    for _ in 0..=random.below(5) {
        pattern.push_str(random.pick(&pieces));
    }
    let command = random.pick(&[
        "cat",
        "head -1",
        "wc",
        "grep -r O",
        "tac",
        "nl",
        "cut -c1-",
        "sort",
        "sed -n p",
        "awk 1",
        "od -c",
        "strings",
        "rev",
        "diff a",
        "paste",
        "base64",
    ]);
    format!("{command} {pattern}")
}

fn program(random: &mut Random) -> String {
    let (name, words) = PROGRAMS[random.below(PROGRAMS.len())];
    let mut line = name.to_owned();
    for _ in 0..random.below(6) {
        line.push(' ');
        line.push_str(random.pick(words));
    }
    for _ in 0..random.below(3) {
        line.push(' ');
        line.push_str(
            random.pick(&["a", "b", "sub", "x", "--", "-", "link", "list", "sub/c", "t.tar", "d.json", "."]),
        );
    }
    if random.chance(6) {
        let (other, words) = PROGRAMS[random.below(PROGRAMS.len())];
        let joint = random.pick(&[" | ", " && ", "; ", " || ", " & ", "\n"]);
        line = format!("{line}{joint}{other} {}", random.pick(words));
    }
    line
}
