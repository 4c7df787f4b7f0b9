//! Nothing outlives us, even when we are killed with SIGKILL.
//!
//! A killed process cannot clean up, so somebody else has to: one small shell
//! per Haft process, told about every server before it starts. Its standard
//! input ends when we do, however that happens; then it ends what is left.
//! (The kernel's parent-death signal would only reach the direct child, not
//! what `npx` or a wrapper script started, and it fires when the *thread* that
//! started the child ends.)

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

/// Servers carry this variable with a value of their own, and the value as a
/// limit that limits nothing, so that processes that left their group are found
/// too.
pub(super) const MARKER: &str = "HAFT_MCP_SERVER";

static GUARDIAN: Mutex<Option<Guardian>> = Mutex::new(None);

struct Guardian {
    process: Child,
    /// `(mark, group)` of every server that runs.
    wards: Vec<(String, Option<u32>)>,
}

/// Before a server starts.
pub(super) fn expect(mark: &str) {
    tell(|wards| wards.push((mark.to_owned(), None)), format!("+ {mark} 0\n"));
}

/// After it has started.
pub(super) fn watch(mark: &str, group: u32) {
    let note = |wards: &mut Vec<(String, Option<u32>)>| {
        wards.iter_mut().filter(|ward| ward.0 == mark).for_each(|ward| ward.1 = Some(group));
    };
    tell(note, format!("+ {mark} {group}\n"));
}

/// After it has ended.
pub(super) fn forget(mark: &str) {
    tell(|wards| wards.retain(|ward| ward.0 != mark), format!("- {mark} 0\n"));
}

fn tell(note: impl FnOnce(&mut Vec<(String, Option<u32>)>), line: String) {
    let mut slot = GUARDIAN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut wards = slot.as_mut().map(|it| std::mem::take(&mut it.wards)).unwrap_or_default();
    note(&mut wards);
    let alive = slot.as_mut().is_some_and(|it| matches!(it.process.try_wait(), Ok(None)));
    if alive && slot.as_mut().is_some_and(|it| it.say(&line)) {
        if let Some(guardian) = slot.as_mut() {
            guardian.wards = wards;
        }
        return;
    }
    // Not there yet, or somebody ended it: a new one learns everything anew.
    // Without a shell the servers still get the end of their input.
    *slot = Guardian::start(wards).ok();
}

impl Guardian {
    fn start(wards: Vec<(String, Option<u32>)>) -> std::io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let process = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "haft-mcp-guardian"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()?;
        let mut guardian = Self { process, wards };
        let known: Vec<String> = guardian
            .wards
            .iter()
            .map(|(mark, group)| format!("+ {mark} {}\n", group.unwrap_or_default()))
            .collect();
        guardian.say(&known.concat());
        Ok(guardian)
    }

    fn say(&mut self, line: &str) -> bool {
        self.process.stdin.as_mut().is_some_and(|pipe| pipe.write_all(line.as_bytes()).is_ok())
    }
}

/// `+ mark group` and `- mark group` keep a list; the end of the input ends
/// everything on it: first politely, then by force, then whatever still carries
/// a mark.
const SCRIPT: &str = r#"
trap '' HUP INT TERM QUIT
wards=''
while read -r op mark group; do
  kept=''
  for ward in $wards; do
    case $ward in "$mark":*) ;; *) kept="$kept $ward" ;; esac
  done
  wards=$kept
  if [ "$op" = + ]; then wards="$wards $mark:$group"; fi
done
[ -n "$wards" ] || exit 0
each() {
  for ward in $wards; do
    group=${ward#*:}
    [ "$group" = 0 ] || kill "$1" -- "-$group" 2>/dev/null
  done
}
each -TERM
for _ in 1 2 3 4 5; do
  alive=''
  for ward in $wards; do
    group=${ward#*:}
    [ "$group" = 0 ] || ! kill -0 -- "-$group" 2>/dev/null || alive=1
  done
  [ -n "$alive" ] || break
  sleep 0.2 2>/dev/null || sleep 1
done
each -KILL
set --
for ward in $wards; do set -- "$@" -e "${ward%%:*}"; done
for process in /proc/[0-9]*; do
  if grep -qaF "$@" "$process/environ" "$process/limits" 2>/dev/null; then kill -KILL "${process#/proc/}" 2>/dev/null; fi
done
"#;
