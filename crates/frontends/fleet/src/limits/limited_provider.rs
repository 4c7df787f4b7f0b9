//! A provider that enforces shared rate limits and budgets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use haft_model::{
    ModelError, ModelEvent, ModelInfo, ModelStream, Provider, ProviderFuture, Request, Retry, Speed,
};
use haft_types::Usage;
use tokio::sync::mpsc;

use super::{RateLimiter, RunBudget, budget::BudgetReservation, rate_limits::KeyGrant};

/// Output tokens reserved for a request.
const USUAL_OUTPUT: u64 = 2_000;

/// Enforces the shared limits for the requests of one run.
pub(crate) struct LimitedProvider {
    inner: Arc<dyn Provider>,
    keys: Arc<RateLimiter>,
    money: Arc<RunBudget>,
    news: mpsc::UnboundedSender<LimitWait>,
}

/// An event of the limits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LimitWait {
    /// Waiting for a rate limit, for about this long.
    Waits(Duration),
    /// No longer waiting.
    GoesOn,
    /// The wait is so long that the job should be returned to the queue.
    TooLong(Duration),
    /// A request was answered and cost this many US dollars.
    Spent(f64),
    /// A budget is nearly used up.
    Warns(String),
}

impl LimitedProvider {
    pub(crate) fn new(
        inner: Arc<dyn Provider>,
        keys: Arc<RateLimiter>,
        money: Arc<RunBudget>,
        news: mpsc::UnboundedSender<LimitWait>,
    ) -> Self {
        Self { inner, keys, money, news }
    }
}

/// A request in progress and its reservations.
struct RequestInFlight {
    keys: Arc<RateLimiter>,
    money: Arc<RunBudget>,
    news: mpsc::UnboundedSender<LimitWait>,
    key: String,
    price: Option<haft_model::TokenPrice>,
    grant: Option<KeyGrant>,
    aside: Option<BudgetReservation>,
    usage: Usage,
}

impl RequestInFlight {
    /// Settles the reservations with the actual usage, in the background.
    fn land(&mut self) {
        let (grant, aside) = (self.grant.take(), self.aside.take());
        let (keys, money, usage) = (Arc::clone(&self.keys), Arc::clone(&self.money), self.usage);
        let usd = self.price.as_ref().map_or(0.0, |price| price.of(&usage, Speed::Normal));
        self.news.send(LimitWait::Spent(usd)).ok();
        tokio::spawn(async move {
            if let Some(grant) = grant {
                let fresh = usage.input_tokens + usage.cache_creation_input_tokens;
                keys.settle(grant, (fresh, usage.output_tokens)).await;
            }
            if let Some(aside) = aside {
                money.settle(aside, usd).await;
            }
        });
    }
}

impl Drop for RequestInFlight {
    /// Settles the reservations of a cancelled or failed request.
    fn drop(&mut self) {
        if self.grant.is_some() || self.aside.is_some() {
            self.land();
        }
    }
}

impl Provider for LimitedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.inner.info(model)
    }

    fn stream(&self, request: Request) -> ModelStream {
        let inner = Arc::clone(&self.inner);
        let key = self.inner.name().to_owned();
        let price = self.inner.info(&request.model).price;
        let mut flight = RequestInFlight {
            keys: Arc::clone(&self.keys),
            money: Arc::clone(&self.money),
            news: self.news.clone(),
            key,
            price,
            grant: None,
            aside: None,
            usage: Usage::default(),
        };
        let begun = async move {
            match flight.depart(inner.as_ref(), &request).await {
                Ok(()) => inner.stream(request).map(move |event| flight.watch(event)).left_stream(),
                Err(error) => futures_util::stream::iter([Err(error)]).right_stream(),
            }
        };
        Box::pin(futures_util::stream::once(begun).flatten())
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        self.inner.count_tokens(request)
    }

    fn estimate_tokens(&self, request: &Request) -> u64 {
        self.inner.estimate_tokens(request)
    }

    fn prepare<'a>(&'a self, model: &'a str) -> ProviderFuture<'a, ()> {
        self.inner.prepare(model)
    }

    fn warm_up(&self) {
        self.inner.warm_up();
    }
}

impl RequestInFlight {
    /// Waits until the request may be sent.
    async fn depart(&mut self, provider: &dyn Provider, request: &Request) -> Result<(), ModelError> {
        let input = provider.estimate_tokens(request);
        let output = u64::from(request.max_tokens);
        let provider_name = provider.name();
        let has_waited = AtomicBool::new(false);
        let waits = |wait: Duration| {
            has_waited.store(true, Ordering::Relaxed);
            self.news.send(LimitWait::Waits(wait)).ok();
        };
        let drawn = self.keys.draw(&self.key, (provider_name, &request.model), (input, output), &waits).await;
        match drawn {
            Ok(grant) => self.grant = Some(grant),
            Err(wait) => {
                self.news.send(LimitWait::TooLong(wait)).ok();
                let message = format!("the key of {} is used up for {} s", self.key, wait.as_secs());
                return Err(ModelError::RateLimited { message, retry_after: Some(wait) });
            }
        }
        if has_waited.into_inner() {
            self.news.send(LimitWait::GoesOn).ok();
        }
        // Few answers are as long as their limit; the excess is settled afterwards.
        let most = Usage { input_tokens: input, output_tokens: output.min(USUAL_OUTPUT), ..Usage::default() };
        let usd = self.price.as_ref().map_or(0.0, |price| price.of(&most, Speed::Normal));
        match self.money.set_aside(usd).await {
            Ok(mut aside) => {
                for text in std::mem::take(&mut aside.warnings) {
                    self.news.send(LimitWait::Warns(text)).ok();
                }
                self.aside = Some(aside);
                Ok(())
            }
            Err(refused) => Err(ModelError::Config { message: refused.0 }),
        }
    }

    fn watch(&mut self, event: Result<ModelEvent, ModelError>) -> Result<ModelEvent, ModelError> {
        match &event {
            Ok(ModelEvent::Usage(usage)) => self.usage = *usage,
            Ok(ModelEvent::Stopped(_)) => self.land(),
            Ok(ModelEvent::Retrying(Retry { wait, reason, .. })) if is_rate_limit(reason) => {
                self.freeze(*wait)
            }
            Err(ModelError::RateLimited { retry_after: Some(wait), .. }) => self.freeze(*wait),
            _ => (),
        }
        event
    }

    fn freeze(&self, wait: Duration) {
        let (keys, key) = (Arc::clone(&self.keys), self.key.clone());
        tokio::spawn(async move { keys.freeze(&key, wait).await });
    }
}

fn is_rate_limit(reason: &str) -> bool {
    reason.contains("429") || reason.to_lowercase().contains("rate limit")
}
