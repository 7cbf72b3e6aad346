//! Scenarios of the shim with a remote scheduler: over gRPC, in the same process and in virtual time.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(clippy::needless_pass_by_value)] // JSON as it is written down.

#[path = "../../../../shims/kubernetes/tests/cluster/applications.rs"]
mod applications;
#[path = "../../../../shims/kubernetes/tests/cluster/chaos.rs"]
mod chaos;
#[path = "../../../../shims/kubernetes/tests/cluster/conditions.rs"]
mod conditions;
#[path = "../../../../shims/kubernetes/tests/cluster/gangs.rs"]
mod gangs;
#[path = "../../../../shims/kubernetes/tests/cluster/groups.rs"]
mod groups;
#[path = "../../../../shims/kubernetes/tests/cluster/hold_again.rs"]
mod hold_again;
#[path = "../../../../shims/kubernetes/tests/cluster/life.rs"]
mod life;
mod lost;
mod members;
#[path = "../../../../shims/kubernetes/tests/cluster/nodes.rs"]
mod nodes;
#[path = "../../../../shims/kubernetes/tests/cluster/rules.rs"]
mod rules;
mod side;
#[path = "../../../../shims/kubernetes/tests/cluster/victims.rs"]
mod victims;
#[path = "../../../../shims/kubernetes/tests/cluster/world.rs"]
mod world;
