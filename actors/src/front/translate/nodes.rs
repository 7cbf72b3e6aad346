//! Translation of new, changed and removed nodes.

use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm as Action;
use monoceros_rules::nodes::attributes as node_attributes;
use monoceros_rules::specs::ask::Form;
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::names::shown;

use super::checks::{counted, first_of};
use super::{Gathering, Translated, Translator};
use crate::events::Event;
use crate::partition::{NewNode, RefusedItem, Request};
use crate::session::Notice;
use crate::step::{Existing, NodeChange};

const NODE_PARTITION: &str = "si/node-partition";

impl Translator {
    /// Translates a request for nodes.
    pub(in crate::front) fn nodes(&self, request: si::NodeRequest) -> Translated {
        let mut gathering = Gathering::new();
        for node in request.nodes {
            self.node(node, &mut gathering);
        }
        gathering.done()
    }

    fn node(&self, mut node: si::NodeInfo, gathering: &mut Gathering) {
        let id: Arc<str> = Arc::from(std::mem::take(&mut node.node_id));
        let action = Action::try_from(node.action).unwrap_or(Action::UnknownActionFromRm);
        let named = node.attributes.get(NODE_PARTITION).map_or("", String::as_str);
        let Some(partition) = self.partition(named, gathering) else {
            let partition = shown(named);
            return self.node_of_no_partition(&id, action, partition, gathering);
        };
        match self.node_request(&id, action, node, &partition) {
            Ok(request) => gathering.request(&partition, request),
            Err(reason) => {
                tracing::warn!(rm = %self.rm, node = %id, %reason, "node update ignored");
                gathering.ignore(Ignored::NodeUpdate);
            }
        }
    }

    fn node_of_no_partition(
        &self,
        id: &Arc<str>,
        action: Action,
        partition: String,
        gathering: &mut Gathering,
    ) {
        let reason = Rejection::PartitionOfNode { id: Arc::clone(id), partition };
        let comes = matches!(action, Action::Create | Action::CreateDrain);
        if comes {
            gathering.refused.extend(self.schedulable(id, action == Action::Create));
        }
        if comes || self.intake.rejects_node_updates {
            return gathering.refuse(RefusedItem::Node { id: Arc::clone(id), reason });
        }
        tracing::warn!(rm = %self.rm, node = %id, %reason, "node update ignored");
        gathering.ignore(Ignored::NodeUnknown);
    }

    /// The request for a node, which may be a refusal. The error is the reason why an update has no
    /// effect.
    fn node_request(
        &self,
        id: &Arc<str>,
        action: Action,
        node: si::NodeInfo,
        partition: &Arc<str>,
    ) -> Result<Request, Rejection> {
        let refused =
            |reason| Request::Refused(Box::new(RefusedItem::Node { id: Arc::clone(id), reason }));
        let drain = |drain| Request::ChangeNode {
            id: Arc::clone(id),
            change: Box::new(NodeChange::Drain(drain)),
        };
        Ok(match action {
            Action::UnknownActionFromRm => {
                refused(Rejection::NodeAction { id: Arc::clone(id), action: node.action })
            }
            Action::Create | Action::CreateDrain => {
                let draining = action == Action::CreateDrain;
                match self.new_node(Arc::clone(id), node, draining, partition) {
                    Ok(new) => Request::CreateNode(Box::new(new)),
                    Err(reason) => refused(reason),
                }
            }
            Action::Update => {
                let total = counted(id, node.schedulable_resource.as_ref(), &self.names)?;
                let occupied = counted(id, node.occupied_resource.as_ref(), &self.names)?;
                self.intake.check_tags(id, "the sum of its attributes", &node.attributes)?;
                let attributes = node.attributes;
                let change = Box::new(NodeChange::Update { total, occupied, attributes });
                Request::ChangeNode { id: Arc::clone(id), change }
            }
            Action::DrainNode => drain(true),
            Action::DrainToSchedulable => drain(false),
            Action::Decomission => Request::RemoveNode(Arc::clone(id)),
        })
    }

    /// The event that a node is schedulable or not, for a node that names no partition. Such a node
    /// has events although it is rejected.
    fn schedulable(&self, id: &Arc<str>, open: bool) -> Option<Notice> {
        let event = || Event::schedulable(id, open, self.clock.now_ns());
        self.tracking.is_on().then(|| Notice::Happened(event().into()))
    }

    fn new_node(
        &self,
        id: Arc<str>,
        node: si::NodeInfo,
        draining: bool,
        partition: &Arc<str>,
    ) -> Result<NewNode, Rejection> {
        let (intake, names) = (&self.intake, &*self.names);
        let invalid =
            |why: &str| Rejection::NodeInvalid { id: Arc::clone(&id), why: why.to_owned() };
        if id.is_empty() {
            return Err(invalid("nodeID missing"));
        }
        if intake.check_id(&id).is_err() {
            return Err(Rejection::NodeInvalid {
                id: Arc::from(""),
                why: "nodeID too long".into(),
            });
        }
        intake.check_tags(&id, "the sum of its attributes", &node.attributes)?;
        let total = counted(&id, node.schedulable_resource.as_ref(), names)?.unwrap_or_default();
        let occupied = counted(&id, node.occupied_resource.as_ref(), names)?.unwrap_or_default();
        let mut existing = Vec::new();
        for allocation in node.existing_allocations {
            let uuid = first_of(&allocation.uuid, &allocation.allocation_id).to_owned();
            let application: Arc<str> = Arc::from(allocation.application_id.as_str());
            intake.check_text(&id, "the UUID of an allocation on it", &uuid)?;
            let key = Arc::from(allocation.allocation_key.as_str());
            let spec = self.spec_of(key, allocation, Form::Recovered)?;
            let uuid = if uuid.is_empty() { Arc::clone(&spec.key) } else { Arc::from(uuid) };
            existing.push((
                application,
                Existing { spec: Arc::new(spec), uuid, node: Arc::clone(&id) },
            ));
        }
        let mut attributes = node.attributes;
        // A new node has no attributes that could be removed.
        attributes.remove(node_attributes::REMOVED);
        attributes.insert(NODE_PARTITION.to_owned(), partition.to_string());
        Ok(NewNode { id, attributes, total, occupied, existing, draining })
    }
}
