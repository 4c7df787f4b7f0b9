//! What a job needs before it starts: a machine that has enough, and other jobs.

use serde::{Deserialize, Serialize};

use crate::RunId;

/// What of a machine a job wants for itself, and what a worker's machine has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceRequest {
    /// Processors.
    #[serde(skip_serializing_if = "is_nothing")]
    pub cpu: u64,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "is_nothing")]
    pub mem: u64,
    /// Graphics processors.
    #[serde(skip_serializing_if = "is_nothing")]
    pub gpu: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_nothing(it: &u64) -> bool {
    *it == 0
}

impl ResourceRequest {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this fits into what there is.
    #[must_use]
    pub fn fits(self, there: Self) -> bool {
        self.cpu <= there.cpu && self.mem <= there.mem && self.gpu <= there.gpu
    }

    /// What is left of it.
    #[must_use]
    pub fn without(self, taken: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(taken.cpu),
            mem: self.mem.saturating_sub(taken.mem),
            gpu: self.gpu.saturating_sub(taken.gpu),
        }
    }

    /// For people: "4 cpu, 8192 MB, 1 gpu".
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
    /// A worker with so much of its machine left.
    #[serde(default, skip_serializing_if = "ResourceRequest::is_empty")]
    pub machine: ResourceRequest,
    /// These ended well. When one of them ends otherwise, the job is cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunId>,
}

impl JobRequirements {
    /// Whether it needs nothing but a slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
