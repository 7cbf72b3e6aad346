//! May this pod run on that node, beyond what there is room for?
//!
//! # What it looks at
//! A [`Scene`]: the nodes with their labels and taints, what runs or is assumed to run on each, volumes
//! and claims. It follows the cluster and the decisions of the scheduler, so two pods of one turn see
//! each other. A pod is compiled once, when it is asked for; a check then looks at
//! one node.
//!
//! # Two kinds of rules
//! | depends on the node alone | depends on what runs elsewhere |
//! |---|---|
//! | cordon, taints, node selector and affinity, devices | host ports, affinity between pods, spread, volumes |
//!
//! What depends on others is counted, not searched: for each rule that somebody wants looked at there is
//! a tally of pods by domain, kept when pods come and go. Pods with the same labels are one kind, which knows
//! the rules that are about it. So a check costs the same on a full cluster as on an empty one, and
//! whoever comes or goes is not compared with rules about others.
//!
//! # Who is to be tried again
//! A pod that was refused may pass when another one comes or goes elsewhere, and nobody but the scene knows.
//! It says so ([`Scene::take_help`]): when the last one goes that somebody keeps away from, the first
//! one comes that somebody is to be near, a spread becomes less uneven, or something of nodes, namespaces or
//! volumes changes that somebody asks about.
//!
//! # Invariants
//! * What is not supported refuses with a reason that names it.
//! * A reason does not name the node: alike refusals are counted together.
//! * A scene counts each pod once, whoever says it and how often.

mod books;
mod check;
mod counts;
mod fits;
mod index;
mod kept;
mod kind;
mod node;
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

pub use self::question::unsupported;
pub use self::scene::{Scene, Ties};
pub use self::selectors::labels_match;
pub(crate) use self::volumes::SELECTED_NODE;
pub use self::volumes::VolumeChoice;
