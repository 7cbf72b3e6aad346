//! Cures of rejected applications: the change by which each would be admitted, in one sentence.

use super::rejection::code_of;

/// Returns the change by which a rejected application would be admitted. `reason` is the text of its
/// rejection.
/// Empty if the code of the reason is none of an application.
pub fn cure_of(reason: &str) -> &'static str {
    match code_of(reason) {
        "R_APP_ID" => "give the application an id of the allowed length",
        "R_APP_EXISTS" => "submit it with another id, or remove the one that lives",
        "R_PARTITION_UNKNOWN" => "name a partition that the resource manager has",
        "R_USER" => "name a user that can be resolved (docs/users.md)",
        "R_PLACEMENT" => {
            "name a leaf that exists and that the user may submit to, or change the placement rules"
        }
        "R_NOT_LEAF" => "name one of the leaves below that queue",
        "R_QUEUE_CREATE" => {
            "name a leaf that exists, or a path on which the user may create queues"
        }
        "R_GANG_SORT" => "submit it to a queue that sorts its applications by fifo",
        "R_GANG_TOO_LARGE" => "ask for less, or raise the maximum or limit that is named",
        "R_GANG_DECLARATION" => "correct the declaration of its task groups (docs/gangs.md)",
        "R_PARTITION_STOPPED" => "submit it again when the partition is started",
        "R_QUOTA_APPS" | "R_QUOTA_QUEUES" | "R_QUOTA_BYTES" => {
            "end some of what the resource manager has, or raise its quota (docs/quotas.md)"
        }
        "R_NEGATIVE_RESOURCE" => "send amounts that are not negative",
        "R_OVERFLOW" => "ask for less, or for fewer types",
        "R_TEXT" => "send a shorter text",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::queues::object_state::ObjectState;
    use crate::specs::rejection::Rejection;

    #[test]
    fn rejections_of_applications_have_a_cure() {
        let (id, queue): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("root.q"));
        let (ask, max) = (|| "{vcore: 2}".to_owned(), || "{vcore: 1}".to_owned());
        for rejection in [
            Rejection::ApplicationId("is empty".into()),
            Rejection::ApplicationExists(id.clone()),
            Rejection::PartitionOfApplication { id: id.clone(), partition: "p".to_owned() },
            Rejection::Placement { id: id.clone(), why: "x".to_owned(), cause: "E_X".into() },
            Rejection::NotLeaf { id: id.clone(), queue: "root".to_owned() },
            Rejection::QueueCreate { id: id.clone(), why: "x".to_owned(), cause: "E_X".into() },
            Rejection::GangSort { id: id.clone(), queue: queue.clone() },
            Rejection::GangTooLarge {
                id: id.clone(),
                queue: queue.clone(),
                ask: ask(),
                max: max(),
            },
            Rejection::PartitionStopped {
                what: "application".into(),
                id: id.clone(),
                partition: Arc::from("default"),
                state: ObjectState::Stopped,
            },
        ] {
            assert_ne!(cure_of(&rejection.to_string()), "", "{rejection}");
        }
        assert_eq!(cure_of(&Rejection::NodeUnknown(id).to_string()), "");
        assert_eq!(cure_of(""), "");
    }
}
