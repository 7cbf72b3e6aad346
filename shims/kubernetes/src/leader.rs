//! Leader election among replicas by a Lease.
//!
//! # Why code of our own
//! The protocol is short and easily got wrong. Two leaders at a time would place every pod twice.
//!
//! # Invariants
//! * A lease is taken and renewed only by replacing the version that was read. If two replicas try
//!   at once, one succeeds.
//! * Expiry is judged by the time since the lease was last seen to change, on a clock that runs
//!   while the machine sleeps. Clocks of other replicas are never compared. A vanished lease counts
//!   as a change.
//! * The holder stops acting before any other replica may take the lease. Its own time runs from
//!   before a renewal was sent, the time of others from after they read it; both last as long as
//!   the lease says.
//! * A request to take the lease is awaited before the lease is released, since it could take
//!   effect afterwards. A renewal is not awaited: it carries the earlier version, so it either
//!   fails or takes effect before the release. (If the lease is deleted at that moment, the
//!   renewal creates a new one, which has to expire.)

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::connect::OnceAMinute;
use crate::mirror::describe;

/// Pause between two reads of a standby replica.
const POLL: Duration = Duration::from_secs(1);
/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(4);

/// The clock that goes on while the machine sleeps.
#[cfg(not(target_vendor = "apple"))]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(target_vendor = "apple")]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// Returns the time since the machine was started, including the time it slept.
pub fn boot_time() -> Duration {
    match clock_gettime(CLOCK) {
        Ok(time) => time.into(),
        // The call cannot fail where the clock exists. Zero would let a lease never expire.
        Err(_) => Duration::MAX,
    }
}

/// The leader, as known to this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// Another replica; `None` before any is known.
    Other(Option<String>),
    /// This replica.
    Own,
    /// No longer this replica.
    Lost,
}

/// The lease, and the right of this replica to act.
#[derive(Debug)]
pub struct Leadership {
    api: Api<Lease>,
    name: String,
    identity: String,
    /// Duration of the lease in whole seconds, as it is written.
    duration: Duration,
    clock: Clock,
    /// Time until which this replica may act: milliseconds on `clock`.
    until: AtomicI64,
    lead: watch::Sender<Lead>,
    observed: Mutex<Observed>,
}

/// The lease as it was last read.
#[derive(Clone, Debug, Default)]
struct Observed {
    /// Resource version; empty if there was no lease.
    version: String,
    holder: String,
    lasts: Duration,
    expires: Duration,
}

/// A clock that runs while the machine sleeps.
pub type Clock = fn() -> Duration;

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl Leadership {
    /// Makes the leadership by the lease `name` in `namespace`, to be held as `identity`. Fractions
    /// of seconds of `duration` are dropped.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        duration: Duration,
    ) -> Arc<Self> {
        Self::with_clock(client, namespace, name, identity, duration, boot_time)
    }

    /// Same as [`Self::new`], with another clock than [`boot_time`].
    pub fn with_clock(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        duration: Duration,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(duration.as_secs().max(1)),
            clock,
            until: AtomicI64::new(i64::MIN),
            lead: watch::Sender::new(Lead::Other(None)),
            observed: Mutex::default(),
        })
    }

    /// Returns whether this replica may act now.
    pub fn may_act(&self) -> bool {
        self.may_act_for().is_some()
    }

    /// Returns how long this replica may act unless the lease is renewed. `None` if it may not.
    pub fn may_act_for(&self) -> Option<Duration> {
        let left = self.until.load(Ordering::SeqCst).saturating_sub(millis((self.clock)()));
        let left = u64::try_from(left).ok().filter(|left| *left > 0);
        left.map(Duration::from_millis)
    }

    /// Subscribes to changes of the leader.
    pub fn lead(&self) -> watch::Receiver<Lead> {
        self.lead.subscribe()
    }

    /// Takes the lease when it is free, renews it, and releases it at `stop`. Returns when the
    /// lease is lost.
    pub async fn hold(self: Arc<Self>, stop: CancellationToken) {
        let mut complaints = OnceAMinute::default();
        loop {
            let leads = *self.lead.borrow() == Lead::Own;
            let next = tokio::select! {
                next = self.try_once(&mut complaints) => next,
                // A slow renewal does not delay the release.
                () = stop.cancelled(), if leads => return self.release().await,
            };
            let Some(next) = next else { return };
            tokio::select! {
                () = stop.cancelled() => return self.release().await,
                () = sleep(next) => {}
            }
        }
    }

    /// Tries once to take or renew the lease. Returns the pause until the next attempt; `None` if
    /// the lease is lost.
    async fn try_once(&self, complaints: &mut OnceAMinute) -> Option<Duration> {
        let leads = *self.lead.borrow() == Lead::Own;
        let begun = (self.clock)();
        let outcome = timeout(REQUEST.min(self.duration / 4), self.attempt(leads)).await;
        let outcome = outcome.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        match outcome {
            Ok(Ok(())) => {
                // Slightly earlier than any other replica may assume.
                let until = begun.saturating_add(self.duration.mul_f64(0.95));
                self.until.store(millis(until), Ordering::SeqCst);
                if !leads {
                    info!(lease = self.name, identity = self.identity, "this replica schedules");
                    self.lead.send_replace(Lead::Own);
                }
                Some(self.duration / 4)
            }
            Ok(Err((holder, expires))) => {
                if leads {
                    warn!(lease = self.name, holder, "another replica schedules");
                    return self.lose();
                }
                let now = Lead::Other(Some(holder));
                self.lead.send_if_modified(|lead| {
                    let differs = *lead != now;
                    *lead = now;
                    differs
                });
                Some(POLL.min(expires + Duration::from_millis(20)))
            }
            Err(why) => {
                if leads && !self.may_act() {
                    warn!(lease = self.name, why, "the lease could not be kept");
                    return self.lose();
                }
                if complaints.is_due() {
                    warn!(lease = self.name, why, "the lease cannot be read or written");
                }
                Some(POLL)
            }
        }
    }

    fn lose(&self) -> Option<Duration> {
        self.until.store(i64::MIN, Ordering::SeqCst);
        self.lead.send_replace(Lead::Lost);
        None
    }

    /// Takes or renews the lease. If another replica holds it, returns its name and the time left.
    async fn attempt(&self, leads: bool) -> Result<Result<(), (String, Duration)>, String> {
        let found = self.api.get_opt(&self.name).await.map_err(|why| describe(&why))?;
        // The clock is read after the response, so that another replica's lease expires here no
        // earlier than for its holder.
        let now = (self.clock)();
        let Observed { holder, expires, .. } = self.observe(found.as_ref(), now);
        let is_own = holder == self.identity;
        let is_free = holder.is_empty() || expires <= now;
        if !is_own && (leads || !is_free) {
            return Ok(Err((holder, expires.saturating_sub(now))));
        }
        let options = PostParams::default();
        let written = if let Some(mut lease) = found {
            lease.spec = Some(self.spec(lease.spec.as_ref()));
            self.api.replace(&self.name, &options, &lease).await
        } else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(None)) };
            self.api.create(&options, &lease).await
        };
        match written {
            Ok(lease) => {
                self.observe(Some(&lease), (self.clock)());
                Ok(Ok(()))
            }
            // Another replica was faster. The next read finds which.
            Err(kube::Error::Api(status)) if status.code == 409 && !leads => {
                Ok(Err((holder, Duration::ZERO)))
            }
            Err(why) => Err(describe(&why)),
        }
    }

    /// Updates the last observed state with `found`, and returns it. A vanished lease has changed,
    /// and still belongs to the last holder.
    fn observe(&self, found: Option<&Lease>, now: Duration) -> Observed {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let version = found.and_then(|lease| lease.metadata.resource_version.clone());
        let version = version.unwrap_or_default();
        if observed.version != version {
            observed.version = version;
            if let Some(lease) = found {
                let LeaseSpec { holder_identity, lease_duration_seconds, .. } =
                    lease.spec.clone().unwrap_or_default();
                let seconds = lease_duration_seconds.and_then(|seconds| seconds.try_into().ok());
                observed.holder = holder_identity.unwrap_or_default();
                observed.lasts = seconds.map_or(self.duration, Duration::from_secs);
            }
            observed.expires = now.saturating_add(observed.lasts);
        }
        observed.clone()
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let before = before.cloned().unwrap_or_default();
        let is_own = before.holder_identity.as_deref() == Some(&self.identity);
        let seconds = i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds),
            acquire_time: if is_own { before.acquire_time } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(!is_own)),
            ..LeaseSpec::default()
        }
    }

    /// Releases the lease if this replica holds it, even without knowing so, for another to take at
    /// once.
    async fn release(&self) {
        // From here on nothing may begin, whatever the outcome.
        self.until.store(i64::MIN, Ordering::SeqCst);
        let release = async {
            loop {
                let Some(mut lease) = self.api.get_opt(&self.name).await? else { return Ok(false) };
                let spec = lease.spec.get_or_insert_default();
                if spec.holder_identity.as_deref() != Some(&self.identity) {
                    return Ok(false);
                }
                spec.holder_identity = Some(String::new());
                match self.api.replace(&self.name, &PostParams::default(), &lease).await {
                    Ok(_) => return Ok::<_, kube::Error>(true),
                    // A renewal in flight has taken effect first.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(why) => return Err(why),
                }
            }
        };
        match timeout(REQUEST, release).await {
            Ok(Ok(true)) => info!(lease = self.name, "the lease is given back"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                let why = describe(&error);
                warn!(lease = self.name, why, "the lease cannot be given back");
            }
            Err(_) => warn!(lease = self.name, "the lease cannot be given back in time"),
        }
    }
}
