//! Placements that wait for the answer of a predicate, and the effect of each answer.

use std::time::Duration;

use monoceros_actors::{Scope, Verdict};
use monoceros_proto::si::v1::TerminationType;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use super::shim::{assumed_at, failed, passed, passed_at, play};

const SCOPES: [Scope; 3] = [Scope::Topology, Scope::Node, Scope::Static];

#[test]
fn a_waiting_placement_is_counted_but_not_an_allocation() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 3).await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n1"]);
        assert_eq!(world.used_and_pending().await, (3, 0));
        let apps = world.scheduler.applications("default", "root.a").await.unwrap();
        assert!(apps[0].allocations.is_empty());
        let nodes = world.scheduler.nodes("default").await.unwrap();
        assert!(nodes[0].allocations.is_empty());
        assert_eq!(world.root().await.running_apps, 0);
        // A release by key finds nothing to release.
        world.end("app", "k1", TerminationType::Timeout).await;
        assert!(world.received().await.is_empty());
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["app Running", "k1 on n1"]);
        assert_eq!(world.root().await.running_apps, 1);
        assert_eq!(world.used_and_pending().await, (3, 0));
    });
}

#[test]
fn the_window_and_the_quota_bound_waiting_placements() {
    play("{name: a, resources: {max: {vcore: 5}}}", 3, |world| async move {
        // Quotas count cores, requests thousandths of a core.
        world.nodes(2, 10_000).await;
        world.app("app", "root.a").await;
        world.ask_many("app", "k", 1_000, 9).await;
        world.run().await;
        assert_eq!(world.shim.open_ids(), [1, 2, 3]);
        world.shim.answer([(1, failed())]);
        world.run().await;
        assert_eq!(world.shim.open_ids(), [2, 3, 4]);
        world.shim.answer_all(&passed(Scope::Static));
        world.run().await;
        assert_eq!(world.shim.open_ids(), [5, 6], "quota allows no more");
        assert_eq!(world.used_and_pending().await, (5_000, 4_000));
    });
}

#[test]
fn a_waiting_first_placement_counts_as_a_running_application() {
    play("{name: a, maxapplications: 1}", 64, |world| async move {
        world.node("n1", 10).await;
        world.app("one", "root.a").await;
        world.app("two", "root.a").await;
        world.ask("one", "k1", 1).await;
        world.ask("two", "k2", 1).await;
        world.ask("one", "k3", 1).await;
        world.run().await;
        let keys: Vec<_> = world.shim.open().iter().map(|open| open.key.to_string()).collect();
        assert_eq!(keys, ["k1", "k3"], "the one that waits may go on, the other may not start");
        world.withdraw("one", "k1").await;
        world.withdraw("one", "k3").await;
        world.run().await;
        assert_eq!(world.shim.open()[0].key.as_ref(), "k2", "there is room again");
        world.shim.answer_all(&passed(Scope::Static));
        world.app("three", "root.a").await;
        world.ask("three", "k4", 1).await;
        assert!(world.received().await.contains(&"k2 on n1".to_owned()));
        assert!(world.shim.open().is_empty());
    });
}

#[test]
fn instances_of_one_ask_keep_their_names() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 10).await;
        world.app("app", "root.a").await;
        world.ask_many("app", "k", 1, 3).await;
        world.run().await;
        world.shim.answer_all(&passed(Scope::Static));
        let received = world.received().await;
        assert_eq!(received, ["app Running", "k#1 on n1", "k#2 on n1", "k#3 on n1"]);
    });
}

#[test]
fn another_candidate_that_passes_gets_the_placement() {
    play("{name: a}", 64, |world| async move {
        world.nodes(20, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        world.shim.answer([(1, failed())]);
        assert_eq!(world.received().await, ["2 k1? 16 nodes"]);
        assert_eq!(world.shim.open()[0].nodes[0].as_ref(), "n002");
        world.shim.answer([(2, passed_at(7))]);
        assert_eq!(world.received().await, ["app Running", "k1 on n009"]);
        let nodes = world.scheduler.nodes("default").await.unwrap();
        let held: Vec<_> = nodes.iter().filter(|node| !node.allocations.is_empty()).collect();
        assert_eq!((held.len(), held[0].node_id.as_str()), (1, "n009"));
    });
}

/// The placement assumed on a node that became full is withdrawn.
#[test]
fn a_full_candidate_is_asked_about_again() {
    play("{name: a}", 64, |world| async move {
        world.nodes(3, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 3).await;
        world.run().await;
        world.shim.answer([(1, failed())]);
        assert_eq!(world.received().await, ["2 k1? n002 n003"]);
        world.request("app", "other", 4, "n003").await;
        world.run().await;
        world.shim.answer([(2, assumed_at(1))]);
        // n002 refused and n003 is full.
        assert_eq!(world.received().await, ["2 withdrawn"]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.received().await, ["3 k1? n001"]);
    });
}

/// Whether the answer about `k1`, requested before `n1` (else `n2`) changed, is void.
fn is_void(scope: Scope, where_it_changed: &'static str, how: &'static str) -> bool {
    let void = std::cell::Cell::new(false);
    play("{name: a}", 64, |world| {
        let void = &void;
        async move {
            world.node("n1", 10).await;
            world.app("app", "root.a").await;
            world.app("other", "root.a").await;
            world.request("other", "old", 1, "n1").await;
            world.run().await;
            // Fuller than n1, so that n1 comes first.
            world.node("n2", 10).await;
            world.request("other", "older", 5, "n2").await;
            world.run().await;
            world.ask("app", "k1", 1).await;
            assert_eq!(world.received().await, ["app Accepted", "1 k1? n1"]);
            match how {
                "placed" => world.request("other", "new", 1, where_it_changed).await,
                _ if where_it_changed == "n1" => {
                    world.end("other", "old", TerminationType::StoppedByRm).await;
                }
                _ => world.end("other", "older", TerminationType::StoppedByRm).await,
            }
            world.run().await;
            world.shim.answer([(1, passed(scope))]);
            let received = world.received().await;
            void.set(received.iter().any(|word| word.starts_with("2 k1?")));
            assert_ne!(void.get(), received.contains(&"k1 on n1".to_owned()), "{received:?}");
        }
    });
    void.get()
}

#[test]
fn placements_and_ends_void_answers_that_depend_on_them() {
    for how in ["placed", "ended"] {
        for (at, expected) in [("n1", [true, true, false]), ("n2", [true, false, false])] {
            let void = SCOPES.map(|scope| is_void(scope, at, how));
            assert_eq!(void, expected, "{how} on {at}");
        }
    }
}

/// The other answers are void, so the window of open questions shrinks.
#[test]
fn of_answers_depending_on_everything_one_counts() {
    play("{name: a}", 8, |world| async move {
        world.nodes(10, 4).await;
        world.app("app", "root.a").await;
        world.ask_many("app", "k", 1, 12).await;
        world.run().await;
        let mut waiting = Vec::new();
        for _ in 0..5 {
            waiting.push(world.shim.open_ids().len());
            world.shim.answer_all(&passed(Scope::Topology));
            let received = world.received().await;
            assert_eq!(
                received.iter().filter(|word| word.contains(" on ")).count(),
                1,
                "{received:?}"
            );
        }
        assert_eq!(waiting, [8, 4, 2, 1, 2]);
        assert_eq!(world.used_and_pending().await.0, 5 + 1);
        let void = world.count("monoceros_predicate_answers_total", "void");
        assert!((void - 12.0).abs() < 0.5, "{void}");
    });
}

#[test]
fn assumptions_of_the_rm_void_no_answer() {
    for scope in SCOPES {
        play("{name: a}", 8, |world| async move {
            world.nodes(2, 10).await;
            world.app("app", "root.a").await;
            world.ask_many("app", "k", 1, 8).await;
            world.run().await;
            let verdict = Verdict::Passed { position: 0, scope, assumed: true };
            world.shim.answer_all(&verdict);
            let received = world.received().await;
            assert_eq!(
                received.iter().filter(|word| word.contains(" on ")).count(),
                8,
                "{verdict:?}"
            );
        });
    }
}

#[test]
fn a_refused_assumption_voids_answers_built_on_it() {
    play("{name: a}", 8, |world| async move {
        world.nodes(1, 10).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.ask("app", "k2", 1).await;
        world.run().await;
        world.withdraw("app", "k1").await;
        assert_eq!(world.received().await, ["1 withdrawn"]);
        let on_top = Verdict::Passed { position: 0, scope: Scope::Node, assumed: true };
        world.shim.answer([(1, on_top.clone()), (2, on_top)]);
        assert_eq!(world.received().await, ["2 withdrawn", "3 k2? n001"]);
    });
}

#[test]
fn questions_and_notifications_leave_in_decision_order() {
    play("{name: a}", 1, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.ask("app", "k2", 1).await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n1"]);
        world.shim.answer([(1, assumed_at(0))]);
        assert_eq!(world.received().await, ["app Running", "k1 on n1", "2 k2? n1"]);
    });
}

#[test]
fn settling_waits_for_answers() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        let second = Duration::from_secs(1);
        let settled = tokio::time::timeout(second, world.scheduler.settle()).await;
        assert!(settled.is_err(), "the answer is still to come");
        world.shim.answer([(1, passed(Scope::Static))]);
        tokio::time::timeout(second, world.scheduler.settle()).await.unwrap();
        assert_eq!(world.shim.received(), ["app Running", "k1 on n1"]);
    });
}

/// Answers go to the partition that asked the question.
#[test]
fn question_numbers_are_unique_over_partitions() {
    let config = "partitions:\n\
        - {name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}\n\
        - {name: gpu, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}\n";
    play("", 1, |world| async move {
        let world = super::shim::World::register(world.scheduler, config, 64).await;
        world.node("n1", 4).await;
        world.node_in("gpu", "g1", 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        let first = world.shim.open()[0].clone();
        world.shim.answer([(1, failed())]);
        world.run().await;
        world.app_in("gpu", "app", "root.a").await;
        let mut ask = monoceros_proto::si::v1::AllocationAsk {
            partition_name: "gpu".to_owned(),
            ..Default::default()
        };
        ask.allocation_key = "k2".to_owned();
        ask.application_id = "app".to_owned();
        ask.max_allocations = 1;
        let quantity = monoceros_proto::si::v1::Quantity { value: 1 };
        let resources = [("vcore".to_owned(), quantity)].into();
        ask.resource_ask = Some(monoceros_proto::si::v1::Resource { resources });
        world.ask_for(ask).await;
        world.run().await;
        let second = world.shim.open()[0].clone();
        assert_ne!(second.id, first.id);
        assert_eq!(second.nodes[0].as_ref(), "g1");
        assert!(!first.answers.is(&second.answers) && first.answers.is(&first.answers.clone()));
        let answer = |sink: &monoceros_actors::AnswerSink| {
            let verdict = passed(Scope::Static);
            sink.answer(vec![monoceros_actors::PredicateAnswer { id: second.id, verdict }]);
        };
        answer(&first.answers);
        assert!(world.received().await.is_empty(), "the other partition did not ask that");
        answer(&second.answers);
        assert_eq!(world.received().await, ["app Running", "k2 on g1"]);
        assert_eq!(world.scheduler.check_books("gpu").await, Ok(Vec::new()));
    });
}

#[test]
fn everything_is_counted() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 9).await;
        world.app("app", "root.a").await;
        for key in ["k1", "k2", "k3", "k4", "k5"] {
            world.ask("app", key, 1).await;
        }
        world.run().await;
        let open = |name| world.count(name, "");
        assert!((open("monoceros_predicate_questions_open") - 5.0).abs() < 0.5);
        let verdicts = [passed(Scope::Node), passed(Scope::Node), failed(), Verdict::Unanswered];
        world.shim.answer((1..).zip(verdicts));
        world.withdraw("app", "k5").await;
        world.run().await;
        let answers = ["passed", "void", "failed", "unanswered"]
            .map(|outcome| world.count("monoceros_predicate_answers_total", outcome));
        assert_eq!(answers.map(|count| count.to_string()), ["1", "1", "1", "1"]);
        assert!((open("monoceros_predicate_questions_cancelled_total") - 1.0).abs() < 0.5);
        assert!((open("monoceros_predicate_questions_total") - 7.0).abs() < 0.5);
        world.scheduler.stop_resource_manager("rm").await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(open("monoceros_predicate_questions_open").abs() < 0.5, "gone with the partition");
    });
}

/// An RM that returns the nodes that pass, without using questions.
#[derive(Default)]
struct Plain(std::sync::Mutex<Vec<String>>);

impl monoceros_actors::ResourceManagerCallback for Plain {
    fn update_allocation(&self, response: monoceros_proto::si::v1::AllocationResponse) {
        let placed = response.new.into_iter().map(|new| format!("{} {}", new.uuid, new.node_id));
        self.0.lock().unwrap().extend(placed);
    }
    fn update_application(&self, _: monoceros_proto::si::v1::ApplicationResponse) {}
    fn update_node(&self, _: monoceros_proto::si::v1::NodeResponse) {}
    fn predicates(&self, args: &monoceros_proto::si::v1::PredicatesArgs) -> Result<(), String> {
        if args.node_id == "n003" { Ok(()) } else { Err("only n003".to_owned()) }
    }
}

#[test]
fn an_implementation_of_the_plain_predicate_answers_questions() {
    play("{name: a}", 4, |world| async move {
        let plain = std::sync::Arc::new(Plain::default());
        let register = monoceros_proto::si::v1::RegisterResourceManagerRequest {
            rm_id: "rm".to_owned(),
            config: "{partitions: [{queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]}"
                .to_owned(),
            ..Default::default()
        };
        let callback = std::sync::Arc::clone(&plain);
        world.scheduler.register_resource_manager(register, callback).await.unwrap();
        let control = world.scheduler.control("rm").await.unwrap();
        control.set_predicates(monoceros_actors::Predicates::Remote { in_flight: 4, holds: false });
        world.nodes(4, 2).await;
        world.app("app", "root.a").await;
        world.ask_many("app", "k", 1, 3).await;
        world.scheduler.settle().await;
        assert_eq!(*plain.0.lock().unwrap(), ["k#1 n003", "k#2 n003"]);
    });
}

/// The alternative that passes was removed while the question was open: the answer is void, and the
/// question is repeated.
#[test]
fn an_answer_for_a_removed_node_is_void() {
    play("{name: a}", 64, |world| async move {
        world.nodes(3, 10).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n001"]);
        world.shim.answer([(1, failed())]);
        assert_eq!(world.received().await, ["2 k1? n002 n003"]);
        world.act("n003", ActionFromRm::Decomission).await;
        assert_eq!(world.received().await, Vec::<String>::new());
        world.shim.answer([(2, passed_at(1))]);
        assert_eq!(world.received().await, ["3 k1? n002"]);
        assert_eq!(world.count("monoceros_predicate_answers_total", "void").to_string(), "1");
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["app Running", "k1 on n002"]);
    });
}

/// The alternative node that passes confirms or refuses: it may drain in the meantime, or other
/// asks may take its capacity.
#[test]
fn the_passing_node_confirms_or_refuses() {
    for took_room in [false, true] {
        play("{name: a}", 64, |world| async move {
            world.nodes(3, 10).await;
            world.app("app", "root.a").await;
            world.ask("app", "k1", 6).await;
            assert_eq!(world.received().await, ["app Accepted", "1 k1? n001"]);
            world.shim.answer([(1, failed())]);
            assert_eq!(world.received().await, ["2 k1? n002 n003"]);
            if took_room {
                world.request("app", "other", 6, "n003").await;
            } else {
                world.act("n003", ActionFromRm::DrainNode).await;
            }
            world.run().await;
            world.shim.answer([(2, passed_at(1))]);
            let received = world.received().await;
            assert!(!received.iter().any(|word| word.contains(" on ")), "{received:?}");
            assert_eq!(world.root().await.pending_resource.to_string(), "map[vcore:6]");
        });
    }
}
