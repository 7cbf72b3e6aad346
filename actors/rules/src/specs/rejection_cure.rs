//! Cures of rejected applications: the change by which each would be admitted, in one sentence.

use super::quotas::Quota;
use super::rejection::Rejection;

impl Rejection {
    /// Returns the change by which the rejected application would be admitted. Empty for rejections
    /// of other items, and for a message about an application that does not exist.
    pub fn cure(&self) -> &'static str {
        match self {
            Self::ApplicationId(_) => "give the application an id of the allowed length",
            Self::ApplicationExists(_) => "submit it with another id, or remove the one that lives",
            Self::PartitionOfApplication { .. } => "name a partition that the resource manager has",
            Self::User { .. } => "name a user that can be resolved (docs/users.md)",
            Self::Placement { .. } => {
                "name a leaf that exists and that the user may submit to, or change the placement \
                 rules"
            }
            Self::NotLeaf { .. } => "name one of the leaves below that queue",
            Self::QueueCreate { .. } => {
                "name a leaf that exists, or a path on which the user may create queues"
            }
            Self::GangSort { .. } => "submit it to a queue that sorts its applications by fifo",
            Self::GangTooLarge { .. } | Self::GangOverLimit { .. } => {
                "ask for less, or raise the maximum or limit that is named"
            }
            Self::GangDeclaration { .. } => {
                "correct the declaration of its task groups (docs/gangs.md)"
            }
            Self::PartitionStopped { .. } => "submit it again when the partition is started",
            Self::OverQuota { over, .. } => match over.quota {
                Quota::Applications | Quota::Queues | Quota::Bytes => {
                    "end some of what the resource manager has, or raise its quota (docs/quotas.md)"
                }
                Quota::Asks | Quota::Nodes | Quota::Partitions => "",
            },
            Self::NegativePlaceholders(_) => "send amounts that are not negative",
            Self::Overflow { .. } | Self::Names { .. } => "ask for less, or for fewer types",
            Self::TextTooLong { .. } => "send a shorter text",
            Self::PartitionOfAllocation { .. }
            | Self::PartitionOfNode { .. }
            | Self::GangPlaceholder { .. }
            | Self::Key(_)
            | Self::ApplicationUnknown(_)
            | Self::ApplicationState { .. }
            | Self::NoResource(_)
            | Self::NegativeResource(_)
            | Self::Repeat { .. }
            | Self::PlaceholderWithoutGroup(_)
            | Self::GroupName(_)
            | Self::NodeUnknown(_)
            | Self::NodeMissing(_)
            | Self::NodeInvalid { .. }
            | Self::NodeExists { .. }
            | Self::NodeAction { .. }
            | Self::Constraint { .. } => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_rejections_of_applications_have_a_cure() {
        let id: Arc<str> = Arc::from("a");
        let of_application = Rejection::NotLeaf { id: id.clone(), queue: "root".to_owned() };
        assert_eq!(of_application.cure(), "name one of the leaves below that queue");
        assert_eq!(Rejection::NodeUnknown(id).cure(), "");
    }
}
