//! Placement constraints of placements that wait for an answer: they count while they wait, and
//! changes in the meantime are checked once more when they are settled. The constraints are in the
//! field of the interface, in both of its forms.

use monoceros_actors::Scope;
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::TerminationType;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use monoceros_proto::si::v1::placement_constraint::Constraint;

use super::shim::{World, passed, play, resource};

/// The constraint of at most this many allocations with `app=web` in a group of nodes with one
/// value of this attribute.
fn at_most(max_cardinality: i32, scope: &str) -> si::PlacementConstraint {
    let web = si::AffinityTargetExpression {
        target_key: "app".to_owned(),
        target_values: vec!["web".to_owned()],
        ..Default::default()
    };
    let near = si::AllocationAffinityConstraints {
        scope: scope.to_owned(),
        target_expressions: vec![web],
        max_cardinality,
        required: true,
        ..Default::default()
    };
    let simple = si::SimplePlacementConstraint {
        allocation_affinity_attribute: Some(near),
        ..Default::default()
    };
    si::PlacementConstraint { constraint: Some(Constraint::SimpleConstraint(simple)) }
}

fn web<M: FromIterator<(String, String)>>() -> M {
    [("app".to_owned(), "web".to_owned())].into_iter().collect()
}

async fn ask(world: &World, key: &str, scope: &str) {
    let ask = si::AllocationAsk {
        allocation_key: key.to_owned(),
        application_id: "app".to_owned(),
        resource_ask: Some(resource(1)),
        max_allocations: 1,
        tags: web(),
        placement_constraint: Some(at_most(1, scope)),
        ..Default::default()
    };
    world.ask_for(ask).await;
}

/// The request in the present form.
async fn request(world: &World, key: &str, placement_constraint: Option<si::PlacementConstraint>) {
    let allocation = si::Allocation {
        allocation_key: key.to_owned(),
        application_id: "app".to_owned(),
        resource_per_alloc: Some(resource(1)),
        allocation_tags: web(),
        placement_constraint,
        ..Default::default()
    };
    let request = si::AllocationRequest {
        rm_id: "rm".to_owned(),
        allocations: vec![allocation],
        ..Default::default()
    };
    world.scheduler.update_allocation(request).await.unwrap();
}

/// A node of a rack, created or changed.
async fn rack(
    world: &World,
    id: &str,
    rack: &str,
    action: ActionFromRm,
    existing_allocations: Vec<si::Allocation>,
) {
    let node = si::NodeInfo {
        node_id: id.to_owned(),
        action: action as i32,
        attributes: [("rack".to_owned(), rack.to_owned())].into(),
        schedulable_resource: Some(resource(4)),
        existing_allocations,
        ..Default::default()
    };
    let request =
        si::NodeRequest { rm_id: "rm".to_owned(), nodes: vec![node], ..Default::default() };
    world.scheduler.update_node(request).await.unwrap();
}

#[test]
fn a_waiting_placement_counts_for_constraints_of_the_next() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.node("n2", 4).await;
        world.app("app", "root.a").await;
        ask(&world, "k1", "hostname").await;
        request(&world, "k2", Some(at_most(1, "hostname"))).await;
        ask(&world, "k3", "hostname").await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n1", "2 k2? n2"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["app Running", "k1 on n1", "k2 on n2"]);
        world.end("app", "k1", TerminationType::StoppedByRm).await;
        assert_eq!(world.received().await, ["k1 released", "3 k3? n1"]);
    });
}

#[test]
fn a_repeated_request_keeps_its_constraint() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        request(&world, "k1", Some(at_most(1, ""))).await;
        request(&world, "k2", Some(at_most(1, ""))).await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n1"]);
        request(&world, "k2", None).await;
        assert!(world.received().await.is_empty(), "it changes sizes only");
    });
}

#[test]
fn a_node_joining_a_rack_voids_a_late_answer() {
    play("{name: a}", 64, |world| async move {
        rack(&world, "n1", "a", ActionFromRm::Create, vec![]).await;
        rack(&world, "n2", "b", ActionFromRm::Create, vec![]).await;
        world.app("app", "root.a").await;
        ask(&world, "k1", "rack").await;
        ask(&world, "k2", "rack").await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n1", "2 k2? n2"]);
        rack(&world, "n2", "a", ActionFromRm::Update, vec![]).await;
        assert!(world.received().await.is_empty());
        world.shim.answer([(1, passed(Scope::Static))]);
        assert!(world.received().await.is_empty(), "there is another in its rack now");
        assert_eq!(world.used_and_pending().await, (1, 1));
        world.shim.answer([(2, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["app Running", "k2 on n2"]);
        world.end("app", "k2", TerminationType::StoppedByRm).await;
        assert_eq!(world.received().await, ["k2 released", "3 k1? n1"]);
    });
}

/// The late answer is void, and the RM is asked about the next rack.
#[test]
fn a_reported_allocation_voids_a_late_answer() {
    play("{name: a}", 64, |world| async move {
        rack(&world, "n1", "a", ActionFromRm::Create, vec![]).await;
        rack(&world, "n2", "b", ActionFromRm::Create, vec![]).await;
        world.app("app", "root.a").await;
        ask(&world, "k1", "rack").await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n1"]);
        let there = si::Allocation {
            allocation_key: "old".to_owned(),
            application_id: "app".to_owned(),
            uuid: "old".to_owned(),
            node_id: "n3".to_owned(),
            resource_per_alloc: Some(resource(1)),
            allocation_tags: web(),
            ..Default::default()
        };
        rack(&world, "n3", "a", ActionFromRm::Create, vec![there]).await;
        world.run().await;
        world.shim.answer([(1, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["2 k1? n2"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["k1 on n2"]);
    });
}
