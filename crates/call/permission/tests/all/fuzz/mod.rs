//! Lines that the judge lets run, run for real in a scratch tree without walls:
//! nothing may be written, nothing of the tree may be started, nothing outside
//! may be shown.
//!
//! `HAFT_FUZZ_LINES` says how many lines are made and `HAFT_FUZZ_SEED` which
//! (`cargo xtask fuzz commands`); a plain test run makes a few.

mod lines;
mod programs;
mod random;
mod scratch;

use std::{sync::Arc, time::Instant};

use haft_permission::{Behavior, Opinion, Policy, ReadingHeld, ShellCommands};

use crate::common::{Call, context};
use random::Random;
use scratch::Scratch;

/// As many free lines as run before the tree is looked at.
const BATCH: usize = 400;

fn policy(scratch: &Scratch) -> Policy {
    Policy::builder(scratch.work())
        .commands(Arc::new(ShellCommands))
        .reading(ReadingHeld::Yes)
        .home(scratch.home())
        .build()
}

fn is_free(policy: &Policy, scratch: &Scratch, line: &str) -> bool {
    let cx = context(scratch.work(), Some(scratch.home()));
    policy.judge("Bash", &Call::command(line), &cx, &Opinion::None).behavior == Behavior::Allow
}

/// The shortest line that still does it: pieces are left out as long as that
/// works.
fn smallest(line: &str) -> String {
    let guilty = |line: &str| {
        let scratch = Scratch::new();
        is_free(&policy(&scratch), &scratch, line) && !scratch.run(&[line.to_owned()]).is_empty()
    };
    let mut chars: Vec<char> = line.chars().collect();
    let mut size = chars.len() / 2;
    while 0 < size {
        let mut at = 0;
        while at + size <= chars.len() {
            let fewer: String = chars[..at].iter().chain(&chars[at + size..]).collect();
            if guilty(&fewer) {
                chars = fewer.chars().collect();
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    chars.into_iter().collect()
}

#[allow(clippy::print_stderr, reason = "the numbers are what a long run is for")]
fn tell(text: &str) {
    eprintln!("{text}");
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn what_is_free_does_nothing_but_read() {
    let (most, seed) = (number("HAFT_FUZZ_LINES", 4_000), number("HAFT_FUZZ_SEED", 1));
    let started = Instant::now();
    let mut random = Random::new(seed);
    let scratch = Scratch::new();
    let policy = policy(&scratch);
    let until = std::time::Duration::from_secs(number("HAFT_FUZZ_SECONDS", u64::from(u32::MAX)));
    let (mut made, mut ran) = (0_u64, 0_usize);
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
        if !scratch.run(&batch).is_empty() {
            for line in &batch {
                let fresh = Scratch::new();
                let violations = fresh.run(std::slice::from_ref(line));
                if !violations.is_empty() {
                    tell(&format!("{line:?}: {violations:?}"));
                    found.push(format!("{:?} from {line:?}: {violations:?}", smallest(line)));
                }
            }
            scratch.restore();
        }
        batch.clear();
        if ran % (BATCH * 100) == 0 {
            tell(&format!("{made} lines made, {ran} ran, {:?}", started.elapsed()));
        }
        if 200 < found.len() || until < started.elapsed() {
            break;
        }
    }
    let (broke, time) = (found.len(), started.elapsed());
    tell(&format!("seed {seed}: {made} lines made, {ran} were free and ran, {broke} broke it, {time:?}"));
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
    assert!(made / 100 < ran as u64, "only {ran} of {made} lines were free");
}

/// What the tree is looked at for is found.
#[test]
fn what_is_looked_for_is_found() {
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
