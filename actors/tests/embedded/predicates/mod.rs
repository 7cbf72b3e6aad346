//! Predicates that are answered later, under the test's control, in virtual time: what waits, what
//! an answer does, who takes a placement back.

mod shim;

mod answers;
mod bundles;
mod cancelling;
mod constraints;
mod elsewhere;
mod exclusions;
mod gangs;
mod holding;
mod preemption;
mod refusals;
mod starting;

#[test]
fn no_file_is_forgotten() {
    crate::common::assert_all_named("tests/embedded/predicates", include_str!("mod.rs"));
}
