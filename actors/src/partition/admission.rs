//! Admission of applications, and the choice of their leaf: `docs/applications.md#admission`.
//!
//! The rules of the partition name a path
//! ([`PlacementRules`](monoceros_config::placement::PlacementRules)). Missing queues on it are
//! added, then the application joins, all in one step, because an empty dynamic queue could
//! otherwise be removed between the two.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use monoceros_config::placement::{self, QueueTree, Refused, RuleObstacle, Submission};
use monoceros_rules::applications::application::{Application as Book, NewApplication};
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::books::Books;
use monoceros_rules::nodes::Terms;
use monoceros_rules::order::ledger;
use monoceros_rules::queues::ApplicationSortPolicy;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::specs::declaration::{Declaration, DeclaredGroup, Fault};
use monoceros_rules::specs::hold_again::HoldAgain;
use monoceros_rules::specs::quotas::{Held, Quota};
use monoceros_rules::specs::rejection::{Overflow, Rejection};
use monoceros_rules::specs::tags::NAMESPACE_CHANGED;
use monoceros_rules::values::ids::ApplicationSlot;
use monoceros_rules::values::names::RECOVERY;
use monoceros_rules::values::quantity::all_written;
use monoceros_rules::values::readable::amounts;
use monoceros_rules::values::resources::{Limits, Resources, Sum};

use super::dynamic::missing_queues;
use super::{Partition, Task};
use crate::application::Application;
use crate::events::{Event, EventKind, Message};
use crate::step::{
    ApplicationEntry, Baton, BatonAddress, Directory, GangOp, Notice, Op, QueueSlot, WaitsFor,
};

impl Partition {
    pub(super) fn add_application(&mut self, new: NewApplication, baton: &mut Baton) {
        if new.tags.as_ref().is_some_and(|tags| tags.get(NAMESPACE_CHANGED).is_some()) {
            return self.namespace_changed(&new, baton);
        }
        if let Some(again) = new.tags.as_ref().and_then(|tags| HoldAgain::of(tags)) {
            return self.hold_again(&new, again, baton);
        }
        let directory = &baton.directory;
        let quotas = baton.quotas();
        let within = |quota, n_more| {
            let over = |over| Rejection::OverQuota { id: Arc::clone(&new.id), over };
            quotas.takes(quota, n_more).map_err(over)
        };
        let found = (self.takes_new("application", &new.id))
            .and_then(|()| is_new(&new, directory))
            .and_then(|()| within(Quota::Applications, 1))
            .and_then(|()| self.place(&new, directory));
        match found {
            Ok((_, Some(leaf))) => self.join(new, leaf, baton),
            Ok((path, None)) => match missing_queues(&path, &new, directory).and_then(|missing| {
                // The queue of recovered applications may exceed the quota of queues.
                let n_more = if path == RECOVERY { 0 } else { missing.len() as u64 };
                if n_more > 0 {
                    within(Quota::Queues, n_more)?;
                }
                Ok(missing)
            }) {
                Ok(missing) => {
                    self.agenda.extend(missing.into_iter().map(Task::AddQueue));
                    self.agenda.push_back(Task::Join(Box::new(new), Arc::from(path)));
                }
                Err(reason) => self.reject(&new, reason, baton),
            },
            Err(reason) => self.reject(&new, reason, baton),
        }
    }

    /// Applies the quotas that an existing application reports again for its namespace; nothing
    /// else in the message is used.
    fn namespace_changed(&mut self, new: &NewApplication, baton: &mut Baton) {
        let slot = baton.directory.application_slot(&new.id);
        let leaf = slot.and_then(|slot| baton.directory.application(slot)).map(|entry| entry.leaf);
        let Some(leaf) = leaf else {
            let unknown = Rejection::ApplicationUnknown(Arc::clone(&new.id));
            return self.reject(new, unknown, baton);
        };
        self.take_namespace(new, leaf, baton);
        baton.effects.notify(Notice::ApplicationAccepted(Arc::clone(&new.id)));
    }

    /// Has places held again for the gang of an existing application; nothing else in the message
    /// is used. The answer confirms that they are held.
    fn hold_again(&mut self, new: &NewApplication, again: HoldAgain, baton: &mut Baton) {
        let Some(slot) = baton.directory.application_slot(&new.id) else {
            let unknown = Rejection::ApplicationUnknown(Arc::clone(&new.id));
            return self.reject(new, unknown, baton);
        };
        self.agenda
            .push_back(Task::Visit(slot, vec![Op::Gang(GangOp::HoldAgain(Box::new(again)))]));
    }

    /// Returns the path of the application's leaf, and the leaf if it exists.
    fn place(
        &self,
        new: &NewApplication,
        directory: &Directory,
    ) -> Result<(String, Option<QueueSlot>), Rejection> {
        let submission = Submission {
            queue: &new.queue,
            user: &new.user,
            groups: &new.groups,
            tags: new.tags.as_ref(),
            is_forced: new.tags.as_ref().is_some_and(|tags| placement::is_forced(tags.iter())),
        };
        let id = Arc::clone(&new.id);
        match self.config.rules.place(&submission, directory) {
            Ok(placed) => {
                for passed in placed.passed_over {
                    if matches!(passed.obstacle, RuleObstacle::Failed(_)) {
                        tracing::warn!(application = %id, rule = %passed, "placement rule failed");
                    }
                }
                Ok((placed.path, placed.leaf))
            }
            Err(Refused::NotLeaf(queue)) => Err(Rejection::NotLeaf { id, queue }),
            Err(refused) => {
                let (why, cause) = (refused.to_string(), refused.cause().into());
                Err(Rejection::Placement { id, why, cause })
            }
        }
    }

    /// Adds the application to the leaf of this path, which has just been created for it.
    pub(super) fn join_at(&mut self, new: NewApplication, path: &str, baton: &mut Baton) {
        let leaf = baton.directory.queue_by_path[path];
        self.join(new, leaf, baton);
    }

    /// Adds the application to a leaf, unless it is a gang that the leaf cannot take. The quotas
    /// that it brings for its namespace are applied either way.
    fn join(&mut self, new: NewApplication, leaf: QueueSlot, baton: &mut Baton) {
        self.take_namespace(&new, leaf, baton);
        let terms = match takes_gang(&new, leaf, baton).and_then(|()| learn_terms(&new, baton)) {
            Ok(terms) => terms,
            Err(reason) => {
                self.reject(&new, reason, baton);
                self.may_be_empty(leaf, baton);
                return;
            }
        };
        self.empty.forget(leaf);
        let id = Arc::clone(&new.id);
        let queue = Arc::clone(&baton.directory.queue(leaf).facts.config.path);
        let declares = new.task_groups.is_some();
        let slot = enter_directory(new, leaf, terms, baton);
        self.agenda.push_back(Task::Attach(slot));
        if declares {
            self.agenda.push_back(Task::Visit(slot, vec![Op::Gang(GangOp::Declare)]));
        }
        baton.happens(|at| Event::of(EventKind::AppNew, &id, at).in_queue(&queue));
        baton.happens(|at| Event::of(EventKind::QueueAppAdded, &queue, at).referring(&id));
        baton.directory.counts(leaf).moved(None, Some(ApplicationState::New));
        baton.tally.application_new();
        baton.effects.notify(Notice::ApplicationPlaced { id: Arc::clone(&id), queue: Some(queue) });
        baton.effects.notify(Notice::ApplicationAccepted(Arc::clone(&id)));
        self.do_what_waited(&WaitsFor::Application(id), baton);
    }

    fn reject(&mut self, new: &NewApplication, reason: Rejection, baton: &mut Baton) {
        let id = &new.id;
        self.keep_ended(
            Ended::rejected(id, &new.queue, &new.user, &new.groups, &reason, baton.now_ns),
            baton,
        );
        baton.happens(|at| Event::of(EventKind::AppNew, id, at));
        baton.happens(|at| {
            let why = Message::Rejected(Box::new(reason.clone()));
            Event::of(EventKind::AppState(ApplicationState::Rejected), id, at).with_message(why)
        });
        count_rejected(&new.queue, baton);
        let exists = matches!(reason, Rejection::ApplicationExists(_));
        baton
            .effects
            .notify(Notice::ApplicationRejected { id: Arc::clone(id), reason: Box::new(reason) });
        if !exists {
            self.application_gone(id, baton);
        }
    }
}

/// Counts a rejected application for the leaf that it named, if there is one.
pub(super) fn count_rejected(named: &str, baton: &mut Baton) {
    let named = named.to_lowercase();
    let by_path = &baton.directory.queue_by_path;
    let found = by_path.get(&*named).or_else(|| by_path.get(&*format!("root.{named}")));
    let leaf = found.map(|slot| baton.directory.queue(*slot)).filter(|it| it.facts.config.is_leaf);
    let leaf = leaf.map(|entry| (entry.facts.slot, Arc::clone(&entry.facts.config.path)));
    if let Some((slot, _)) = leaf {
        baton.directory.counts(slot).moved(None, Some(ApplicationState::Rejected));
    }
    baton.tally.application_rejected(leaf.as_ref().map(|(_, path)| path));
}

/// Enters an application in the directory. `terms` has the prepared placement constraint of each
/// task group, in order; `None` for a group that is not placed by one.
fn enter_directory(
    new: NewApplication,
    leaf: QueueSlot,
    terms: Vec<Option<Arc<Terms>>>,
    baton: &mut Baton,
) -> ApplicationSlot {
    let directory = &mut baton.directory;
    let slot = directory.applications.next();
    let queue = directory.queue_mut(leaf);
    queue.applications += 1;
    let (leaf_address, facts) = (Arc::clone(&queue.address), Arc::clone(&queue.facts));
    let id = Arc::clone(&new.id);
    let metrics = Arc::clone(baton.tally.shared());
    let run_limit_ms = new.run_limit_ms;
    let has_declared_members = new.task_groups.is_some();
    let mut book = Book::new(new, Arc::clone(&facts.config.path), baton.now_ns);
    if let Some(native) = book.native_mut() {
        for (group, terms) in native.groups_mut().iter_mut().zip(terms) {
            group.terms = terms;
        }
    }
    let held = book.counted();
    let address = BatonAddress::start(Application::new(
        slot,
        book,
        run_limit_ms,
        leaf_address,
        facts,
        baton.imaging.of_new(),
        metrics,
    ));
    let state = ApplicationState::New;
    baton.books.quotas.change(Held::default(), held);
    let entry = ApplicationEntry { slot, id, leaf, address, state, has_declared_members, held };
    directory.enter_application(entry);
    slot
}

fn is_new(new: &NewApplication, directory: &Directory) -> Result<(), Rejection> {
    if directory.application_slot(&new.id).is_some() {
        return Err(Rejection::ApplicationExists(Arc::clone(&new.id)));
    }
    Ok(())
}

/// Whether the leaf can take the application if that is a gang: `docs/applications.md#admission`.
fn takes_gang(new: &NewApplication, leaf: QueueSlot, baton: &Baton) -> Result<(), Rejection> {
    let (directory, ask) = (&baton.directory, &new.placeholder_ask);
    let id = || Arc::clone(&new.id);
    let config = &directory.queue(leaf).facts.config;
    if !ask.is_zero() && config.settings.sort_policy != ApplicationSortPolicy::Fifo {
        return Err(Rejection::GangSort { id: id(), queue: Arc::clone(&config.path) });
    }
    if let Some(declared) = &new.task_groups {
        takes_declared(new, declared.as_ref().as_ref(), leaf, baton)?;
    }
    if ask.is_zero() {
        return Ok(());
    }
    fits_below_root(&new.id, ask, leaf, directory)
}

/// Whether the leaf can take an application that declares its members. The sort policy of the leaf
/// does not matter, since such a gang is never held in part.
fn takes_declared(
    new: &NewApplication,
    declared: Result<&Declaration, &Fault>,
    leaf: QueueSlot,
    baton: &Baton,
) -> Result<(), Rejection> {
    let id = || Arc::clone(&new.id);
    let wrong = |fault| Rejection::GangDeclaration { id: id(), fault };
    let declared = declared.map_err(|fault| wrong(fault.clone()))?;
    if !new.placeholder_ask.is_zero() {
        return Err(wrong(Fault::WithPlaceholders));
    }
    let total = declared.total();
    fits_below_root(&new.id, &total, leaf, &baton.directory)?;
    let path = &baton.directory.queue(leaf).facts.config.path;
    let trackers = &baton.books.trackers;
    if let Some((whose, queue, max)) = trackers.never_holds(&new.user, &new.groups, path, &total) {
        let whose = whose.to_string();
        let (ask, max) = compared(&total, &max);
        return Err(Rejection::GangOverLimit { id: id(), whose, queue, ask, max });
    }
    // Members whose sum is too large for a quantity could never run together, on any nodes.
    let mut sum = Sum::default();
    for group in declared.groups() {
        sum.add_times(group.member.as_ref().unwrap_or(&Resources::NONE), group.min_members);
    }
    match sum.first_too_large() {
        None => Ok(()),
        Some(name) => Err(Rejection::Overflow { id: id(), why: Overflow::Members(name.text()) }),
    }
}

/// Prepares the placement constraints of declared task groups for searches.
fn learn_terms(
    new: &NewApplication,
    baton: &mut Baton,
) -> Result<Vec<Option<Arc<Terms>>>, Rejection> {
    let Some(Ok(declared)) = new.task_groups.as_ref().map(|it| it.as_ref().as_ref()) else {
        return Ok(Vec::new());
    };
    let Books { nodes, allocations, .. } = &mut baton.books;
    let learn = |(at, group): (usize, &DeclaredGroup)| {
        // The constraint of a group only places the members for which a place is held.
        let constraint = group.member.as_ref().and_then(|_| group.ask_constraint());
        let terms = constraint.map(|it| nodes.learn(&it, allocations)).transpose();
        terms.map_err(|fault| {
            let what = format!("its placement constraint cannot be applied: {fault}");
            let fault = Fault::Group { group: Fault::shown_group(&group.name, at), what };
            Rejection::GangDeclaration { id: Arc::clone(&new.id), fault }
        })
    };
    declared.groups().iter().enumerate().map(learn).collect()
}

/// Whether all members of a gang fit the maxima from the leaf up to below root. The maxima count as
/// configured, and not what is left of them; root's does not count, since a cluster may grow.
fn fits_below_root(
    id: &Arc<str>,
    ask: &Resources,
    leaf: QueueSlot,
    directory: &Directory,
) -> Result<(), Rejection> {
    let below_root = directory.upward(leaf).filter(|facts| facts.parent.is_some());
    let max = below_root.fold(None, |max: Option<Limits>, facts| {
        ledger::effective_max(max.as_ref(), facts.config.max.as_ref())
    });
    let Some(max) = max.filter(|max| !max.allows(ask)) else { return Ok(()) };
    let queue = Arc::clone(&directory.queue(leaf).facts.config.path);
    let (ask, max) = compared(ask, &max);
    Err(Rejection::GangTooLarge { id: Arc::clone(id), queue, ask, max })
}

/// Words an amount and the maximum that it exceeds: in units for people, or exactly if these are
/// too coarse to tell both apart.
fn compared(ask: &Resources, max: &Limits) -> (String, String) {
    let shown = (amounts(ask), amounts(&max.as_resources()));
    if shown.0 == shown.1 {
        return (all_written(&ask.sorted()), all_written(&max.sorted()));
    }
    shown
}

/// Returns the names right below a path, in order. The paths below each name are skipped without a
/// walk.
fn children<'q, T>(
    by_path: &'q BTreeMap<Arc<str>, T>,
    path: &str,
) -> impl Iterator<Item = &'q str> + use<'q, T> {
    let below = format!("{path}.");
    let mut from = below.clone();
    std::iter::from_fn(move || {
        loop {
            let range = (Bound::Included(&*from), Bound::Unbounded);
            let (found, _) = by_path.range::<str, _>(range).next()?;
            let name = found.strip_prefix(&*below)?;
            let Some((child, _)) = name.split_once('.') else {
                // Names such as `a-b` come between `a` and the paths below `a`.
                from = format!("{found}\0");
                return Some(name);
            };
            // The slash is the character after the dot.
            from = format!("{below}{child}/");
        }
    })
}

impl QueueTree for Directory {
    type Queue = QueueSlot;

    fn find(&self, path: &str) -> Option<QueueSlot> {
        self.queue_by_path.get(path).copied()
    }

    fn names_below(&self, path: &str) -> impl Iterator<Item = &str> {
        children(&self.queue_by_path, path)
    }

    fn is_leaf(&self, queue: QueueSlot) -> bool {
        self.queue(queue).facts.config.is_leaf
    }

    fn is_draining(&self, queue: QueueSlot) -> bool {
        self.queue(queue).facts.state == ObjectState::Draining
    }

    fn may_submit(&self, queue: QueueSlot, user: &str, groups: &[String]) -> bool {
        self.upward(queue).any(|facts| {
            let config = &facts.config;
            config.submit_acl.allows(user, groups) || config.admin_acl.allows(user, groups)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: impl IntoIterator<Item = String>) -> Vec<String> {
        let paths: BTreeMap<Arc<str>, u8> =
            paths.into_iter().map(|path| (Arc::from(path), 0)).collect();
        children(&paths, "root").map(str::to_owned).collect()
    }

    #[test]
    fn an_amount_and_its_maximum_have_units_unless_these_look_the_same() {
        let ask = |memory| Resources::of(&[("memory", memory), ("vcore", 321_000)]);
        let max = Limits::of(&[("vcore", 20_000)]);
        assert_eq!(
            compared(&ask(1_284 << 30), &max),
            ("321 cores and 1.26 TiB of memory".to_owned(), "20 cores".to_owned())
        );
        let (ask, max) = compared(&ask((1 << 40) + 1), &Limits::from(ask((1 << 40) + 2)));
        assert_eq!(
            (&*ask, &*max),
            ("{memory: 1099511627777, vcore: 321}", "{memory: 1099511627778, vcore: 321}")
        );
    }

    #[test]
    fn names_below_a_queue_come_without_those_of_its_subtree() {
        let paths = ["root", "root.a", "root.a.b", "root.a-b", "root.a-b.c", "root.a/b", "root.b"];
        assert_eq!(names(paths.map(str::to_owned)), ["a", "a-b", "a/b", "b"]);
        assert_eq!(names(["root".to_owned(), "rooted.a".to_owned()]), [""; 0]);
    }

    #[test]
    fn a_large_subtree_hides_no_name_behind_it() {
        let below = (0..20_000).map(|number| format!("root.a.q{number}"));
        let paths = ["root", "root.a", "root.b"].map(str::to_owned);
        assert_eq!(names(below.chain(paths)), ["a", "b"]);
    }
}
