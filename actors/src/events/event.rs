//! An event, and the record that is sent of it.
//!
//! # Why two forms
//! An [`Event`] is made together with the change that it reports, and shares the names and amounts
//! of the scheduler. Most events are never read, so texts and protobuf are made by [`Event::record`]
//! for the reader.

use std::fmt::Write as _;
use std::ops::Deref;
use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::event_record::{ChangeDetail as Detail, Type};
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::values::text::beginning;

use super::kind::EventKind;
use super::message::Message;
use crate::notices;

/// The longest message of an event, in bytes.
const MESSAGE_BYTES: usize = 1024;

/// An event of an object of a partition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    /// ns since the epoch.
    pub(crate) at_ns: i64,
    pub(crate) object: Arc<str>,
    pub(crate) reference: Option<Arc<str>>,
    /// Namespace and name of the pod that the event is about. The key or UUID of this pod is the object of
    /// an event about a request, and the reference of other events.
    pub(crate) pod: Option<Arc<str>>,
    /// The queue of an application, for readers of older revisions of the interface.
    pub(crate) queue: Option<Arc<str>>,
    pub(crate) resources: Resources,
    pub(crate) message: Message,
}

impl Event {
    pub(crate) fn of(kind: EventKind, object: &Arc<str>, at_ns: i64) -> Self {
        Self {
            kind,
            at_ns,
            object: Arc::clone(object),
            reference: None,
            pod: None,
            queue: None,
            resources: Resources::new(),
            message: Message::Nothing,
        }
    }

    /// The event that a node has become schedulable, or unschedulable.
    pub(crate) fn schedulable(node: &Arc<str>, is_open: bool, at_ns: i64) -> Self {
        let text = if is_open { "schedulable: true" } else { "schedulable: false" };
        Self::of(EventKind::NodeSchedulable, node, at_ns).with_message(Message::Says(text))
    }

    /// Sets the other object that the event is about.
    #[must_use]
    pub(crate) fn referring(mut self, to: &Arc<str>) -> Self {
        self.reference = Some(Arc::clone(to));
        self
    }

    /// Sets the pod that has the key or UUID, if there is one.
    #[must_use]
    pub(crate) fn of_pod(mut self, pod: Option<&Arc<str>>) -> Self {
        self.pod = pod.cloned();
        self
    }

    /// Sets the reference to this request, and its amount.
    #[must_use]
    pub(crate) fn asked_for(self, spec: &AskSpec) -> Self {
        self.referring(&spec.key).of_pod(spec.pod()).amount(&spec.resources)
    }

    /// Sets the reference to this allocation, and its amount.
    #[must_use]
    pub(crate) fn allocated(self, uuid: &Arc<str>, spec: &AskSpec) -> Self {
        self.referring(uuid).of_pod(spec.pod()).amount(&spec.resources)
    }

    #[must_use]
    pub(crate) fn in_queue(mut self, path: &Arc<str>) -> Self {
        self.queue = Some(Arc::clone(path));
        self
    }

    #[must_use]
    pub(crate) fn amount(mut self, resources: &Resources) -> Self {
        self.resources.clone_from(resources);
        self
    }

    #[must_use]
    pub(crate) fn with_message(mut self, message: Message) -> Self {
        self.message = message;
        self
    }

    /// The record for the interface.
    pub(crate) fn record(&self) -> si::EventRecord {
        let (object, change, detail) = self.kind.on_wire();
        let reference = self.reference.as_deref().unwrap_or_default();
        let group = match object {
            Type::Request => reference,
            _ => self.queue.as_deref().unwrap_or_default(),
        };
        let reason = match detail {
            Detail::DetailsNone => "",
            detail => detail.as_str_name(),
        };
        si::EventRecord {
            r#type: object as i32,
            object_id: self.object.to_string(),
            group_id: group.to_owned(),
            reason: reason.to_owned(),
            message: cut(self.text()),
            timestamp_nano: self.at_ns,
            event_change_type: change as i32,
            event_change_detail: detail as i32,
            reference_id: reference.to_owned(),
            resource: Some(notices::amount(&self.resources)),
            seq: 0,
        }
    }

    /// The record with the name of the pod.
    pub(crate) fn read(&self) -> NamedEvent {
        NamedEvent { record: self.record(), pod: self.pod.clone() }
    }

    /// The name of the object for people: that of its pod, if it is a request with a pod.
    fn name(&self) -> &str {
        let is_of_request = self.kind.on_wire().0 == Type::Request;
        self.pod.as_ref().filter(|_| is_of_request).unwrap_or(&self.object)
    }

    fn text(&self) -> String {
        let name = self.name();
        match &self.message {
            Message::Nothing => String::new(),
            Message::Says(text) => (*text).to_owned(),
            Message::Reports(text) => text.to_string(),
            Message::Rejected(reason) => reason.to_string(),
            Message::Summary(summary) => summary.to_string(),
            Message::Held(count) => {
                format!("{count} places held for members of the task group, each of this size")
            }
            Message::OverQuota { queue, available } => format!(
                "request `{name}` does not fit in queue `{queue}` (requested {}, available {available})",
                self.resources
            ),
            Message::WithinQuota { queue } => {
                format!("request `{name}` has become schedulable in queue `{queue}`")
            }
            Message::OverUserQuota { available } => format!(
                "Not enough user quota: request `{name}` does not fit what user and group have left \
                 (requested {}, available {available})",
                self.resources
            ),
            Message::NodeNotCleared(node) => format!(
                "request `{name}` runs on node `{node}` only, and nothing there may leave for it"
            ),
            Message::Preempted(why) => why.to_string(),
            Message::GivesBack(given) => given.to_string(),
            Message::WithinUserQuota => {
                format!("request `{name}` fits what user and group have left")
            }
            Message::Refused(reasons) => {
                let mut text = format!("request `{name}` was refused by predicates:");
                for (reason, nodes) in reasons {
                    write!(text, " {reason} ({nodes}x);").expect("a string takes everything");
                }
                text
            }
            Message::NotStarted(why) => format!("request `{name}` {why}"),
            Message::GangNotStarted(why) => format!("no member of the gang runs: it {why}"),
            Message::LacksMembers(lacking) => lacking.to_string(),
            Message::TooSmall(it) => format!(
                "placeholder `{name}` of task group `{}` of application `{}` has {} and is too small for \
                 request `{}` of {}",
                it.group, it.application, it.placeholder, it.member, self.resources
            ),
        }
    }
}

/// The record of an event with the name of its pod. Dereferences to the record.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedEvent {
    /// The interface's record.
    pub record: si::EventRecord,
    /// Namespace and name of the pod that the event is about, as `NAMESPACE/NAME`; `None` if it is about
    /// no pod. The record has the key or UUID of this pod: as the object of an event of the type
    /// `REQUEST`, as the reference of other events.
    pub pod: Option<Arc<str>>,
}

impl Deref for NamedEvent {
    type Target = si::EventRecord;

    fn deref(&self) -> &si::EventRecord {
        &self.record
    }
}

/// The message in at most [`MESSAGE_BYTES`] bytes, cut between characters.
fn cut(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES {
        text.truncate(beginning(&text, MESSAGE_BYTES - 3).len());
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: Message) -> Event {
        Event::of(EventKind::RefusedByPredicates, &Arc::from("k"), 7)
            .referring(&Arc::from("app"))
            .with_message(message)
    }

    #[test]
    fn messages_are_cut_to_1024_bytes_with_dots() {
        let whole = "x".repeat(MESSAGE_BYTES);
        assert_eq!(cut(whole.clone()), whole);
        assert_eq!(cut("x".repeat(1025)), format!("{}...", "x".repeat(1021)));
        // The cut falls into the middle of a character of three bytes.
        let many = cut("€".repeat(400));
        assert_eq!(many, format!("{}...", "€".repeat(340)));
    }

    #[test]
    fn reasons_are_counted_and_sorted_by_text() {
        let reasons = [("no disk".to_owned(), 1), ("affinity".to_owned(), 12)].into();
        let record = event(Message::Refused(reasons)).record();
        assert!(record.message.ends_with("affinity (12x); no disk (1x);"), "{}", record.message);
        assert!(record.message.contains("`k`"));
    }

    #[test]
    fn older_readers_find_the_group_and_the_reason() {
        let record = event(Message::Nothing).record();
        assert_eq!((record.group_id.as_str(), record.reason.as_str()), ("app", ""));
        let added = Event::of(EventKind::AskAdded, &Arc::from("app"), 7)
            .in_queue(&Arc::from("root.a"))
            .referring(&Arc::from("k"))
            .amount(&Resources::of(&[("vcore", 1)]))
            .record();
        assert_eq!((added.group_id.as_str(), added.reason.as_str()), ("root.a", "APP_REQUEST"));
        assert_eq!((added.r#type, added.event_change_type, added.event_change_detail), (2, 2, 201));
        assert_eq!(added.resource.unwrap().resources["vcore"].value, 1);
    }
}
