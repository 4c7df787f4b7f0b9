use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
};

use haft_types::{AgentId, CallId};

use super::{LinesView, ReadBy};
use crate::ContentHash;

/// Which call showed which lines. Bounded: forgotten views are merely shown again.
#[derive(Debug, Default)]
pub(super) struct ShownReads {
    files: HashMap<AgentId, HashMap<PathBuf, VecDeque<ShownView>>>,
    /// Total number of views.
    count: usize,
    /// Incremented with every view, to find the oldest.
    clock: u64,
}

#[derive(Debug)]
struct ShownView {
    call: CallId,
    time: u64,
    what: ShownShape,
}

/// What two views of a file must agree in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct ShownShape {
    version: ShownVersion,
    first: u64,
    last: u64,
}

/// Identity of the shown content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ShownVersion {
    /// Hash of the file.
    Known(ContentHash),
    /// Hash of the lines, for a file too large to hash.
    Lines(ContentHash),
}

/// Maximum number of views in total and per file.
const REMEMBERED: usize = 4096;
const REMEMBERED_OF_ONE: usize = 64;

impl ShownReads {
    pub(super) fn add(&mut self, viewer: &ReadBy, view: &LinesView<'_>) {
        if REMEMBERED <= self.count {
            self.forget_older_half();
        }
        self.clock += 1;
        let shape = ShownShape::from_view(view);
        let files = self.files.entry(viewer.agent.clone()).or_default();
        let views = match files.get_mut(view.path) {
            Some(views) => views,
            None => files.entry(view.path.to_owned()).or_default(),
        };
        let before = views.len();
        views.retain(|it| it.call != viewer.call || it.what != shape);
        if REMEMBERED_OF_ONE <= views.len() {
            views.pop_front();
        }
        views.push_back(ShownView { call: viewer.call.clone(), time: self.clock, what: shape });
        self.count = self.count + views.len() - before;
    }

    /// Calls that showed at least these lines of the same content, latest first.
    pub(super) fn covering(&self, agent: &AgentId, view: &LinesView<'_>) -> Vec<CallId> {
        let Some(views) = self.views_of(agent, view.path) else { return Vec::new() };
        let wanted = ShownShape::from_view(view);
        views.iter().rev().filter(|it| it.what.covers(&wanted)).map(|it| it.call.clone()).collect()
    }

    fn views_of(&self, agent: &AgentId, path: &Path) -> Option<&VecDeque<ShownView>> {
        self.files.get(agent)?.get(path)
    }

    fn forget_older_half(&mut self) {
        let mut times: Vec<u64> =
            self.files.values().flat_map(HashMap::values).flatten().map(|it| it.time).collect();
        times.sort_unstable();
        let Some(&limit) = times.get(times.len() / 2) else { return };
        for files in self.files.values_mut() {
            files.retain(|_, views| {
                views.retain(|it| limit <= it.time);
                !views.is_empty()
            });
        }
        self.files.retain(|_, files| !files.is_empty());
        self.count = self.files.values().flat_map(HashMap::values).map(VecDeque::len).sum();
    }
}

impl ShownShape {
    fn from_view(view: &LinesView<'_>) -> Self {
        let version = match view.version {
            Some(version) => ShownVersion::Known(version),
            None => ShownVersion::Lines(ContentHash::of_pieces(
                view.lines.iter().flat_map(|line| [line.as_bytes(), b"\n"]),
            )),
        };
        Self { version, first: view.first, last: view.first + view.lines.len() as u64 }
    }

    /// Whether this view shows all of another. Views identified by their lines must be equal.
    fn covers(&self, wanted: &Self) -> bool {
        match self.version {
            ShownVersion::Known(_) => {
                self.version == wanted.version && self.first <= wanted.first && wanted.last <= self.last
            }
            ShownVersion::Lines(_) => self == wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_reads_are_bounded_and_keep_the_latest() {
        let mut shown = ShownReads::default();
        let agent = AgentId::Main;
        let view = |path: &'static str, first| LinesView {
            path: Path::new(path),
            version: Some(ContentHash::hash(b"x")),
            first,
            lines: vec!["line"],
            total: 10_000,
            clipped: false,
            text: None,
        };
        for number in 0..3 * REMEMBERED as u64 {
            let viewer = ReadBy { agent: agent.clone(), call: format!("call-{number}").into() };
            let path = ["/a", "/b", "/c", "/d"][usize::try_from(number % 4).unwrap()];
            shown.add(&viewer, &view(path, number + 1));
            assert_eq!(shown.covering(&agent, &view(path, number + 1)), [viewer.call]);
            assert!(shown.count <= REMEMBERED);
        }
        assert_eq!(shown.views_of(&agent, Path::new("/a")).map(VecDeque::len), Some(REMEMBERED_OF_ONE));
        assert_eq!(shown.covering(&AgentId::from("other"), &view("/a", 1)), []);
        // The same view again takes no additional space.
        let count = shown.count;
        let viewer = ReadBy { agent: agent.clone(), call: "again".into() };
        for _ in 0..10 {
            shown.add(&viewer, &view("/e", 1));
        }
        assert_eq!(shown.count, count + 1);
        // With many files the oldest views are forgotten.
        for number in 0..2 * REMEMBERED {
            let path = PathBuf::from(format!("/many/{number}"));
            shown.add(&viewer, &LinesView { path: &path, ..view("/a", 1) });
            assert!(shown.count <= REMEMBERED);
        }
    }
}
