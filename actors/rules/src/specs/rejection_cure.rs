//! Cures of rejected applications: what would have each one admitted, in one sentence.

use super::rejection::code_of;

/// Returns what would have a rejected application admitted. `reason` is the text of its rejection.
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
    use super::*;

    #[test]
    fn every_reason_of_an_application_has_a_cure() {
        let reason =
            "application `a`: queue `root.x` does not exist [R_PLACEMENT E_PLACEMENT_NONE]";
        assert!(cure_of(reason).starts_with("name a leaf that exists"));
        assert_eq!(cure_of("failed to find node `n` [R_NODE_UNKNOWN]"), "");
        assert_eq!(cure_of(""), "");
    }
}
