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
    "]]
    .assert_eq(&String::from_utf8(out).unwrap());
}
