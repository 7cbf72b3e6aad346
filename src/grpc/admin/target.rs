//! Which resource manager and which partition a call means.
//!
//! The resource manager may stay unnamed while there is exactly one: most clusters have one, and an
//! operator should not have to look its id up. A partition is named as its resource manager names
//! it, plainly or as `[rm]name`. Who has no right of a resource manager gets the same answer whether the resource manager
//! exists or not: otherwise the answers would give its id away.

use monoceros_actors::SchedulerHandle;
use monoceros_actors::partition_name::{plain_name, qualified_name};

use super::refusal::CallRefusal;
use crate::identity::{Identity, Right};

/// A partition of a resource manager. Whether there is one of this name, a read will tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct Target {
    /// The resource manager that the partition belongs to.
    pub rm_id: String,
    /// Its name with the resource manager, as the scheduler reads it.
    pub partition: String,
}

impl Target {
    /// The partition that a request means with these two fields.
    pub(in crate::grpc) async fn find(
        handle: &SchedulerHandle,
        caller: &Identity,
        right: Right,
        rm_id: &str,
        partition: &str,
    ) -> Result<Self, CallRefusal> {
        let rm_id = resource_manager(handle, caller, right, rm_id).await?;
        Self::of(rm_id, partition)
    }

    fn of(rm_id: String, partition: &str) -> Result<Self, CallRefusal> {
        match qualified_name(partition, &rm_id) {
            Ok(partition) => Ok(Self { rm_id, partition }),
            Err(_) => Err(CallRefusal::PartitionUnknown { rm_id, partition: partition.to_owned() }),
        }
    }

    /// The name without the resource manager.
    pub(in crate::grpc) fn plain(&self) -> &str {
        plain_name(&self.partition)
    }
}

/// The resource manager that a request means with its `rm_id`, of which the caller has the right.
pub(in crate::grpc) async fn resource_manager(
    handle: &SchedulerHandle,
    caller: &Identity,
    right: Right,
    rm_id: &str,
) -> Result<String, CallRefusal> {
    if rm_id.is_empty() {
        caller.check_at_the_door(right)?;
    } else {
        caller.check(right, rm_id)?;
    }
    let chosen = choose(handle.resource_managers(), rm_id)?;
    caller.check(right, &chosen)?;
    Ok(chosen)
}

fn choose(mut registered: Vec<String>, named: &str) -> Result<String, CallRefusal> {
    if named.is_empty() {
        return match registered.len() {
            0 => Err(CallRefusal::NobodyRegistered),
            1 => Ok(registered.remove(0)),
            n_registered => Err(CallRefusal::RmIdMissing(n_registered)),
        };
    }
    let found = registered.into_iter().find(|rm_id| rm_id == named);
    found.ok_or_else(|| CallRefusal::NotRegistered(named.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|&id| id.to_owned()).collect()
    }

    #[test]
    fn a_resource_manager_may_stay_unnamed_while_there_is_one() {
        for (ids, named, expected) in [
            (&["a"][..], "", Ok("a".to_owned())),
            (&["a", "b"], "b", Ok("b".to_owned())),
            (&["a", "b"], "", Err(CallRefusal::RmIdMissing(2))),
            (&[], "", Err(CallRefusal::NobodyRegistered)),
            (&["a"], "b", Err(CallRefusal::NotRegistered("b".to_owned()))),
        ] {
            assert_eq!(choose(registered(ids), named), expected);
        }
    }

    #[test]
    fn a_partition_is_named_plainly_or_with_its_own_resource_manager() {
        for (name, expected) in [("", "[a]default"), ("p", "[a]p"), ("[a]p", "[a]p")] {
            assert_eq!(Target::of("a".to_owned(), name).unwrap().partition, expected);
        }
        let foreign = Target::of("a".to_owned(), "[b]p").unwrap_err();
        assert_eq!(foreign.to_string(), "resource manager `a` has no partition `[b]p`");
    }
}
