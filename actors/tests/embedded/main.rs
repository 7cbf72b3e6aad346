//! The scheduler as embedded in a program: through its handle and a callback, in virtual time.
//! Scripts in words, judged by a full search, are in `scenarios`.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod first_steps;
mod images;
mod intake;
mod predicates;
mod quotas_of_one;
mod reorder;
mod reported;
mod resource_names;
mod run_times;
mod sessions;
mod turns;

#[test]
fn no_file_is_forgotten() {
    common::assert_all_named("tests/embedded", include_str!("main.rs"));
}
