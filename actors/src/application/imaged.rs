//! An application as data: what an image of its partition keeps of it, and the actor that goes on
//! from there.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::applications::backoff::Backoff;
use monoceros_rules::applications::blocked::Blocked;
use monoceros_rules::applications::run_limit::RunLimit;
use monoceros_rules::decide::gang::GangSearch;
use monoceros_rules::decide::in_flight::BundleInFlight;
use monoceros_rules::decide::pairs::PairSearch;
use monoceros_rules::decide::preemption::Turns;
use monoceros_rules::limits::Membership;
use monoceros_rules::pending::aging::Aging;
use monoceros_rules::values::ids::ApplicationSlot;
use monoceros_rules::waiting::Declined;

use super::Application;
use crate::metrics::{ActorKind, Metrics};
use crate::queue::{Queue, QueueFacts};
use crate::step::{Baton, BatonAddress, Imaged, Listed, Owner, RowSlot};

/// The state of an application: all that its actor keeps, without addresses.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ApplicationImage {
    pub(crate) slot: ApplicationSlot,
    pub(crate) book: Book,
    pub(crate) leaf_facts: Arc<QueueFacts>,
    /// The group that it counts for, if it does for one.
    group: Option<Arc<str>>,
    pub(crate) row: Option<RowSlot>,
    lane: Membership,
    blocked: Blocked,
    declined: Declined,
    pairs: PairSearch,
    bundle: Option<Box<GangSearch>>,
    in_flight: Option<Box<BundleInFlight>>,
    run_limit: RunLimit,
    backoff: Option<Backoff>,
    aging: Aging,
    turns: Option<Box<Turns>>,
    listed: Listed,
}

impl Application {
    /// Gives its state to the image under way, if that has not got it. Called whenever the baton comes,
    /// before anything changes.
    pub(super) fn give_image(&mut self, baton: &mut Baton) {
        if let Some(gathering) = baton.imaging.wants(&mut self.imaged) {
            gathering.applications.push(self.image());
        }
    }

    /// Returns the state of the application between two steps.
    fn image(&self) -> ApplicationImage {
        let Self {
            slot,
            book,
            leaf: _,
            leaf_facts,
            owner,
            row,
            lane,
            blocked,
            declined,
            pairs,
            bundle,
            in_flight,
            run_limit,
            backoff,
            aging,
            turns,
            // A cache: it is filled again when the next allocation ends.
            run_classes: _,
            listed,
            imaged: _,
            changes,
            metrics: _,
            _counted: _,
        } = self;
        debug_assert!(changes.is_empty(), "changes are told before a step ends");
        ApplicationImage {
            slot: *slot,
            book: book.clone(),
            leaf_facts: Arc::clone(leaf_facts),
            group: owner.group.clone(),
            row: *row,
            lane: lane.clone(),
            blocked: *blocked,
            declined: *declined,
            pairs: pairs.clone(),
            bundle: bundle.clone(),
            in_flight: in_flight.clone(),
            run_limit: run_limit.clone(),
            backoff: backoff.clone(),
            aging: aging.clone(),
            turns: turns.clone(),
            listed: listed.clone(),
        }
    }

    /// Builds the actor of an application that goes on from this state.
    pub(crate) fn restored(
        image: ApplicationImage,
        leaf: Arc<BatonAddress<Queue>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.application_restored(image.book.state());
        Self {
            slot: image.slot,
            owner: Arc::new(Owner::of(&image.book, image.group)),
            book: image.book,
            leaf,
            leaf_facts: image.leaf_facts,
            row: image.row,
            lane: image.lane,
            blocked: image.blocked,
            declined: image.declined,
            pairs: image.pairs,
            bundle: image.bundle,
            in_flight: image.in_flight,
            run_limit: image.run_limit,
            backoff: image.backoff,
            aging: image.aging,
            turns: image.turns,
            run_classes: None,
            listed: image.listed,
            imaged: Imaged::default(),
            changes: Vec::new(),
            _counted: metrics.counted(ActorKind::Application),
            metrics,
        }
    }
}
