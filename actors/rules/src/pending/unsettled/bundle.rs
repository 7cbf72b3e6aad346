//! The bundle in flight, in the forms that other steps and the questions about its members use.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::values::ids::ApplicationSlot;

/// A bundle whose members have places and wait for their predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBundle {
    /// The application of the bundle.
    pub application: ApplicationSlot,
    /// The number of members without an open question.
    pub unasked: usize,
    /// The number of these that the RM has still to be asked about.
    pub to_ask: usize,
    /// Whether an answer was void. Then nothing else is placed until the bundle is settled or
    /// withdrawn.
    pub stops_offers: bool,
}

/// The members of a gang that is placed as a whole. There is a place for each member, and each is
/// checked before the gang is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionBundle {
    /// The number of the gang, unique among all partitions of an RM during a session.
    pub id: u64,
    /// The places of all members that the RM is asked about, including the one of this question. A
    /// member has the same position in all questions.
    pub places: Vec<BundlePlace>,
}

/// The place of a member of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundlePlace {
    /// The allocation key; empty for a place to be held.
    pub key: Arc<str>,
    /// The task group of the member for which a place is to be held; `None` for a request.
    pub group: Option<Arc<str>>,
    /// The id of the node.
    pub node: Arc<str>,
}
