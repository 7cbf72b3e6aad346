//! Gangs declared with their application: which of them are admitted.

use expect_test::expect;

use crate::world::{How, check, check_also};

#[test]
fn impossible_declarations_are_rejected() {
    check(
        "
        queue root.a
        app a1 in root.a needs g x2 vcore=1 needs g x1 vcore=1
        app a2 in root.a needs g x0 vcore=1
        app a3 in root.a needs g x2 vcore=-1
        app a4 in root.a needs - x2 vcore=1
        app a5 in root.a needs g x60000 vcore=1 needs h x60000 vcore=1
        app a6 in root.a needs g x2 vcore=1 gang vcore=2
        app a7 in root.a tag monoceros.io/task-groups=[{\"name\":\"g\"}]
        app a8 in root.a tag Monoceros.IO/Task-Groups=[]
        app a9 in root.a needs g x2 vcore=1 tag monoceros.io/task-groups=[{\"name\":\"g\",\"minMember\":3,\"minResource\":{\"vcore\":\"1m\"}}]
        show apps
        ",
        &expect![[r#"
            a1 rejected: R_GANG_DECLARATION
            a2 rejected: R_GANG_DECLARATION
            a3 rejected: R_GANG_DECLARATION
            a4 rejected: R_GANG_DECLARATION
            a5 rejected: R_GANG_DECLARATION
            a6 rejected: R_GANG_DECLARATION
            a7 rejected: R_GANG_DECLARATION
            a8 rejected: R_GANG_DECLARATION
            a9 rejected: R_GANG_DECLARATION
        "#]],
    );
}

#[test]
fn a_gang_above_every_maximum_is_rejected() {
    // A fork does not know the groups of users that its resource manager has given before.
    check_also(
        "
        queue root.p max vcore=5
        queue root.p.x max gpu=900
        queue root.q limit users=bob vcore=2 limit groups=dev vcore=3 gpu=1
        app a1 in root.p.x needs g x3 vcore=2
        app a2 in root.p.x needs g x5 vcore=1 needs h x9 gpu=100
        app a3 in root.q user bob needs g x3 vcore=1
        app a4 in root.q user ada groups ops,dev needs g x2 vcore=1 needs h x2 gpu=1
        app a5 in root.q user ada needs g x9 vcore=1
        ",
        &expect![[r#"
            a1 rejected: R_GANG_TOO_LARGE
            a2 accepted
            a2 is Accepted
            a3 rejected: R_GANG_TOO_LARGE
            a4 rejected: R_GANG_TOO_LARGE
            a5 rejected: R_GANG_TOO_LARGE
        "#]],
        &[How::OneAtATime, How::Watched, How::Later(1)],
    );
}

#[test]
fn valid_topologies_and_constraints_of_groups_are_accepted() {
    let group = |more: &str| {
        format!(r#"tag monoceros.io/task-groups=[{{"name":"g","minMember":1,{more}}}]"#)
    };
    let script = format!(
        "
        queue root.a
        app a1 in root.a {}
        app a2 in root.a {}
        app a3 in root.a {}
        app a4 in root.a {}
        ",
        group(r#""topology":{"required":"rack"}"#),
        group(r#""topology":{"preferred":[""]}"#),
        group(r#""constraint":{"simpleConstraint":{}}"#),
        group(r#""constraint":{"sampleConstraint":{}}"#),
    );
    check(
        &script,
        &expect![[r#"
        a1 accepted
        a2 rejected: R_GANG_DECLARATION
        a3 accepted
        a4 rejected: R_GANG_DECLARATION
    "#]],
    );
}
