//! Another configuration while everything runs, and the states of a partition (queues-and-config
//! chapter, 4.8, 4.15 and 9.5; applications chapter, 9.4, 9.5 and 9.7).

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::{
    ConfigurationError, ConfigurationUpdate, ObjectState, Removed, Scheduler, SchedulerHandle,
    UpdateError,
};
use monoceros_proto::si::v1 as si;

use crate::ear::Ear;
use crate::world::{check, in_virtual_time, register, say};

// ------------------------------------------------------------------------------ quotas and order

#[test]
fn a_raised_maximum_is_used_at_once() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=10
        app a1 in root.a
        ask a1 k1 x5 vcore=1
        forget
        queue root.a max vcore=4
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#4 of k1 placed on n1
            root: used vcore=4, pending vcore=1, headroom vcore=6, running 1, priority 0
            root.a: used vcore=4, pending vcore=1, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

/// The maximum of the queue above is the one that held back; the leaf has none.
#[test]
fn a_maximum_raised_above_a_leaf_is_used_at_once() {
    check(
        "
        queue root.p max vcore=2
        queue root.p.a
        queue root.p.b max vcore=2
        node n1 vcore=10
        app a1 in root.p.a
        app b1 in root.p.b
        ask a1 k1 x2 vcore=1
        ask b1 k1 x2 vcore=1
        forget
        queue root.p max vcore=3
        queue root.p.a
        queue root.p.b max vcore=3
        reload
        forget
        queue root.p
        queue root.p.a
        queue root.p.b max vcore=1
        reload
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1#1 of k1 placed on n1
        "#]],
    );
}

#[test]
fn a_maximum_below_what_is_used_takes_nothing_away_and_lets_nothing_in() {
    check(
        "
        queue root.a max vcore=4
        node n1 vcore=10
        app a1 in root.a
        ask a1 k1 x3 vcore=1
        forget
        queue root.a max vcore=2
        reload
        ask a1 k2 vcore=1
        release a1 uuid=k1#1
        show queues
        release a1 uuid=k1#2
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            root: used vcore=2, pending vcore=1, headroom vcore=8, running 1, priority 0
            root.a: used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn more_applications_may_run_at_once_when_the_limit_is_raised() {
    check(
        "
        queue root.a maxapps=1
        node n1 vcore=10
        app a1 in root.a
        app a2 in root.a
        app a3 in root.a
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1
        forget
        queue root.a maxapps=2
        reload
        forget
        queue root.a maxapps=1
        reload
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a3 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a3 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
        "#]],
    );
}

/// The limit of root is applied on reload, too (section 2.6).
#[test]
fn the_limit_of_running_applications_of_the_root_is_applied() {
    check(
        "
        queue root maxapps=1
        queue root.a maxapps=1
        queue root.b maxapps=1
        node n1 vcore=10
        app a1 in root.a
        app b1 in root.b
        ask a1 k1 vcore=1
        ask b1 k1 vcore=1
        forget
        queue root maxapps=2
        queue root.a maxapps=1
        queue root.b maxapps=1
        reload
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
        "#]],
    );
}

#[test]
fn another_sort_policy_orders_what_waits_anew() {
    check(
        "
        queue root.a prop application.sort.policy=fifo max vcore=2
        node n1 vcore=10
        app a1 in root.a
        wait 1s
        app a2 in root.a
        ask a1 k1 x4 vcore=1
        ask a2 k1 x4 vcore=1
        forget
        queue root.a prop application.sort.policy=fair max vcore=5
        reload
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1#1 of k1 placed on n1
            a2/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
        "#]],
    );
}

#[test]
fn another_priority_offset_reaches_the_queue_above() {
    check(
        "
        queue root.p max vcore=1
        queue root.p.a
        queue root.p.b
        node n1 vcore=10
        app a1 in root.p.a
        app b1 in root.p.b
        ask a1 k1 x2 vcore=1
        ask b1 k1 vcore=1
        forget
        queue root.p max vcore=2
        queue root.p.a
        queue root.p.b prop priority.offset=5
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=2, pending vcore=1, headroom vcore=8, running 2, priority 0
            root.p: used vcore=2, pending vcore=1, headroom vcore=0, running 2, priority 0
            root.p.a: used vcore=1, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.p.b: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

/// Fairness before priority in the parent: the keys of all its children change.
#[test]
fn another_order_of_a_parent_makes_the_keys_of_its_children_anew() {
    check(
        "
        queue root.p max vcore=2
        queue root.p.a
        queue root.p.b
        node n1 vcore=10
        app a1 in root.p.a
        app b1 in root.p.b
        ask a1 k1 x4 vcore=1 prio=5
        ask b1 k1 x2 vcore=1
        forget
        queue root.p max vcore=4 prop application.sort.priority=disabled
        queue root.p.a
        queue root.p.b
        reload
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1#1 of k1 placed on n1
            b1/k1#2 of k1 placed on n1
        "#]],
    );
}

#[test]
fn another_order_of_nodes_is_used_by_the_next_step() {
    check(
        "
        order fair vcore=1
        queue root.a
        node n1 vcore=10
        node n2 vcore=10
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        ask a1 k2 vcore=1
        forget
        order binpacking vcore=1
        queue root.a
        reload
        ask a1 k3 x2 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k2 placed on n1
            a1/k3#1 of k3 placed on n1
            a1/k3#2 of k3 placed on n1
        "#]],
    );
}

#[test]
fn who_may_submit_is_asked_of_the_new_configuration() {
    check(
        "
        queue root.a submit ada
        app a1 in root.a user bob
        forget
        queue root.a submit bob
        reload
        app a1 in root.a user bob
        app a2 in root.a user ada
        ",
        &expect![[r#"
            a1 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a1 accepted
            a2 rejected: R_PLACEMENT E_PLACEMENT_NONE
        "#]],
    );
}

// ----------------------------------------------------------------------------- queues come and go

#[test]
fn a_queue_without_applications_goes_at_once() {
    check(
        "
        queue root.a
        queue root.p.x
        queue root.p.y
        node n1 vcore=10
        forget
        queue root.a
        reload
        show queues
        app x1 in root.p.x
        ",
        &expect![[r#"
            n1 accepted
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            x1 rejected: R_PLACEMENT E_PLACEMENT_NONE
        "#]],
    );
}

#[test]
fn a_queue_with_an_application_drains_and_goes_with_it() {
    check(
        "
        queue root.a
        queue root.p.x max vcore=2
        node n1 vcore=10
        app x1 in root.p.x
        ask x1 k1 vcore=1
        forget
        queue root.a
        reload
        app x2 in root.p.x
        ask x1 k2 x2 vcore=1
        show queues
        withdraw x1 *
        release x1 *
        show queues
        wait 30s
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            x1 is Accepted
            x1 is Running
            x1/k1 placed on n1
            x2 rejected: R_PLACEMENT E_PLACEMENT_NONE
            x1/k2#1 of k2 placed on n1
            root: used vcore=2, pending vcore=1, headroom vcore=8, running 1, priority 0
            root.a: used nothing, pending nothing, headroom vcore=8, running 0, priority none
            root.p (Draining): used vcore=2, pending vcore=1, headroom vcore=8, running 1, priority 0
            root.p.x (Draining): used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
            x1/k1 released: STOPPED_BY_RM
            x1/k2#1 of k2 released: STOPPED_BY_RM
            x1 is Completing
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.p (Draining): used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.p.x (Draining): used nothing, pending nothing, headroom vcore=2, running 0, priority none
            x1 is Completed
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
        "#]],
    );
}

#[test]
fn a_draining_queue_that_comes_back_goes_on_with_what_it_has() {
    check(
        "
        queue root.a
        queue root.p.x max vcore=2
        queue root.p.y
        node n1 vcore=10
        app x1 in root.p.x
        app y1 in root.p.y
        ask x1 k1 x3 vcore=1
        ask y1 k1 vcore=1
        forget
        queue root.a
        reload
        forget
        queue root.a
        queue root.p.x max vcore=3
        reload
        show queues
        app x2 in root.p.x
        app y2 in root.p.y
        remove-app y1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            y1 accepted
            x1 is Accepted
            x1 is Running
            x1/k1#1 of k1 placed on n1
            x1/k1#2 of k1 placed on n1
            y1 is Accepted
            y1 is Running
            y1/k1 placed on n1
            x1/k1#3 of k1 placed on n1
            root: used vcore=4, pending nothing, headroom vcore=6, running 2, priority none
            root.a: used nothing, pending nothing, headroom vcore=6, running 0, priority none
            root.p: used vcore=4, pending nothing, headroom vcore=6, running 2, priority none
            root.p.x: used vcore=3, pending nothing, headroom vcore=0, running 1, priority none
            root.p.y (Draining): used vcore=1, pending nothing, headroom vcore=6, running 1, priority none
            x2 accepted
            y2 rejected: R_PLACEMENT E_PLACEMENT_NONE
            y1/k1 released: STOPPED_BY_RM
            root: used vcore=3, pending nothing, headroom vcore=7, running 1, priority none
            root.a: used nothing, pending nothing, headroom vcore=7, running 0, priority none
            root.p: used vcore=3, pending nothing, headroom vcore=7, running 1, priority none
            root.p.x: used vcore=3, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

#[test]
fn new_queues_take_applications_at_once_and_share_fairly() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 x9 vcore=1
        forget
        queue root.a
        queue root.new.x.deep max vcore=3
        queue root.b
        reload
        app d1 in root.new.x.deep
        app b1 in root.b
        ask d1 k1 x9 vcore=1
        ask b1 k1 x9 vcore=1
        node n2 vcore=6
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k1#4 of k1 placed on n1
            d1 accepted
            b1 accepted
            d1 is Accepted
            b1 is Accepted
            n2 accepted
            b1 is Running
            b1/k1#1 of k1 placed on n2
            d1 is Running
            d1/k1#1 of k1 placed on n2
            b1/k1#2 of k1 placed on n2
            d1/k1#2 of k1 placed on n2
            b1/k1#3 of k1 placed on n2
            d1/k1#3 of k1 placed on n2
            root: used vcore=10, pending vcore=17, headroom vcore=0, running 3, priority 0
            root.a: used vcore=4, pending vcore=5, headroom vcore=0, running 1, priority 0
            root.b: used vcore=3, pending vcore=6, headroom vcore=0, running 1, priority 0
            root.new: used vcore=3, pending vcore=6, headroom vcore=0, running 1, priority 0
            root.new.x: used vcore=3, pending vcore=6, headroom vcore=0, running 1, priority 0
            root.new.x.deep: used vcore=3, pending vcore=6, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

/// The places of queues that went are used again, and parents stay before children.
#[test]
fn queues_come_and_go_many_times() {
    check(
        "
        queue root.a.x
        queue root.b.x
        node n1 vcore=9
        forget
        queue root.b.x
        queue root.c.x
        reload
        forget
        queue root.b.x
        queue root.b.y
        queue root.a.z.deep
        reload
        forget
        queue root.a.z.deep
        queue root.a.y
        queue root.a.z.b
        reload
        app a1 in root.a.z.deep
        app a2 in root.a.y
        app a3 in root.a.z.b
        ask a1 k1 vcore=1
        ask a2 k1 vcore=1
        ask a3 k1 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a3 is Accepted
            a3 is Running
            a3/k1 placed on n1
            root: used vcore=3, pending nothing, headroom vcore=6, running 3, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=6, running 3, priority none
            root.a.y: used vcore=1, pending nothing, headroom vcore=6, running 1, priority none
            root.a.z: used vcore=2, pending nothing, headroom vcore=6, running 2, priority none
            root.a.z.b: used vcore=1, pending nothing, headroom vcore=6, running 1, priority none
            root.a.z.deep: used vcore=1, pending nothing, headroom vcore=6, running 1, priority none
        "#]],
    );
}

// ------------------------------------------------------------------------- leaves become parents

#[test]
fn a_leaf_with_applications_does_not_become_a_parent() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=10
        app a1 in root.a
        ask a1 k1 x3 vcore=1
        forget
        queue root.a max vcore=5
        queue root.a.x
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            reload refused: queue `root.a` is a leaf with applications and cannot become a parent before they are gone [E_QUEUE_TYPE_IN_USE]
            root: used vcore=2, pending vcore=1, headroom vcore=8, running 1, priority 0
            root.a: used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

#[test]
fn an_empty_leaf_becomes_a_parent_and_an_empty_parent_a_leaf() {
    check(
        "
        queue root.a
        queue root.b.x
        node n1 vcore=10
        forget
        queue root.a.x
        queue root.b
        reload
        app a1 in root.a
        app a2 in root.a.x
        app b1 in root.b
        ask a2 k1 vcore=1
        ask b1 k1 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 rejected: R_NOT_LEAF
            a2 accepted
            b1 accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=8, running 2, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
            root.a.x: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
            root.b: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
        "#]],
    );
}

#[test]
fn a_parent_of_applications_does_not_become_a_leaf() {
    check(
        "
        queue root.a.x
        queue root.a.y
        node n1 vcore=10
        app x1 in root.a.x
        forget
        queue root.a
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            reload refused: queue `root.a` is a parent with applications and cannot become a leaf before they are gone [E_QUEUE_TYPE_IN_USE]
            root: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a.x: used nothing, pending nothing, headroom vcore=10, running 0, priority none
            root.a.y: used nothing, pending nothing, headroom vcore=10, running 0, priority none
        "#]],
    );
}

// ---------------------------------------------------------------------------- states of partitions

#[test]
fn a_draining_partition_goes_on_with_what_it_has() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        state Draining
        node n2 vcore=2
        app a2 in root.a
        ask a1 k1 x3 vcore=1
        resize n1 vcore=4
        state Stopped
        state Draining
        state Active
        node n2 vcore=2
        app a2 in root.a
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            partition was Active
            n2 rejected: R_PARTITION_STOPPED
            a2 rejected: R_PARTITION_STOPPED
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            error: `stop` is refused in state `Draining`
            partition was Draining
            partition was Draining
            n2 accepted
            a2 accepted
        "#]],
    );
}

#[test]
fn a_stopped_partition_takes_and_decides_nothing_and_still_releases() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a
        request a1 k5 vcore=1
        ask a1 k1 x3 vcore=1
        state Stopped
        node n2 vcore=2
        app a2 in root.a
        ask a1 k2 vcore=1
        request a1 k3 vcore=1
        exists a1 k4 on n1 vcore=1
        exists a1 k5 on n1 vcore=5
        request a1 k5 vcore=5
        release a1 uuid=k1#1
        resize n1 vcore=9
        state Draining
        state Active
        remove-app a1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k5 placed on n1
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            partition was Active
            n2 rejected: R_PARTITION_STOPPED
            a2 rejected: R_PARTITION_STOPPED
            ask a1/k2 rejected: R_PARTITION_STOPPED
            allocation a1/k3 rejected: R_PARTITION_STOPPED
            allocation a1/k4 rejected: R_PARTITION_STOPPED
            a1/k1#1 of k1 released: STOPPED_BY_RM
            error: `remove` is refused in state `Stopped`
            partition was Stopped
            a1/k1#3 of k1 placed on n1
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1/k1#3 of k1 released: STOPPED_BY_RM
            a1/k5 released: STOPPED_BY_RM
        "#]],
    );
}

// ----------------------------------------------------------------------------- the embedding API

const ONE: &str = "
partitions:
  - name: default
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a } ] }
";

const TWO: &str = "
partitions:
  - name: default
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a } ] }
  - name: gpu
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a } ] }
";

fn heard(ear: &Ear) -> String {
    let words: Vec<_> = ear.take().iter().map(ToString::to_string).collect();
    words.join("\n") + "\n"
}

fn configure(rm: &str, config: &str) -> si::UpdateConfigurationRequest {
    let (rm_id, config) = (rm.to_owned(), config.to_owned());
    si::UpdateConfigurationRequest { rm_id, config, ..Default::default() }
}

async fn begin(config: &str) -> (SchedulerHandle, Arc<Ear>) {
    let scheduler = Scheduler::builder().compare_with_full_search().start_local().unwrap();
    let ear = Arc::new(Ear::default());
    register(&scheduler, "rm", config, ear.clone()).await;
    (scheduler, ear)
}

async fn update(
    scheduler: &SchedulerHandle,
    config: &str,
) -> Result<ConfigurationUpdate, ConfigurationError> {
    scheduler.update_configuration(configure("rm", config)).await
}

async fn paths(scheduler: &SchedulerHandle, partition: &str) -> Vec<String> {
    let root = scheduler.queues(partition).await.unwrap();
    let mut all = vec![root];
    let mut paths = Vec::new();
    while let Some(queue) = all.pop() {
        paths.push(queue.queue_name);
        all.extend(queue.children);
    }
    paths.sort();
    paths
}

#[test]
fn an_update_before_a_registration_or_of_nobody_is_an_error() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let nobody = scheduler.update_configuration(configure("", ONE)).await;
        assert_eq!(nobody, Err(ConfigurationError::RmIdMissing));
        let unknown = scheduler.update_configuration(configure("rm", ONE)).await;
        assert_eq!(unknown, Err(ConfigurationError::NotRegistered("rm".to_owned())));
        let (one, two) = (Arc::new(Ear::default()), Arc::new(Ear::default()));
        register(&scheduler, "one", ONE, one).await;
        let only = scheduler.update_configuration(configure("", TWO)).await.unwrap();
        assert_eq!((only.rm_id.as_str(), only.changed), ("one", true));
        register(&scheduler, "two", ONE, two).await;
        let which = scheduler.update_configuration(configure("", ONE)).await;
        assert_eq!(which, Err(ConfigurationError::RmIdMissing));
        scheduler.shutdown().await;
    });
}

#[test]
fn the_same_text_twice_is_applied_once_and_the_extra_part_each_time() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let before = scheduler.configuration("").await.unwrap();
        assert_eq!((before.config.as_str(), before.policy_group.as_str()), (ONE, "queues"));
        let with_checksum = format!("{ONE}checksum: {}", before.checksum);
        let request = si::UpdateConfigurationRequest {
            extra_config: [("log.level".to_owned(), "debug".to_owned())].into(),
            ..configure("rm", &with_checksum)
        };
        let same = scheduler.update_configuration(request).await.unwrap();
        assert!(!same.changed);
        assert_eq!(same.old_config, ONE);
        assert_eq!(same.old_checksum, same.new_checksum);
        let after = scheduler.configuration("rm").await.unwrap();
        assert_eq!(after.config, ONE, "the text that was applied");
        assert_eq!(after.extra_config["log.level"], "debug");
        let changed = update(&scheduler, &format!("{ONE}\n# a comment\n")).await.unwrap();
        assert!(changed.changed, "another text is applied, although nothing of it shows");
        assert!(scheduler.configuration("rm").await.unwrap().extra_config.is_empty());
        scheduler.shutdown().await;
    });
}

#[test]
fn a_text_that_is_not_valid_changes_neither_queues_nor_the_extra_part() {
    in_virtual_time(async {
        let (scheduler, ear) = begin(ONE).await;
        say(&scheduler, "rm", "node n1 vcore=4\napp a1 in root.a").await;
        let faults = ONE.replace("{ name: a }", "{ name: a, maxapplications: -1, colour: red }");
        for bad in ["partitions: [", "# nothing but a comment\n", faults.as_str()] {
            let request = si::UpdateConfigurationRequest {
                extra_config: [("key".to_owned(), "value".to_owned())].into(),
                ..configure("rm", bad)
            };
            let checked = scheduler.validate_configuration(request.clone()).await;
            let updated = scheduler.update_configuration(request).await;
            assert!(matches!(updated, Err(ConfigurationError::Invalid(_))), "{updated:?}");
            assert_eq!(checked, updated);
        }
        let now = scheduler.configuration("rm").await.unwrap();
        assert_eq!((now.config.as_str(), now.extra_config.len()), (ONE, 0));
        say(&scheduler, "rm", "ask a1 k1 vcore=1").await;
        assert!(heard(&ear).contains("a1/k1 placed on n1"));
        scheduler.shutdown().await;
    });
}

#[test]
fn what_is_only_validated_has_no_effect() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let wanted = TWO.replace("{ name: a }", "{ name: b }");
        let would = scheduler.validate_configuration(configure("rm", &wanted)).await.unwrap();
        assert!(would.changed);
        assert_eq!(scheduler.configuration("rm").await.unwrap().checksum, would.old_checksum);
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.a"]);
        assert_eq!(scheduler.partitions().await.len(), 1);
        let does = update(&scheduler, &wanted).await.unwrap();
        assert_eq!(does, would);
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.b"]);
        scheduler.shutdown().await;
    });
}

#[test]
fn another_policy_group_is_refused_and_the_same_one_may_be_named() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let of = |group: &str| si::UpdateConfigurationRequest {
            policy_group: group.to_owned(),
            ..configure("rm", TWO)
        };
        let other = scheduler.update_configuration(of("others")).await.unwrap_err();
        let expected =
            ConfigurationError::PolicyGroup { given: "others".into(), registered: "queues".into() };
        assert_eq!(other, expected);
        assert!(scheduler.update_configuration(of("queues")).await.unwrap().changed);
        scheduler.shutdown().await;
    });
}

#[test]
fn an_empty_text_means_the_configuration_of_a_registration_without_one() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let old_form =
            si::UpdateConfigurationRequest { configs: TWO.to_owned(), ..configure("rm", "") };
        scheduler.update_configuration(old_form).await.unwrap();
        assert_eq!(scheduler.configuration("rm").await.unwrap().config, TWO);
        update(&scheduler, "").await.unwrap();
        let default = scheduler.configuration("rm").await.unwrap().config;
        assert_eq!(default, monoceros_rules::config::DEFAULT);
        scheduler.shutdown().await;
    });
}

#[test]
fn other_default_queues_reach_those_who_have_no_configuration_of_their_own() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin("").await;
        register(&scheduler, "own", ONE, Arc::new(Ear::default())).await;
        scheduler.set_default_queues("partitions: [").await.unwrap_err();
        let outcomes = scheduler.set_default_queues(TWO).await.unwrap();
        let changed = |rm: &str| {
            let (_, outcome) = outcomes.iter().find(|(id, _)| id == rm).unwrap();
            outcome.as_ref().unwrap().changed
        };
        assert!(changed("rm") && !changed("own"));
        assert_eq!(scheduler.configuration("rm").await.unwrap().config, TWO);
        update(&scheduler, ONE).await.unwrap();
        update(&scheduler, "").await.unwrap();
        assert_eq!(scheduler.configuration("rm").await.unwrap().config, TWO);
        scheduler.shutdown().await;
    });
}

#[test]
fn a_partition_that_is_not_configured_any_more_tells_its_last_and_is_unknown() {
    in_virtual_time(async {
        let (scheduler, ear) = begin(TWO).await;
        say(
            &scheduler,
            "rm",
            "
            node n1 vcore=4
            node g1 vcore=4 attr si/node-partition=gpu
            app a1 in root.a
            app g1 in root.a partition gpu
            app g2 in root.a partition gpu
            app g3 in root.a partition gpu
            ask g1 k1 vcore=1 partition=gpu
            ask g2 k1 vcore=9 partition=gpu
            ",
        )
        .await;
        ear.take();
        update(&scheduler, ONE).await.unwrap();
        scheduler.settle().await;
        let words = heard(&ear);
        expect![[r#"
            g1 is Failing
            g2 is Failing
            g3 is Failing
        "#]]
        .assert_eq(&words);
        assert_eq!(scheduler.partitions().await.len(), 1);
        say(
            &scheduler,
            "rm",
            "
            app g1 in root.a partition gpu
            ask g1 k2 vcore=1 partition=gpu
            node g1 vcore=4 attr si/node-partition=gpu
            ask a1 k1 vcore=1
            ",
        )
        .await;
        expect![[r#"
            g1 rejected: R_PARTITION_UNKNOWN
            ask g1/k2 rejected: R_PARTITION_UNKNOWN
            g1 rejected: R_PARTITION_UNKNOWN
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
        "#]]
        .assert_eq(&heard(&ear));
        update(&scheduler, TWO).await.unwrap();
        say(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        expect![[r#"
            g1 accepted
        "#]]
        .assert_eq(&heard(&ear));
        assert!(scheduler.nodes("gpu").await.unwrap().is_empty(), "it begins empty");
        scheduler.shutdown().await;
    });
}

/// The message of the applications is part of the interface.
#[test]
fn applications_of_a_removed_partition_hear_why() {
    in_virtual_time(async {
        let (scheduler, ear) = begin(TWO).await;
        say(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        ear.take();
        update(&scheduler, ONE).await.unwrap();
        let words = ear.take();
        let [crate::ear::Word::AppUpdated(updated)] = &*words else { panic!("{words:?}") };
        assert_eq!(
            (updated.state.as_str(), updated.message.as_str()),
            ("Failing", "PartitionRemoved")
        );
        scheduler.shutdown().await;
    });
}

#[test]
fn if_one_partition_cannot_change_none_does() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(TWO).await;
        say(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        let mut both = TWO.replacen("{ name: a }", "{ name: b }", 1);
        both = both.replace("{ name: a }", "{ name: a, queues: [ { name: x } ] }");
        let refused = update(&scheduler, &both).await.unwrap_err();
        assert!(matches!(refused, ConfigurationError::TypeInUse(_)), "{refused}");
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.a"]);
        assert_eq!(paths(&scheduler, "gpu").await, ["root", "root.a"]);
        let remove = si::RemoveApplicationRequest {
            application_id: "g1".to_owned(),
            partition_name: "gpu".to_owned(),
        };
        let request = si::ApplicationRequest {
            rm_id: "rm".to_owned(),
            remove: vec![remove],
            ..Default::default()
        };
        scheduler.update_application(request).await.unwrap();
        update(&scheduler, &both).await.unwrap();
        assert_eq!(paths(&scheduler, "default").await, ["root", "root.b"]);
        assert_eq!(paths(&scheduler, "gpu").await, ["root", "root.a", "root.a.x"]);
        scheduler.shutdown().await;
    });
}

/// Each partition on a thread of its own, which ends with it.
#[tokio::test]
async fn partitions_come_and_go_on_threads_of_their_own() {
    let scheduler = Scheduler::builder().start().unwrap();
    let ear = Arc::new(Ear::default());
    register(&scheduler, "rm", TWO, ear.clone()).await;
    for round in 0..20 {
        say(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        update(&scheduler, ONE).await.unwrap();
        assert_eq!(heard(&ear), "g1 accepted\ng1 is Failing\n", "round {round}");
        update(&scheduler, TWO).await.unwrap();
    }
    assert_eq!(scheduler.partitions().await.len(), 2);
    let removed = scheduler.deregister("rm").await.unwrap();
    assert_eq!(removed, Removed::default(), "both are empty by then");
    scheduler.shutdown().await;
}

/// What an RM sends before an update is done before it, what it sends after it, after it.
#[test]
fn updates_keep_their_place_among_the_requests() {
    in_virtual_time(async {
        let (scheduler, ear) = begin(ONE).await;
        let app = |id: &str, queue: &str| si::ApplicationRequest {
            rm_id: "rm".to_owned(),
            new: vec![si::AddApplicationRequest {
                application_id: id.to_owned(),
                queue_name: queue.to_owned(),
                ugi: Some(si::UserGroupInformation { user: "ada".into(), groups: Vec::new() }),
                ..Default::default()
            }],
            ..Default::default()
        };
        let other = ONE.replace("{ name: a }", "{ name: b }");
        let (before, update, after, last) = tokio::join!(
            scheduler.update_application(app("a1", "root.a")),
            update(&scheduler, &other),
            scheduler.update_application(app("b1", "root.b")),
            scheduler.update_application(app("a2", "root.a")),
        );
        before.unwrap();
        update.unwrap();
        after.unwrap();
        last.unwrap();
        scheduler.settle().await;
        expect![[r#"
            a1 accepted
            b1 accepted
            a2 rejected: R_PLACEMENT E_PLACEMENT_NONE
        "#]]
        .assert_eq(&heard(&ear));
        scheduler.shutdown().await;
    });
}

#[test]
fn who_deregisters_hears_what_went() {
    in_virtual_time(async {
        let (scheduler, ear) = begin(TWO).await;
        say(
            &scheduler,
            "rm",
            "
            node n1 vcore=4
            node n2 vcore=4 attr si/node-partition=gpu
            app a1 in root.a
            app a2 in root.a partition gpu
            ask a1 k1 x3 vcore=1
            ask a2 k1 x2 vcore=1 partition=gpu
            ",
        )
        .await;
        ear.take();
        let removed = scheduler.deregister("rm").await.unwrap();
        assert_eq!(removed, Removed { allocations: 5, nodes: 2, applications: 2 });
        assert!(ear.take().is_empty(), "not another word");
        let again = scheduler.deregister("rm").await;
        assert_eq!(again, Err(UpdateError::NotRegistered("rm".to_owned())));
        assert!(scheduler.partitions().await.is_empty());
        scheduler.shutdown().await;
    });
}

#[test]
fn the_state_of_a_partition_is_shown_with_the_time_it_was_entered() {
    in_virtual_time(async {
        let (scheduler, _ear) = begin(ONE).await;
        let shown = async || {
            let partition = scheduler.partitions().await.remove(0);
            (partition.state, partition.last_state_transition_time)
        };
        let (state, since) = shown().await;
        assert_eq!(state, "Active");
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let old = scheduler.set_partition_state("rm", "default", ObjectState::Stopped).await;
        assert_eq!(old, Ok(ObjectState::Active));
        let again = scheduler.set_partition_state("rm", "[rm]default", ObjectState::Stopped).await;
        assert_eq!(again, Ok(ObjectState::Stopped), "named in full, and it is already");
        let (state, later) = shown().await;
        assert_eq!((state.as_str(), later - since), ("Stopped", 5_000_000_000));
        scheduler.set_partition_state("rm", "gpu", ObjectState::Active).await.unwrap_err();
        scheduler.set_partition_state("mr", "default", ObjectState::Active).await.unwrap_err();
        scheduler.shutdown().await;
    });
}
