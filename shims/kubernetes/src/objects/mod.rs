//! The parts of Kubernetes objects that the shim reads, decoded from the JSON of the API server.
//!
//! # Why structs of our own
//! The generated types hold every field of every object, and drop fields that are newer than the
//! version they were generated for. These structs have the fields that some rule reads. Inner forms
//! (affinity, selectors, taints) come from the generated types where these are complete. Other
//! fields are skipped while parsing and cost nothing.
//!
//! # Invariants
//! * Nothing here makes decisions.
//! * An absent field reads as Kubernetes defines its absence.
//! * A missing or odd value makes an object unreadable only if the object is useless without it. An
//!   unreadable object would stop the watch of its whole kind.

mod cluster;
mod meta;
mod pod;
mod volumes;

pub use self::cluster::{
    BudgetSpec, ConfigMap, Gang, Namespace, Node, NodeSpec, NodeStatus, PodDisruptionBudget,
    PodGroup, PodGroupPolicy, PodGroupStatus, PriorityClass, Topologies,
};
pub use self::meta::{Meta, Quantities, Read, rounded_up};
pub use self::pod::{
    ClaimSource, Container, ContainerPort, ContainerStatus, CsiSource, Given, Mount, Named, Pod,
    PodCondition, PodSpec, PodStatus, Requirements, SchedulingGroup, Volume,
};
pub(crate) use self::volumes::{BIND_COMPLETED, MIGRATED};
pub use self::volumes::{
    ClaimRef, ClaimSpec, Count, CsiNode, Driver, Drivers, PersistentVolume, PersistentVolumeClaim,
    Phase, StorageClass, VolumeSpec, driver_of_plugin,
};
