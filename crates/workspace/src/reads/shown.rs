use std::{collections::VecDeque, path::PathBuf};

use haft_types::{AgentId, CallId};

use super::{View, Viewer};
use crate::ContentHash;

/// Which call showed what. Bounded: what falls out is merely shown again.
#[derive(Debug, Default)]
pub(super) struct Shown {
    views: VecDeque<ShownView>,
}

#[derive(Debug)]
struct ShownView {
    viewer: Viewer,
    path: PathBuf,
    version: Option<ContentHash>,
    first: u64,
    last: u64,
    text: ContentHash,
}

const REMEMBERED: usize = 4096;

impl Shown {
    pub(super) fn add(&mut self, viewer: &Viewer, view: &View<'_>) {
        if self.views.len() == REMEMBERED {
            self.views.pop_front();
        }
        let (first, last) = extent(view);
        self.views.push_back(ShownView {
            viewer: viewer.clone(),
            path: view.path.to_owned(),
            version: view.version,
            first,
            last,
            text: text_hash(view),
        });
    }

    /// The calls that showed at least these lines of the same content, latest
    /// first.
    pub(super) fn covering(&self, agent: &AgentId, view: &View<'_>) -> Vec<CallId> {
        let (first, last) = extent(view);
        let text = text_hash(view);
        let covers = |it: &&ShownView| {
            it.viewer.agent == *agent
                && it.path == view.path
                && it.first <= first
                && last <= it.last
                && match (it.version, view.version) {
                    (Some(a), Some(b)) => a == b,
                    // A file too large to fingerprint: the same lines with the
                    // same text.
                    _ => (it.first, it.last, it.text) == (first, last, text),
                }
        };
        self.views.iter().rev().filter(covers).map(|it| it.viewer.call.clone()).collect()
    }
}

fn extent(view: &View<'_>) -> (u64, u64) {
    (view.first, view.first + view.lines.len() as u64)
}

fn text_hash(view: &View<'_>) -> ContentHash {
    ContentHash::of_pieces(view.lines.iter().flat_map(|line| [line.as_bytes(), b"\n"]))
}
