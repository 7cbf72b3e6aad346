//! Tests every cure by applying it: in a thousand random states a pending ask is explained, all
//! changes of its cure are made, and then the ask is placed, or an ask before it has taken the
//! gain.
//!
//! A failing state prints its script, shortened as far as possible.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use monoceros_actors::snapshot::{ChangeSnapshot, ExplanationSnapshot};
use monoceros_actors::{ExplainError, Resources};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError};

use crate::histories::{parked, runner};
use crate::script::{Amounts, Item, NodeWords, QueueWords, Script, Step, Wish};
use crate::world::{BEGIN_S, How, World, in_virtual_time};

/// The result of a cure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// No ask was pending.
    NothingWaits,
    /// The configuration that the cure asks for is invalid.
    NoSuchConfiguration,
    /// One more allocation of the class exists.
    Placed,
    /// Another ask took the gain.
    TakenByOthers,
    /// The remaining obstacle could not be known: a predicate refuses the node that has capacity
    /// now, or the pass ended before the ask was tried.
    Unforeseen,
}

/// A partition with an ask to be cured.
struct Patient {
    world: World,
    began: tokio::time::Instant,
    order: Vec<Step>,
    queues: Vec<QueueWords>,
    /// Number of members and nodes that were added.
    added: u32,
}

impl Patient {
    async fn new(steps: &[Step]) -> Self {
        let began = tokio::time::Instant::now();
        let mut world = World::new(How::Plain);
        for step in steps {
            world.step(step).await;
        }
        let order = steps.iter().filter(|step| matches!(step, Step::Order { .. })).cloned();
        let queues = steps.iter().filter_map(|step| match step {
            Step::Queue(queue) => Some(queue.clone()),
            _ => None,
        });
        Self { world, began, order: order.collect(), queues: queues.collect(), added: 0 }
    }

    async fn state(&self, id: &str) -> String {
        let all = self.world.scheduler.all_applications("default").await.unwrap();
        let found = all.into_iter().find(|application| application.application_id == id);
        found.map(|application| application.application_state).unwrap_or_default()
    }

    async fn send(&mut self, item: Item) {
        self.world.step(&Step::Send { items: vec![item], waits: true }).await;
    }

    /// Explanations of all pending asks, application by application.
    async fn waiting(&self) -> Vec<(String, ExplanationSnapshot)> {
        let mut waiting = Vec::new();
        for id in self.applications().await {
            let classes = self.world.scheduler.explain("default", &id, 0).await.unwrap();
            waiting.extend(classes.into_iter().map(|class| (id.clone(), class)));
        }
        waiting
    }

    async fn applications(&self) -> Vec<String> {
        let all = self.world.scheduler.all_applications("default").await.unwrap();
        all.into_iter().map(|application| application.application_id).collect()
    }

    /// Every allocation, by application and name.
    async fn allocations(&self) -> BTreeSet<(String, String)> {
        let all = self.world.scheduler.all_applications("default").await.unwrap();
        let names = all.into_iter().flat_map(|application| {
            let id = application.application_id;
            let named = application.allocations.into_iter().map(move |allocation| {
                (id.clone(), allocation.allocation_key + "#" + &allocation.uuid)
            });
            named.collect::<Vec<_>>()
        });
        names.collect()
    }

    /// Makes all changes. Time passes last, since what it ends may need the others. Returns `false`
    /// if the configuration is invalid.
    async fn make(&mut self, changes: &[ChangeSnapshot]) -> bool {
        for change in changes {
            match change.kind.as_str() {
                "quota" if change.object == "root" => {
                    self.add_another_node(&change.resource).await;
                }
                "quota" => {
                    let max = &mut self.queue(&change.object).max;
                    more(max.as_mut().unwrap(), &change.resource);
                }
                "userLimit" => more(&mut self.limit(&change.object).max, &change.resource),
                "runningApplications" if change.object.contains(' ') => {
                    self.limit(&change.object).max_apps += change.count;
                }
                "runningApplications" => self.queue(&change.object).max_apps += change.count,
                "nodeRoom" => {
                    let nodes = self.world.scheduler.nodes("default").await.unwrap();
                    let node = nodes.into_iter().find(|node| node.node_id == change.object);
                    let total = node.unwrap().capacity.plus(&change.resource);
                    self.resize_node(&change.object, &total).await;
                }
                "openNode" => self.send(Item::Undrain(change.object.clone())).await,
                "node" => {
                    let nodes = self.world.scheduler.nodes("default").await.unwrap();
                    match nodes.into_iter().find(|node| node.node_id == change.object) {
                        Some(node) => {
                            let mut total = node.capacity;
                            total.raise_to(&change.resource);
                            self.resize_node(&change.object, &total).await;
                        }
                        None if change.object.is_empty() => {
                            for _ in 0..change.count.max(1) {
                                self.add_another_node(&change.resource).await;
                            }
                        }
                        None => self.add_node(&change.object, &change.resource).await,
                    }
                }
                "gangMembers" => {
                    let amounts = Amounts(vec![("vcore".to_owned(), 1)]);
                    let repeat = i32::try_from(change.count).unwrap();
                    let group = change.object.clone();
                    self.added += 1;
                    let key = format!("more{}", self.added);
                    let member = Wish { repeat, group, ..Wish::of("a1", &key, amounts) };
                    self.send(Item::Ask(member)).await;
                }
                "time" => {}
                other => panic!("a change of the kind {other}"),
            }
        }
        if changes
            .iter()
            .any(|change| change.object.starts_with("root.") || change.object.contains(' '))
            && !self.reload().await
        {
            return false;
        }
        let ends = changes.iter().filter(|change| change.kind == "time").map(|change| change.at);
        if let Some(end) = ends.max() {
            let now =
                BEGIN_S * 1_000_000_000 + i64::try_from(self.began.elapsed().as_nanos()).unwrap();
            let left = u64::try_from((end - now).max(0)).unwrap();
            self.world.step(&Step::Wait(Duration::from_nanos(left))).await;
        }
        true
    }

    async fn reload(&mut self) -> bool {
        let queues = self.queues.clone();
        if !crate::histories::is_valid(&queues) {
            return false;
        }
        self.world.step(&Step::Forget).await;
        for step in self.order.clone().into_iter().chain(queues.into_iter().map(Step::Queue)) {
            self.world.step(&step).await;
        }
        self.world.step(&Step::Reload).await;
        true
    }

    async fn add_another_node(&mut self, total: &Resources) {
        self.added += 1;
        let id = format!("more{}", self.added);
        self.add_node(&id, total).await;
    }

    async fn add_node(&mut self, id: &str, total: &Resources) {
        let words =
            NodeWords { id: id.to_owned(), total: Some(amounts(total)), ..NodeWords::default() };
        self.send(Item::Node(words)).await;
    }

    async fn resize_node(&mut self, id: &str, total: &Resources) {
        let words =
            NodeWords { id: id.to_owned(), total: Some(amounts(total)), ..NodeWords::default() };
        self.send(Item::Resize(words)).await;
    }

    fn queue(&mut self, path: &str) -> &mut QueueWords {
        self.queues.iter_mut().find(|queue| queue.path == path).unwrap()
    }

    /// The limit named by `user ann in root.a`.
    fn limit(&mut self, object: &str) -> &mut crate::script::LimitWords {
        let (whose, path) = object.split_once(" in ").unwrap();
        let (kind, name) = whose.split_once(' ').unwrap();
        let is_user = kind == "user";
        let limits = &mut self.queue(path).limits;
        let names = |limit: &crate::script::LimitWords, name: &str| {
            let names = if is_user { &limit.users } else { &limit.groups };
            names.iter().any(|named| named == name)
        };
        let by_name = limits.iter().position(|limit| names(limit, name));
        let at = by_name.or_else(|| limits.iter().position(|limit| names(limit, "*"))).unwrap();
        &mut limits[at]
    }
}

fn amounts(resources: &Resources) -> Amounts {
    let named = resources.sorted();
    Amounts(named.into_iter().map(|(name, quantity)| (name.to_string(), quantity)).collect())
}

fn more(max: &mut Amounts, by: &Resources) {
    for (name, quantity) in by.sorted() {
        let limited = max.0.iter_mut().find(|(limited, _)| **limited == *name);
        limited.unwrap_or_else(|| panic!("{name} is not limited")).1 += quantity;
    }
}

fn is_unforeseen(classes: &[ExplanationSnapshot]) -> bool {
    let mut obstacles = classes.iter().flat_map(|class| &class.obstacles);
    obstacles.all(|obstacle| obstacle.cause == "predicates" || obstacle.cause == "delay")
}

/// Whether predicates refuse anything, or any queue has a back-off.
fn may_be_unforeseen(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::RefuseSome { .. } => true,
        Step::Queue(queue) => queue.properties.iter().any(|(name, _)| name.contains("backoff")),
        _ => false,
    })
}

async fn cured(steps: &[Step], pick: usize) -> Result<Outcome, String> {
    let mut patient = Patient::new(steps).await;
    let waiting = patient.waiting().await;
    if let Some((id, idle)) = waiting.iter().find(|(_, class)| class.cause == "next") {
        return Err(format!("nothing is in the way of {id}: {idle:#?}"));
    }
    if waiting.is_empty() {
        return Ok(Outcome::NothingWaits);
    }
    let (id, class) = waiting[pick % waiting.len()].clone();
    let before = patient.allocations().await;
    let key = class.allocation_keys[0].clone();
    if !patient.make(&class.changes).await {
        return Ok(Outcome::NoSuchConfiguration);
    }
    let now = patient.allocations().await;
    let new: Vec<_> = now.difference(&before).collect();
    let own = |name: &&(String, String)| {
        name.0 == id
            && class.allocation_keys.iter().any(|key| name.1.split('#').next() == Some(key))
    };
    let outcome = match patient.world.scheduler.explain_ask("default", &id, &key).await {
        _ if new.iter().any(own) => Outcome::Placed,
        Ok(rest) if rest.is_empty() => Outcome::Placed,
        Err(ExplainError::AskNotFound { .. } | ExplainError::ApplicationNotFound(_)) => {
            Outcome::Placed
        }
        _ if !new.is_empty() => Outcome::TakenByOthers,
        Ok(rest) if rest.iter().any(|class| class.nodes.reserved > 0) => Outcome::TakenByOthers,
        Ok(rest) if may_be_unforeseen(steps) && is_unforeseen(&rest) => Outcome::Unforeseen,
        Ok(rest) => return Err(format!("the cure did not help: {class:#?}\nbecame {rest:#?}")),
        Err(error) => return Err(error.to_string()),
    };
    patient.world.scheduler.shutdown().await;
    Ok(outcome)
}

#[test]
fn applying_a_cure_places_the_ask() {
    let outcomes = std::cell::RefCell::new(Vec::new());
    let states = (parked(), any::<usize>());
    let result = runner(330).run(&states, |(steps, pick)| {
        let outcome = in_virtual_time(cured(&steps, pick));
        outcomes.borrow_mut().push(outcome.clone().map_err(TestCaseError::fail)?);
        Ok(())
    });
    if let Err(TestError::Fail(why, (steps, pick))) = result {
        panic!("{why}\n\n{}pick {pick}", Script(steps));
    }
    let outcomes = outcomes.into_inner();
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    let mut counts = String::new();
    for outcome in [
        Outcome::NothingWaits,
        Outcome::NoSuchConfiguration,
        Outcome::Placed,
        Outcome::TakenByOthers,
        Outcome::Unforeseen,
    ] {
        write!(counts, "{outcome:?} {} ", count(outcome)).unwrap();
    }
    println!("{counts}");
    assert!(count(Outcome::Placed) * 2 > outcomes.len(), "few are cured: {counts}");
}

/// A gang `a1` that may not fit, beside an application that uses some of the nodes. Some of its
/// members have asked, with the size of their group or larger, and some of these require a node.
fn gangs() -> impl Strategy<Value = String> {
    let nodes = prop::collection::vec((0..9_i64, 0..9_i64), 0..5);
    let asked = prop::collection::vec((0..2_i64, prop::option::weighted(0.2, 0..5_usize)), 0..4);
    let size = prop::option::of((0..5_i64, 0..4_i64));
    let groups = prop::collection::vec((1..5_u32, size, asked), 1..4);
    let max = prop::option::of(4..40_i64);
    let apps = 0..2_u64;
    let others = prop::collection::vec((1..5_i64, 0..4_i64), 0..5);
    (nodes, groups, max, apps, others).prop_map(|(nodes, groups, max, apps, others)| {
        let mut text = "queue root.a".to_owned();
        if let Some(max) = max {
            write!(text, " max vcore={max}").unwrap();
        }
        if apps > 0 {
            write!(text, " maxapps={apps}").unwrap();
        }
        for (number, (vcore, memory)) in nodes.iter().enumerate() {
            write!(text, "\nnode n{number} vcore={vcore} memory={memory}").unwrap();
        }
        text.push_str("\napp a2 in root.a");
        for (number, (vcore, memory)) in others.iter().enumerate() {
            write!(text, "\nask a2 k{number} vcore={vcore} memory={memory}").unwrap();
        }
        text.push_str("\napp a1 in root.a");
        for (number, (members, size, _)) in groups.iter().enumerate() {
            write!(text, " needs g{number} x{members}").unwrap();
            if let Some((vcore, memory)) = size {
                write!(text, " vcore={} memory={memory}", vcore + 1).unwrap();
            }
        }
        for (group, (_, size, asked)) in groups.iter().enumerate() {
            let (vcore, memory) = size.unwrap_or_default();
            for (number, (more, node)) in asked.iter().enumerate() {
                let vcore = vcore + 1 + more;
                write!(
                    text,
                    "\nask a1 g{group}-{number} vcore={vcore} memory={memory} group=g{group}"
                )
                .unwrap();
                if let Some(node) = node {
                    write!(text, " node=n{node}").unwrap();
                }
            }
        }
        text
    })
}

/// Applies the cures of the gang's entry until it has its places. Each time there is another
/// obstacle that the explanation before could not know.
async fn gang_cured(text: &str) -> Result<(), String> {
    let mut patient = Patient::new(&Script::parse(text).0).await;
    for _ in 0..12 {
        let state = patient.state("a1").await;
        if state != "Accepted" && state != "New" {
            return Ok(());
        }
        let all = patient.world.scheduler.explain("default", "a1", 0).await.unwrap();
        let Some(gang) = all.first().cloned() else { return Err("it says nothing".to_owned()) };
        if gang.cause == "next" {
            return Err(format!("nothing is in its way: {gang:#?}"));
        }
        let before = patient.allocations().await.len();
        if !patient.make(&gang.changes).await {
            return Ok(());
        }
        let after = patient.world.scheduler.explain("default", "a1", 0).await;
        let after = after.unwrap_or_default();
        let taken = patient.allocations().await.len() > before;
        if !taken && after.first().is_some_and(|after| after.obstacles == gang.obstacles) {
            return Err(format!("the cure changed nothing: {gang:#?}"));
        }
    }
    Err("it never gets its places".to_owned())
}

#[test]
fn following_the_cures_places_a_gang() {
    let result = runner(100)
        .run(&gangs(), |text| in_virtual_time(gang_cured(&text)).map_err(TestCaseError::fail));
    if let Err(TestError::Fail(why, text)) = result {
        panic!("{why}\n\n{text}");
    }
}
