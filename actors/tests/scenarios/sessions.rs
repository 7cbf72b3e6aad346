//! Resource managers register, register again and deregister. A session ends with all of its state;
//! the next one starts from nothing, and no message of one session reaches another.

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::{RegisterError, Scheduler, UpdateError};
use monoceros_proto::si::v1 as si;

use crate::recording_callback::RecordingCallback;
use crate::world::{check, check_plain, in_virtual_time};

/// Each resource manager has partitions, nodes, applications and users of its own, whatever their
/// names.
#[test]
fn two_rms_with_equal_ids_never_meet() {
    check(
        "
        queue root.a
        as rm1
        node n1 vcore=1
        app a1 in root.a
        as rm2
        node n1 vcore=2
        app a1 in root.a
        ask a1 k1 x2 vcore=1
        as rm1
        ask a1 k1 x2 vcore=1
        show nodes
        release a1 *
        as rm2
        show nodes
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            rm2: n1 accepted
            rm2: a1 accepted
            rm2: a1 is Accepted
            rm2: a1 is Running
            rm2: a1/k1#1 of k1 placed on n1
            rm2: a1/k1#2 of k1 placed on n1
            rm1: a1 is Accepted
            rm1: a1 is Running
            rm1: a1/k1#1 of k1 placed on n1
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            rm1: a1/k1#1 of k1 released: STOPPED_BY_RM
            rm1: a1/k1#2 of k1 placed on n1
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k1], asks []
        "#]],
    );
}

#[test]
fn each_rm_is_asked_for_its_own_predicates() {
    check_plain(
        "
        queue root.a
        as rm1
        node n1 vcore=1
        app a1 in root.a
        refuse * *
        as rm2
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        as rm1
        ask a1 k1 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            rm2: n1 accepted
            rm2: a1 accepted
            rm2: a1 is Accepted
            rm2: a1 is Running
            rm2: a1/k1 placed on n1
            rm1: a1 is Accepted
        "#]],
    );
}

#[test]
fn registering_again_clears_everything() {
    check(
        "
        queue root.a
        node n1 vcore=1
        node n2 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        ask a1 k2 x5 vcore=1
        register
        show nodes
        show apps
        show queues
        ask a1 k1 vcore=1
        node n1 vcore=1
        app a1 in root.a
        exists a1 k1 on n1 vcore=1
        ask a1 k2 vcore=1
        release a1 key=k1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2#1 of k2 placed on n2
            root: used nothing, pending nothing, headroom nothing, running 0, priority none
            root.a: used nothing, pending nothing, headroom nothing, running 0, priority none
            ask a1/k1 rejected: R_APP_UNKNOWN
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1/k2 placed on n1
        "#]],
    );
}

/// Placements in flight when an RM registers again are dropped.
#[test]
fn late_messages_of_an_earlier_session_are_dropped() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        ask a1 k1 x9 vcore=1 &
        register
        show apps
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 x9 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
        "#]],
    );
}

/// A configuration is checked before the earlier session is ended.
#[test]
fn a_rejected_registration_keeps_the_earlier_session() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        queue root.b max vcore=-1
        register
        ask a1 k1 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            register refused: queue configuration is not valid:
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_deregistered_rm_is_unknown() {
    check(
        "
        queue root.a
        as rm1
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        as rm2
        node n1 vcore=1
        app a1 in root.a
        as rm1
        leave
        as rm2
        ask a1 k1 vcore=1
        as rm1
        show apps
        node n1 vcore=1
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            rm2: n1 accepted
            rm2: a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            rm1: n1 accepted
        "#]],
    );
}

/// After the full report the totals equal those before the new session.
#[test]
fn reporting_again_restores_the_totals() {
    check(
        "
        queue root.a max vcore=6
        queue root.b
        node n1 vcore=4
        node n2 vcore=4 drained
        app a1 in root.a
        app b1 in root.b
        ask a1 k1 x2 vcore=1
        ask b1 k1 vcore=2
        ask b1 k2 vcore=2
        show queues
        show nodes
        register
        node n1 vcore=4
        node n2 vcore=4 drained
        app a1 in root.a
        app b1 in root.b
        exists a1 k1 on n1 vcore=1 uuid=k1#1
        exists a1 k1 on n1 vcore=1 uuid=k1#2
        exists b1 k1 on n1 vcore=2 uuid=k1
        ask b1 k2 vcore=2
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=4, pending vcore=2, headroom vcore=4, running 2, priority 0
            root.a: used vcore=2, pending nothing, headroom vcore=4, running 1, priority none
            root.b: used vcore=2, pending vcore=2, headroom vcore=4, running 1, priority 0
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2 closed: total vcore=4, used nothing, occupied nothing, left vcore=4
            n1 accepted
            n2 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            b1 is Accepted
            b1 is Running
            root: used vcore=4, pending vcore=2, headroom vcore=4, running 2, priority 0
            root.a: used vcore=2, pending nothing, headroom vcore=4, running 1, priority none
            root.b: used vcore=2, pending vcore=2, headroom vcore=4, running 1, priority 0
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2 closed: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

#[test]
fn requests_of_an_unknown_rm_are_rejected() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let request = si::NodeRequest { rm_id: "rm9".into(), ..Default::default() };
        let unknown = Err(UpdateError::NotRegistered("rm9".to_owned()));
        assert_eq!(scheduler.update_node(request).await, unknown);
        let request = si::AllocationRequest { rm_id: "rm9".into(), ..Default::default() };
        assert_eq!(scheduler.update_allocation(request).await, unknown);
        let request = si::ApplicationRequest::default();
        let missing = Err(UpdateError::RmIdMissing);
        assert_eq!(scheduler.update_application(request).await, missing);
        assert_eq!(scheduler.stop_resource_manager("rm9").await, unknown);
    });
}

#[test]
fn an_rm_id_has_at_most_128_bytes() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let register = |rm_id: String| {
            let request = si::RegisterResourceManagerRequest { rm_id, ..Default::default() };
            scheduler.register_resource_manager(request, Arc::new(RecordingCallback::default()))
        };
        assert!(matches!(register(String::new()).await, Err(RegisterError::RmIdMissing)));
        for bad in ["x".repeat(129), "[rm]".to_owned(), "a\nb".to_owned()] {
            assert!(matches!(register(bad).await, Err(RegisterError::RmIdInvalid(_))));
        }
        assert!(register("x".repeat(128)).await.is_ok());
        assert!(register("räuber hauptmann".to_owned()).await.is_ok());
    });
}
