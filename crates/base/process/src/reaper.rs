//! The guardian process: ends guarded trees even if we are killed with SIGKILL.
//!
//! One small shell per Haft process learns about every guarded tree before it starts. Its standard input
//! closes when we exit, for whatever reason; then it ends the trees that are left. (The kernel's
//! parent-death signal would only reach the direct child, not what `npx` or a wrapper script started,
//! and it fires when the *thread* that started the child exits.)

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::process::Pid;

use crate::ProcessTag;

static GUARDIAN: Mutex<Option<Reaper>> = Mutex::new(None);

struct Reaper {
    process: Child,
    wards: Vec<ReapedTree>,
}

/// A guarded tree.
struct ReapedTree {
    mark: ProcessTag,
    group: Option<Pid>,
}

impl ReapedTree {
    /// A line for the guardian: cookie key, limit value and process group. None of them contains a space
    /// or a comma.
    fn line(mark: &ProcessTag, group: Option<Pid>) -> String {
        let key = mark.key();
        let tag = mark.tag.map_or_else(|| key.to_owned(), |tag| tag.to_string());
        format!("+ {key} {tag} {}\n", group.map_or(0, Pid::as_raw_pid))
    }
}

/// Called before a tree starts.
pub(crate) fn expect(mark: &ProcessTag) {
    tell(|wards| wards.push(ReapedTree { mark: mark.clone(), group: None }), &ReapedTree::line(mark, None));
}

/// Called after a tree has started.
pub(crate) fn watch(mark: &ProcessTag, group: Pid) {
    let note = |wards: &mut Vec<ReapedTree>| {
        wards.iter_mut().filter(|ward| ward.mark == *mark).for_each(|ward| ward.group = Some(group));
    };
    tell(note, &ReapedTree::line(mark, Some(group)));
}

/// Called after a tree has ended.
pub(crate) fn forget(mark: &ProcessTag) {
    tell(|wards| wards.retain(|ward| ward.mark != *mark), &format!("- {} 0 0\n", mark.key()));
}

fn tell(note: impl FnOnce(&mut Vec<ReapedTree>), line: &str) {
    let mut slot = GUARDIAN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut wards = slot.as_mut().map(|it| std::mem::take(&mut it.wards)).unwrap_or_default();
    note(&mut wards);
    let alive = slot.as_mut().is_some_and(|it| matches!(it.process.try_wait(), Ok(None)));
    if alive && slot.as_mut().is_some_and(|it| it.say(line)) {
        if let Some(guardian) = slot.as_mut() {
            guardian.wards = wards;
        }
        return;
    }
    // No guardian yet, or it was killed: start one and send it the whole list. If no shell can be
    // started, guarded servers still get end-of-file on their input when we exit.
    *slot = Reaper::start(wards).ok();
}

impl Reaper {
    fn start(wards: Vec<ReapedTree>) -> std::io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let process = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "haft-guardian"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()?;
        let mut guardian = Self { process, wards };
        let known: String =
            guardian.wards.iter().map(|ward| ReapedTree::line(&ward.mark, ward.group)).collect();
        guardian.say(&known);
        Ok(guardian)
    }

    fn say(&mut self, line: &str) -> bool {
        self.process.stdin.as_mut().is_some_and(|pipe| pipe.write_all(line.as_bytes()).is_ok())
    }
}

/// `+ key tag group` adds and `- key 0 0` removes an entry. At end of input the script ends every entry:
/// first SIGTERM, then SIGKILL to the group, then SIGKILL to whatever still carries a tag.
const SCRIPT: &str = r#"
trap '' HUP INT TERM QUIT
wards=''
while read -r op key tag group; do
  kept=''
  for ward in $wards; do
    case $ward in "$key",*) ;; *) kept="$kept $ward" ;; esac
  done
  wards=$kept
  if [ "$op" = + ]; then wards="$wards $key,$tag,$group"; fi
done
[ -n "$wards" ] || exit 0
each() {
  for ward in $wards; do
    group=${ward##*,}
    [ "$group" = 0 ] || kill "$1" -- "-$group" 2>/dev/null
  done
}
each -TERM
for _ in 1 2 3 4 5; do
  alive=''
  for ward in $wards; do
    group=${ward##*,}
    [ "$group" = 0 ] || ! kill -0 -- "-$group" 2>/dev/null || alive=1
  done
  [ -n "$alive" ] || break
  sleep 0.2 2>/dev/null || sleep 1
done
each -KILL
set --
for ward in $wards; do
  marks=${ward%,*}
  set -- "$@" -e "${marks%%,*}" -e "${marks##*,}"
done
for _ in 1 2 3 4 5 6 7 8; do
  found=''
  for process in /proc/[0-9]*; do
    if grep -qaF "$@" "$process/environ" "$process/limits" 2>/dev/null; then
      kill -KILL "${process#/proc/}" 2>/dev/null && found=1
    fi
  done
  [ -n "$found" ] || break
done
"#;
