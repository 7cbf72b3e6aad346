//! Every cure is tried by doing it: in a thousand random states some ask that waits is explained,
//! all of its changes are made, and the ask is placed, or another one that comes before it has
//! taken what they gave.
//!
//! A state that fails prints its script, made as short as possible.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use monoceros_actors::snapshot::{ChangeSnapshot, ExplanationSnapshot};
use monoceros_actors::{ExplainError, Resources};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError};

use crate::histories::{parked, runner};
use crate::script::{Amounts, Item, NodeWords, QueueWords, Script, Step};
use crate::world::{BEGIN_S, How, World, in_virtual_time};

/// What came of a cure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Nothing waited.
    NothingWaits,
    /// The configuration that the cure asks for is not a valid one.
    NoSuchConfiguration,
    /// One allocation more of the class.
    Placed,
    /// What it gave went to another ask.
    TakenByOthers,
    /// Nothing is in the way any more but what could not be known: a predicate refuses the node that
    /// has room now, or the pass that tries the ask ends before it.
    Unforeseen,
}

/// A partition in which an ask is to be cured.
struct Patient {
    world: World,
    began: tokio::time::Instant,
    order: Vec<Step>,
    queues: Vec<QueueWords>,
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
        Self { world, began, order: order.collect(), queues: queues.collect() }
    }

    async fn send(&mut self, item: Item) {
        self.world.step(&Step::Send { items: vec![item], waits: true }).await;
    }

    /// Everything that waits, application by application.
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

    /// Makes all changes; time passes last, since what it ends may need the others. `false`: there
    /// is no such configuration.
    async fn make(&mut self, changes: &[ChangeSnapshot]) -> bool {
        for (number, change) in changes.iter().enumerate() {
            match change.kind.as_str() {
                "quota" if change.object == "root" => {
                    let id = format!("more{number}");
                    self.add_node(&id, &change.resource).await;
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
                "node" => {
                    let nodes = self.world.scheduler.nodes("default").await.unwrap();
                    match nodes.into_iter().find(|node| node.node_id == change.object) {
                        Some(node) => {
                            let mut total = node.capacity;
                            total.raise_to(&change.resource);
                            self.resize_node(&change.object, &total).await;
                        }
                        None if change.object.is_empty() => {
                            self.add_node("more", &change.resource).await;
                        }
                        None => self.add_node(&change.object, &change.resource).await,
                    }
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

    /// The limit that `user ann in root.a` means.
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
fn whoever_makes_the_changes_of_a_cure_cures() {
    let outcomes = std::cell::RefCell::new(Vec::new());
    let states = (parked(), any::<usize>());
    let result = runner(1_000).run(&states, |(steps, pick)| {
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
