use rustix::{
    process::{Pid, Resource, Rlimit, getrlimit, prlimit},
    rand::{GetRandomFlags, getrandom},
};

use crate::procfs;

/// The variable that tells a process which call, hook or server it belongs to.
pub const MARK_VARIABLE: &str = "HAFT_CALL";

/// By what the processes of one call, hook or server are known, however they
/// fork, detach or rename themselves. Two things, both inherited by every child:
///
/// * a variable in the environment, which anyone can read and some programs
///   drop;
/// * a hard limit for real-time CPU time, of an absurdly large random value
///   that limits nothing: no program drops it, and it can be read of processes
///   of other users and of dead ones.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessTag {
    pub(crate) cookie: String,
    pub(crate) tag: Option<u64>,
}

/// Limits from here on limit nothing: 73,000 years.
const NO_LIMIT: u64 = 1 << 61;
/// How many different tags there are.
const TAGS: u64 = 1 << 48;

impl ProcessTag {
    /// A new one for this call.
    pub(crate) fn new(session: &str, call: &str) -> Self {
        let [for_cookie, for_tag] = random();
        let call: String = call.chars().filter(|it| !it.is_control()).collect();
        Self { cookie: format!("{session}:{call}:{for_cookie:016x}"), tag: free_tag(for_tag) }
    }

    /// What goes into the environment under [`MARK_VARIABLE`].
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// What makes bash put the tag on itself before it starts anything. Old
    /// ones cannot, so that we try it from outside too.
    pub fn shell_text(&self) -> String {
        self.tag.map_or_else(String::new, |tag| format!("ulimit -R {tag} 2>/dev/null\n"))
    }

    /// Puts the tag on a process that was just started; its children inherit
    /// it. Where the system does not let us, the cookie has to do.
    pub(crate) fn put_on(&self, pid: Pid) {
        self.limit(Some(pid));
    }

    /// The same for the process we are. Allocates nothing.
    pub(crate) fn put_on_self(&self) {
        self.limit(None);
    }

    fn limit(&self, pid: Option<Pid>) {
        if let Some(tag) = self.tag {
            prlimit(pid, Resource::Rttime, Rlimit { current: Some(tag), maximum: Some(tag) }).ok();
        }
    }

    /// The part of the cookie that no other mark has.
    pub(crate) fn key(&self) -> &str {
        self.cookie.rsplit(':').next().unwrap_or(&self.cookie)
    }

    /// Whether a process carries it.
    pub(crate) fn is_on(&self, pid: i32) -> bool {
        self.tag.is_some_and(|tag| procfs::tag(pid) == Some(tag))
            || procfs::started_with(pid, MARK_VARIABLE).is_some_and(|cookie| cookie == self.cookie)
    }
}

/// Below the limit we have ourselves, which may be the tag of a session we run
/// in.
fn free_tag(random: u64) -> Option<u64> {
    let ours = getrlimit(Resource::Rttime).maximum.unwrap_or(u64::MAX >> 1);
    let tag = ours.min(u64::MAX >> 1).checked_sub(1 + random % TAGS)?;
    (NO_LIMIT <= tag).then_some(tag)
}

fn random() -> [u64; 2] {
    let mut bytes = [0_u8; 16];
    if getrandom(&mut bytes, GetRandomFlags::empty()).is_err() {
        // Without a source of randomness the clock still tells calls apart.
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        bytes = clock.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_ne_bytes();
    }
    let (first, second) = bytes.split_at(8);
    [first, second].map(|half| half.try_into().map_or(0, u64::from_ne_bytes))
}
