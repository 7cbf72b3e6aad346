//! What surveys take from an application, or renew in it. The surveys are in `partition::surveys`;
//! only what needs private fields of an application is here, so that a new survey is a file there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use monoceros_rules::applications::backoff::{self, Backoff};
use monoceros_rules::applications::native::Stage;
use monoceros_rules::asks::ToSignal;
use monoceros_rules::decide::scale_up::ApplicationWaiting;
use monoceros_rules::limits::{LimitId, Moves, Regrouping};
use monoceros_rules::order::keys::AskKey;
use monoceros_rules::values::ids::{ApplicationSlot, ClassId};
use monoceros_rules::values::resources::Limits;

use super::explained::{Explained, ExplainedApplication, Explainer};
use super::{Application, Blocked};
use crate::events::{Event, EventKind};
use crate::partition::surveys::PARTS_MAX;
use crate::snapshot::OutstandingRequest;
use crate::step::{Baton, Notice, QueueSlot, RowKey, RowUpdate, ScaleUpRequests, UnplacedRequest};
use crate::views::rows::{ApplicationProgress, ApplicationRow};

impl Application {
    /// Its place in the directory.
    pub(crate) fn slot(&self) -> ApplicationSlot {
        self.slot
    }

    /// What is known of it.
    pub(crate) fn known(&self) -> &monoceros_rules::applications::application::Application {
        &self.book
    }

    /// The leaf that it is in.
    pub(crate) fn leaf_slot(&self) -> QueueSlot {
        self.leaf_facts.slot
    }

    /// Takes over what a configuration changed in its leaf. Returns the update for its row there.
    pub(crate) fn refresh(&mut self, baton: &mut Baton) -> Option<RowUpdate> {
        self.leaf_facts = Arc::clone(&baton.directory.queue(self.leaf_facts.slot).facts);
        self.rejoin_lane(baton);
        if self.leaf_facts.config.settings.backoff_asks == 0
            && let Some(backoff) = &mut self.backoff
        {
            backoff.end();
        }
        self.look_for_victims_anew(baton);
        self.update()
    }

    /// How it moves from group to group when other limits come into force, if it does, and whether
    /// it counts as running.
    pub(crate) fn moves(&self, regrouping: &Regrouping, baton: &Baton) -> Option<(Moves, bool)> {
        let lane = self.lane.as_ref()?;
        let moves = regrouping.moves(&baton.books.trackers, lane.id(), &self.book.groups)?;
        Some((moves, lane.counts()))
    }

    /// Explains some of its asks, each class with at most `keys` keys.
    pub(crate) fn explained(
        &self,
        which: &Explained,
        keys: usize,
        baton: &Baton,
    ) -> ExplainedApplication {
        let delay = self.leaf_facts.config.settings.backoff_delay.max(backoff::LEAST);
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let until_ns = self.backs_off_until();
        let explainer = Explainer {
            book: &self.book,
            slot: self.slot,
            leaf: self.leaf_facts.slot,
            row: self.row,
            lane: self.limited_lane(),
            bundle: self.bundle.as_deref(),
            pairs: self.pairs.search(),
            backs_off: until_ns.map(|until_ns| (until_ns.saturating_sub(delay_ns), until_ns)),
            preemptors: self.preemptors(baton),
            baton,
        };
        explainer.explained(which, keys)
    }

    /// What a list takes of it.
    pub(crate) fn row(
        &self,
        behind: Option<&ApplicationProgress>,
        is_brief: bool,
        baton: &Baton,
    ) -> ApplicationRow {
        let until = self.backs_off_until();
        ApplicationRow::part(&self.book, behind, (PARTS_MAX, is_brief), until, baton)
    }

    /// Who submitted it.
    pub(crate) fn user(&self) -> &str {
        &self.book.user
    }

    /// Finds out whether it waits for leave to run, and tells it if that is another answer than
    /// before. `may_start` says whether its queues have room for one more.
    pub(crate) fn review_leave(&mut self, may_start: bool, baton: &mut Baton) {
        if self.key().is_some() {
            let starts = self.book.is_starting();
            let (lane, trackers) = (self.limited_lane(), &baton.books.trackers);
            let blocked = Blocked {
                by_queue: starts && !may_start,
                by_quota: starts && lane.is_some_and(|lane| !trackers.may_start(lane)),
            };
            self.set_blocked(blocked, baton);
        }
        self.review_untold(baton);
    }

    /// Notes which maxima of running applications keep the application from starting, and makes an event
    /// of each that does so from now on, or no longer.
    pub(super) fn set_blocked(&mut self, blocked: Blocked, baton: &mut Baton) {
        use EventKind::{
            AppBlockedByQueue, AppBlockedByQuota, AppRunnableByQueue, AppRunnableByQuota,
        };
        let was = std::mem::replace(&mut self.blocked, blocked);
        let by_queue = (was.by_queue, blocked.by_queue, AppBlockedByQueue, AppRunnableByQueue);
        let by_quota = (was.by_quota, blocked.by_quota, AppBlockedByQuota, AppRunnableByQuota);
        for (was, is_blocked, blocks, frees) in [by_queue, by_quota] {
            if was != is_blocked {
                let kind = if is_blocked { blocks } else { frees };
                baton.happens(|at| Event::about(&self.book, kind, at));
            }
        }
    }

    /// The requests that were tried and wait, for the scale-up signal; `leaf` is the place of its
    /// leaf in the list of queues, and what the limits of its user and group leave goes to `left`.
    pub(crate) fn waiting(
        &self,
        leaf: usize,
        left: &mut BTreeMap<LimitId, Limits>,
        baton: &Baton,
    ) -> Option<ApplicationWaiting> {
        let Some(RowKey::Application(key)) = self.key() else { return None };
        let asks = &self.book.asks;
        let (classes, together) = match self.book.undecided() {
            // In flight it waits for answers.
            Some(native) if native.stage == Stage::InFlight => return None,
            Some(native) => {
                let bundled = native.bundle(asks);
                (bundled.map_or_else(|_| Vec::new(), |it| asks.tried_together(&it)), true)
            }
            None => (asks.tried(self.backoff.as_ref().map(Backoff::reached)), false),
        };
        if classes.is_empty() {
            return None;
        }
        let rooms = self.limited_lane().map(|lane| baton.books.trackers.rooms(lane));
        let mut limits = Vec::new();
        for (limit, room) in rooms.into_iter().flatten() {
            left.insert(limit, room);
            limits.push(limit);
        }
        Some(ApplicationWaiting { application: self.slot, leaf, key, limits, classes, together })
    }

    /// Tells the RM of those asks that it was not told of, and looks at `most` asks for that at most;
    /// those that are left are left in the queue. Returns at how many it looked.
    pub(crate) fn signal(
        &mut self,
        to_signal: &mut VecDeque<ToSignal>,
        most: usize,
        baton: &mut Baton,
    ) -> usize {
        let (reached, mut requests, mut looked_at) =
            (self.backoff.as_ref().map(Backoff::reached), Vec::new(), 0);
        // Of a gang one ask was refused for all of them.
        let bundle = self.book.undecided().and(self.bundle.as_ref());
        let is_bundle_refused = bundle.is_some_and(|bundle| bundle.is_refused());
        while let Some(class) = to_signal.front_mut()
            && looked_at < most
        {
            let asks = &mut self.book.asks;
            let signalled = asks.signal(class, reached, most - looked_at);
            looked_at += signalled.looked_at;
            for slot in signalled.due {
                let ask = asks.ask(slot);
                let by_predicates = ask.is_resting() || is_bundle_refused;
                requests.push(UnplacedRequest { spec: Arc::clone(&ask.spec), by_predicates });
            }
            if class.is_over() {
                to_signal.pop_front();
            }
        }
        if !requests.is_empty() {
            let application = Arc::clone(&self.book.id);
            let wanting = Box::new(ScaleUpRequests { application, requests });
            baton.effects.notify(Notice::ScaleUp(wanting));
        }
        self.review_untold(baton);
        looked_at
    }

    /// Has the directory list it as long as the next look for more machines may have something to
    /// tell of it.
    fn review_untold(&mut self, baton: &mut Baton) {
        let is_unsignalled = self.book.asks.any_unsignalled() || self.blocked != Blocked::default();
        if std::mem::replace(&mut self.is_unsignalled, is_unsignalled) == is_unsignalled {
            return;
        }
        let (directory, leaf) = (&mut baton.directory, self.leaf_slot());
        if is_unsignalled {
            directory.list_untold(leaf, self.slot);
        } else {
            directory.untold_no_more(leaf, self.slot);
        }
    }

    /// The requests of a class that more machines would help, as clients read them, with their
    /// asks: of those behind an ask the first, which have so many allocations outstanding, and at
    /// most `most` of them. Those that require a node are left out.
    pub(crate) fn outstanding(
        &self,
        class: ClassId,
        behind: Option<&AskKey>,
        count: u64,
        most: usize,
    ) -> Vec<(AskKey, OutstandingRequest)> {
        let asks = &self.book.asks;
        let tried =
            asks.tried_after(class, behind, count, self.backoff.as_ref().map(Backoff::reached));
        let request = |(key, slot, count)| {
            let ask = asks.ask(slot);
            let request = OutstandingRequest {
                partition: String::new(),
                application: self.book.id.to_string(),
                key: ask.key.to_string(),
                task_group: ask.task_group.as_deref().cloned().unwrap_or_default(),
                queue: self.book.queue.to_string(),
                resource: (*ask.resources).clone(),
                count,
                tags: ask.tags.as_ref().map(|tags| tags.to_map()).unwrap_or_default(),
                pending_since_ns: ask.stated_creation_ns(),
            };
            (key, request)
        };
        let anywhere = tried.take_while(|(_, slot, _)| asks.ask(*slot).required_node.is_none());
        anywhere.take(most).map(request).collect()
    }
}
