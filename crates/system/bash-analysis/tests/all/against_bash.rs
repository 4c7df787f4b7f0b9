//! Compares the analysis with a real bash: every line without risks is run in a scratch directory where
//! all commands are unknown and only record how they were called.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use haft_bash_analysis::{
    AnalysisContext, AnalyzedCommand, EffectAccess, EffectTarget, LineAnalysis, Word, analyse,
};

/// Deterministic random numbers; a failure reports the program instead of the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

const WORDS: &[&str] = &[
    "a",
    "b1",
    "-x",
    "'q r'",
    "\"d e\"",
    "e\\ f",
    "$'t\\x41'",
    "x\"y\"'z'",
    "''",
    "\"\"",
    "--k=v",
    "a#b",
    "'#'",
    "~",
    "~/h",
    "$v",
    "\"$v\"",
    "\"${v}\"",
    "${v:-w}",
    "\"${v:-'\"",
    "$((1+2))",
    "{p,q}",
    "{1..3}",
    "x{a,b}y",
    "*.none",
    "'*'",
    "a=b",
    "\\$v",
    "'$v'",
    "!",
    "{}",
    "[",
    "]",
    "\"a$v b\"",
    "$?",
    "\"\\\"\"",
    "\\\\",
    "'it'\\''s'",
    "$",
    "a$",
    "%",
    "^",
    "a;b",
    "\"a;b\"",
];

fn word(dice: &mut Dice, depth: usize) -> String {
    if 0 < depth && dice.roll(8) == 0 {
        let inner = list(dice, depth - 1);
        return match dice.roll(5) {
            0 => format!("$({inner})"),
            1 => format!("\"$({inner})\""),
            2 => format!("<({inner})"),
            3 => format!("${{v:-$({inner})}}"),
            _ => format!("`{}`", simple(dice, 0)),
        };
    }
    dice.pick(WORDS).to_owned()
}

fn simple(dice: &mut Dice, depth: usize) -> String {
    let mut words = Vec::new();
    if dice.roll(8) == 0 {
        words.push(format!("v={}", word(dice, 0)));
    }
    if dice.roll(12) == 0 {
        words.push(redirect(dice, depth));
    }
    words.push(format!("c{}", dice.roll(6)));
    for _ in 0..dice.roll(4) {
        words.push(if dice.roll(9) == 0 { redirect(dice, depth) } else { word(dice, depth) });
    }
    words.join(dice.pick(&[" ", "  ", "\t", " \\\n"]))
}

fn redirect(dice: &mut Dice, depth: usize) -> String {
    let file = format!("f{}", dice.roll(4));
    match dice.roll(9) {
        0 => format!(">{file}"),
        1 => format!("2> {file}"),
        2 => format!(">>{file}"),
        3 => format!("&>{file}"),
        4 => "2>&1".to_owned(),
        5 => "</dev/null".to_owned(),
        6 => format!("<<< {}", word(dice, depth)),
        7 => format!(">'{file} x'"),
        _ => ">/dev/null".to_owned(),
    }
}

fn command(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 || dice.roll(3) != 0 {
        return simple(dice, depth);
    }
    let d = depth - 1;
    match dice.roll(11) {
        0 => format!("({})", list(dice, d)),
        1 => format!("{{ {}; }}", list(dice, d)),
        2 => format!("if {}; then {}; fi", list(dice, d), list(dice, d)),
        3 => format!("if {}; then {}; else {}; fi", list(dice, d), list(dice, d), list(dice, d)),
        4 => format!("for v in {} {}; do {}; done", word(dice, d), word(dice, d), list(dice, d)),
        5 => format!("case {} in a|b) {};; *) {};; esac", word(dice, d), list(dice, d), list(dice, d)),
        6 => format!("! {}", simple(dice, d)),
        7 => format!("while {}; do {}; break; done", list(dice, d), list(dice, d)),
        8 => format!("cat <<E\nx $({}) `{}` $v\nE\n", list(dice, d), simple(dice, 0)),
        9 if dice.roll(2) == 0 => format!("c1 $(cat <<E\n{} $v\nE\n)", dice.pick(WORDS)),
        9 => format!("[[ {} == {} && -n $({}) ]]", word(dice, 0), word(dice, 0), list(dice, d)),
        _ => format!("({}) >f{}", list(dice, d), dice.roll(4)),
    }
}

fn list(dice: &mut Dice, depth: usize) -> String {
    let mut out = command(dice, depth);
    for _ in 0..dice.roll(3) {
        let join = if out.ends_with('\n') {
            ""
        } else {
            dice.pick(&[" && ", " || ", "; ", " | ", "\n", "&&", "|&", " # x;y\n"])
        };
        out.push_str(join);
        out.push_str(&command(dice, depth));
    }
    out
}

/// Mutates a program slightly.
fn mutate(dice: &mut Dice, program: &str) -> String {
    let mut chars: Vec<char> = program.chars().collect();
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(chars.len().max(1));
        let special: Vec<char> = "'\"\\$`(){};&|<>\n #!=*?~[]-c0v ".chars().collect();
        match dice.roll(3) {
            0 if at < chars.len() => drop(chars.remove(at)),
            1 if at < chars.len() => chars[at] = special[dice.roll(special.len())],
            _ => chars.insert(at, special[dice.roll(special.len())]),
        }
    }
    chars.into_iter().collect()
}

/// A call of an unknown command: its directory and words.
struct Call {
    directory: PathBuf,
    words: Vec<String>,
}

/// Result of running a program.
struct Run {
    calls: Vec<Call>,
    files: BTreeSet<String>,
    stderr: String,
}

fn bash() -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join("bash"))
        .find(|file| file.is_file())
        .expect("bash is installed")
}

/// Each run gets its own directory, because a process substitution may write after the shell has exited.
fn run(program: &str, status: usize, scratch: &Path) -> Run {
    let dir = scratch.join("work");
    for dir in ["work", "work/d0", "work/d1", "work/d0/d1"] {
        fs::create_dir(scratch.join(dir)).unwrap();
    }
    let log = scratch.join("log");
    fs::write(&log, "").unwrap();
    let handler = scratch.join("handler");
    fs::write(
        &handler,
        format!(
            "ulimit -t 2 -f 1000\ncommand_not_found_handle() {{ local r; printf -v r '%s\\x1f' \"$PWD\" \"$@\"; \
             printf '%s\\x1e' \"$r\" >>'{}'; return {status}; }}\n",
            log.display()
        ),
    )
    .unwrap();
    let child = Command::new(bash())
        .args(["-c", "--", program])
        .env_clear()
        .env("PATH", "/nonexistent")
        .env("HOME", "/home/u")
        .env("BASH_ENV", &handler)
        .current_dir(&dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    // A program that loops is killed by its limits, perhaps in the middle of a record: ignore an
    // unterminated record.
    let whole = text.rfind('\x1e').map_or("", |end| &text[..end]);
    let calls = whole
        .split('\x1e')
        .filter(|record| !record.is_empty())
        .map(|record| {
            let mut words = record.strip_suffix('\x1f').unwrap_or(record).split('\x1f').map(str::to_owned);
            let directory = PathBuf::from(words.next().unwrap());
            Call { directory, words: words.collect() }
        })
        .collect();
    let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = names.filter(|name| !name.starts_with('d')).collect();
    Run { calls, files, stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
}

/// Whether `call` has the words that the part predicts.
fn fits(words: &[Word], call: &[String]) -> bool {
    match words.split_first() {
        None => call.is_empty(),
        Some((Word::Literal(text), rest)) => call.first() == Some(text) && fits(rest, &call[1..]),
        Some((Word::Pattern(_) | Word::Unknown(_), rest)) => {
            (0..=call.len()).any(|skip| fits(rest, &call[skip..]))
        }
    }
}

fn check(program: &str, analysis: &LineAnalysis, status: usize, scratch: &Path) {
    let run = run(program, status, scratch);
    assert!(!run.stderr.contains("-c: line"), "bash refuses {program:?}: {}", run.stderr);
    for Call { words: call, .. } in &run.calls {
        assert!(
            analysis.parts.iter().any(|part| fits(&part.words, call)),
            "bash ran {call:?}, which is no part of {program:?}: {:#?}",
            analysis.parts.iter().map(|part| &part.words).collect::<Vec<_>>()
        );
    }
    for file in &run.files {
        let written = analysis.parts.iter().flat_map(|part| &part.effects).any(|effect| {
            let named = match &effect.target {
                EffectTarget::Path(path) => path.file_name().is_some_and(|name| name == &**file),
                EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => true,
            };
            effect.access == EffectAccess::Write && named
        });
        assert!(written, "bash wrote {file:?} in {program:?}");
    }
}

fn rounds() -> usize {
    std::env::var("HAFT_FUZZ_ROUNDS").ok().and_then(|it| it.parse().ok()).unwrap_or(200)
}

fn seed() -> u64 {
    std::env::var("HAFT_FUZZ_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(0x9e37_79b9)
}

/// The analysis does not read the disk, so any place will do.
fn place() -> AnalysisContext<'static> {
    AnalysisContext { cwd: Path::new("/work"), home: Some(Path::new("/home/u")), roots: &[] }
}

#[test]
fn random_program_runs_only_reported_parts_and_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut dice = Dice(seed());
    let (mut certain, mut total) = (0, 0);
    let rounds = rounds();
    while certain < rounds {
        total += 1;
        assert!(total < 100 * rounds, "hardly anything is certain: {certain} of {total}");
        let depth = 1 + dice.roll(2);
        let mut program = list(&mut dice, depth);
        if dice.roll(2) == 0 {
            program = mutate(&mut dice, &program);
        }
        let analysis = analyse(&program, place());
        if analysis.doubts.is_empty() && analysis.parts.iter().all(|part| part.doubts.is_empty()) {
            certain += 1;
            let scratch = tempfile::tempdir_in(scratch.path()).unwrap();
            check(&program, &analysis, dice.roll(2), scratch.path());
        }
    }
    eprintln!("{certain} of {total} programs were certain");
}

/// Generates a program with variables, directories and files that are read.
fn reading(dice: &mut Dice, depth: usize) -> String {
    const FILES: &[&str] = &[
        "f0",
        "$v",
        "\"$v\"",
        "\"$w\"",
        "\"x$v\"",
        "d0/$v",
        "\"d1/$w\"",
        "{f0,f1}",
        "d{0,1}/x",
        "$v{a,b}",
        "\"$v$w\"",
        "~",
        "~/k",
        "'$v'",
        "\\$v",
        "$HOME/q",
        "\"$PWD/q\"",
        "$(pwd)/z",
        "$(echo f9)",
        "\"$(echo a b)\"",
        "../u",
        "/etc/x",
        "a'b c'd",
        "{1..3}",
        "\"{a,b}\"",
    ];
    let cat = |dice: &mut Dice| {
        let mut out = String::from("cat");
        for _ in 0..=dice.roll(2) {
            out.push(' ');
            out.push_str(dice.pick(FILES));
        }
        out
    };
    let assign = |dice: &mut Dice| {
        format!(
            "{}={}",
            dice.pick(&["v", "w"]),
            dice.pick(&["f1", "'f 2'", "$v", "$w", "~/m", "f3", "\"$v$w\""])
        )
    };
    let step = |dice: &mut Dice, depth: usize| match dice.roll(if depth == 0 { 4 } else { 10 }) {
        0 | 1 => cat(dice),
        2 => assign(dice),
        3 => format!("cd {}", dice.pick(&["d0", "d1", "..", "nowhere", ".", "d0/../d1", "$v", "./d0"])),
        4 => format!("({})", reading(dice, depth - 1)),
        5 => format!("{{ {}; }}", reading(dice, depth - 1)),
        6 => format!(
            "if {}; then {}; else {}; fi",
            reading(dice, depth - 1),
            reading(dice, depth - 1),
            reading(dice, depth - 1)
        ),
        7 => format!(
            "for v in {} {}; do {}; done",
            dice.pick(FILES),
            dice.pick(FILES),
            reading(dice, depth - 1)
        ),
        8 => format!(
            "{} && while {}; do {}; break; done",
            assign(dice),
            reading(dice, depth - 1),
            reading(dice, depth - 1)
        ),
        _ => format!("case $v in f1) {};; *) {};; esac", reading(dice, depth - 1), reading(dice, depth - 1)),
    };
    let mut out = step(dice, depth);
    for _ in 0..=dice.roll(3) {
        out.push_str(dice.pick(&["; ", " && ", " || ", "\n", " | "]));
        out.push_str(&step(dice, depth));
    }
    out
}

/// Whether the part's effects name every file of a call.
fn covers(part: &AnalyzedCommand, call: &Call) -> bool {
    let reads: Vec<&PathBuf> = part
        .effects
        .iter()
        .filter_map(|effect| match (&effect.target, effect.access) {
            (EffectTarget::Path(path), EffectAccess::Read) => Some(path),
            _ => None,
        })
        .collect();
    let named = call.words[1..].iter().map(|word| haft_paths::lexical(&call.directory.join(word)));
    let mut named = named.peekable();
    named.peek().is_some() && named.all(|file| reads.iter().any(|path| haft_paths::lexical(path) == file))
}

#[test]
fn random_program_reads_only_reported_files() {
    let scratch = tempfile::tempdir().unwrap();
    let mut dice = Dice(seed());
    let (mut known, mut total) = (0, 0);
    while known < rounds() {
        total += 1;
        assert!(total < 1000 * rounds(), "hardly anything is known: {known} of {total}");
        let program = reading(&mut dice, 1);
        let analysis = analyse(&program, place());
        let unknown = |part: &AnalyzedCommand| {
            part.effects.iter().any(|effect| matches!(effect.target, EffectTarget::Unknown(_)))
        };
        if !analysis.is_certain() || analysis.parts.iter().any(unknown) {
            continue;
        }
        known += 1;
        let scratch = tempfile::tempdir_in(scratch.path()).unwrap();
        let cwd = scratch.path().join("work");
        let analysis = analyse(&program, AnalysisContext { cwd: &cwd, ..place() });
        for call in &run(&program, dice.roll(2), scratch.path()).calls {
            assert!(
                analysis.parts.iter().any(|part| covers(part, call)),
                "bash read {:?} in {:?}, which is no effect of {program:?}: {:#?}",
                call.words,
                call.directory,
                analysis.parts.iter().map(|part| (&part.text, &part.effects)).collect::<Vec<_>>()
            );
        }
    }
    eprintln!("{known} of {total} programs were known");
}
