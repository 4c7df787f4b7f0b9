//! Scores how likely a file is meant, by its path.

use crate::SymbolKind;

/// Penalty for files that are rarely meant.
pub(crate) fn path_penalty(rel: &[u8]) -> i32 {
    let path = String::from_utf8_lossy(rel).to_lowercase();
    let mut names: Vec<&str> = path.split('/').collect();
    let file = names.pop().unwrap_or_default();
    let is_in = |wanted: &[&str]| names.iter().any(|name| wanted.contains(name));
    let mut penalty = i32::try_from(names.len().min(10)).unwrap_or(10);
    if is_in(&["vendor", "third_party", "node_modules", "dist", "build", "out", "generated", "gen"])
        || [".min.", ".pb.", "_pb2.", ".generated.", ".g.dart"].iter().any(|it| file.contains(it))
    {
        penalty += 120;
    }
    if is_test(&path) {
        penalty += 60;
    }
    if is_in(&["examples", "example", "benches", "bench", "samples", "demo", "docs"]) {
        penalty += 30;
    }
    if file.starts_with("changelog") || file.starts_with("changes") {
        penalty += 60;
    }
    penalty
}

/// Whether a lower-case path is a test file.
pub(crate) fn is_test(path: &str) -> bool {
    let mut names: Vec<&str> = path.split('/').collect();
    let file = names.pop().unwrap_or_default();
    let in_tests = names.iter().any(|name| {
        matches!(
            *name,
            "test" | "tests" | "__tests__" | "spec" | "specs" | "testdata" | "fixtures" | "testing"
        )
    });
    in_tests
        || file.starts_with("test_")
        || ["_test.", ".test.", ".spec.", "_spec.", "tests."].iter().any(|it| file.contains(it))
}

/// Bonus by kind of symbol.
pub(crate) fn kind_points(kind: SymbolKind) -> i32 {
    match kind {
        SymbolKind::Class
        | SymbolKind::Struct
        | SymbolKind::Enum
        | SymbolKind::Interface
        | SymbolKind::Trait => 60,
        SymbolKind::Function | SymbolKind::Macro => 50,
        SymbolKind::Method | SymbolKind::Type => 45,
        SymbolKind::Constant | SymbolKind::Other => 30,
        SymbolKind::Module => 25,
        SymbolKind::Variable => 20,
        SymbolKind::Variant | SymbolKind::Field => 15,
        SymbolKind::Declaration => 0,
    }
}

/// Number of directories between two files.
pub(crate) fn distance(a: &[u8], b: &[u8]) -> usize {
    let dirs = |path: &[u8]| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (a, b) = (dirs(a), dirs(b));
    let (a, b) = (&a[..a.len() - 1], &b[..b.len() - 1]);
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    a.len() + b.len() - 2 * common
}
