//! The helper process, which restricts itself and then executes the command. It is a separate process
//! because these steps are not allowed between fork and exec in a program with threads.
//!
//! **Invariant:** it executes the command only after its whole request was carried out; otherwise it reports the error and exits.

mod capabilities;
mod landlock;
mod mounts;
mod namespaces;
mod net_namespace;
mod probe;
pub(crate) mod seccomp;
mod sys;

use std::{
    ffi::OsString,
    fs::File,
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::Command,
};

use crate::helper_request::{HELPER, HelperMechanism, Order};

pub(crate) use self::{
    mounts::{attach as attach_mount, copy_of as copy_of_mount},
    sys::{leave as leave_namespaces, read_only_mount},
};

/// Acts as the sandbox helper, and does not return, if this process was started as one. Call it first in
/// `main`, before any thread exists.
pub fn run_if_helper() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|word| word != HELPER) {
        return;
    }
    let task = arguments.next().unwrap_or_default();
    let ended = match task.to_str() {
        Some("exec") => exec(arguments.collect()),
        Some("net") => net_namespace::serve(),
        Some("probe") => probe::tell(),
        _ => Err(String::from("the sandbox helper is not meant to be called by hand")),
    };
    if let Err(why) = ended {
        writeln!(std::io::stderr(), "haft sandbox: {why}").ok();
    }
    std::process::exit(125)
}

fn exec(arguments: Vec<OsString>) -> Result<(), String> {
    let mut arguments = arguments.into_iter();
    let number = arguments.next().and_then(|word| word.to_str()?.parse().ok());
    let order = read_order(number.ok_or("no order")?)?;
    let built = build(&order).map(|()| {
        let program = arguments.next().unwrap_or_default();
        let name = arguments.next().unwrap_or_default();
        // `exec` returns only on failure.
        let failed = Command::new(&program).arg0(name).args(arguments).exec();
        format!("start {}: {failed}", program.to_string_lossy())
    });
    let (Ok(why) | Err(why)) = built;
    report(order.status, &why);
    Err(why)
}

fn read_order(number: i32) -> Result<Order, String> {
    let mut text = String::new();
    let mut file = File::from(sys::inherited(number));
    file.read_to_string(&mut text).map_err(|err| format!("read the order: {err}"))?;
    serde_json::from_str(&text).map_err(|err| format!("read the order: {err}"))
}

fn build(order: &Order) -> Result<(), String> {
    let cwd = std::env::current_dir().map_err(|err| format!("find the directory: {err}"))?;
    if order.walls == HelperMechanism::Namespaces {
        namespaces::enter(order.network).map_err(|err| format!("enter namespaces: {err}"))?;
        mounts::build(order)?;
    }
    // Re-enter the working directory, which may now be on another mount.
    std::env::set_current_dir(&cwd).map_err(|err| format!("go to {}: {err}", cwd.display()))?;
    capabilities::no_new_privileges()?;
    if 0 < sys::landlock_version() {
        landlock::apply(order)?;
    } else if order.walls == HelperMechanism::Landlock {
        return Err(String::from("the kernel has no Landlock"));
    }
    capabilities::drop_all()?;
    seccomp::apply(order)?;
    capabilities::verify()
}

/// Reports a failure on the status descriptor, if there is one.
fn report(status: i32, why: &str) {
    if 2 < status {
        let mut pipe = File::from(sys::inherited(status));
        pipe.write_all(format!("!{why}").as_bytes()).ok();
    }
}
