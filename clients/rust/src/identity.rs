//! The identity of a client towards the members of a cluster, and what it leaves to the next client
//! of the same program.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tonic::metadata::{Ascii, MetadataValue};

use crate::route::Route;
use crate::silence::Silence;

/// The identity of a program that registers: a secret, by which any member of a cluster knows it
/// again, and the count of its connection attempts. [`Options`](crate::Options) have one of their
/// own. A program that starts one client after the other gives the same to each
/// ([`Options::identity`](crate::Options::identity)), so that each continues where the last one
/// ended: it knows the members of the cluster, and which of them was lost. Clones are the same
/// identity. Two clients that run at the same time must not share one: they would take the resource
/// manager from each other.
#[derive(Clone)]
pub struct Identity {
    /// `None` if the system has no random numbers.
    pub(crate) proof: Option<MetadataValue<Ascii>>,
    name: u64,
    attempts: Arc<AtomicU64>,
    left: Arc<Mutex<Left>>,
}

/// Knowledge of the cluster that the last client of an identity has left.
#[derive(Default)]
struct Left {
    /// Number of clients that have begun.
    begun: u64,
    knowledge: Knowledge,
}

/// Knowledge of the cluster that a client passes to the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// The addresses, and the next one to try. `None` for the first client.
    pub(crate) route: Option<Route>,
    pub(crate) silence: Silence,
    /// Number of the last session, also after its end.
    pub(crate) last_session: Option<u64>,
    /// The incarnation of the owner that fell silent, until a member has answered a registration
    /// with it.
    pub(crate) suspects: Option<String>,
    /// Whether a pause is due, since all addresses were tried or sessions were brief.
    pub(crate) pauses: bool,
}

impl Identity {
    /// Makes a new identity.
    pub fn new() -> Self {
        let name = RandomState::new().build_hasher().finish();
        Self { proof: new_proof(), name, attempts: Arc::default(), left: Arc::default() }
    }

    /// Begins a client. Returns its number and the knowledge of the client before.
    pub(crate) fn begin(&self) -> (u64, Knowledge) {
        let mut left = self.left();
        left.begun += 1;
        (left.begun, left.knowledge.clone())
    }

    /// Leaves knowledge to the next client, unless that has begun already.
    pub(crate) fn leave(&self, number: u64, knowledge: Knowledge) {
        let mut left = self.left();
        if left.begun == number {
            left.knowledge = knowledge;
        }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an attempt to connect. With it the scheduler ignores late calls of an earlier
    /// connection, which must not displace a later one.
    pub(crate) fn next_attempt(&self) -> Option<MetadataValue<Ascii>> {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{:016x}.{number}", self.name).parse().ok()
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The proof is a secret.
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Makes a secret of 32 hexadecimal digits.
fn new_proof() -> Option<MetadataValue<Ascii>> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    let mut proof: MetadataValue<Ascii> =
        format!("{:032x}", u128::from_ne_bytes(bytes)).parse().ok()?;
    proof.set_sensitive(true);
    Some(proof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_attempts_together() {
        let identity = Identity::new();
        let clone = identity.clone();
        let number = |identity: &Identity| {
            let attempt = identity.next_attempt().unwrap();
            attempt.to_str().unwrap().split_once('.').unwrap().1.to_owned()
        };
        assert_eq!([&identity, &clone, &identity].map(number), ["1", "2", "3"]);
    }

    #[test]
    fn an_earlier_client_does_not_change_what_a_later_one_leaves() {
        let identity = Identity::new();
        let knowledge = |session| Knowledge { last_session: Some(session), ..Knowledge::default() };
        let (first, before) = identity.begin();
        assert_eq!(before.last_session, None);
        identity.leave(first, knowledge(1));
        let (second, _) = identity.begin();
        identity.clone().leave(second, knowledge(2));
        identity.leave(first, knowledge(3));
        assert_eq!(identity.begin().1.last_session, Some(2));
    }

    #[test]
    fn a_proof_is_never_shown() {
        let identity = Identity::new();
        let proof = identity.proof.clone().unwrap();
        assert_eq!(proof.to_str().unwrap().len(), 32);
        assert_ne!(Some(&proof), Identity::new().proof.as_ref());
        let shown = format!("{identity:?} {proof:?}");
        assert!(!shown.contains(proof.to_str().unwrap()), "{shown}");
    }
}
