//! How one RM is asked and told: the settings, and over them what it registered with.
//!
//! What a registration brings wins over what the settings have for this RM, and that over what they
//! have for all: who knows the shim best has the last word.

use std::collections::BTreeMap;

use tracing::warn;

use crate::settings::Settings;
use crate::settings::callback::CallbackSettings;

/// What holds for the callback streams of a session.
#[derive(Clone, Debug)]
pub struct CallbackOptions {
    /// Everything about the stream.
    pub(super) callback: CallbackSettings,
    /// Events that are kept for a shim that does not take them.
    pub(super) event_capacity: usize,
    /// Placements that may wait for a remote predicate, per partition.
    pub(super) placements_in_flight: usize,
}

/// The key of an extra configuration for [`CallbackOptions::placements_in_flight`].
const IN_FLIGHT: &str = "scheduling.placementsInFlight";
/// How many events an RM may be told of in 2 s; what it says there of itself holds here, too.
const REQUEST_CAPACITY: &str = "event.requestCapacity";

impl CallbackOptions {
    /// What holds for RMs that bring nothing of their own.
    pub fn new(settings: &Settings) -> Self {
        let told = settings.event.request_capacity;
        Self {
            callback: settings.callback.clone(),
            event_capacity: settings.callback.event_capacity.unwrap_or(told).get(),
            placements_in_flight: settings.scheduler.placements_in_flight.get(),
        }
    }

    /// What holds for an RM that registered with this extra configuration, and how many of its
    /// values cannot be used: those leave the default, and a warning in the log.
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
        let told = extra.get(REQUEST_CAPACITY).and_then(|value| value.parse().ok());
        if let Some(capacity) = options.callback.event_capacity.or(told) {
            options.event_capacity = capacity.get();
        }
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
        Self::new(&settings.unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::callback::Asking;

    #[test]
    fn what_an_rm_brings_goes_before_what_is_set_for_it_and_that_before_what_is_set_for_all() {
        let mut defaults = CallbackOptions::for_tests();
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

    #[test]
    fn as_many_events_are_kept_as_the_rm_may_be_told_of_unless_said_otherwise() {
        let mut settings =
            crate::settings::Settings::load(None, &crate::settings::Flags::default()).unwrap();
        let of = |settings: &Settings, entries: &[(&str, &str)]| {
            let entry = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            let extra = entries.iter().map(entry).collect();
            CallbackOptions::new(settings).of("rm", &extra).0.event_capacity
        };
        let told = ("event.requestCapacity", "7");
        assert_eq!(of(&settings, &[]), 1_000);
        assert_eq!(of(&settings, &[told]), 7);
        assert_eq!(of(&settings, &[told, ("callback.eventCapacity", "8")]), 8);
        assert_eq!(of(&settings, &[("event.requestCapacity", "0")]), 1_000);
        settings.event.request_capacity = 5.try_into().unwrap();
        assert_eq!(of(&settings, &[]), 5);
        settings.callback.event_capacity = Some(9.try_into().unwrap());
        assert_eq!((of(&settings, &[]), of(&settings, &[told])), (9, 9));
    }
}
