//! How the program is laid out in a release build for x86-64 Linux.
//!
//! - **At a fixed address** (`-no-pie`): a program that can be put anywhere has
//!   its tables of addresses written anew at every start, 690 pages and 1.8 ms of
//!   them. Heap, stack and libraries are still put where nobody can guess.
//!   `HAFT_PIE=1` makes one that can be put anywhere.
//! - **What a usual session runs lies together** (`hot-functions.txt`, made by
//!   `cargo xtask hot-functions`): the system maps sixteen pages around each one
//!   that is touched, and code that is spread over the whole file brings half of
//!   the file into memory. Names that no longer exist are passed over. Only the
//!   linker that comes with Rust knows how; with another one nothing is asked for.

use std::{path::PathBuf, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=hot-functions.txt");
    println!("cargo::rerun-if-env-changed=HAFT_PIE");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("PROFILE") != "release" || variable("TARGET") != TARGET {
        return;
    }
    // A program with its own C library is made for any address.
    let is_static = variable("CARGO_CFG_TARGET_FEATURE").contains("crt-static");
    if variable("HAFT_PIE").is_empty() && !is_static {
        println!("cargo::rustc-link-arg-bin=haft=-no-pie");
    }
    if links_with_rusts_own() {
        let order = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("hot-functions.txt");
        println!("cargo::rustc-link-arg-bin=haft=-Wl,--symbol-ordering-file={}", order.display());
        println!("cargo::rustc-link-arg-bin=haft=-Wl,--no-warn-symbol-ordering");
    }
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Whether the compiler links with the linker it brings: it has one, and no flag
/// or setting names another.
fn links_with_rusts_own() -> bool {
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if std::env::var_os("RUSTC_LINKER").is_some() || flags.contains("linker") || flags.contains("fuse-ld") {
        return false;
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).args(["--print", "sysroot"]).output();
    let Some(sysroot) = said.ok().and_then(|it| String::from_utf8(it.stdout).ok()) else { return false };
    let own = PathBuf::from(sysroot.trim()).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld");
    own.is_file()
}
