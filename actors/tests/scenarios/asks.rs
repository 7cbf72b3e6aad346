//! Asks and allocations: added, changed, recovered, withdrawn (applications chapter, 2.10).

use expect_test::expect;

use crate::world::check;

/// The ask has another size by now: what is pending again has that one.
#[test]
fn what_could_not_be_bound_is_pending_in_the_size_of_its_ask() {
    check(
        "
        queue root.a
        node n1 gpu=3
        app a1 in root.a
        ask a1 k1 gpu=1
        ask a1 k1 vcore=1
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [], asks [k1 x2]
        "#]],
    );
}
