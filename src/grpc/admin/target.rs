//! The resource manager and the partition that a call names.
//!
//! The resource manager may be omitted while exactly one is registered: most clusters have one, and
//! an operator should not have to look up its id. A partition is named as by its resource manager,
//! plain or as `[rm]name`. A caller without rights on a resource manager gets the same answer
//! whether it exists or not; otherwise the answers would reveal its id.

use monoceros_actors::SchedulerHandle;
use monoceros_actors::partition_name::{plain_name, qualified_name};

use super::refusal::CallRefusal;
use crate::identity::{Identity, Right};

/// A partition of a resource manager. Only a read shows whether it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct Target {
    pub rm_id: String,
    /// The qualified name, as the scheduler uses it.
    pub partition: String,
}

impl Target {
    /// The partition that these two fields of a request name.
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

/// The resource manager that `rm_id` names. Fails if the caller lacks the right on it.
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
    let chosen = choose(handle.resource_managers(), rm_id, caller)?;
    caller.check(right, &chosen)?;
    Ok(chosen)
}

/// The resource manager that `rm_id` names, or `None` for all if it is empty.
pub(in crate::grpc) async fn resource_manager_or_all(
    handle: &SchedulerHandle,
    caller: &Identity,
    rm_id: &str,
) -> Result<Option<String>, CallRefusal> {
    if rm_id.is_empty() {
        caller.check_read_all()?;
        return Ok(None);
    }
    Ok(Some(resource_manager(handle, caller, Right::Read, rm_id).await?))
}

/// The resource manager that a read request names, and the partition, or `None` for all of its
/// partitions.
pub(in crate::grpc) async fn one_or_all_partitions(
    handle: &SchedulerHandle,
    caller: &Identity,
    rm_id: &str,
    partition: &str,
) -> Result<(String, Option<String>), CallRefusal> {
    if partition.is_empty() {
        return Ok((resource_manager(handle, caller, Right::Read, rm_id).await?, None));
    }
    let Target { rm_id, partition } =
        Target::find(handle, caller, Right::Read, rm_id, partition).await?;
    Ok((rm_id, Some(partition)))
}

fn choose(
    mut registered: Vec<String>,
    named: &str,
    caller: &Identity,
) -> Result<String, CallRefusal> {
    if named.is_empty() {
        return match registered.len() {
            0 => Err(CallRefusal::NobodyRegistered),
            1 => Ok(registered.remove(0)),
            _ => Err(CallRefusal::rm_id_missing(&registered, caller)),
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
    fn resource_manager_may_be_omitted_if_unique() {
        let anybody = Identity::anybody();
        let missing =
            |named: &str| Err(CallRefusal::RmIdMissing { registered: 2, named: named.to_owned() });
        for (ids, named, expected) in [
            (&["a"][..], "", Ok("a".to_owned())),
            (&["a", "b"], "b", Ok("b".to_owned())),
            (&["a", "b"], "", missing(": `a`, `b`")),
            (&[], "", Err(CallRefusal::NobodyRegistered)),
            (&["a"], "b", Err(CallRefusal::NotRegistered("b".to_owned()))),
        ] {
            assert_eq!(choose(registered(ids), named, &anybody), expected);
        }
        let unreadable = choose(registered(&["a", "b"]), "", &Identity::nobody());
        assert_eq!(unreadable, missing(""));
        let many: Vec<_> = (0..12).map(|at| at.to_string()).collect();
        let refusal = choose(many, "", &anybody).unwrap_err().to_string();
        let ten = "12 are registered: `0`, `1`, `2`, `3`, `4`, `5`, `6`, `7`, `8`, `9`, …";
        assert!(refusal.ends_with(ten), "{refusal}");
    }

    #[test]
    fn partition_name_may_be_plain_or_qualified() {
        for (name, expected) in [("", "[a]default"), ("p", "[a]p"), ("[a]p", "[a]p")] {
            assert_eq!(Target::of("a".to_owned(), name).unwrap().partition, expected);
        }
        let foreign = Target::of("a".to_owned(), "[b]p").unwrap_err();
        assert_eq!(foreign.to_string(), "resource manager `a` has no partition `[b]p`");
    }
}
