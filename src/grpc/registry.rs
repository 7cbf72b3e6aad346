//! Which session is the current one of each resource manager.
//!
//! # Invariants
//! * A request is handed to the scheduler only while its session is the current one: whoever
//!   forwards holds the slot's lock for reading, a registration holds it for writing from before the
//!   scheduler hears of it until the new session stands. Hence a request from before a
//!   re-registration can never reach what comes after it.
//! * Registrations of one id are served in the order in which they came (tokio's lock is fair);
//!   those of different ids do not wait for each other.
//! * A registration that fails leaves the current session as it was.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use monoceros_actors::{RegisterError, ResourceManagerCallback, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use tokio::sync::RwLock;
use tonic::metadata::AsciiMetadataValue;
use tracing::info;

use super::end::End;
use super::legacy::options::Options;
use super::outbox::Bounds;
use super::session::Session;
use crate::settings::SessionSettings;

/// The place of one resource manager.
pub type Slot = RwLock<Option<Arc<Session>>>;

/// The sessions of this run of the scheduler.
pub struct Registry {
    scheduler_id: AsciiMetadataValue,
    next_session: AtomicU64,
    bounds: Bounds,
    settings: SessionSettings,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
}

/// A registration that went well.
pub struct Registered {
    /// The scheduler's answer.
    pub reply: si::RegisterResourceManagerResponse,
    /// Number of the new session.
    pub session: u64,
    /// Whether it ended an earlier one.
    pub replaced: bool,
}

impl Registry {
    /// No sessions.
    pub fn new(bounds: Bounds, settings: SessionSettings) -> Self {
        Self {
            scheduler_id: random_id(),
            next_session: AtomicU64::new(first_session_number()),
            bounds,
            settings,
            slots: Mutex::default(),
        }
    }

    /// Names this run of the scheduler.
    pub fn scheduler_id(&self) -> AsciiMetadataValue {
        self.scheduler_id.clone()
    }

    /// The place of a resource manager that has registered at some time.
    pub fn slot(&self, rm_id: &str) -> Option<Arc<Slot>> {
        self.slots().get(rm_id).cloned()
    }

    /// Opens a session, and ends the earlier one of the same resource manager.
    pub async fn register(
        &self,
        handle: &SchedulerHandle,
        request: si::RegisterResourceManagerRequest,
    ) -> Result<Registered, RegisterError> {
        let rm_id = request.rm_id.clone();
        let slot = Arc::clone(self.slots().entry(rm_id.clone()).or_default());
        let mut current = slot.write().await;
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        let options = Options::new(&self.settings, &request.extra_config);
        let strict_enums = options.strict_enums;
        let session = Arc::new(Session::new(rm_id.clone(), number, self.bounds, options));
        let callback: Arc<dyn ResourceManagerCallback> = Arc::clone(&session) as _;
        let answer = handle.register_resource_manager(request, callback).await;
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                let unused = current.is_none();
                drop(current);
                if unused {
                    self.forget(&rm_id, &slot);
                }
                return Err(error);
            }
        };
        if strict_enums && let Ok(control) = handle.control(&rm_id).await {
            control.set_strict_enums(true);
        }
        let earlier = current.replace(session);
        if let Some(earlier) = &earlier {
            earlier.close(&End::Superseded);
        }
        let replaced = earlier.is_some();
        info!(rm = %rm_id, session = number, replaced, "resource manager registered");
        Ok(Registered { reply, session: number, replaced })
    }

    /// Removes the place of an id that never had a session, unless someone else holds it.
    fn forget(&self, rm_id: &str, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        // Two: the table's and ours. Others get theirs under the lock that we hold.
        if Arc::strong_count(slot) == 2 {
            slots.remove(rm_id);
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        self.slots.lock().expect("no holder panics")
    }
}

/// 128 random bits as text; the standard library seeds its hash maps from the operating system.
fn random_id() -> AsciiMetadataValue {
    let bits = || RandomState::new().hash_one(0);
    let text = format!("{:016x}{:016x}", bits(), bits());
    text.parse().expect("hexadecimal digits are ASCII")
}

/// Numbers of sessions rise over restarts too: seconds since the epoch, then 24 bits to count.
fn first_session_number() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "identifies a run of the process; no decision depends on it"
    )]
    let now = std::time::SystemTime::now();
    let since_epoch = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (since_epoch.as_secs() << 24) + 1
}
