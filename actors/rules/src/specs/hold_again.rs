//! Tags by which an RM reports the places that an earlier scheduler held for a declared gang.
//!
//! # Why the RM reports them
//! Held places are not pods: when the scheduler ends, only members that ran are left of them, and
//! only the RM knows those. The RM also knows when it has reported all of them; from then on places
//! can be searched.

use super::ask::TaskGroup;
use super::tags::{HOLD_AGAIN, HOLD_AGAIN_SINCE, TagMap};

/// The places that are to be held again for a gang.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HoldAgain {
    /// The time since when they were held, ns since the epoch. `None`: they count as held from now
    /// on.
    pub since_ns: Option<i64>,
    /// The number of places by task group.
    pub places: Vec<(TaskGroup, u32)>,
}

impl HoldAgain {
    /// Reads these tags; `None` if they do not report held places. A number that cannot be read
    /// counts as absent.
    pub fn of(tags: &TagMap) -> Option<Self> {
        let since = tags.get(HOLD_AGAIN_SINCE)?.parse::<i64>().ok();
        let since_ns = since.and_then(|seconds| seconds.checked_mul(1_000_000_000));
        let places = tags.iter().filter_map(|(name, places)| {
            let group = name.strip_prefix(HOLD_AGAIN)?;
            let places = u32::try_from(places.parse::<u64>().ok()?).unwrap_or(u32::MAX);
            Some((TaskGroup::new(group.to_owned()), places))
        });
        Some(Self { since_ns, places: places.collect() })
    }

    /// Returns the number of places for members of a group.
    pub fn places_of(&self, group: &TaskGroup) -> u32 {
        let of_group = self.places.iter().find(|(name, _)| name == group);
        of_group.map_or(0, |(_, places)| *places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tags: &[(&str, &str)]) -> Option<HoldAgain> {
        let tags = tags.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        HoldAgain::of(&tags.collect())
    }

    #[test]
    fn tags_say_since_when_and_how_many_of_each_group() {
        let group = |name: &str| TaskGroup::new(name.to_owned());
        let said = of(&[(HOLD_AGAIN_SINCE, "5"), ("monoceros.io/hold-again.a.b", "3"), ("x", "1")]);
        let said = said.unwrap();
        assert_eq!(said.since_ns, Some(5_000_000_000));
        assert_eq!([said.places_of(&group("a.b")), said.places_of(&group("a"))], [3, 0]);
    }

    #[test]
    fn what_cannot_be_read_counts_as_absent() {
        assert_eq!(of(&[("monoceros.io/hold-again.a", "3")]), None);
        for since in ["soon", "", "9223372036854775807"] {
            let said = of(&[(HOLD_AGAIN_SINCE, since), ("monoceros.io/hold-again.a", "-1")]);
            assert_eq!(said, Some(HoldAgain { since_ns: None, places: vec![] }), "{since}");
        }
    }
}
