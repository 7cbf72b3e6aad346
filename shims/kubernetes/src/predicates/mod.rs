//! Predicates: whether a pod may run on a node, apart from the room there.
//!
//! # What it reads
//! A [`Scene`]: the nodes with their labels and taints, the pods that run or are assumed on each,
//! volumes and claims. It follows the cluster, and counts each placement as soon as the scheduler
//! makes it: a pod that is checked later sees the pods placed just before. The rules of a pod are
//! compiled before the first question about it ([`Scene::expect`]), and again if the pod changes; a
//! check then looks only at the node in question and at counts that are kept up to date.
//!
//! # Two kinds of rules
//! | about the node alone | about other pods |
//! |---|---|
//! | cordon, taints, node selector, node affinity | host ports, pod affinity, spread, volumes |
//!
//! Rules about other pods are counted rather than searched: each rule in use has a tally of pods by
//! domain, updated when pods are added and removed. Pods with the same labels are one kind, which
//! knows the rules about it. So a check costs the same on a full cluster as on an empty one, and a
//! pod that is added or removed is compared with no rule about others.
//!
//! # When refused pods are tried again
//! A refused pod may pass after a change on another node that only the scene knows.
//! [`Scene::take_unblocked`] reports such changes: the last pod to keep away from was removed, the
//! first pod to be near was added, a spread has become more even, or a node, namespace or volume
//! that matters to the pod has changed.
//!
//! # Invariants
//! * An unsupported setting refuses the pod with a reason that names it.
//! * A reason does not name the node, so that equal refusals are counted together.
//! * A scene counts each pod once, however many times and from whichever source it is reported.

mod books;
mod check;
mod counts;
mod expected;
mod fits;
mod guards;
mod image;
mod index;
mod mounts;
mod node;
mod pod_kind;
mod ports;
mod preferences;
mod question;
mod scene;
mod selectors;
mod slots;
mod stock;
mod tally;
#[cfg(test)]
mod tests;
mod volumes;

pub use self::expected::Ties;
pub(crate) use self::image::{ClaimUse, PodPlace, SceneImage, VolumesImage};
pub use self::mounts::VolumeChoice;
pub use self::question::unsupported;
pub use self::scene::Scene;
pub use self::selectors::labels_match;
pub(crate) use self::stock::{DOMAINS, HOST};
pub(crate) use self::volumes::{Reservation, SELECTED_NODE};
