use std::{
    fs,
    io::{BufWriter, Write as _},
    path::Path,
};

/// Words that are common in code.
const WORDS: [&str; 24] = [
    "let", "value", "result", "fn", "match", "Some", "error", "index", "main", "self", "config", "return",
    "buffer", "unsafe", "impl", "state", "token", "parse", "line", "TODO", "file", "path", "async", "await",
];

pub(crate) fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Creates a deterministic tree of source files.
pub(crate) fn make(top: &Path, files: usize) {
    let mut seed = 42_u64;
    let mut next = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    put(&top.join(".gitignore"), "target\n*.log\n");
    fs::create_dir_all(top.join(".git")).unwrap();
    for at in 0..files {
        let mut text = String::new();
        for _ in 0..20 + next(120) {
            text.push_str("    ");
            for _ in 0..2 + next(8) {
                // The minimum of two draws makes later words rare.
                let word = WORDS[next(WORDS.len()).min(next(WORDS.len()))];
                text.push_str(word);
                text.push_str(if next(4) == 0 { "(" } else { " " });
            }
            text.push('\n');
        }
        let extension = ["rs", "rs", "py", "md"][at % 4];
        let path = format!("crate_{}/src/part_{}/mod_{at}.{extension}", at / 1000, at / 50 % 20);
        put(&top.join(path), &text);
    }
}

/// Returns one line of a large file.
pub(crate) fn line(number: u64) -> String {
    format!("{number:>10} request served in {} ms by worker {}\n", number % 977, number % 13)
}

/// Writes a file of at least `bytes` bytes and returns its number of lines.
pub(crate) fn lines(path: &Path, bytes: u64) -> u64 {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut out = BufWriter::new(fs::File::create(path).unwrap());
    let (mut written, mut number) = (0, 0);
    while written < bytes {
        number += 1;
        let line = line(number);
        out.write_all(line.as_bytes()).unwrap();
        written += line.len() as u64;
    }
    out.flush().unwrap();
    number
}
