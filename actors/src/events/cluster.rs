//! Events of the cluster that the process is a member of. The service reports them; they are here because
//! all events are in one ring.

use std::sync::Arc;

use super::message::Message;
use super::{Event, EventKind, EventLog};

/// An event of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterEvent {
    /// Another member serves an RM.
    RmMoved {
        /// Id of the RM.
        rm_id: String,
        /// Id of the member that served it.
        from: String,
        /// Id of the member that serves it.
        to: String,
    },
    /// A member, or a new incarnation of it, has joined.
    MemberJoined {
        /// Id of the member.
        member: String,
        /// Version of its program.
        version: String,
    },
    /// A member has left in order.
    MemberLeft {
        /// Id of the member.
        member: String,
    },
    /// A member was silent for the lease, and has lost its RMs.
    MemberDeposed {
        /// Id of the member.
        member: String,
    },
    /// The member of this process may decide nothing any more.
    MemberFenced {
        /// Id of the member.
        member: String,
        /// Reason, for people.
        why: String,
    },
    /// The member of this process cannot apply the configuration of a policy group.
    ConfigurationNotInForce {
        /// Id of the member.
        member: String,
        /// The policy group. Empty for all groups without a configuration of their own.
        group: String,
        /// Reason, for people.
        why: String,
    },
}

impl ClusterEvent {
    /// The event, and the RM whose readers get it: none for events of members.
    fn event(self, at_ns: i64) -> (Arc<str>, Event) {
        let of = |kind, object: &str, text: String| {
            let event = Event::of(kind, &Arc::from(object), at_ns);
            event.with_message(Message::Reports(text.into()))
        };
        let nobody = || Arc::from("");
        match self {
            Self::RmMoved { rm_id, from, to } => {
                let text = format!("served by member `{to}`, before by `{from}`");
                let event = of(EventKind::RmMoved, &rm_id, text).referring(&Arc::from(to));
                (rm_id.into(), event)
            }
            Self::MemberJoined { member, version } => {
                let text = format!("joined the cluster with version {version}");
                (nobody(), of(EventKind::MemberJoined, &member, text))
            }
            Self::MemberLeft { member } => {
                let text = "left the cluster in order".to_owned();
                (nobody(), of(EventKind::MemberLeft, &member, text))
            }
            Self::MemberDeposed { member } => {
                let text = "was silent for the lease, and was deposed".to_owned();
                (nobody(), of(EventKind::MemberDeposed, &member, text))
            }
            Self::MemberFenced { member, why } => {
                (nobody(), of(EventKind::MemberFenced, &member, why))
            }
            Self::ConfigurationNotInForce { member, group, why } => {
                let event = of(EventKind::ConfigurationNotInForce, &member, why);
                (nobody(), event.referring(&Arc::from(group)))
            }
        }
    }
}

impl EventLog {
    /// Adds an event of the cluster. From any thread.
    pub(crate) fn of_cluster(&self, event: ClusterEvent, at_ns: i64) {
        if self.tracking.is_on() {
            let (rm_id, event) = event.event(at_ns);
            self.log.append(&rm_id, &mut vec![event.into()], 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EventSettings;

    #[test]
    fn events_of_the_cluster_are_in_the_ring() {
        let log = EventLog::new(EventSettings::default());
        let [rm_id, from, to] = ["rm", "m1", "m2"].map(str::to_owned);
        log.of_cluster(ClusterEvent::RmMoved { rm_id, from, to: to.clone() }, 7);
        log.of_cluster(ClusterEvent::MemberLeft { member: to }, 8);
        let records = log.log.range(0, 10).records;
        let shown: Vec<_> = records
            .iter()
            .map(|it| (it.reason.as_str(), it.object_id.as_str(), it.reference_id.as_str()))
            .collect();
        assert_eq!(shown, [("RM_MOVED", "rm", "m2"), ("MEMBER_LEFT", "m2", "")]);
        assert_eq!(records[0].message, "served by member `m2`, before by `m1`");
    }
}
