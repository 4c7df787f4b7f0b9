//! `haft permissions test | explain | list`.

use crate::{
    args::{Options, PermissionsCommand},
    output::Ended,
};

pub(crate) fn run(_command: PermissionsCommand, _options: &Options) -> Ended {
    Err(String::from("not wired").into())
}
