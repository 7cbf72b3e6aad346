//! A node as data: what an image of its partition keeps of it, and the actor that goes on from
//! there.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::rare::Rare;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::values::texts::Texts;

use super::{Node, Others};
use crate::metrics::{ActorKind, Metrics};
use crate::step::{Baton, Imaged};

/// The state of a node: all that its actor keeps.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct NodeImage {
    pub(crate) slot: NodeSlot,
    pub(crate) id: Arc<str>,
    pub(crate) attributes: Arc<Texts>,
    pub(crate) total: Arc<Resources>,
    pub(crate) allocated: Resources,
    pub(crate) others: Rare<Others>,
    pub(crate) holds: Vec<AllocationId>,
    pub(crate) draining: bool,
    pub(crate) ready: bool,
    pub(super) available: Resources,
}

impl Node {
    /// Gives its state to the image under way, if that has not got it. Called whenever the baton comes,
    /// before anything changes.
    pub(super) fn give_image(&mut self, baton: &mut Baton) {
        if let Some(gathering) = baton.imaging.wants(&mut self.imaged) {
            gathering.nodes.push(self.image());
        }
    }

    /// Returns the state of the node between two steps.
    fn image(&self) -> NodeImage {
        let Self {
            slot,
            id,
            attributes,
            total,
            allocated,
            others,
            holds,
            draining,
            ready,
            available,
            imaged: _,
            metrics: _,
            _counted: _,
        } = self;
        NodeImage {
            slot: *slot,
            id: Arc::clone(id),
            attributes: Arc::clone(attributes),
            total: Arc::clone(total),
            allocated: allocated.clone(),
            others: others.clone(),
            holds: holds.clone(),
            draining: *draining,
            ready: *ready,
            available: available.clone(),
        }
    }

    /// Builds the actor of a node that goes on from this state.
    pub(crate) fn restored(image: NodeImage, metrics: Arc<Metrics>) -> Self {
        metrics.nodes.active.inc();
        if image.draining {
            metrics.nodes.draining.inc();
        }
        if !image.ready {
            metrics.nodes.unhealthy.inc();
        }
        Self {
            slot: image.slot,
            id: image.id,
            attributes: image.attributes,
            total: image.total,
            allocated: image.allocated,
            others: image.others,
            holds: image.holds,
            draining: image.draining,
            ready: image.ready,
            available: image.available,
            imaged: Imaged::default(),
            _counted: metrics.counted(ActorKind::Node),
            metrics,
        }
    }
}
