//! Compares results with `rg` on random trees with random ignore files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::symlink},
    path::{Path, PathBuf},
    process::Command,
};

use haft_search::{
    DiskKind, GlobFilter, GlobPlan, GlobRun, GrepLine, GrepOptions, GrepPage, GrepQuery, GrepRun, LineKind,
    Mode, SearchRoot, SearchStop, WalkFilter, WalkLimits, file_type,
};

/// Deterministic random numbers: the same seed gives the same tree everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }
}

const NAMES: [&str; 16] = [
    "a",
    "b",
    "src",
    "lib.rs",
    "main.rs",
    "x.py",
    "y.log",
    "build",
    ".env",
    ".hid",
    "notes.md",
    "foo.txt",
    "foo",
    "bar.js",
    "Ω.txt",
    "sp ace.txt",
];

const RULES: [&str; 22] = [
    "*.log",
    "build/",
    "/src",
    "foo",
    "!foo",
    "**/a/*.rs",
    "*",
    "!*.rs",
    "!src/",
    "# comment",
    "",
    "a/**",
    "/*.txt",
    "!.env",
    ".hid",
    "b/c",
    "sp\\ ace.txt",
    "*.[jp]*",
    "!/lib.rs",
    "x.py ",
    "Ω*",
    "{a,b}",
];

const WORDS: [&str; 12] = [
    "alpha",
    "beta",
    "fn main",
    "Alpha beta",
    "x=1",
    "\tgamma",
    "Ωmega",
    "",
    "alphabeta",
    "delta\r",
    "a.b",
    "(z)",
];

const PATTERNS: [&str; 18] = [
    "alpha",
    "^alpha",
    "beta$",
    "a.*b",
    r"\bbeta\b",
    "[xz]",
    "Ω",
    r"\w+",
    "alpha|gamma",
    r"^\s*$",
    r"\(z\)",
    "(?i)ALPHA",
    "no such",
    "delta",
    "x=1|a.b",
    "",
    "a{2,}",
    r"fn\s+main",
];

/// Patterns that match the empty string.
const MATCH_NOTHING: [&str; 2] = [r"^\s*$", ""];

fn plant(dice: &mut Dice, dir: &Path, depth: usize) {
    if dice.roll(4) == 0 {
        fs::create_dir(dir.join(".git")).unwrap();
        fs::write(dir.join(".git/config"), "alpha\n").unwrap();
        if dice.roll(2) == 0 {
            fs::create_dir(dir.join(".git/info")).unwrap();
            fs::write(dir.join(".git/info/exclude"), rules(dice)).unwrap();
        }
    }
    for file in [".gitignore", ".ignore", ".rgignore"] {
        if dice.roll(4) == 0 {
            fs::write(dir.join(file), rules(dice)).unwrap();
        }
    }
    for _ in 0..2 + dice.roll(7) {
        let path = dir.join(dice.pick(&NAMES));
        if path.exists() || path.is_symlink() {
            continue;
        }
        match dice.roll(12) {
            0..=3 if depth < 4 => {
                fs::create_dir(&path).unwrap();
                plant(dice, &path, depth + 1);
            }
            4 => symlink(dice.pick(&NAMES), &path).unwrap(),
            5 => fs::write(&path, binary(dice)).unwrap(),
            _ => fs::write(&path, text(dice)).unwrap(),
        }
    }
    if dice.roll(6) == 0 {
        let name = OsString::from_vec(b"\xff\xfe.txt".to_vec());
        fs::write(dir.join(name), text(dice)).unwrap();
    }
}

fn rules(dice: &mut Dice) -> String {
    (0..1 + dice.roll(4)).map(|_| format!("{}\n", dice.pick(&RULES))).collect()
}

fn text(dice: &mut Dice) -> Vec<u8> {
    let mut text: Vec<String> = (0..dice.roll(9)).map(|_| dice.pick(&WORDS).to_owned()).collect();
    if dice.roll(3) != 0 {
        text.push(String::new());
    }
    let mark: &[u8] = if dice.roll(9) == 0 { b"\xef\xbb\xbf" } else { b"" };
    [mark, text.join("\n").as_bytes()].concat()
}

fn binary(dice: &mut Dice) -> Vec<u8> {
    // At the very start: which lines before it `rg` shows depends on its buffers.
    [b"\0".to_vec(), text(dice)].concat()
}

/// The `rg` binary to compare with; `None`, with a message, if it is not installed.
fn rg() -> Option<PathBuf> {
    let rg = std::env::var_os("HAFT_RG").map_or_else(|| PathBuf::from("rg"), PathBuf::from);
    if Command::new(&rg).arg("--version").output().is_err() {
        eprintln!("SKIPPED: rg is not installed, nothing to compare with");
        return None;
    }
    Some(rg)
}

struct Case<'a> {
    options: GrepOptions,
    pattern: &'a str,
    glob: Option<&'a str>,
    kind: Option<&'a str>,
    hidden: bool,
    no_ignore: bool,
    /// Directory to search, below the tree.
    path: &'a str,
}

impl Case<'_> {
    fn theirs(&self, rg: &Path, tree: &Path) -> Vec<Vec<u8>> {
        let mut command = Command::new(rg);
        command.args(["--no-config", "--color=never", "--no-heading", "--sort=path", "-H", "--no-messages"]);
        let options = self.options;
        match options.mode {
            Mode::Files => command.arg("-l"),
            Mode::Count => command.arg("-c"),
            Mode::Content => {
                command.args(["-n", "-A", &options.after.to_string(), "-B", &options.before.to_string()])
            }
        };
        let flags = [
            (options.ignore_case, "-i"),
            (options.multiline, "-U"),
            (options.multiline, "--multiline-dotall"),
            (options.only_matching, "-o"),
            (self.hidden, "--hidden"),
            (self.no_ignore, "--no-ignore"),
        ];
        command.args(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag));
        if self.hidden {
            // Our search always skips these.
            command.args(["-g", "!.git", "-g", "!.jj"]);
        }
        command.args(self.glob.map(|glob| format!("-g{glob}")));
        command.args(self.kind.map(|kind| format!("-t{kind}")));
        command
            .args(["-e", self.pattern, "--", if self.path.is_empty() { "./" } else { self.path }])
            .current_dir(tree);
        let output = command.output().unwrap();
        let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter(|line| !line.starts_with(b"WARNING: stopped")).map(plain).collect()
    }

    fn ours(&self, tree: &Path) -> Option<Vec<Vec<u8>>> {
        let query = GrepQuery::new(self.pattern, self.options).unwrap();
        let root = tree.join(self.path);
        let globs: Vec<String> = self.glob.iter().map(|glob| (*glob).to_owned()).collect();
        let filter = WalkFilter {
            respect_ignore: !self.no_ignore,
            skip_hidden: !self.hidden,
            globs: GlobFilter::new(&globs, &[tree]).unwrap(),
            types: self.kind.map(|kind| file_type(kind).unwrap()),
            ..WalkFilter::default()
        };
        let run = GrepRun {
            query: &query,
            cwd: tree,
            filter: &filter,
            limits: WalkLimits::default(),
            page: GrepPage { offset: 0, limit: usize::MAX },
            may_show: &|_| true,
            stop: &SearchStop::never(),
        };
        let grepped = run.run(&SearchRoot::open(&root).unwrap());
        if grepped.ignore_files_off {
            // Deliberately different: a named directory is searched even if it is ignored.
            return None;
        }
        let mut out = Vec::new();
        for (index, file) in grepped.totals.files.iter().enumerate() {
            let path =
                [self.path.as_bytes(), if self.path.is_empty() { b"" } else { b"/" }, &file.rel].concat();
            match self.options.mode {
                Mode::Files => out.push(path),
                Mode::Count => out.push([&path[..], b":", file.count.to_string().as_bytes()].concat()),
                Mode::Content => {
                    let gaps = 0 < self.options.before + self.options.after;
                    for (number, line) in file.lines.iter().enumerate() {
                        if gaps && (line.after_gap || (0 < index && number == 0)) {
                            out.push(b"--".to_vec());
                        }
                        out.push(shown(&path, line));
                    }
                }
            }
        }
        Some(out)
    }
}

fn shown(path: &[u8], line: &GrepLine) -> Vec<u8> {
    let mark: &[u8] = if line.kind == LineKind::Match { b":" } else { b"-" };
    [path, mark, line.number.to_string().as_bytes(), mark, line.text.as_bytes()].concat()
}

/// A line of `rg`, without carriage returns and `./`.
fn plain(line: &[u8]) -> Vec<u8> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.strip_prefix(b"./").unwrap_or(line).to_vec()
}

fn case(dice: &mut Dice) -> Case<'static> {
    let mode = [Mode::Files, Mode::Count, Mode::Content][dice.roll(3)];
    let mut options = GrepOptions { mode, ignore_case: dice.roll(4) == 0, ..GrepOptions::default() };
    options.multiline = dice.roll(4) == 0;
    if mode == Mode::Content {
        options.only_matching = dice.roll(4) == 0;
        if !options.only_matching {
            (options.before, options.after) = (dice.roll(3), dice.roll(3));
        }
    }
    let pattern = dice.pick(&PATTERNS);
    if MATCH_NOTHING.contains(&pattern) {
        // With `-U`, `rg` shows context of an empty match after the last line; the number of empty
        // matches in a line is not compared.
        (options.before, options.after, options.only_matching) = (0, 0, false);
    }
    let globs = ["*.rs", "!*.rs", "src/**", "**/a/*", "*.{txt,md}", "build", "!foo", ".env", "/lib.rs"];
    Case {
        options,
        pattern,
        glob: (dice.roll(3) == 0).then(|| dice.pick(&globs)),
        kind: (dice.roll(5) == 0).then(|| dice.pick(&["rust", "py", "js", "txt"])),
        hidden: dice.roll(3) == 0,
        no_ignore: dice.roll(3) == 0,
        path: "",
    }
}

#[test]
fn grep_results_equal_rg() {
    let Some(rg) = rg() else { return };
    let trees = std::env::var("HAFT_RG_TREES").map_or(25, |it| it.parse().unwrap());
    let mut hits = 0;
    for seed in 0..trees {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().canonicalize().unwrap();
        let mut dice = Dice(seed * 7919 + 1);
        plant(&mut dice, &tree, 0);
        let below: Vec<String> = fs::read_dir(&tree)
            .unwrap()
            .flatten()
            .filter(|it| it.file_type().unwrap().is_dir())
            .filter_map(|it| it.file_name().into_string().ok())
            .filter(|it| !it.starts_with(".git"))
            .collect();
        for _ in 0..12 {
            let mut case = case(&mut dice);
            let place =
                if below.is_empty() || dice.roll(3) != 0 { "" } else { &below[dice.roll(below.len())] };
            case.path = "";
            let case = Case { path: place, ..case };
            let Some(ours) = case.ours(&tree) else { continue };
            let theirs = case.theirs(&rg, &tree);
            hits += ours.len();
            let only = |a: &[Vec<u8>], b: &[Vec<u8>]| {
                let extra = a.iter().filter(|line| !b.contains(line));
                extra.take(5).map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>()
            };
            assert!(
                ours == theirs,
                "seed {seed}, {:?} in {:?} glob {:?} type {:?} hidden {} no_ignore {} {:?}\nonly ours: {:#?}\nonly theirs: {:#?}",
                case.pattern,
                case.path,
                case.glob,
                case.kind,
                case.hidden,
                case.no_ignore,
                case.options,
                only(&ours, &theirs),
                only(&theirs, &ours)
            );
        }
    }
    assert!(100 < hits, "the trees are not empty: {hits}");
}

const GLOBS: [&str; 9] =
    ["**/*", "*.rs", "src/**", "**/a/*.*", "*.{txt,md}", "**/[a-f]*", "a/b/**/*.py", "zz", "?.py"];

#[test]
fn glob_results_equal_rg() {
    let Some(rg) = rg() else { return };
    for seed in 0..30 {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().canonicalize().unwrap();
        let mut dice = Dice(seed * 104_729 + 3);
        plant(&mut dice, &tree, 0);
        for (hidden, no_ignore) in [(true, true), (false, true), (true, false), (false, false)] {
            let theirs = listed_by_rg(&rg, &tree, hidden, no_ignore);
            let filter =
                WalkFilter { respect_ignore: !no_ignore, skip_hidden: !hidden, ..WalkFilter::default() };
            for pattern in GLOBS {
                let plan = GlobPlan::parse(pattern, &tree, None).unwrap();
                let ours = listed_by_us(&plan, &tree, &filter);
                let glob = globset(pattern);
                let theirs: BTreeSet<PathBuf> =
                    theirs.iter().filter(|path| glob.is_match(path)).map(|path| tree.join(path)).collect();
                // A pattern that names an ignored directory searches it.
                if plan.roots().any(|root| root != tree) {
                    assert!(ours.is_superset(&theirs), "seed {seed} {pattern}: {ours:?} {theirs:?}");
                } else {
                    assert_eq!(ours, theirs, "seed {seed} {pattern} hidden {hidden} no_ignore {no_ignore}");
                }
            }
        }
    }
}

fn listed_by_us(plan: &GlobPlan, tree: &Path, filter: &WalkFilter) -> BTreeSet<PathBuf> {
    let mut ours = BTreeSet::new();
    for asked in plan.roots() {
        let Ok(root) = SearchRoot::open(asked) else { continue };
        let run = GlobRun {
            cwd: tree,
            filter,
            limits: WalkLimits::default(),
            keep: 10_000,
            // `rg` does not list symlinks.
            may_show: &|_, kind| kind == DiskKind::File,
            stop: &SearchStop::never(),
        };
        let found = run.run(plan, asked, &root);
        assert_eq!(found.hits.len() as u64, found.total);
        ours.extend(found.hits.into_iter().map(|hit| asked.join(path_of(hit.rel))));
    }
    ours
}

fn listed_by_rg(rg: &Path, tree: &Path, hidden: bool, no_ignore: bool) -> Vec<PathBuf> {
    let mut command = Command::new(rg);
    command.args(["--no-config", "--files", "-0", "--no-messages"]).current_dir(tree);
    command.args(hidden.then_some("--hidden")).args(no_ignore.then_some("--no-ignore"));
    let output = command.output().unwrap().stdout;
    let paths = output.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths
        .filter(|path| !path.windows(5).any(|it| it == b".git/"))
        .map(|path| path_of(path.to_vec()))
        .collect()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

fn globset(pattern: &str) -> globset::GlobMatcher {
    let pattern = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    globset::GlobBuilder::new(&pattern).literal_separator(true).build().unwrap().compile_matcher()
}
