//! The examples, run as a reader would run them.
#![allow(clippy::unwrap_used)]

use expect_test::expect;

#[path = "../examples/embed.rs"]
#[allow(dead_code, reason = "its `main` only opens standard output")]
mod embed;

#[tokio::test]
async fn an_embedded_scheduler_asks_its_resource_manager_for_predicates() {
    let mut out = Vec::new();
    embed::run(&mut out).await.unwrap();
    expect![[r"
        training is Accepted
        training is Running
        load runs on n1
        fit-1 runs on n3
        fit-1 is done, which makes room for fit-2:
        fit-1 ends: released by the resource manager
        fit-2 runs on n3
    "]]
    .assert_eq(&String::from_utf8(out).unwrap());
}
