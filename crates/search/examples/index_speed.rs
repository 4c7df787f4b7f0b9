//! Prints how long an index of a tree takes to build and to bring up to date.
//!
//! `cargo run --release -p haft-search --example index_speed -- TREE`
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program for a person")]

use std::{env, path::Path, time::Instant};

use haft_search::{Filter, Index, Limits, Refresh, Root, Stop};

fn main() {
    let tree = env::args().nth(1).expect("a tree");
    let tree = Path::new(&tree).canonicalize().expect("a directory");
    let root = Root::open(&tree).expect("a directory");
    let filter = Filter::default();
    let mut index = Index::default();
    for what in ["built", "brought up to date", "brought up to date"] {
        let stop = Stop::never();
        let refresh = Refresh { cwd: &tree, filter: &filter, limits: Limits::default(), stop: &stop };
        let started = Instant::now();
        let refreshed = refresh.run(&mut index, &root);
        println!(
            "{what} in {:.0?}: {} files ({} read), {} definitions, {} MB",
            started.elapsed(),
            index.len(),
            refreshed.read,
            index.symbols(),
            index.size() >> 20
        );
    }
}
