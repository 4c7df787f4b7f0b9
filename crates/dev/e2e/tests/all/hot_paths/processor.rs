//! Counts instructions and allocations of the program with `valgrind`.

use serde_json::{Value, json};

use super::{CallOfTurn, Count, counts_here, edit, read, run_below};

const ALLOCATING: &[&str] = &["aligned_alloc", "calloc", "malloc", "posix_memalign", "realloc"];

/// Work of a run, or of a turn.
#[derive(Clone, Copy, Debug)]
struct Done {
    instructions: f64,
    /// Number of allocations.
    allocations: f64,
}

impl Done {
    /// Parses a callgrind profile: the total at its end, and the number of calls of the system
    /// allocator.
    fn of(profile: &str) -> Self {
        let total =
            profile.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        let mut asking = Vec::new();
        let (mut allocations, mut is_asked) = (0.0, false);
        for line in profile.lines() {
            // `cfn=(7) malloc` at first, and only `cfn=(7)` afterwards.
            let named = line.split_once("fn=").filter(|(before, _)| ["", "c"].contains(before));
            if let Some((before, named)) = named {
                let (id, name) = named.split_once(' ').unwrap_or((named, ""));
                if ALLOCATING.contains(&name) {
                    asking.push(id);
                }
                is_asked = before == "c" && asking.contains(&id);
            } else if let Some(calls) = line.strip_prefix("calls=").filter(|_| is_asked) {
                allocations += calls.split(' ').next().unwrap().parse::<f64>().unwrap();
            }
        }
        Self { instructions: total.unwrap().trim().parse::<f64>().unwrap() / 1e6, allocations }
    }

    fn check(self, what: &str, was: Self) {
        Count::new("million instructions", self.instructions, was.instructions).check(what);
        Count::new("allocations", self.allocations, was.allocations).check(what);
    }
}

const COUNTER: &[&str] = &["valgrind", "--tool=callgrind", "--quiet"];

async fn done(turns: usize, call: CallOfTurn) -> Done {
    let profile =
        run_below(COUNTER, turns, call, |counted| format!("--callgrind-out-file={}", counted.display()));
    Done::of(&String::from_utf8_lossy(&profile.await))
}

/// Commands that are denied: they are parsed and evaluated. Commands that run do not work under
/// valgrind.
fn denied(turn: usize) -> (&'static str, Value) {
    ("Bash", json!({"command": format!("mv f{turn}.txt moved && chmod +x moved | tee log")}))
}

#[tokio::test]
async fn instructions_and_allocations() {
    if !counts_here("valgrind", &["--tool=callgrind", "--quiet", "--callgrind-out-file=/dev/null"]) {
        return;
    }
    let start = done(0, read).await;
    let mut rows = vec![("start and one Read", start, Done { instructions: 91.1, allocations: 21_108.0 })];
    for (what, call, was) in [
        ("Read", read as CallOfTurn, Done { instructions: 8.05, allocations: 945.0 }),
        ("Edit", edit, Done { instructions: 8.7, allocations: 1_481.0 }),
        ("a command that is denied", denied, Done { instructions: 9.83, allocations: 2_554.0 }),
    ] {
        let all = done(10, call).await;
        let found = Done {
            instructions: (all.instructions - start.instructions) / 10.0,
            allocations: (all.allocations - start.allocations) / 10.0,
        };
        rows.push((what, found, was));
    }
    rows.iter().for_each(|(what, found, was)| found.check(what, *was));
}

#[test]
fn a_profile_is_read() {
    let profile = "\
fn=(1) main
cfn=(2) malloc
calls=3 0
5 60
cfn=(4) other
calls=9 0
5 60
fn=(3) realloc
7 8
cfn=(2)
calls=1 0
5 60
fn=(4)
cfn=(3)
calls=2 0
5 60
totals: 2500000
";
    let Done { instructions, allocations } = Done::of(profile);
    assert_eq!([instructions, allocations], [2.5, 6.0]);
}
