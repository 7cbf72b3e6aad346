//! How one RM is asked and told: the settings, and over them what it registered with.

use std::collections::BTreeMap;

use tracing::warn;

use crate::settings::{CallbackSettings, SchedulerSettings};

/// What holds for the callback streams of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Everything about the stream.
    pub(super) callback: CallbackSettings,
    /// Placements that may wait for a remote predicate, per partition.
    pub(super) placements_in_flight: usize,
}

/// The key of an extra configuration for [`Options::placements_in_flight`].
const IN_FLIGHT: &str = "scheduling.placementsInFlight";

impl Options {
    /// What holds for RMs that bring nothing of their own.
    pub fn new(callback: &CallbackSettings, scheduler: &SchedulerSettings) -> Self {
        let placements_in_flight = scheduler.placements_in_flight.get();
        Self { callback: callback.clone(), placements_in_flight }
    }

    /// What holds for an RM that registered with this extra configuration, and how many of its
    /// values cannot be used: those change nothing but the log (scheduler-interface chapter, V8).
    #[must_use]
    pub fn of(&self, rm_id: &str, extra: &BTreeMap<String, String>) -> (Self, usize) {
        let (options, complaints) = self.overridden(rm_id, extra);
        let n_unusable = complaints.len();
        for complaint in complaints {
            warn!(rm = rm_id, complaint, "left out of the extra configuration");
        }
        (options, n_unusable)
    }

    fn overridden(&self, rm_id: &str, extra: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let mut options = self.clone();
        if let Some(asking) = options.callback.predicates_of.get(rm_id) {
            options.callback.predicates = *asking;
        }
        let mut complaints = options.callback.override_by(extra);
        if let Some(value) = extra.get(IN_FLIGHT) {
            match value.parse() {
                Ok(in_flight @ 1..) => options.placements_in_flight = in_flight,
                _ => complaints
                    .push(format!("`{IN_FLIGHT}`: the value is not a whole number above zero")),
            }
        }
        (options, complaints)
    }

    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        let settings = crate::settings::Settings::load(None, &crate::settings::Flags::default());
        let settings = settings.unwrap();
        Self::new(&settings.callback, &settings.scheduler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::callback::Asking;

    #[test]
    fn what_an_rm_brings_goes_before_what_is_set_for_it_and_that_before_what_is_set_for_all() {
        let mut defaults = Options::for_tests();
        defaults.callback.predicates_of.insert("rm".to_owned(), Asking::Required);
        let nothing = BTreeMap::new();
        assert_eq!(defaults.of("other", &nothing).0.callback.predicates, Asking::Auto);
        assert_eq!(defaults.of("rm", &nothing).0.callback.predicates, Asking::Required);
        let extra = [("callback.predicates", "optional"), (IN_FLIGHT, "8")];
        let extra = extra.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let (options, complaints) = defaults.overridden("rm", &extra);
        assert_eq!(options.callback.predicates, Asking::Optional);
        assert_eq!((options.placements_in_flight, complaints), (8, vec![]));
    }
}
