//! Measures building and refreshing the index of a tree.
//!
//! `cargo run --release -p haft-search --example index_speed -- TREE [QUERY...]`
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program for a person")]

use std::{env, path::Path, time::Instant};

use haft_search::{
    AnswerLimits, Finder, IndexRefreshOptions, RankQuery, SearchRoot, SearchStop, TreeIndex, WalkFilter,
    WalkLimits, display_text,
};

fn main() {
    let mut args = env::args().skip(1);
    let tree = args.next().expect("a tree");
    let tree = Path::new(&tree).canonicalize().expect("a directory");
    let root = SearchRoot::open(&tree).expect("a directory");
    let filter = WalkFilter::default();
    let mut index = TreeIndex::default();
    for what in ["built", "brought up to date", "brought up to date"] {
        let stop = SearchStop::never();
        let refresh = IndexRefreshOptions {
            cwd: &tree,
            filter: &filter,
            limits: WalkLimits::default(),
            guess: |_| None,
            stop: &stop,
        };
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
    for query in args {
        let Some(ask) = RankQuery::parse(&query) else { continue };
        let finder = Finder {
            index: &index,
            root: &root,
            ask: &ask,
            limits: AnswerLimits { definitions: 8, usages: 8, passages: 4 },
            walk: WalkLimits::default(),
            may_show: &|_| true,
            guess: |_| None,
            stop: &SearchStop::never(),
        };
        let started = Instant::now();
        let answer = finder.run();
        println!(
            "{query:?} in {:.0?}: {} definitions, {} usages, {} passages",
            started.elapsed(),
            answer.total_definitions,
            answer.total_usages,
            answer.total_passages
        );
        for it in &answer.definitions {
            println!("  D {}:{} {}", display_text::path_text(&it.rel), it.line, it.text);
        }
        for (mark, places) in [("U", &answer.usages), ("P", &answer.passages)] {
            for it in places {
                println!("  {mark} {}:{} {}", display_text::path_text(&it.rel), it.line, it.text);
            }
        }
    }
}
