//! Which of several replicas schedules: the one that holds a Lease.
//!
//! # Why code of our own
//! It is short, and what it must not do is easily got wrong: two leaders at a time would place everything
//! twice.
//!
//! # Invariants
//! * A lease is taken and renewed only by replacing what was read, with its version: of two who try, one
//!   does it.
//! * Whether it has expired is judged by the time since it was last seen to change, on a clock that goes on
//!   while the machine sleeps; clocks of others are never compared with. To vanish is a change like others.
//! * Whoever holds it stops to act before any other may take it: its own time runs from before a renewal
//!   was sent, that of others from after they have read it, and both last as long as the lease says.
//! * What was sent to take the lease is waited for before it is given back: else it could take it afterwards.
//!   A renewal is not: it has the version of before, so that it comes too late, or before what gives back.
//!   (Where somebody removes the lease at that very moment it makes a new one, which has to expire.)

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
use crate::mirror::in_words;

/// A replica that stands by looks this often.
const LOOK: Duration = Duration::from_secs(1);
/// A request that takes longer counts as lost.
const REQUEST: Duration = Duration::from_secs(4);

/// Time since the machine was started, also while it slept.
pub fn boot_time() -> Duration {
    match clock_gettime(ClockId::CLOCK_BOOTTIME) {
        Ok(time) => time.into(),
        // It cannot fail where the clock exists; and zero would let a lease never expire.
        Err(_) => Duration::MAX,
    }
}

/// Who leads, as this replica knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// Somebody else, or nobody yet.
    Other(Option<String>),
    /// This one.
    Own,
    /// Not this one any more.
    Lost,
}

/// The lease, and whether this replica may act.
#[derive(Debug)]
pub struct Leadership {
    api: Api<Lease>,
    name: String,
    identity: String,
    /// In whole seconds, as it is written down.
    duration: Duration,
    clock: Clock,
    /// On that clock, in milliseconds: until when this replica may act.
    until: AtomicI64,
    lead: watch::Sender<Lead>,
    observed: Mutex<Observed>,
}

/// What was read last.
#[derive(Clone, Debug, Default)]
struct Observed {
    /// Empty where there was no lease.
    version: String,
    holder: String,
    lasts: Duration,
    expires: Duration,
}

/// A clock that goes on while the machine sleeps.
pub type Clock = fn() -> Duration;

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

impl Leadership {
    /// The lease `name` in `namespace`, to be held as `identity` for `duration` at a time; of that the
    /// whole seconds count.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        duration: Duration,
    ) -> Arc<Self> {
        Self::with_clock(client, namespace, name, identity, duration, boot_time)
    }

    /// The same by another clock than [`boot_time`].
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

    /// Whether this replica may act at this very moment.
    pub fn may_act(&self) -> bool {
        self.may_act_for().is_some()
    }

    /// For how long this replica may act from this moment on, unless its lease is renewed; none where it may
    /// not.
    pub fn may_act_for(&self) -> Option<Duration> {
        let left = self.until.load(Ordering::SeqCst).saturating_sub(millis((self.clock)()));
        let left = u64::try_from(left).ok().filter(|left| *left > 0);
        left.map(Duration::from_millis)
    }

    /// Who leads, and each change of that.
    pub fn lead(&self) -> watch::Receiver<Lead> {
        self.lead.subscribe()
    }

    /// Takes the lease when it is free, and keeps it; gives it back at `stop`. Ends when it is lost.
    pub async fn hold(self: Arc<Self>, stop: CancellationToken) {
        let mut complaints = OnceAMinute::default();
        loop {
            let leads = *self.lead.borrow() == Lead::Own;
            let next = tokio::select! {
                next = self.look(&mut complaints) => next,
                // Nobody waits for a renewal that takes long.
                () = stop.cancelled(), if leads => return self.give_back().await,
            };
            let Some(next) = next else { return };
            tokio::select! {
                () = stop.cancelled() => return self.give_back().await,
                () = sleep(next) => {}
            }
        }
    }

    /// One attempt to take or keep it. Returns when to look again; nothing when it is lost.
    async fn look(&self, complaints: &mut OnceAMinute) -> Option<Duration> {
        let leads = *self.lead.borrow() == Lead::Own;
        let begun = (self.clock)();
        let outcome = timeout(REQUEST.min(self.duration / 4), self.attempt(leads)).await;
        let outcome = outcome.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        match outcome {
            Ok(Ok(())) => {
                // A little earlier than anybody else may think so.
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
                self.lead.send_if_modified(|lead| {
                    let now = Lead::Other(Some(holder.clone()));
                    let differs = *lead != now;
                    *lead = now;
                    differs
                });
                Some(LOOK.min(expires + Duration::from_millis(20)))
            }
            Err(why) => {
                if leads && !self.may_act() {
                    warn!(lease = self.name, why, "the lease could not be kept");
                    return self.lose();
                }
                if complaints.is_due() {
                    warn!(lease = self.name, why, "the lease cannot be read or written");
                }
                Some(LOOK)
            }
        }
    }

    fn lose(&self) -> Option<Duration> {
        self.until.store(i64::MIN, Ordering::SeqCst);
        self.lead.send_replace(Lead::Lost);
        None
    }

    /// Takes or renews it; or says who has it, and for how long still.
    async fn attempt(&self, leads: bool) -> Result<Result<(), (String, Duration)>, String> {
        let found = self.api.get_opt(&self.name).await.map_err(|why| in_words(&why))?;
        // What was read had not changed again when it was answered.
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
            // Somebody was faster; who, the next look tells.
            Err(kube::Error::Api(status)) if status.code == 409 && !leads => {
                Ok(Err((holder, Duration::ZERO)))
            }
            Err(why) => Err(in_words(&why)),
        }
    }

    /// Who has it, and until when, now that this was found. One that is not there any more has changed,
    /// and is still of whoever had it.
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

    /// Lets another replica take it at once, if this one has it, whether it knows that or not.
    async fn give_back(&self) {
        // Nothing is begun from here on, whatever comes of it.
        self.until.store(i64::MIN, Ordering::SeqCst);
        let give = async {
            loop {
                let Some(mut lease) = self.api.get_opt(&self.name).await? else { return Ok(false) };
                let spec = lease.spec.get_or_insert_default();
                if spec.holder_identity.as_deref() != Some(&self.identity) {
                    return Ok(false);
                }
                spec.holder_identity = Some(String::new());
                match self.api.replace(&self.name, &PostParams::default(), &lease).await {
                    Ok(_) => return Ok::<_, kube::Error>(true),
                    // A renewal that was on its way has come in between.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(why) => return Err(why),
                }
            }
        };
        match timeout(REQUEST, give).await {
            Ok(Ok(true)) => info!(lease = self.name, "the lease is given back"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                let why = in_words(&error);
                warn!(lease = self.name, why, "the lease cannot be given back");
            }
            Err(_) => warn!(lease = self.name, "the lease cannot be given back in time"),
        }
    }
}
