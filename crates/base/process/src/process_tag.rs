use rustix::{
    process::{Pid, Resource, Rlimit, getrlimit, prlimit},
    rand::{GetRandomFlags, getrandom},
};

use crate::procfs;

/// Environment variable that carries the call's cookie.
pub const MARK_VARIABLE: &str = "HAFT_CALL";

/// Identifies all processes of one call, hook or server, however they fork, detach or rename themselves.
/// It consists of two parts that every child inherits:
///
/// * an environment variable, which anyone can read and some programs drop;
/// * a hard limit for real-time CPU time (`RLIMIT_RTTIME`) of a huge random value that limits
///   nothing. No program changes it, and it is readable for other users' processes and for zombies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessTag {
    pub(crate) cookie: String,
    pub(crate) tag: Option<u64>,
}

/// Values from here on have no effect as a limit: 73,000 years.
const NO_LIMIT: u64 = 1 << 61;
/// Number of different tags.
const TAGS: u64 = 1 << 48;

impl ProcessTag {
    /// Creates a random tag for this call.
    pub(crate) fn new(session: &str, call: &str) -> Self {
        let [for_cookie, for_tag] = random();
        let call: String = call.chars().filter(|it| !it.is_control()).collect();
        Self { cookie: format!("{session}:{call}:{for_cookie:016x}"), tag: free_tag(for_tag) }
    }

    /// Value of [`MARK_VARIABLE`].
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Shell code with which bash sets the limit on itself before it runs anything. Old versions of bash
    /// cannot, so the limit is also set from outside.
    pub fn shell_text(&self) -> String {
        self.tag.map_or_else(String::new, |tag| format!("ulimit -R {tag} 2>/dev/null\n"))
    }

    /// Sets the limit on a process that was just started; its children inherit it. Errors are ignored:
    /// then only the cookie identifies the process.
    pub(crate) fn apply_to(&self, pid: Pid) {
        self.limit(Some(pid));
    }

    /// Sets the limit on the current process. Does not allocate.
    pub(crate) fn put_on_self(&self) {
        self.limit(None);
    }

    fn limit(&self, pid: Option<Pid>) {
        if let Some(tag) = self.tag {
            prlimit(pid, Resource::Rttime, Rlimit { current: Some(tag), maximum: Some(tag) }).ok();
        }
    }

    /// The unique part of the cookie.
    pub(crate) fn key(&self) -> &str {
        self.cookie.rsplit(':').next().unwrap_or(&self.cookie)
    }

    /// Whether the process carries this tag.
    pub(crate) fn is_on(&self, pid: i32) -> bool {
        self.tag.is_some_and(|tag| procfs::tag(pid) == Some(tag))
            || procfs::started_with(pid, MARK_VARIABLE).is_some_and(|cookie| cookie == self.cookie)
    }
}

/// A tag below our own hard limit, which may be the tag of an enclosing session. `None` if there is no
/// room.
fn free_tag(random: u64) -> Option<u64> {
    let ours = getrlimit(Resource::Rttime).maximum.unwrap_or(u64::MAX >> 1);
    let tag = ours.min(u64::MAX >> 1).checked_sub(1 + random % TAGS)?;
    (NO_LIMIT <= tag).then_some(tag)
}

fn random() -> [u64; 2] {
    let mut bytes = [0_u8; 16];
    if getrandom(&mut bytes, GetRandomFlags::empty()).is_err() {
        // Without a random source, the clock still makes tags distinct.
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        bytes = clock.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_ne_bytes();
    }
    let (first, second) = bytes.split_at(8);
    [first, second].map(|half| half.try_into().map_or(0, u64::from_ne_bytes))
}
