//! Applications: states, admission, removal (applications chapter, 1.7).

use expect_test::expect;

use crate::world::check;

#[test]
fn the_first_ask_makes_an_application_accepted() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 vcore=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
        "#]],
    );
}
