//! Partition names at run time: `[rm-1]default`.
//!
//! A resource manager uses plain names for its partitions, or none, and two resource managers may
//! use the same name. So the scheduler puts the id of the resource manager before the name, in
//! brackets; otherwise their nodes and queues would be mixed up.

/// The partition of requests that name none.
pub const DEFAULT_PARTITION: &str = "default";

/// A partition name with the prefix of another resource manager. For this one, the partition does
/// not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("partition `{0}` is not one of resource manager `{1}`")]
pub struct ForeignPartition(pub String, pub String);

/// Returns the name with the prefix of its resource manager; an empty name means `default`.
pub fn qualified_name(name: &str, rm_id: &str) -> Result<String, ForeignPartition> {
    let prefix = format!("[{rm_id}]");
    if name.starts_with('[') {
        return if name.starts_with(&prefix) {
            Ok(name.to_owned())
        } else {
            Err(ForeignPartition(name.to_owned(), rm_id.to_owned()))
        };
    }
    let name = if name.is_empty() { DEFAULT_PARTITION } else { name };
    Ok(format!("{prefix}{name}"))
}

/// Returns the resource manager of a qualified name; empty if there is no prefix.
pub fn rm_id(qualified: &str) -> &str {
    qualified.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or("", |(rm_id, _)| rm_id)
}

/// The name without its prefix.
pub fn plain_name(qualified: &str) -> &str {
    qualified.split_once(']').map_or(qualified, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_bear_the_prefix_of_their_own_resource_manager() {
        for (name, expected) in [("", "[RM]default"), ("[RM]p", "[RM]p"), ("p", "[RM]p")] {
            assert_eq!(qualified_name(name, "RM"), Ok(expected.to_owned()));
        }
        for foreign in ["[X]p", "[RM", "[RM2]p", "[]p"] {
            let refused = ForeignPartition(foreign.to_owned(), "RM".to_owned());
            assert_eq!(qualified_name(foreign, "RM"), Err(refused));
        }
    }

    #[test]
    fn a_prefix_comes_off_again() {
        for (qualified, id, name) in
            [("[rm-1]default", "rm-1", "default"), ("default", "", "default"), ("[rm", "", "[rm")]
        {
            assert_eq!((rm_id(qualified), plain_name(qualified)), (id, name));
        }
    }
}
