//! What a job needs before it starts: machine resources and other jobs.

use serde::{Deserialize, Serialize};

use crate::RunId;

/// Resources a job reserves, or a worker's machine has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceRequest {
    /// CPU cores.
    #[serde(skip_serializing_if = "is_nothing")]
    pub cpu: u64,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "is_nothing")]
    pub mem: u64,
    /// GPUs.
    #[serde(skip_serializing_if = "is_nothing")]
    pub gpu: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_nothing(it: &u64) -> bool {
    *it == 0
}

impl ResourceRequest {
    /// Whether nothing is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this fits into `there`.
    #[must_use]
    pub fn fits(self, there: Self) -> bool {
        self.cpu <= there.cpu && self.mem <= there.mem && self.gpu <= there.gpu
    }

    /// Returns the remainder, at least 0.
    #[must_use]
    pub fn without(self, taken: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(taken.cpu),
            mem: self.mem.saturating_sub(taken.mem),
            gpu: self.gpu.saturating_sub(taken.gpu),
        }
    }

    /// Formats for display: "4 cpu, 8192 MB, 1 gpu".
    #[must_use]
    pub fn in_words(&self) -> String {
        let parts = [(self.cpu, "cpu"), (self.mem >> 20, "MB"), (self.gpu, "gpu")];
        let parts = parts.iter().filter(|it| it.0 != 0).map(|(number, what)| format!("{number} {what}"));
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// What a job needs before it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequirements {
    /// Free resources on the worker's machine.
    #[serde(default, skip_serializing_if = "ResourceRequest::is_empty")]
    pub machine: ResourceRequest,
    /// Jobs that must have succeeded. If one of them ends otherwise, this job is cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunId>,
}

impl JobRequirements {
    /// Whether it needs only a free slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
