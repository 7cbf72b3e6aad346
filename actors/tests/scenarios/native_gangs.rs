//! Gangs that declare their members with the application: all of them get their places at once or
//! none does, and what is held for a member is nobody else's until its ask takes it.

use expect_test::expect;

use crate::world::{check, check_plain};

#[test]
fn a_gang_without_asks_holds_all_its_places_and_runs() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a needs a x3 vcore=1 needs b x2 vcore=2
        show apps
        show queues
        show users
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3), (b~1), (b~2)], asks []
            root: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            user ada: used vcore=7, running [a1]
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            a1/a: 3 placeholders of vcore=1, 0 replaced, 0 timed out
            a1/b: 2 placeholders of vcore=2, 0 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn a_gang_that_lacks_places_takes_none_until_a_node_comes() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x3 vcore=1 needs b x2 vcore=2
        show apps
        show queues
        node n2 vcore=4
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=7, holds [], asks [(a) x3, (b) x2]
            root: used nothing, pending vcore=7, headroom vcore=4, running 0, priority 0
            root.a: used nothing, pending vcore=7, headroom vcore=4, running 0, priority 0
            n2 accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3), (b~1), (b~2)], asks []
        "#]],
    );
}

/// Nothing is placed before all are there, and nothing is held afterwards.
#[test]
fn asks_that_are_there_get_their_places_with_the_decision() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 x2 vcore=1 group=a
        ask a1 k2 vcore=2 group=a
        show apps
        node n1 vcore=3
        show apps
        node n2 vcore=4
        show apps
        show task-groups
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [k1 x2, k2 x1]
            n1 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [k1 x2, k2 x1]
            n2 accepted
            a1 is Running
            a1/k2 placed on n1
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k1, k1, k2], asks []
            a1/a: 0 placeholders of vcore=1, 0 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn what_is_more_than_the_gang_needs_and_what_is_in_no_group_waits_for_the_decision() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 x4 vcore=1 group=a
        ask a1 free vcore=1
        ask a1 other vcore=1 group=unknown
        node n1 vcore=2
        show apps
        node n2 vcore=9
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [free x1, k1 x4, other x1]
            n2 accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n2
            a1/k1#4 of k1 placed on n2
            a1/free placed on n2
            a1/other placed on n2
            a1 in root.a is Running since 1000s: used vcore=6, pending nothing, holds [free, k1, k1, k1, k1, other], asks []
        "#]],
    );
}

#[test]
fn a_withdrawn_ask_is_a_member_without_ask_again() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=2 group=a ; ask a1 k2 vcore=1 group=a
        show apps
        show task-groups
        withdraw a1 k1
        show apps
        show task-groups
        ask a1 k2 vcore=1 group=b
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [(a) x1, k1 x1, k2 x1]
            a1/a: 1 placeholders of vcore=1, 0 replaced, 0 timed out
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [(a) x2, k2 x1]
            a1/a: 2 placeholders of vcore=1, 0 replaced, 0 timed out
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [(a) x3, k2 x1]
        "#]],
    );
}

#[test]
fn a_group_without_a_size_waits_for_its_asks() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a needs a x2 vcore=1 needs d x2
        show apps
        ask a1 d1 vcore=3 group=d
        show apps
        ask a1 d2 vcore=2 group=d
        show apps
        app a2 in root.a needs d
        show apps
        ask a2 d1 vcore=1 group=d
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [(a) x2]
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=5, holds [], asks [(a) x2, d1 x1]
            a1 is Running
            a1/d1 placed on n1
            a1/d2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=5, pending nothing, holds [(a~1), (a~2), d1, d2], asks []
            a2 accepted
            a1 in root.a is Running since 1000s: used vcore=5, pending nothing, holds [(a~1), (a~2), d1, d2], asks []
            a2 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 is Accepted
            a2 is Running
            a2/d1 placed on n1
        "#]],
    );
}

#[test]
fn a_maximum_that_is_lowered_below_the_gang_keeps_all_of_it_waiting() {
    check(
        "
        queue root.a max vcore=6
        app a1 in root.a needs a x3 vcore=2
        forget
        queue root.a max vcore=5
        reload
        node n1 vcore=9
        show apps
        show queues
        forget
        queue root.a max vcore=6
        reload
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [(a) x3]
            root: used nothing, pending vcore=6, headroom vcore=9, running 0, priority 0
            root.a: used nothing, pending vcore=6, headroom vcore=5, running 0, priority 0
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
        "#]],
    );
}

#[test]
fn of_two_gangs_that_do_not_fit_together_one_runs_and_the_other_holds_nothing() {
    check(
        "
        queue root.a
        node n1 vcore=10
        app a1 in root.a needs a x6 vcore=1
        app a2 in root.a needs a x3 vcore=2
        show apps
        remove-app a1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a2 accepted
            a2 is Accepted
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3), (a~4), (a~5), (a~6)], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [(a) x3]
            a2 is Running
            a2 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
        "#]],
    );
}

#[test]
fn no_placeholder_of_the_rm_belongs_to_such_a_gang() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x2 vcore=1
        ask a1 p1 vcore=1 placeholder=a
        request a1 p2 vcore=1 placeholder=b
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            ask a1/p1 rejected: R_GANG_PLACEHOLDER
            allocation a1/p2 rejected: R_GANG_PLACEHOLDER
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [(a) x2]
        "#]],
    );
}

#[test]
fn asks_take_what_is_held_for_them_and_nothing_else_changes() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a needs a x3 vcore=1 needs b x2 vcore=2
        show queues
        ask a1 k1 x3 vcore=1 group=a ; ask a1 k2 vcore=2 group=b
        show queues
        show users
        show nodes
        show apps
        show task-groups
        ask a1 k3 vcore=2 group=b
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            root: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
            a1/k2 placed on n2
            root: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=7, pending nothing, headroom vcore=1, running 1, priority none
            user ada: used vcore=7, running [a1]
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            a1 in root.a is Running since 1000s: used vcore=5, pending nothing, holds [(b~1), k1, k1, k1, k2], asks []
            a1/a: 3 placeholders of vcore=1, 3 replaced, 0 timed out
            a1/b: 2 placeholders of vcore=2, 1 replaced, 0 timed out
            a1/k3 placed on n1
            a1 in root.a is Running since 1000s: used vcore=7, pending nothing, holds [k1, k1, k1, k2, k3], asks []
            a1/a: 3 placeholders of vcore=1, 3 replaced, 0 timed out
            a1/b: 2 placeholders of vcore=2, 2 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn what_a_member_leaves_of_its_place_is_free_at_once() {
    check(
        "
        queue root.a max vcore=4
        queue root.b
        node n1 vcore=4
        app a1 in root.a needs a x2 vcore=2 
        app a2 in root.a
        ask a2 k1 vcore=1
        app b1 in root.b
        ask b1 k1 vcore=1
        show queues
        ask a1 k1 vcore=1 group=a
        show queues
        show users
        show nodes
        ask a1 k2 vcore=1 group=a
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a2 accepted
            a2 is Accepted
            b1 accepted
            b1 is Accepted
            root: used vcore=4, pending vcore=2, headroom vcore=0, running 1, priority 0
            root.a: used vcore=4, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.b: used nothing, pending vcore=1, headroom vcore=0, running 0, priority 0
            a1/k1 placed on n1
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=4, pending vcore=1, headroom vcore=0, running 2, priority 0
            root.a: used vcore=3, pending vcore=1, headroom vcore=0, running 1, priority 0
            root.b: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
            user ada: used vcore=4, running [a1, b1]
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            a1/k2 placed on n1
            a2 is Running
            a2/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            b1 in root.b is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

#[test]
fn a_member_larger_than_what_is_held_ends_it_and_is_placed_as_any_other() {
    check(
        "
        queue root.a
        node n1 vcore=9 gpu=1
        app a1 in root.a needs a x2 vcore=2 needs b x1 vcore=1
        ask a1 k1 vcore=3 group=a
        show apps
        show task-groups
        ask a1 k2 vcore=1 gpu=1 group=b
        show apps
        show task-groups
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [(b~1), k1], asks []
            a1/a: 2 placeholders of vcore=2, 0 replaced, 2 timed out
            a1/b: 1 placeholders of vcore=1, 0 replaced, 0 timed out
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used gpu=1 vcore=4, pending nothing, holds [k1, k2], asks []
            a1/a: 2 placeholders of vcore=2, 0 replaced, 2 timed out
            a1/b: 1 placeholders of vcore=1, 0 replaced, 1 timed out
            root: used gpu=1 vcore=4, pending nothing, headroom gpu=0 vcore=5, running 1, priority none
            root.a: used gpu=1 vcore=4, pending nothing, headroom gpu=0 vcore=5, running 1, priority none
        "#]],
    );
}

#[test]
fn a_place_whose_node_refuses_the_member_is_taken_elsewhere() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a needs a x1 vcore=3
        show nodes
        refuse k1 n1
        ask a1 k1 vcore=2 group=a
        show nodes
        show queues
        show task-groups
        app a2 in root.a needs a x2 vcore=2
        show nodes
        refuse k2 *
        ask a2 k2 vcore=2 group=a
        show apps
        ask a2 k3 vcore=2 group=a
        allow k2 *
        wait 2s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            n1: total vcore=4, used vcore=3, occupied nothing, left vcore=1
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            a1/k1 placed on n2
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            root: used vcore=2, pending nothing, headroom vcore=6, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=6, running 1, priority none
            a1/a: 1 placeholders of vcore=3, 1 replaced, 0 timed out
            a2 accepted
            a2 is Accepted
            a2 is Running
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=2, occupied nothing, left vcore=2
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [(a~1), (a~2)], asks [k2 x1]
            a2/k3 placed on n1
            a2/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k2, k3], asks []
        "#]],
    );
}

#[test]
fn a_drained_node_keeps_what_is_held_there_for_its_members() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x2 vcore=1
        drain n1
        node n2 vcore=4
        ask a1 k1 x2 vcore=1 group=a
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            n2 accepted
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k1], asks []
        "#]],
    );
}

#[test]
fn what_is_held_ends_after_its_time_and_the_gang_runs_on() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a timeout 5000 tag yunikorn.apache.org/creationTime=1 needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a
        wait 4s
        show apps
        wait 2s
        show apps
        show task-groups
        show queues
        ask a1 k2 vcore=1 group=a
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), k1], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a1/a: 3 placeholders of vcore=1, 1 replaced, 2 timed out
            root: used vcore=1, pending nothing, headroom vcore=3, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=3, running 1, priority none
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
        "#]],
    );
}

#[test]
fn a_gang_of_which_nobody_came_completes_when_its_time_is_over() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a style Hard timeout 5000 needs a x3 vcore=1
        wait 6s
        show apps
        show queues
        wait 30s
        show apps
        app a2 in root.a needs a x3 vcore=1
        wait 899s
        show apps
        wait 2s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            a1 is Completed
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2 in root.a is Running since 1036s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
            a2 is Completing
            a2 in root.a is Completing since 1036s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn a_gang_that_has_no_places_has_no_time_either() {
    check(
        "
        queue root.a
        app a1 in root.a style Hard timeout 5000 needs a x3 vcore=1
        wait 60s
        show apps
        node n1 vcore=3
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [(a) x3]
            n1 accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
        "#]],
    );
}

#[test]
fn an_application_that_completes_gives_its_held_places_back() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a
        release a1 key=k1
        show apps
        wait 29s
        show queues
        wait 2s
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [(a~2), (a~3)], asks []
            root: used vcore=2, pending nothing, headroom vcore=2, running 0, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=2, running 0, priority none
            a1 is Completed
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
        "#]],
    );
}

#[test]
fn held_places_go_with_their_node_and_later_asks_are_placed_as_any_other() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a needs a x4 vcore=1
        ask a1 k1 vcore=1 group=a
        show apps
        remove n2
        show apps
        show task-groups
        show queues
        ask a1 k2 x3 vcore=1 group=a
        show apps
        node n3 vcore=9
        show apps
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), (a~4), k1], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~3), k1], asks []
            a1/a: 4 placeholders of vcore=1, 1 replaced, 2 timed out
            root: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            a1/k2#1 of k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=2, holds [k1, k2], asks [k2 x2]
            n3 accepted
            a1/k2#2 of k2 placed on n3
            a1/k2#3 of k2 placed on n3
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k1, k2, k2, k2], asks []
        "#]],
    );
}

/// Two such gangs could else keep each other from what both lack.
#[test]
fn a_gang_that_loses_places_before_any_member_was_real_is_undecided_again() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a needs a x4 vcore=1
        app a2 in root.a needs a x2 vcore=1
        remove n2
        show apps
        show task-groups
        show queues
        remove-app a2
        node n3 vcore=2
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a2 accepted
            a2 is Accepted
            a2 is Running
            a1 in root.a is Running since 1000s: used nothing, pending vcore=4, holds [], asks [(a) x4]
            a2 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2)], asks []
            a1/a: 8 placeholders of vcore=1, 0 replaced, 4 timed out
            a2/a: 2 placeholders of vcore=1, 0 replaced, 0 timed out
            root: used vcore=2, pending vcore=4, headroom vcore=0, running 2, priority 0
            root.a: used vcore=2, pending vcore=4, headroom vcore=0, running 2, priority 0
            n3 accepted
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~5), (a~6), (a~7), (a~8)], asks []
            a1/a: 8 placeholders of vcore=1, 0 replaced, 4 timed out
        "#]],
    );
}

#[test]
fn a_node_that_shrinks_loses_what_it_holds_for_members_newest_first() {
    check(
        "
        queue root.a
        node n1 vcore=6
        app a1 in root.a needs a x4 vcore=1
        ask a1 k1 vcore=1 group=a
        show apps
        resize n1 vcore=2
        show apps
        show task-groups
        show nodes
        resize n1 vcore=0
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), (a~4), k1], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), k1], asks []
            a1/a: 4 placeholders of vcore=1, 1 replaced, 2 timed out
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            n1: total nothing, used vcore=1, occupied nothing, left vcore=-1
        "#]],
    );
}

#[test]
fn a_withdrawn_ask_after_the_decision_leaves_what_is_held() {
    check_plain(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a needs a x3 vcore=1
        refuse * *
        ask a1 k1 x2 vcore=1 group=a
        withdraw a1 k1
        allow * *
        show apps
        ask a1 k2 vcore=1 group=a
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), k2], asks []
        "#]],
    );
}

#[test]
fn a_removed_gang_leaves_nothing_and_its_rm_hears_of_its_allocations_alone() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a
        remove-app a1
        show queues
        show nodes
        app a2 in root.a needs a x9 vcore=1
        remove-app a2
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k1 released: STOPPED_BY_RM
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            a2 accepted
            a2 is Accepted
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
        "#]],
    );
}

#[test]
fn a_release_of_everything_ends_what_is_held_without_a_word() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a
        release a1 uuid=a~1
        release a1 key=a~1
        show apps
        release a1 *
        show apps
        wait 31s
        show queues
        app a2 in root.a needs a x9 vcore=1
        ask a2 k1 vcore=1 group=a
        withdraw a2 *
        release a2 *
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~2), (a~3), k1], asks []
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Completed
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            a2 accepted
            a2 is Accepted
            a2 in root.a is Accepted since 1031s: used nothing, pending vcore=9, holds [], asks [(a) x9]
        "#]],
    );
}

#[test]
fn after_a_restart_a_gang_with_a_reported_member_is_decided() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a needs a x3 vcore=1
        exists a1 k1 on n1 vcore=1 ; exists a1 k2 on n1 vcore=1
        show apps
        show task-groups
        ask a1 k3 vcore=1 group=a
        show apps
        node n2 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a1/a: 0 placeholders of vcore=1, 0 replaced, 0 timed out
            a1 in root.a is Running since 1000s: used vcore=2, pending vcore=1, holds [k1, k2], asks [k3 x1]
            n2 accepted
            a1/k3 placed on n2
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [k1, k2, k3], asks []
        "#]],
    );
}

#[test]
fn a_member_reported_after_the_decision_has_the_place_that_is_held_for_it() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a needs a x3 vcore=1
        show apps
        exists a1 k1 on n2 vcore=1 group=a
        show apps
        show queues
        show task-groups
        exists a1 k2 on n2 vcore=1 group=a ; exists a1 k3 on n2 vcore=1 group=a
        show nodes
        show queues
        show task-groups
        exists a1 k4 on n2 vcore=1 group=a ; exists a1 k5 on n2 vcore=1 group=b
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [(a~1), (a~2), (a~3)], asks []
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~1), (a~3), k1], asks []
            root: used vcore=3, pending nothing, headroom vcore=1, running 1, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=1, running 1, priority none
            a1/a: 3 placeholders of vcore=1, 1 replaced, 0 timed out
            a1/k2 placed on n2
            a1/k3 placed on n2
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n2: total vcore=2, used vcore=3, occupied nothing, left vcore=-1
            root: used vcore=3, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=2, running 1, priority none
            a1/a: 3 placeholders of vcore=1, 3 replaced, 0 timed out
            a1/k4 placed on n2
            a1/k5 placed on n2
            root: used vcore=5, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=5, pending nothing, headroom vcore=2, running 1, priority none
        "#]],
    );
}

#[test]
fn a_gang_of_which_predicates_refuse_a_member_everywhere_holds_nothing() {
    check_plain(
        "
        queue root.a
        app a1 in root.a needs a x2 vcore=1
        ask a1 k1 vcore=1 group=a
        refuse k1 *
        node n1 vcore=4
        node n2 vcore=4
        show apps
        show nodes
        wait 3s
        show apps
        allow k1 *
        refuse k1 n1
        wait 5s
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            n2 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [(a) x1, k1 x1]
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=4, used nothing, occupied nothing, left vcore=4
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [(a) x1, k1 x1]
            a1 is Running
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [(a~1), k1], asks []
        "#]],
    );
}

#[test]
fn a_member_that_requires_a_node_goes_there_with_the_others_elsewhere() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a needs a x2 vcore=3
        ask a1 k1 vcore=3 node=n2 group=a
        node n2 vcore=2
        show apps
        resize n2 vcore=3
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            n2 accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=6, holds [], asks [(a) x1, k1 x1]
            a1 is Running
            a1/k1 placed on n2
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [(a~1), k1], asks []
        "#]],
    );
}
