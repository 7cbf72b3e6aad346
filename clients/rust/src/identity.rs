//! The identity of a client towards the members of a cluster.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tonic::metadata::{Ascii, MetadataValue};

/// The identity of a program that registers: a secret, by which any member of a cluster knows it
/// again, and the count of its connection attempts. [`Options`](crate::Options) have one of their
/// own. A program that starts one client after the other gives the same to each
/// ([`Options::identity`](crate::Options::identity)). Clones are the same identity. Two clients that
/// run at the same time must not share one: they would take the resource manager from each other.
#[derive(Clone)]
pub struct Identity {
    /// `None` if the system has no random numbers.
    pub(crate) proof: Option<MetadataValue<Ascii>>,
    name: u64,
    attempts: Arc<AtomicU64>,
}

impl Identity {
    /// Makes a new identity.
    pub fn new() -> Self {
        let name = RandomState::new().build_hasher().finish();
        Self { proof: new_proof(), name, attempts: Arc::default() }
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
    fn a_proof_is_never_shown() {
        let identity = Identity::new();
        let proof = identity.proof.clone().unwrap();
        assert_eq!(proof.to_str().unwrap().len(), 32);
        assert_ne!(Some(&proof), Identity::new().proof.as_ref());
        let shown = format!("{identity:?} {proof:?}");
        assert!(!shown.contains(proof.to_str().unwrap()), "{shown}");
    }
}
