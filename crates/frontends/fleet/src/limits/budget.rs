//! Budgets of tenant, batch and job. The estimated cost of a request is reserved in all of them before
//! it is sent.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_fleet_store::{CounterLimit, FleetName, FleetStore, LeaseKey, ReserveOutcome, RunId};

/// Budget counters are in millionths of a US dollar.
const MILLION: f64 = 1_000_000.0;

/// Number of attempts to reserve money, and the delay between them.
const TRIES: u32 = 4;
const AGAIN: Duration = Duration::from_millis(400);

/// Percentage of a budget from which a warning is given.
const WARNS_AT: i64 = 80;

/// Budgets that apply to one run.
pub(crate) struct RunBudget {
    store: FleetStore,
    key: LeaseKey,
    /// Counters from tenant to job, with their limits.
    purses: Vec<BudgetCounter>,
    refused: Mutex<Option<BudgetRefused>>,
    /// Counters for which a warning was given, as far as this run knows.
    warned: Mutex<Vec<String>>,
}

#[derive(Clone, Debug)]
struct BudgetCounter {
    key: String,
    what: String,
    most_usd: Option<f64>,
}

/// Why a request was not sent, worded for the user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct BudgetRefused(pub(crate) String);

/// Money reserved for a request.
#[derive(Debug)]
pub(crate) struct BudgetReservation {
    /// Millionths of a US dollar.
    amount: i64,
    /// Warnings about budgets that are nearly used up.
    pub(crate) warnings: Vec<String>,
}

impl RunBudget {
    pub(crate) fn new(
        store: &FleetStore,
        key: LeaseKey,
        tenant: (&str, Option<f64>),
        batch: Option<(&str, Option<f64>)>,
        job_usd: Option<f64>,
    ) -> Arc<Self> {
        let mut purses = vec![BudgetCounter {
            key: tenant_key(tenant.0),
            what: format!("the tenant {}", tenant.0),
            most_usd: tenant.1,
        }];
        purses.extend(batch.map(|(name, most_usd)| BudgetCounter {
            key: batch_key(tenant.0, name),
            what: format!("the batch {name}"),
            most_usd,
        }));
        purses.push(BudgetCounter {
            key: job_key(key.run.as_str()),
            what: String::from("the job"),
            most_usd: job_usd,
        });
        Arc::new(Self {
            store: store.clone(),
            key,
            purses,
            refused: Mutex::default(),
            warned: Mutex::default(),
        })
    }

    /// Reserves money in all budgets, or returns which budget is exhausted.
    pub(crate) async fn set_aside(&self, usd: f64) -> Result<BudgetReservation, BudgetRefused> {
        let amount = micros(usd);
        let of = self.purses.iter().map(|purse| CounterLimit {
            key: purse.key.clone(),
            at_most: purse.most_usd.map_or(i64::MAX, micros),
        });
        let of: Vec<CounterLimit> = of.collect();
        let mut tries = 0;
        let reserved = loop {
            let reserved = self.store.clockwork.reserve(amount, of.clone(), Some(self.key.clone())).await;
            tries += 1;
            match reserved {
                // A transient store error: retry as long as the lease is valid.
                Err(err) if err.is_passing() => tokio::time::sleep(AGAIN).await,
                // Reservations of others may exceed what they will actually use.
                Ok(ReserveOutcome::No { .. }) if tries < TRIES => tokio::time::sleep(AGAIN).await,
                answer => break answer,
            }
        };
        match reserved {
            Ok(ReserveOutcome::Yes(are)) => {
                Ok(BudgetReservation { amount, warnings: self.warnings(&are).await })
            }
            Ok(ReserveOutcome::No { key, is, at_most }) => {
                let purse = self.purses.iter().find(|it| it.key == key);
                let what = purse.map_or(key.as_str(), |it| it.what.as_str());
                let refused = BudgetRefused(format!(
                    "the budget of {what} is spent: ${:.2} of ${:.2}, and the next request may cost ${usd:.2}",
                    usd_of(is),
                    usd_of(at_most)
                ));
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused.clone());
                Err(refused)
            }
            // Nothing is spent without an acknowledgement of the store.
            Err(err) => Err(BudgetRefused(format!("money could not be set aside: {err}"))),
        }
    }

    /// Returns warnings about budgets that are nearly used up; each is given once across all runs.
    async fn warnings(&self, are: &[i64]) -> Vec<String> {
        let mut warnings = Vec::new();
        for (purse, is) in self.purses.iter().zip(are) {
            let Some(most) = purse.most_usd.map(micros) else { continue };
            if is.saturating_mul(100) < most.saturating_mul(WARNS_AT) {
                continue;
            }
            let is_known = {
                let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
                let is_known = warned.contains(&purse.key);
                if !is_known {
                    warned.push(purse.key.clone());
                }
                is_known
            };
            if is_known {
                continue;
            }
            // A raised budget gets a new warning.
            let mark = format!("usd-warned/{most}/{}", purse.key);
            let times = self.store.clockwork.count(mark, 1, Some(self.key.clone())).await;
            if times.is_ok_and(|times| times == 1) {
                warnings.push(format!(
                    "{} % of the budget of {} are spent or set aside: ${:.2} of ${:.2}",
                    is.saturating_mul(100) / most.max(1),
                    purse.what,
                    usd_of(*is),
                    usd_of(most)
                ));
            }
        }
        warnings
    }

    /// Corrects a reservation by the actual cost. Store errors are ignored; the counter then keeps the
    /// reserved amount.
    pub(crate) async fn settle(&self, set_aside: BudgetReservation, usd: f64) {
        let difference = micros(usd) - set_aside.amount;
        if difference == 0 {
            return;
        }
        for purse in &self.purses {
            self.store.clockwork.count(purse.key.clone(), difference, Some(self.key.clone())).await.ok();
        }
    }

    /// Returns the exhausted budget that stopped the run, if any.
    pub(crate) fn refused(&self) -> Option<BudgetRefused> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the counter key of a job's budget, else of the batch's, else of the tenant's.
pub(crate) fn money_of(tenant: &FleetName, batch: Option<&FleetName>, job: Option<&RunId>) -> String {
    match (job, batch) {
        (Some(job), _) => job_key(job.as_str()),
        (None, Some(batch)) => batch_key(tenant.as_str(), batch.as_str()),
        (None, None) => tenant_key(tenant.as_str()),
    }
}

fn job_key(job: &str) -> String {
    format!("usd/job/{job}")
}

fn tenant_key(tenant: &str) -> String {
    format!("usd/tenant/{tenant}")
}

fn batch_key(tenant: &str, batch: &str) -> String {
    format!("usd/batch/{tenant}/{batch}")
}

#[expect(clippy::cast_possible_truncation, reason = "no fleet spends nine billions")]
fn micros(usd: f64) -> i64 {
    (usd * MILLION).ceil() as i64
}

#[expect(clippy::cast_precision_loss, reason = "money is shown in cents")]
pub(crate) fn usd_of(micros: i64) -> f64 {
    micros as f64 / MILLION
}
