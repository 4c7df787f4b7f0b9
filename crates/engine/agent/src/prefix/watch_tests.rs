use haft_model::{RepairKind, SentBlock};

use super::*;

/// A request: model, tools, parts of the system prompt, blocks.
fn sent(model: &str, tools: &[(&str, u64)], system: &[u64], blocks: &[u64]) -> Arc<SentPrefix> {
    let tool = |(name, print): &(&str, u64)| SentTool { name: (*name).to_owned(), print: *print };
    Arc::new(SentPrefix {
        model: model.to_owned(),
        tools: tools.iter().map(tool).collect(),
        system: system.to_vec(),
        settings: 0,
        blocks: blocks.iter().map(|print| SentBlock { print: *print, tokens: 100 }).collect(),
        head_tokens: 1_000,
    })
}

fn usage(input: u64, written: u64, read: u64) -> Usage {
    Usage {
        input_tokens: input,
        cache_creation_input_tokens: written,
        cache_read_input_tokens: read,
        ..Usage::default()
    }
}

fn after(
    first: &Arc<SentPrefix>,
    reasons: Vec<CacheMissReason>,
    second: &Arc<SentPrefix>,
    used: [Usage; 2],
) -> Option<CacheMiss> {
    let parts = ["# Base", "# Environment"].map(str::to_owned);
    let mut watch = CacheTracker::default();
    assert_eq!(watch.answered(first, &used[0], &parts).2, None, "nothing came before");
    reasons.into_iter().for_each(|reason| watch.because(reason));
    let (number, _, bust) = watch.answered(second, &used[1], &parts);
    assert_eq!(number, 2);
    bust
}

/// The second request, what happened before it, and what was lost.
type WatchRow = (Arc<SentPrefix>, Vec<CacheMissReason>, Option<(CacheMissCause, &'static str, u64)>);

#[test]
fn what_breaks_the_prefix_is_named() {
    let base = || sent("a", &[("Read", 1), ("Edit", 2)], &[1, 2], &[1, 2, 3]);
    let repaired = || {
        CacheMissReason::Repaired(Repair {
            kind: RepairKind::MediaReplaced,
            place: "image 1f".to_owned(),
            detail: "too many pictures".to_owned(),
        })
    };
    let none = usage(0, 0, 0);
    let rows: Vec<WatchRow> = vec![
        (sent("a", &[("Read", 1), ("Edit", 2)], &[1, 2], &[1, 2, 3, 4]), vec![], None),
        // What is the same is no loss, whatever was repaired at its end.
        (sent("a", &[("Read", 1), ("Edit", 2)], &[1, 2], &[1, 2, 3, 4]), vec![repaired()], None),
        (base(), vec![], None),
        (
            sent("b", &[("Read", 1), ("Edit", 2)], &[1, 2], &[1, 2, 3, 4]),
            vec![],
            Some((CacheMissCause::ModelChanged, "b answers instead of a", 1_300)),
        ),
        (
            sent("a", &[("Read", 1), ("Edit", 2), ("Late", 3)], &[1, 2], &[1, 2, 3, 4]),
            vec![],
            Some((CacheMissCause::ToolsChanged, "tools were added: Late", 1_300)),
        ),
        (
            sent("a", &[("Read", 7)], &[1, 2], &[1, 2, 3, 4]),
            vec![],
            Some((CacheMissCause::ToolsChanged, "tools were removed: Edit; changed: Read", 1_300)),
        ),
        (
            sent("a", &[("Edit", 2), ("Read", 1)], &[1, 2], &[1, 2, 3, 4]),
            vec![],
            Some((CacheMissCause::ToolsChanged, "tools were put into another order", 1_300)),
        ),
        (
            sent("a", &[("Read", 1), ("Edit", 2)], &[1, 9], &[1, 2, 3, 4]),
            vec![],
            Some((CacheMissCause::SystemChanged, "the system prompt changed: # Environment", 1_300)),
        ),
        (
            sent("a", &[("Read", 1), ("Edit", 2)], &[1, 2], &[1, 9, 3, 4]),
            vec![],
            Some((CacheMissCause::HistoryChanged, "block 2 of 3 is not what was sent before", 200)),
        ),
        (
            sent("a", &[("Read", 1), ("Edit", 2)], &[1, 2], &[1, 9, 3, 4]),
            vec![repaired()],
            Some((CacheMissCause::Repaired, "image 1f: too many pictures", 200)),
        ),
        (
            sent("a", &[("Read", 1), ("Edit", 2)], &[1, 2], &[1]),
            vec![],
            Some((CacheMissCause::Rewound, "the session went on from an earlier point", 0)),
        ),
        (
            sent("a", &[("Read", 1), ("Edit", 2)], &[1, 2], &[9]),
            vec![
                CacheMissReason::Shortened(Compaction::Stubs),
                CacheMissReason::Shortened(Compaction::Summary),
            ],
            Some((CacheMissCause::Compaction, "the conversation was summed up by the model", 100)),
        ),
        // A summary is the time to declare everything anew.
        (
            sent("a", &[("New", 1)], &[3], &[9]),
            vec![CacheMissReason::Shortened(Compaction::Mechanical)],
            Some((CacheMissCause::Compaction, "the conversation was summed up without the model", 1_100)),
        ),
        (
            sent("a", &[("Read", 1), ("Edit", 2)], &[1, 2], &[1, 7, 3, 4]),
            vec![CacheMissReason::Shortened(Compaction::Stubs)],
            Some((CacheMissCause::ResultsCleared, "old results were shortened to make room", 200)),
        ),
    ];
    for (number, (second, reasons, want)) in rows.into_iter().enumerate() {
        let bust = after(&base(), reasons, &second, [none, none]);
        let got = bust.as_ref().map(|it| (it.cause, it.detail.as_str(), it.tokens));
        assert_eq!(got, want, "row {number}");
        assert!(bust.is_none_or(|it| it.estimated && it.request == 2));
    }
}

#[test]
fn what_the_provider_counted_counts() {
    let (first, more) = (sent("a", &[], &[1], &[1]), sent("a", &[], &[1], &[1, 2]));
    let other = sent("b", &[], &[1], &[1, 2]);
    for (second, used, want) in [
        // It went on from the cache.
        (&more, [usage(5, 20_000, 0), usage(5, 300, 20_000)], None),
        // The cache was gone.
        (&more, [usage(5, 20_000, 0), usage(5, 20_300, 0)], Some((CacheMissCause::Expired, 20_000))),
        // Half of it still helps, and small prompts are never cached.
        (&more, [usage(5, 20_000, 0), usage(5, 5_000, 15_300)], None),
        (&more, [usage(5, 900, 0), usage(905, 0, 0)], None),
        // A change costs what was cached and is not read any more.
        (
            &other,
            [usage(5, 20_000, 0), usage(5, 16_000, 4_300)],
            Some((CacheMissCause::ModelChanged, 15_700)),
        ),
    ] {
        let bust = after(&first, vec![], second, used);
        assert_eq!(bust.as_ref().map(|it| (it.cause, it.tokens)), want, "{used:?}");
        assert!(bust.is_none_or(|it| !it.estimated));
    }
}

#[test]
fn a_restart_changes_nothing_by_itself() {
    let before = sent("a", &[("Read", 1)], &[1], &[1, 2]);
    let kept = numbers(&before, SystemTime::now());
    for (now, want) in [
        (sent("a", &[("Read", 1)], &[1], &[1, 2, 3]), None),
        (sent("b", &[("Read", 1)], &[1], &[1, 2, 3]), Some(CacheMissCause::ModelChanged)),
        (sent("a", &[("Read", 2)], &[1], &[1, 2, 3]), Some(CacheMissCause::ToolsChanged)),
        (sent("a", &[("Read", 1)], &[2], &[1, 2, 3]), Some(CacheMissCause::SystemChanged)),
        (sent("a", &[("Read", 1)], &[1], &[1, 9, 3]), Some(CacheMissCause::Resumed)),
        (sent("a", &[("Read", 1)], &[1], &[1]), Some(CacheMissCause::Rewound)),
    ] {
        let mut watch = CacheTracker::default();
        watch.restore(7, Some(("a".to_owned(), kept.clone(), Usage::default())));
        let (number, _, bust) = watch.answered(&now, &Usage::default(), &[]);
        assert_eq!((number, bust.map(|it| it.cause)), (8, want));
    }
}
