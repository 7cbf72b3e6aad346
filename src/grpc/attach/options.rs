//! The callback options of one RM: the settings of the service, overridden by its registration.
//!
//! The registration of an RM overrides the settings for this RM, and these override the settings
//! for all RMs: the source that knows the shim best decides.

use crate::extra_config::ExtraConfig;
use crate::settings::Settings;
use crate::settings::callback::CallbackSettings;

/// The options of a session's callback streams.
#[derive(Clone, Debug)]
pub struct CallbackOptions {
    pub(super) callback: CallbackSettings,
    /// Capacity of the event ring.
    pub(super) event_capacity: usize,
    /// Most placements per partition that may wait for a remote predicate.
    pub(super) placements_in_flight: usize,
}

/// Extra-configuration key of [`CallbackOptions::placements_in_flight`].
const IN_FLIGHT: &str = "scheduling.placementsInFlight";
/// Extra-configuration key: most events that an RM receives in a second; also the default capacity
/// of the event ring.
const REQUEST_CAPACITY: &str = "event.requestCapacity";

impl CallbackOptions {
    /// The options of RMs without overrides.
    pub fn new(settings: &Settings) -> Self {
        let request_capacity = settings.event.request_capacity;
        Self {
            callback: settings.callback.clone(),
            event_capacity: settings.callback.event_capacity.unwrap_or(request_capacity).get(),
            placements_in_flight: settings.scheduler.placements_in_flight.get(),
        }
    }

    /// The options of an RM with this extra configuration.
    #[must_use]
    pub fn with(&self, extra: &mut ExtraConfig<'_>) -> Self {
        let mut options = self.clone();
        if let Some(asking) = options.callback.predicates_of.get(extra.rm_id()) {
            options.callback.predicates = *asking;
        }
        extra.each("callback.", |name, text| options.callback.set(name, text));
        // The scheduler reports an invalid value.
        let request_capacity = extra.get(REQUEST_CAPACITY).and_then(|text| text.parse().ok());
        if let Some(capacity) = options.callback.event_capacity.or(request_capacity) {
            options.event_capacity = capacity.get();
        }
        extra.set(IN_FLIGHT, &mut options.placements_in_flight, |text| match text.parse() {
            Ok(in_flight @ 1..) => Ok(in_flight),
            _ => Err(format!("`{text}` is not a whole number above zero")),
        });
        options
    }

    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        let settings = crate::settings::Settings::load(None, &crate::settings::Flags::default());
        Self::new(&settings.unwrap())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::settings::callback::Asking;

    #[test]
    fn registration_overrides_rm_settings_override_settings() {
        let mut defaults = CallbackOptions::for_tests();
        defaults.callback.predicates_of.insert("rm".to_owned(), Asking::Required);
        let asking = |rm_id| {
            let nothing = BTreeMap::new();
            defaults.with(&mut ExtraConfig::new(rm_id, &nothing)).callback.predicates
        };
        assert_eq!((asking("other"), asking("rm")), (Asking::Auto, Asking::Required));
        let extra = [("callback.predicates", "optional"), (IN_FLIGHT, "8")];
        let extra = extra.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let mut extra = ExtraConfig::new("rm", &extra);
        let options = defaults.with(&mut extra);
        assert_eq!(options.callback.predicates, Asking::Optional);
        assert_eq!((options.placements_in_flight, extra.n_unusable()), (8, 0));
    }

    #[test]
    fn unusable_values_are_counted_and_ignored() {
        let defaults = CallbackOptions::for_tests();
        let extra = [("callback.predicates", "perhaps"), (IN_FLIGHT, "0"), ("callback.colour", "")];
        let extra = extra.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let mut extra = ExtraConfig::new("rm", &extra);
        let options = defaults.with(&mut extra);
        assert_eq!(options.callback.predicates, Asking::Auto);
        assert_eq!((options.placements_in_flight, extra.n_unusable()), (64, 3));
    }

    #[test]
    fn event_capacity_defaults_to_request_capacity() {
        let mut settings =
            crate::settings::Settings::load(None, &crate::settings::Flags::default()).unwrap();
        let of = |settings: &Settings, entries: &[(&str, &str)]| {
            let entry = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            let extra = entries.iter().map(entry).collect();
            let mut extra = ExtraConfig::new("rm", &extra);
            CallbackOptions::new(settings).with(&mut extra).event_capacity
        };
        let request_capacity = ("event.requestCapacity", "7");
        assert_eq!(of(&settings, &[]), 1_000);
        assert_eq!(of(&settings, &[request_capacity]), 7);
        assert_eq!(of(&settings, &[request_capacity, ("callback.eventCapacity", "8")]), 8);
        assert_eq!(of(&settings, &[("event.requestCapacity", "0")]), 1_000);
        settings.event.request_capacity = 5.try_into().unwrap();
        assert_eq!(of(&settings, &[]), 5);
        settings.callback.event_capacity = Some(9.try_into().unwrap());
        assert_eq!((of(&settings, &[]), of(&settings, &[request_capacity])), (9, 9));
    }
}
