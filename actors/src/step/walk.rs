//! A walk, and what it gathers.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Addr;
use monoceros_rules::audit::Facts;
use monoceros_rules::decide::scale_up::ApplicationWaiting;
use monoceros_rules::limits::{LaneId, LimitId};
use monoceros_rules::nodes::utilization::NodeFigures;
use monoceros_rules::values::resources::{Limits, Resources};
use monoceros_rules::work::allocations::ApplicationSlot;
use monoceros_rules::work::asks::ClassId;

use super::{QueueSlot, RowUpdate};
use crate::application::Application;
use crate::node::Node;
use crate::partition::Room;
use crate::queue::Queue;
use crate::snapshot::{ApplicationSnapshot, NodeSnapshot, OutstandingRequest, QueueSnapshot};

/// A walk through a list of actors, last first: applications, then queues from the leaves upward,
/// then nodes.
#[derive(Default)]
pub(crate) struct Walk {
    pub(crate) queues: Vec<Arc<Addr<Queue>>>,
    pub(crate) applications: Vec<Arc<Addr<Application>>>,
    pub(crate) nodes: Vec<Arc<Addr<Node>>>,
    pub(crate) purpose: Purpose,
    /// Fair maximum of every queue, by slot, for a refresh.
    pub(crate) fair_max: Vec<Option<Limits>>,
    /// Lanes to be looked at again, by leaf.
    pub(crate) lanes: BTreeMap<QueueSlot, Vec<LaneId>>,
    /// Key and priority that children leave for their parent.
    pub(crate) rows: BTreeMap<QueueSlot, Vec<RowUpdate>>,
    /// Snapshots that children leave for their parent.
    pub(crate) trees: BTreeMap<QueueSlot, Vec<QueueSnapshot>>,
    pub(crate) applications_read: Vec<ApplicationSnapshot>,
    pub(crate) nodes_read: Vec<NodeSnapshot>,
    /// Capacity and use of each node.
    pub(crate) loads: Vec<(Resources, Resources)>,
    pub(crate) facts: Facts,
    /// What is accounted of nodes.
    pub(crate) figures: Vec<(Arc<str>, NodeFigures)>,
    /// What queues have left, for the scale-up signal.
    pub(crate) rooms: BTreeMap<QueueSlot, Room>,
    /// What the limits of users and groups leave to them.
    pub(crate) limits: BTreeMap<LimitId, Limits>,
    /// What applications wait for, by leaf.
    pub(crate) waiting: Vec<(QueueSlot, ApplicationWaiting)>,
    /// What of it would run on more machines.
    pub(crate) wanted: BTreeMap<ApplicationSlot, Vec<(ClassId, u64)>>,
    /// The same for people, and how much of it they want.
    pub(crate) outstanding: Vec<OutstandingRequest>,
    pub(crate) outstanding_limit: usize,
}

/// What a walk does at each actor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Root's capacity or the configuration changed: keys are made anew.
    #[default]
    Refresh,
    /// Limits were loosened: lanes are looked at again.
    LookAgain,
    /// The partition goes: its RM is told of each application.
    Dismiss,
    /// A snapshot for people.
    Read,
    /// Capacity and use of nodes.
    Load,
    /// What is accounted of nodes.
    Figures,
    /// What queues have left.
    Room,
    /// What applications wait for.
    Waiting,
    /// The RM is told which asks would run on more machines.
    Signal,
    /// The same for people.
    Outstanding,
    /// The facts of an audit.
    Audit,
}
