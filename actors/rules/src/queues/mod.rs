//! Queues: their checked settings, their access lists, and their states.
//!
//! # Why here
//! The crate of the configuration reads and checks the settings and makes these types; every
//! decision of this crate reads them. So the types are here, where both crates can use them.
//!
//! # Invariants
//! * Names and paths are lower case; siblings have different names.
//! * No queue is guaranteed more than it may use, no `max` exceeds one above it.

mod acl;
pub mod figures;
pub mod object_state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::acl::{Acl, AclError};
use crate::values::names::RECOVERY;
use crate::values::resources::{Limits, Resources};

/// A queue with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueConfig {
    /// The last part of the path.
    pub name: Arc<str>,
    /// The names of the queues from the root to this one, separated by dots.
    pub path: Arc<str>,
    /// Whether applications run in this queue. Queues with children and those marked `parent` have
    /// none.
    pub is_leaf: bool,
    /// The maximum of the queue. `None` also if only zeros were written.
    pub max: Option<Limits>,
    /// The guarantee. `None` also if only zeros were written.
    pub guaranteed: Option<Resources>,
    /// The number of applications that may run at once; 0 is unlimited.
    pub max_applications: u64,
    /// The access list for submitting here and below.
    pub submit_acl: Acl,
    /// The access list for submitting to and administering this queue and those below.
    pub admin_acl: Acl,
    /// The properties in force: inherited ones and its own.
    pub properties: BTreeMap<String, String>,
    /// The settings that follow from the properties.
    pub settings: QueueSettings,
    /// The template of dynamic leaves below it, as written on this queue. `None`: the nearest
    /// template above applies.
    pub template: Option<Arc<Template>>,
    /// The limits of users and groups here and below, in the order they were written.
    pub limits: Vec<LimitConfig>,
    /// Whether it was made because an application needed it, and is not configured.
    pub is_dynamic: bool,
    /// The queues directly below, in the order they were written.
    pub children: Vec<QueueConfig>,
}

/// The settings that a dynamic leaf begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// The number of applications that may run at once; 0 is unlimited.
    pub max_applications: u64,
    /// The properties of the leaf; it inherits none.
    pub properties: BTreeMap<String, String>,
    /// The maximum of the leaf. `None` also if only zeros were written.
    pub max: Option<Limits>,
    /// The guarantee. `None` also if only zeros were written.
    pub guaranteed: Option<Resources>,
}

/// A limit for each of some users and some groups on a queue. `*` among the users is each user whom
/// no limit on this queue names; among the groups it is all other users together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitConfig {
    /// The text by which its author named the limit.
    pub description: String,
    /// The users that it applies to: names, or `*`.
    pub users: Vec<String>,
    /// The groups that it applies to: names, or `*`.
    pub groups: Vec<String>,
    /// The most that each may use. A resource that is not named is unlimited; an explicit zero is
    /// nothing.
    pub max_resources: Option<Limits>,
    /// The number of applications that may run at once; 0 is unlimited.
    pub max_applications: u64,
}

/// The effect of a queue on the priorities below it (`priority.policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PriorityPolicy {
    /// Adds the queue's offset to the highest priority below.
    #[default]
    Default,
    /// Shows the queue's offset alone, whatever the priorities below.
    Fence,
}

/// The order of a leaf's applications (`application.sort.policy`; `stateaware` is fifo).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApplicationSortPolicy {
    /// The older application comes first.
    #[default]
    Fifo,
    /// The application that uses less comes first.
    Fair,
}

/// The settings that follow from the properties of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// The order of children or applications; parents are always fair.
    pub sort_policy: ApplicationSortPolicy,
    /// Whether priority comes before the policy.
    pub priority_sort: bool,
    /// Whether priorities below are compared with those outside.
    pub priority_policy: PriorityPolicy,
    /// The offset that is added to every priority below.
    pub priority_offset: i32,
    /// The policy of preemption across this queue.
    pub preemption: PreemptionPolicy,
    /// The age from which an ask preempts.
    pub preemption_delay: Duration,
    /// The time that a queue may stay above a maximum that was lowered; 0: for ever.
    pub quota_preemption_delay: Duration,
    /// The bounds on evictions from an application here.
    pub eviction: EvictionBounds,
    /// The number of asks without a node in one pass after which an application backs off; 0:
    /// never.
    pub backoff_asks: u64,
    /// The duration of the back-off.
    pub backoff_delay: Duration,
    /// The time that an application stays Completing before it is Completed.
    pub completing_timeout: Duration,
}

impl QueueSettings {
    /// Whether asks below have another priority above this queue: by an offset, or by a fence.
    pub fn changes_priorities(&self) -> bool {
        self.priority_offset != 0 || self.priority_policy == PriorityPolicy::Fence
    }
}

/// The policy of preemption across a queue (`preemption.policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptionPolicy {
    /// Preemption follows the guarantees.
    #[default]
    Default,
    /// Asks below preempt nothing outside this queue.
    Fence,
    /// Asks below neither preempt nor are preempted.
    Disabled,
}

/// The bounds on evictions from an application of a leaf (`preemption.max.evictions`,
/// `preemption.window`, `preemption.min.runtime`). Places that are held for members of a gang, and
/// placeholders, are not counted and have no least running time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionBounds {
    /// The most evicted allocations within the window; 0: any number.
    pub max_evictions: u32,
    /// The window. Two applications may not evict each other in turns within it.
    pub window: Duration,
    /// The least time that an allocation runs before it may be preempted.
    pub min_runtime: Duration,
}

impl Default for EvictionBounds {
    fn default() -> Self {
        Self { max_evictions: 0, window: Duration::from_secs(600), min_runtime: Duration::ZERO }
    }
}

impl Default for QueueSettings {
    /// The settings of a queue without properties.
    fn default() -> Self {
        Self {
            sort_policy: ApplicationSortPolicy::Fifo,
            priority_sort: true,
            priority_policy: PriorityPolicy::Default,
            priority_offset: 0,
            preemption: PreemptionPolicy::Default,
            preemption_delay: Duration::from_secs(30),
            quota_preemption_delay: Duration::ZERO,
            eviction: EvictionBounds::default(),
            backoff_asks: 0,
            backoff_delay: Duration::from_secs(30),
            completing_timeout: Duration::from_secs(30),
        }
    }
}

impl QueueConfig {
    /// Builds a queue without settings: without limits, open to no user.
    pub fn bare(path: &str, is_leaf: bool) -> Self {
        let name = path.rsplit_once('.').map_or(path, |(_, name)| name);
        Self {
            name: Arc::from(name),
            path: Arc::from(path),
            is_leaf,
            max: None,
            guaranteed: None,
            max_applications: 0,
            submit_acl: Acl::default(),
            admin_acl: Acl::default(),
            properties: BTreeMap::new(),
            settings: QueueSettings::default(),
            template: None,
            limits: Vec::new(),
            is_dynamic: false,
            children: Vec::new(),
        }
    }

    /// Whether this is the queue [`RECOVERY`].
    pub fn is_recovery(&self) -> bool {
        *self.path == *RECOVERY
    }

    /// Returns the path of the queue above; `None` for root.
    pub fn parent_path(&self) -> Option<&str> {
        self.path.rsplit_once('.').map(|(parent, _)| parent)
    }
}
