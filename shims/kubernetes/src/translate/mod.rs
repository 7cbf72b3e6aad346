//! Translates objects of the cluster into messages of the scheduler interface.
//!
//! # Why pure
//! The meaning of labels and annotations is tested by tables of cases. So nothing here has a clock,
//! a connection or state.
//!
//! # Invariants
//! * Labels and annotations of YuniKorn keep their meaning. If the same setting has a key of ours
//!   too, ours wins.
//! * Amounts of pods are rounded up, so a pod never gets less than it needs.

mod amounts;
mod asks;
mod gangs;
mod identity;
mod nodes;
mod queues;

pub use self::amounts::{Amounts, node_amounts, pod_amounts};
pub use self::asks::{AskSpec, foreign};
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

/// Prefix of our own keys.
const OURS: &str = "monoceros.io/";
/// Prefix of YuniKorn's keys.
const YUNIKORN: &str = "yunikorn.apache.org/";

/// Returns the value of a setting, under our key or YuniKorn's: from the annotation, else from the
/// label.
fn setting<'o>(object: &'o impl Meta, name: &str) -> Option<&'o str> {
    let find = |prefix: &str| {
        let key = format!("{prefix}{name}");
        let found = object.annotation(&key).or_else(|| object.label(&key));
        found.map(str::trim).filter(|text| !text.is_empty())
    };
    find(OURS).or_else(|| find(YUNIKORN))
}
