//! Conformance suite for all engines.

mod clocks;
mod logs;
mod many;
mod queue;
mod tenants;
mod turns;

use crate::support::servers::{Kind, Rig};

/// Runs a list of cases on one engine.
macro_rules! on_every_engine {
    ($($group:ident),* $(,)?) => {
        on_every_engine!(@ sqlite, Sqlite, $($group),*);
        on_every_engine!(@ nats, Nats, $($group),*);
        on_every_engine!(@ postgres, Postgres, $($group),*);
    };
    (@ $engine:ident, $kind:ident, $($group:ident),*) => {
        mod $engine {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $group() {
                    if let Some(rig) = Rig::start(Kind::$kind) {
                        super::$group::all(&rig).await;
                    }
                }
            )*
        }
    };
}

on_every_engine!(queue, turns, logs, clocks, tenants, many);
