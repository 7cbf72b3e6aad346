//! What is read of the objects of a cluster, decoded from the JSON of its API server.
//!
//! # Why structs of our own
//! The generated types hold every field of every object, and drop those that are newer than the version
//! for which they were generated. What is here has the fields that some rule reads, and takes their
//! inner forms (affinity, selectors, taints) from the generated types where those say it all. What is
//! not listed costs nothing: it is skipped while it is read.
//!
//! # Invariants
//! * Nothing here decides anything.
//! * A field that is absent reads as Kubernetes defines its absence.
//! * A missing or odd value never makes an object unreadable unless nothing could be done with it: one
//!   object that cannot be read would stop the watch of all others.

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
pub use self::volumes::{
    ClaimRef, ClaimSpec, Count, CsiNode, Driver, Drivers, PersistentVolume, PersistentVolumeClaim,
    Phase, StorageClass, VolumeSpec, driver_of_plugin,
};
