//! What breaks, and what goes on (applications chapter, 9.6; the design's section 4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use expect_test::expect;
use monoceros_actors::{ReadError, ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1 as si;

use crate::ear::{Ear, Word};
use crate::script::Script;
use crate::wire::{self, Message};
use crate::world::{check_plain, in_virtual_time};

#[test]
fn a_predicate_that_panics_refuses() {
    check_plain(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a
        explode k1 n1
        explode k2 *
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        ask a1 k3 vcore=1
        allow k2 *
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n2
            a1/k3 placed on n1
            a1/k2 placed on n1
        "#]],
    );
}
