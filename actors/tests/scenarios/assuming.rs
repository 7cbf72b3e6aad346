//! The assume cache of an in-process resource manager: it counts an allocation as running before
//! the notification, and forgets it when the placement is withdrawn. Every scenario checks these
//! counts; here are the scenarios in which they decide.

use std::collections::BTreeMap;

use expect_test::expect;
use monoceros_actors::Assumed;
use monoceros_proto::si::v1 as si;
use monoceros_rules::audit::Facts;
use proptest::prelude::*;

use crate::gang_histories::{Kind, history, survives_at_once};
use crate::histories::run;
use crate::native_histories::DECLARED;
use crate::script::{Script, Step};
use crate::world::check_plain;

/// Application, key, task group of a held place, and node.
type Named = (String, String, String, String);

fn named(what: &Assumed<'_>) -> Named {
    let texts = [what.application_id, what.allocation_key, what.task_group_name, what.node_id];
    let [application, key, group, node] = texts.map(str::to_owned);
    (application, key, group, node)
}

fn asked(args: &si::PredicatesArgs) -> Named {
    let texts = [&args.application_id, &args.allocation_key, &args.task_group_name, &args.node_id];
    let [application, key, group, node] = texts.map(Clone::clone);
    (application, key, group, node)
}

/// Allocations that a resource manager counts as running.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    assumed: BTreeMap<Named, usize>,
    /// Allocations it was notified of, by name and node.
    notified: Vec<(String, String)>,
    /// The last pair that passed a predicate or was forgotten, if predicates are answered at once.
    last: Option<Named>,
    /// Whether predicates are answered at once.
    pub(crate) at_once: bool,
    wrong: Vec<String>,
}

/// Kind of an allocation, one of three, from the first number in its name. Allocations of one kind
/// exclude each other.
fn kind(name: &str) -> u32 {
    name.chars().find_map(|letter| letter.to_digit(10)).unwrap_or(0) % 3
}

/// Kind of an allocation; a held place of a member takes the kind of its task group.
fn kind_of(key: &str, group: &str) -> u32 {
    match group {
        "" => kind(key),
        "x" => 0,
        _ => 1,
    }
}

impl Counted {
    /// Whether no allocation of the same kind runs on the node.
    pub(crate) fn is_clear(&self, args: &si::PredicatesArgs) -> bool {
        let wanted = kind_of(&args.allocation_key, &args.task_group_name);
        let mut assumed = self.assumed.keys();
        let mut notified = self.notified.iter();
        !assumed.any(|(_, key, group, node)| *node == args.node_id && kind_of(key, group) == wanted)
            && !notified.any(|(name, node)| *node == args.node_id && kind(name) == wanted)
    }

    pub(crate) fn passes(&mut self, args: &si::PredicatesArgs) {
        self.last = Some(asked(args));
    }

    pub(crate) fn assumes(&mut self, what: &Assumed<'_>) {
        let what = named(what);
        if self.at_once && self.last.as_ref() != Some(&what) {
            self.wrong.push(format!("{what:?} is assumed, and last was {:?}", self.last));
        }
        *self.assumed.entry(what).or_default() += 1;
    }

    pub(crate) fn forgets(&mut self, what: &Assumed<'_>) {
        let what = named(what);
        if !self.drops(&what) {
            self.wrong.push(format!("{what:?} is forgotten, and was not assumed"));
        }
        self.last = Some(what);
    }

    /// Counts a notified allocation. Allocations reported by the RM itself were not assumed.
    pub(crate) fn receive(&mut self, new: &si::Allocation) {
        let node = new.node_id.clone();
        let (application, key) = (new.application_id.clone(), new.allocation_key.clone());
        self.notified.push((key.clone(), node.clone()));
        self.drops(&(application, key, String::new(), node));
    }

    fn drops(&mut self, what: &Named) -> bool {
        let Some(count) = self.assumed.get_mut(what) else { return false };
        *count -= 1;
        if *count == 0 {
            self.assumed.remove(what);
        }
        true
    }

    /// Checks the counts when nothing is left to decide: allocations that are counted but were not
    /// notified are held places or wait for a placeholder to end. Afterwards the counts equal the
    /// running allocations.
    pub(crate) fn settles(&mut self, facts: &Facts) -> Vec<String> {
        let node_of = |slot| {
            let node = facts.nodes.iter().find(|node| node.slot == slot);
            node.map(|node| node.id.to_string()).unwrap_or_default()
        };
        let mut there: BTreeMap<Named, usize> = BTreeMap::new();
        self.notified.clear();
        for fact in &facts.allocations {
            let node = node_of(fact.node);
            if !fact.is_assumed {
                self.notified.push((fact.uuid.to_string(), node));
                continue;
            }
            let application = facts.applications.iter().find(|it| it.slot == fact.application);
            let application = application.map(|it| it.id.to_string()).unwrap_or_default();
            let group = fact.place_in.as_deref().filter(|_| fact.is_hold);
            let key = if fact.is_hold { String::new() } else { fact.uuid.to_string() };
            let what = (application, key, group.cloned().unwrap_or_default(), node);
            *there.entry(what).or_default() += 1;
        }
        if there != self.assumed {
            self.wrong.push(format!("counted {:?}, and there is {there:?}", self.assumed));
        }
        std::mem::take(&mut self.wrong)
    }
}

#[test]
fn exclusive_requests_of_one_message_see_each_other() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9
        node n2 vcore=9
        app a1 in root.a
        apart
        ask a1 k1 vcore=1 ; ask a1 k4 vcore=1 ; ask a1 k7 vcore=1 ; ask a1 k2 vcore=1
        release a1 key=k1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k4 placed on n2
            a1/k2 placed on n1
            a1/k1 released: STOPPED_BY_RM
        "#]],
    );
}

/// A member without a node does not count.
#[test]
fn assumed_members_see_each_other() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9 ; node n2 vcore=9
        apart
        app a1 in root.a needs x x3 vcore=1
        ask a1 k3 vcore=1 group=x
        app a2 in root.a
        ask a2 k6 vcore=1 ; ask a2 k9 vcore=1
        release a2 *
        node n3 vcore=9
        wait 60s
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k6 placed on n1
            a2/k9 placed on n2
            a2/k6 released: STOPPED_BY_RM
            a2/k9 released: STOPPED_BY_RM
            a2 is Completing
            n3 accepted
            a1 is Running
            a1/k3 placed on n1
            a2 is Completed
            n1: total vcore=9, used vcore=1, occupied nothing, left vcore=8
            n2: total vcore=9, used vcore=1, occupied nothing, left vcore=8
            n3: total vcore=9, used vcore=1, occupied nothing, left vcore=8
        "#]],
    );
}

#[test]
fn a_member_takes_its_held_place_despite_exclusion() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9 ; node n2 vcore=9
        apart
        app a1 in root.a needs x x2 vcore=1
        show nodes
        ask a1 k3 vcore=1 group=x
        ask a1 k6 vcore=1 group=x
        show nodes
        ask a1 k9 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            n1: total vcore=9, used vcore=1, occupied nothing, left vcore=8
            n2: total vcore=9, used vcore=1, occupied nothing, left vcore=8
            a1/k3 placed on n1
            a1/k6 placed on n2
            n1: total vcore=9, used vcore=1, occupied nothing, left vcore=8
            n2: total vcore=9, used vcore=1, occupied nothing, left vcore=8
        "#]],
    );
}

/// The same history, with allocations of one kind that exclude each other.
fn apart(kind: Kind) -> impl Strategy<Value = Script> {
    history(kind).prop_map(|mut script| {
        let is_setting = |step: &Step| {
            matches!(step, Step::Reservations { .. } | Step::Order { .. } | Step::Queue(_))
        };
        let at = script.0.iter().position(|step| !is_setting(step)).unwrap_or(0);
        script.0.insert(at, Step::Apart);
        script
    })
}

#[test]
fn assumed_allocations_count_in_any_history() {
    run(7, apart(DECLARED), survives_at_once);
}
