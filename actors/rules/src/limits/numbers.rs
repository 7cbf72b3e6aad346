//! The ids (*numbers*) of limits that several lanes share: at most [`MOST`] limits have one at a
//! time.

use serde::{Deserialize, Serialize};

use super::ids::PlaceId;

/// The most limits that can have a number at a time.
pub(super) const MOST: usize = u64::BITS as usize;

/// A set of limits, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedLimits(u64);

/// The numbered limits of users and groups with which a lane shows held-back asks to the queues
/// above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownBy {
    /// The limits that hold back asks short of quota
    /// ([`Trackers::shared_limit`](super::Trackers::shared_limit)).
    pub quota: Option<SharedLimits>,
    /// The limits that keep applications from starting
    /// ([`Trackers::shared_limit_of_starts`](super::Trackers::shared_limit_of_starts)).
    pub starts: Option<SharedLimits>,
}

/// The limits that have a number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Numbers {
    pub(super) given: Vec<Option<Numbered>>,
}

/// A limit that has a number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Numbered {
    pub(super) place: PlaceId,
    /// The number of lanes that show it.
    pub(super) n_shown: u32,
}

impl SharedLimits {
    pub(crate) fn only(number: u8) -> Self {
        Self(1 << number)
    }

    /// Adds the numbers of another set.
    pub fn include(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn numbers(self) -> impl Iterator<Item = usize> {
        let if_any = |numbers: u64| (numbers != 0).then_some(numbers);
        std::iter::successors(if_any(self.0), move |left| if_any(left & (left - 1)))
            .map(|left| left.trailing_zeros() as usize)
    }
}

impl ShownBy {
    pub(super) fn numbers(self) -> impl Iterator<Item = usize> {
        [self.quota, self.starts].into_iter().flatten().flat_map(SharedLimits::numbers)
    }
}

impl Numbers {
    /// Gives a number to a limit that counts `n_lanes` lanes. `None` if too few numbers are free
    /// for it.
    pub(super) fn give(&mut self, place: PlaceId, n_lanes: u32) -> Option<u8> {
        let n_given = self.given.iter().flatten().count();
        if n_given == MOST || (n_lanes as usize) < n_given + 2 {
            return None;
        }
        let free = self.given.iter().position(Option::is_none).unwrap_or_else(|| {
            self.given.push(None);
            self.given.len() - 1
        });
        self.given[free] = Some(Numbered { place, n_shown: 0 });
        u8::try_from(free).ok()
    }

    pub(super) fn show(&mut self, number: usize) {
        if let Some(Some(numbered)) = self.given.get_mut(number) {
            numbered.n_shown += 1;
        }
    }

    /// Records that one lane no longer shows the number. If it was the last such lane, the number
    /// is free again; returns the limit that had it.
    pub(super) fn hide(&mut self, number: usize) -> Option<PlaceId> {
        let numbered = self.given.get_mut(number)?;
        numbered.as_mut()?.n_shown -= 1;
        numbered.take_if(|numbered| numbered.n_shown == 0).map(|numbered| numbered.place)
    }
}
