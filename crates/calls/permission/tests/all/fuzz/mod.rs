//! Runs allowed lines in a temporary tree without a sandbox: nothing may be written, no program of the
//! tree may start, nothing outside may be shown.
//!
//! `HAFT_FUZZ_LINES` sets the number of lines and `HAFT_FUZZ_SEED` the seed (`cargo xtask fuzz
//! commands`); a plain test run uses few.

mod edits;
mod lines;
mod programs;
mod random;
mod scratch;
mod trace;

use std::{sync::Arc, time::Instant};

use haft_permission::{BashJudge, Behavior, HookOpinion, Policy, ReadOnlyEnforced};

use crate::common::{Call, context};
use random::Random;
use scratch::Scratch;
use trace::Tracer;

/// Number of lines run before the tree is checked.
const BATCH: usize = 400;

/// One batch out of this many runs under a tracer.
const TRACED: usize = 25;

fn policy(scratch: &Scratch) -> Policy {
    Policy::builder(scratch.work())
        .commands(Arc::new(BashJudge))
        .reading(ReadOnlyEnforced::Yes)
        .home(scratch.home())
        .build()
}

fn is_free(policy: &Policy, scratch: &Scratch, line: &str) -> bool {
    let cx = context(scratch.work(), Some(scratch.home()));
    policy.judge("Bash", &Call::command(line), &cx, &HookOpinion::None).behavior == Behavior::Allow
}

/// How lines are run: with or without a tracer, and with which awk.
#[derive(Clone, Copy)]
struct Trial<'a> {
    tracer: Option<&'a Tracer>,
    awk: &'static str,
}

impl Trial<'_> {
    /// Which lines had forbidden effects, each run in its own tree, with the effects.
    fn guilty(&self, lines: &[String]) -> Vec<(String, Vec<String>)> {
        let violations = self.looked_at(&Scratch::new(), lines);
        match lines {
            _ if violations.is_empty() => Vec::new(),
            [line] => vec![(line.clone(), violations)],
            lines => {
                let (first, second) = lines.split_at(lines.len() / 2);
                [self.guilty(first), self.guilty(second)].concat()
            }
        }
    }

    /// Minimises a line that still has the effect by removing pieces.
    fn smallest(&self, line: &str) -> String {
        let still_guilty = |line: &str| {
            let scratch = Scratch::new();
            is_free(&policy(&scratch), &scratch, line)
                && !self.looked_at(&scratch, &[line.to_owned()]).is_empty()
        };
        let mut chars: Vec<char> = line.chars().collect();
        let mut size = chars.len() / 2;
        while 0 < size {
            let mut at = 0;
            while at + size <= chars.len() {
                let fewer: String = chars[..at].iter().chain(&chars[at + size..]).collect();
                if still_guilty(&fewer) {
                    chars = fewer.chars().collect();
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        chars.into_iter().collect()
    }

    /// Effects of lines, traced if a tracer is available.
    fn looked_at(&self, scratch: &Scratch, lines: &[String]) -> Vec<String> {
        scratch.awk.set(self.awk);
        match self.tracer {
            Some(tracer) => scratch.run_traced(tracer, lines),
            None => scratch.run(lines),
        }
    }
}

/// The awk implementations of this machine, which parse differently.
fn awks() -> Vec<&'static str> {
    let is_there = |name: &&str| {
        let program = name.split(' ').next().unwrap();
        ["/usr/bin", "/bin"].iter().any(|dir| std::path::Path::new(dir).join(program).exists())
    };
    let known = ["mawk", "gawk", "gawk --posix", "original-awk", "busybox awk", "command awk"];
    known.into_iter().filter(|it| it.starts_with("command") || is_there(it)).collect()
}

#[allow(clippy::print_stderr, reason = "the numbers are what a long run is for")]
fn tell(text: &str) {
    eprintln!("{text}");
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn fuzzed_allowed_lines_only_read() {
    let (most, seed) = (number("HAFT_FUZZ_LINES", 4_000), number("HAFT_FUZZ_SEED", 1));
    let started = Instant::now();
    let mut random = Random::new(seed);
    let scratch = Scratch::new();
    let policy = policy(&scratch);
    let until = std::time::Duration::from_secs(number("HAFT_FUZZ_SECONDS", u64::from(u32::MAX)));
    let (mut made, mut ran, mut traced) = (0_u64, 0_usize, 0_usize);
    let tracer = Tracer::new();
    if tracer.is_none() {
        tell("SKIPPED: no line is traced, because strace is missing or may not trace");
    }
    let awks = awks();
    let mut batches = 0_usize;
    let mut found: Vec<String> = Vec::new();
    let mut batch = Vec::with_capacity(BATCH);
    while made < most {
        let line = lines::line(&mut random);
        made += 1;
        if is_free(&policy, &scratch, &line) {
            batch.push(line);
        }
        if batch.len() < BATCH && made < most {
            continue;
        }
        ran += batch.len();
        // Includes the first batch, so that a short run also traces. Each awk gets its turn.
        let awk = awks[(batches + batches / TRACED) % awks.len()];
        let trial = Trial { tracer: tracer.as_ref().filter(|_| batches.is_multiple_of(TRACED)), awk };
        traced += trial.tracer.map_or(0, |_| batch.len());
        if !trial.looked_at(&scratch, &batch).is_empty() {
            for (line, violations) in trial.guilty(&batch) {
                tell(&format!("{awk}, {line:?}: {violations:?}"));
                found.push(format!("{awk}: {:?} from {line:?}: {violations:?}", trial.smallest(&line)));
            }
            scratch.restore();
        }
        batches += 1;
        batch.clear();
        if ran % (BATCH * 100) == 0 {
            tell(&format!("{made} lines made, {ran} ran, {:?}", started.elapsed()));
        }
        if 200 < found.len() || until < started.elapsed() {
            break;
        }
    }
    let (broke, time) = (found.len(), started.elapsed());
    tell(&format!(
        "seed {seed}: {made} lines made, {ran} were free and ran ({traced} under a tracer) with {awks:?}, {broke} broke it, {time:?}"
    ));
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
    assert!(made / 100 < ran as u64, "only {ran} of {made} lines were free");
}

/// The checks of the tree detect violations.
#[test]
fn fuzz_checks_detect_violations() {
    for line in [
        "touch P",
        "cat link",
        "echo x > a",
        "./evil",
        "rm x",
        "chmod 600 a",
        "touch -d 2001-01-01 a",
        "awk 'BEGIN{system(\"touch P\")}'",
        "sed -n 'w P' a",
        "awk 'BEGIN{getline < \"../outside/secret\"; print}'",
        "git branch x",
        "mkdir ../outside/d",
        "touch ~/x",
    ] {
        assert!(!Scratch::new().run(&[line.to_owned()]).is_empty(), "{line}");
    }
    for line in ["cat a", "git status", "ls -l", "echo x > /dev/null", "awk 1 a", "sleep 0"] {
        assert_eq!(Scratch::new().run(&[line.to_owned()]), Vec::<String>::new(), "{line}");
    }
}

/// The tracer detects violations without a visible trace.
#[test]
fn fuzz_tracer_detects_traceless_violations() {
    let Some(tracer) = Tracer::new() else {
        return tell("SKIPPED: strace is missing or may not trace");
    };
    for line in [
        "cat ../outside/plain > /dev/null",
        "cat sub/out/plain",
        "touch Q; rm Q",
        "cp /bin/true T; ./T; rm T",
        "exec 3> Q; rm Q",
        "mkdir D && rmdir D",
        "(: < /dev/tcp/127.0.0.1/9)",
    ] {
        let found = Scratch::new().run_traced(&tracer, &[line.to_owned()]);
        assert!(!found.is_empty(), "{line}");
    }
    for line in
        ["cat a", "git status", "git log --oneline", "ls -lR", "sort a | uniq", "awk 1 a", "grep -r a ."]
    {
        let found = Scratch::new().run_traced(&tracer, &[line.to_owned()]);
        assert_eq!(found, Vec::<String>::new(), "{line}");
    }
}
