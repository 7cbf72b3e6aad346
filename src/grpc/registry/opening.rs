//! The opening of a session: checks, the claim in a cluster, the scheduler, and the slot.
//!
//! # Order
//! Whatever can refuse a registration is checked before the claim, since a claim ends the session
//! that the resource manager has, here or at another member. After the claim the configuration is
//! settled with that of the policy group. Then the slot is locked, and the claim is checked again
//! under this lock: of two registrations the later claim wins. A failure after the claim frees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use monoceros_actors::{
    Ignored, RegisterError, ResourceManagerCallback, ResourceManagerControl, check_rm_id,
};
use monoceros_proto::si::v1 as si;
use tokio::sync::RwLockWriteGuard;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::info;

use super::super::attach::{self, Attachment};
use super::super::end::{ClaimRefusal, RegistrationRefusal, StreamEnd};
use super::super::legacy::options::LegacyOptions;
use super::super::session::attempt::Attempt;
use super::super::session::terms::Terms;
use super::super::session::{Registrant, Session};
use super::ending::CLAIM_LOST;
use super::{Brought, Claimant, Origin, RegisterOutcome, Registered, Registry, Slot, request};
use crate::clock::now_ns;
use crate::extra_config::ExtraConfig;

/// An entry reserved for a session in preparation. Removed on drop if it has no session, and no other
/// registration has reserved it.
pub(super) struct Reservation<'r> {
    registry: &'r Registry,
    rm_id: &'r str,
}

/// The terms of a resource manager: the settings with its overrides.
pub(super) struct Overrides {
    pub(super) terms: Terms,
    pub(super) options: LegacyOptions,
    pub(super) callback: attach::CallbackOptions,
    /// Number of unusable values, for which the settings apply.
    pub(super) n_unusable: usize,
}

/// Permission to open a session, after all that could refuse it was checked.
struct Permit<'r> {
    /// The number of the session.
    number: u64,
    /// The configuration to settle with the policy group, in a cluster.
    brought: Option<Brought>,
    /// Whether the resource manager had no session. The claim may have ended one since.
    is_new: bool,
    _reservation: Option<Reservation<'r>>,
}

impl Registry {
    /// Opens a new session in place of the current one, if any.
    pub(super) async fn replace(
        self: &Arc<Self>,
        current: &mut RwLockWriteGuard<'_, Option<Arc<Session>>>,
        request: si::RegisterResourceManagerRequest,
        origin: Origin,
        deadline: Instant,
    ) -> Result<Registered, RegistrationRefusal> {
        let rm_id = request.rm_id.clone();
        let permit = self.permit(&rm_id, current.is_none(), &request, &origin, deadline).await?;
        self.open(current, request, origin, permit).await
    }

    /// Opens a new session after its claim in the cluster was won. The slot is locked only then:
    /// while the arbiter does not answer, the current session goes on.
    pub(super) async fn replace_by_claim(
        self: &Arc<Self>,
        slot: &Slot,
        mut request: si::RegisterResourceManagerRequest,
        origin: Origin,
        deadline: Instant,
    ) -> Result<Registered, RegistrationRefusal> {
        let rm_id = request.rm_id.clone();
        let is_new = {
            let current = timeout_at(deadline, slot.read()).await.map_err(|_| self.too_slow())?;
            check_attempt(current.as_ref(), &origin)?;
            current.is_none()
        };
        let permit = self.permit(&rm_id, is_new, &request, &origin, deadline).await?;
        // The claim is this member's now: no deadline ends the registration.
        self.settle_configuration(&mut request, &permit).await?;
        let mut current = slot.write().await;
        let registered = self.open(&mut current, request, origin, permit).await?;
        if let Some((shared, group)) = self.configurations().zip(self.group_of(&rm_id)) {
            shared.applied(&group);
        }
        Ok(registered)
    }

    /// Settles the configuration of a registration with that of its policy group, whose text may
    /// replace the one that was brought.
    async fn settle_configuration(
        &self,
        request: &mut si::RegisterResourceManagerRequest,
        permit: &Permit<'_>,
    ) -> Result<(), RegistrationRefusal> {
        let (Some(shared), Some(brought)) = (self.configurations(), &permit.brought) else {
            return Ok(());
        };
        let settled = timeout(self.registration.timeout, shared.settle(brought)).await;
        match settled.unwrap_or_else(|_| Err(self.too_slow())) {
            Ok(Some(text)) => request.config = text,
            Ok(None) => {}
            Err(refusal) => {
                if let Some(claims) = &self.claims {
                    claims.free(&request.rm_id, permit.number).await;
                }
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// The policy group of the current session.
    fn group_of(&self, rm_id: &str) -> Option<String> {
        Some(self.session(rm_id)?.registrant().policy_group.clone())
    }

    /// Checks a registration, and gives its session a number: in a cluster that of its claim.
    async fn permit<'r>(
        &'r self,
        rm_id: &'r str,
        is_new: bool,
        request: &si::RegisterResourceManagerRequest,
        origin: &Origin,
        deadline: Instant,
    ) -> Result<Permit<'r>, RegistrationRefusal> {
        let reservation = if is_new { Some(self.reserve(rm_id, &origin.caller)?) } else { None };
        let brought = if let Some(shared) = self.configurations() {
            let brought = self.check_brought(&*shared, request, origin);
            Some(timeout_at(deadline, brought).await.map_err(|_| self.too_slow())??)
        } else {
            self.check_policy_group(request)?;
            if request.config.is_empty() {
                let offer = self.offer_policy(request::policy_group(request));
                timeout_at(deadline, offer).await.map_err(|_| self.too_slow())??;
            }
            None
        };
        let number = if let Some(claims) = &self.claims {
            self.check_before_claim(request, brought.is_some(), deadline).await?;
            self.check_time(deadline)?;
            let claimed = claims.claim(claimant(request, origin)).await;
            if let Err(refusal) = &claimed {
                info!(rm = rm_id, %refusal, "no claim for the resource manager");
            }
            claimed?
        } else {
            // The registration takes effect from here on, even if the caller gives up.
            self.check_time(deadline)?;
            self.next_session.fetch_add(1, Ordering::Relaxed)
        };
        Ok(Permit { number, brought, is_new, _reservation: reservation })
    }

    /// Opens the session. The caller holds the slot.
    async fn open(
        self: &Arc<Self>,
        current: &mut RwLockWriteGuard<'_, Option<Arc<Session>>>,
        request: si::RegisterResourceManagerRequest,
        origin: Origin,
        permit: Permit<'_>,
    ) -> Result<Registered, RegistrationRefusal> {
        let number = permit.number;
        // A later registration may have won another claim, and have locked the slot first.
        self.check_claim(&request.rm_id, number)?;
        let Origin { instance, caller, attempt, .. } = origin;
        let registrant = registrant(&request, number);
        let rm_id = registrant.rm_id.clone();
        let Overrides { terms, options, callback, n_unusable } =
            self.overrides(&rm_id, &request.extra_config);
        let strict_enums = options.strict_enums;
        let by = instance.clone();
        let attachment = Attachment::new(callback, self.handle.callback_metrics());
        let session = Arc::new(Session::new(registrant, terms, options, instance, attachment));
        let (reply, control) = match self.register_session(request, &session).await {
            Ok(registered) => registered,
            Err(refusal) => {
                if let Some(claims) = &self.claims {
                    claims.free(&rm_id, number).await;
                }
                return Err(refusal);
            }
        };
        self.count_unusable(&session, n_unusable);
        control.set_strict_enums(strict_enums);
        session.begin(control);
        session.note_attempt(attempt);
        let earlier = current.replace(Arc::clone(&session));
        self.note_opened(&session, caller);
        self.tombstones().remove(&rm_id);
        if let Some(earlier) = earlier {
            earlier.stop(&StreamEnd::Superseded { by });
        }
        // Checked again now that the session can be found: a claim that is lost later ends it there.
        if let Err(refusal) = self.check_claim(&rm_id, number) {
            self.remove(current, &session, CLAIM_LOST, &StreamEnd::MemberFenced).await;
            return Err(refusal);
        }
        tokio::spawn(Arc::clone(self).apply_timeouts(session));
        let outcome = if permit.is_new { RegisterOutcome::New } else { RegisterOutcome::Replaced };
        info!(rm = %rm_id, session = number, outcome = outcome.name(), "resource manager registered");
        Ok(Registered { reply, session: number, outcome, taken: None })
    }

    /// Fails in a cluster if the claim with this number is no longer held, or the lease is over. The
    /// claims end with the lease only when the member's task has run, so the clock counts, too.
    fn check_claim(&self, rm_id: &str, number: u64) -> Result<(), RegistrationRefusal> {
        let Some(claims) = &self.claims else { return Ok(()) };
        if !claims.holds(rm_id, number) {
            return Err(ClaimRefusal::Contended.into());
        }
        if !claims.may_decide() {
            return Err(ClaimRefusal::Fenced.into());
        }
        Ok(())
    }

    /// Registers the session with the scheduler. No request can arrive for the session before the
    /// slot is unlocked.
    async fn register_session(
        &self,
        request: si::RegisterResourceManagerRequest,
        session: &Arc<Session>,
    ) -> Result<(si::RegisterResourceManagerResponse, ResourceManagerControl), RegistrationRefusal>
    {
        let callback: Arc<dyn ResourceManagerCallback> = Arc::clone(session) as _;
        let reply = self.handle.register_resource_manager(request, callback).await?;
        let control = self.handle.control(session.rm_id()).await;
        Ok((reply, control.map_err(|_| RegistrationRefusal::Internal)?))
    }

    /// Checks in a cluster what the scheduler would refuse after the claim. The text may be checked
    /// already.
    async fn check_before_claim(
        &self,
        request: &si::RegisterResourceManagerRequest,
        text_is_checked: bool,
        deadline: Instant,
    ) -> Result<(), RegistrationRefusal> {
        if self.claims.is_none() {
            return Ok(());
        }
        check_rm_id(&request.rm_id)?;
        if text_is_checked || request.config.is_empty() {
            return Ok(());
        }
        let checked = self.handle.check_configuration(request.config.clone());
        match timeout_at(deadline, checked).await.map_err(|_| self.too_slow())? {
            Ok(checked) => Ok(checked.map(drop).map_err(RegisterError::from)?),
            // Too many texts are being checked: the scheduler checks this one in its turn.
            Err(_) => Ok(()),
        }
    }

    /// The terms of a resource manager with this extra configuration.
    pub(super) fn overrides(&self, rm_id: &str, extra: &BTreeMap<String, String>) -> Overrides {
        let mut extra = ExtraConfig::new(rm_id, extra);
        let terms = self.terms.with(&mut extra);
        let options = LegacyOptions::new(&self.session, &mut extra);
        let callback = self.callback.with(&mut extra);
        Overrides { terms, options, callback, n_unusable: extra.n_unusable() }
    }

    /// Counts unusable values as ignored: the reply to a registration has no field for them.
    pub(super) fn count_unusable(&self, session: &Session, n: usize) {
        for _ in 0..n {
            let reason = Ignored::ExtraConfig;
            self.handle.count_ignored(session.rm_id(), session.dialect(), reason);
        }
    }

    /// Reserves an entry for a new session of `rm_id`. The limit applies to each caller separately.
    /// An entry that another registration has made stays, with its session if it has one.
    pub(super) fn reserve<'r>(
        &'r self,
        rm_id: &'r str,
        caller: &str,
    ) -> Result<Reservation<'r>, RegistrationRefusal> {
        let mut current = self.current();
        let others = current.iter().filter(|(other, _)| *other != rm_id);
        let of_caller = others.filter(|(_, current)| current.caller == caller).count();
        if of_caller >= self.max_sessions {
            return Err(RegistrationRefusal::TooManySessions(self.max_sessions));
        }
        let entry = current.entry(rm_id.to_owned()).or_default();
        if entry.session.is_none() {
            caller.clone_into(&mut entry.caller);
        }
        entry.n_reserved += 1;
        Ok(Reservation { registry: self, rm_id })
    }

    /// Puts a session into the entry of its resource manager.
    fn note_opened(&self, session: &Arc<Session>, caller: String) {
        let mut current = self.current();
        let entry = current.entry(session.rm_id().to_owned()).or_default();
        entry.caller = caller;
        entry.session = Some(Arc::clone(session));
    }
}

/// Refuses a registration of an earlier attempt than the session has seen.
pub(super) fn check_attempt(
    current: Option<&Arc<Session>>,
    origin: &Origin,
) -> Result<(), RegistrationRefusal> {
    if current.is_some_and(|session| session.is_from_earlier_attempt(origin.attempt.as_ref())) {
        return Err(RegistrationRefusal::LeftOver);
    }
    Ok(())
}

/// The resource manager as its registration describes it.
fn registrant(request: &si::RegisterResourceManagerRequest, number: u64) -> Registrant {
    Registrant {
        rm_id: request.rm_id.clone(),
        number,
        version: request.version.clone(),
        policy_group: request::policy_group(request).to_owned(),
        config: request.config.clone(),
        build_info: request.build_info.clone(),
        registered_at_ns: now_ns(),
    }
}

/// The process that registers, for the claim.
fn claimant(request: &si::RegisterResourceManagerRequest, origin: &Origin) -> Claimant {
    Claimant {
        rm_id: request.rm_id.clone(),
        caller: origin.caller.clone(),
        instance: origin.instance.clone(),
        policy_group: request::policy_group(request).to_owned(),
        proof: origin.proof.clone(),
        attempt: origin.attempt.as_ref().map(Attempt::number),
        shown: origin.shown,
        suspects: origin.suspects.clone(),
        call: origin.call.clone(),
        is_forwarded: origin.is_forwarded,
        abandoned: origin.abandoned.clone(),
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut current = self.registry.current();
        let Some(entry) = current.get_mut(self.rm_id) else { return };
        entry.n_reserved -= 1;
        if entry.session.is_none() && entry.n_reserved == 0 {
            current.remove(self.rm_id);
        }
    }
}
