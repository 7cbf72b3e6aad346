//! Objects of a cluster as messages of the interface.
//!
//! # Why pure
//! What a label means is for tables of cases, not for watchers: nothing here has a clock, a connection or
//! a memory.
//!
//! # Invariants
//! * What users of YuniKorn have written on their pods and namespaces is read as they mean it; our own
//!   key goes first where both are there.
//! * Amounts of pods are rounded up: what is too little is never asked for.

mod amounts;
mod asks;
mod gangs;
mod identity;
mod nodes;
mod queues;

pub use self::amounts::{Amounts, node_amounts, pod_amounts};
pub use self::asks::{Wish, foreign};
pub use self::gangs::{
    DeclaredGang, declared_gang, declared_text, has_declared_gang, hold_key, pod_group_gang,
    task_group_of,
};
pub use self::identity::{
    Mapping, application, application_id, is_ignored, pod_group_of, quota_tags,
};
pub use self::nodes::{attributes, created, updated};
pub use self::queues::{CONFIG_MAPS, QUEUES, Queues, queues};

use crate::objects::Meta;

/// The prefix of keys of our own.
const OURS: &str = "monoceros.io/";
/// The prefix of keys of the scheduler that most come from.
const YUNIKORN: &str = "yunikorn.apache.org/";

/// What is said under a key of ours, or of YuniKorn: as an annotation, or else as a label.
fn said<'o>(object: &'o impl Meta, name: &str) -> Option<&'o str> {
    let said = |prefix: &str| {
        let key = format!("{prefix}{name}");
        let found = object.annotation(&key).or_else(|| object.label(&key));
        found.map(str::trim).filter(|text| !text.is_empty())
    };
    said(OURS).or_else(|| said(YUNIKORN))
}
