//! Predicates that are answered later, controlled by the test, in virtual time: waiting placements,
//! the effect of an answer, and withdrawals.

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
