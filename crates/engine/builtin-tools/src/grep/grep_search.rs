use std::{os::unix::ffi::OsStrExt, time::Duration};

use haft_search::{GrepQuery, GrepRun, SearchStop, WalkFilter};
use haft_tool::{ToolContext, ToolError};

use super::{Input, Output, result_text::GrepAnswer};
use crate::search_common::{OpenedTarget, Place};

/// One call, ready to run on a blocking thread.
pub(super) struct Search {
    pub(super) query: GrepQuery,
    pub(super) filter: WalkFilter,
    pub(super) place: Place,
    pub(super) cx: ToolContext<()>,
    pub(super) input: Input,
    pub(super) limit: Duration,
}

impl Search {
    pub(super) fn run(&self, stop: &SearchStop) -> Result<Output, ToolError> {
        let opened = self.place.open().map_err(|error| self.place.failure(&error))?;
        let is_file = matches!(opened, OpenedTarget::File(_));
        let grepped = match opened {
            OpenedTarget::Dir(root) => {
                self.grep(stop, &|rel| self.place.may_show(&self.cx, rel), |run| run.run(&root))
            }
            OpenedTarget::File(file) => {
                let name = self.place.asked.as_os_str().as_bytes();
                let searched = self.grep(stop, &|_| true, |run| run.run_file(name, file));
                searched.map_err(|error| self.place.failure(&error))?
            }
        };
        let answer = GrepAnswer {
            input: &self.input,
            cwd: &self.cx.cwd,
            dir: if is_file { None } else { Some(&self.place.asked) },
            limit: self.limit,
            grepped,
        };
        Ok(answer.output())
    }

    fn grep<T>(
        &self,
        stop: &SearchStop,
        may_show: &(dyn Fn(&[u8]) -> bool + Sync),
        run: impl FnOnce(&GrepRun<'_>) -> T,
    ) -> T {
        run(&GrepRun {
            query: &self.query,
            cwd: &self.cx.cwd,
            filter: &self.filter,
            limits: self.place.limits(),
            page: self.input.page(),
            may_show,
            stop,
        })
    }
}
