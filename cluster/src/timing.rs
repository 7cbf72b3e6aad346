//! Times of a lease: how long others wait for a silent member, and how much earlier it stops
//! itself.

use crate::names::Nanos;

const SECOND: Nanos = 1_000_000_000;
/// Part of the lease that a member keeps back besides a tenth: for reading the clock, and for
/// writes that are under way to a stream.
const MARGIN: Nanos = SECOND / 5;

/// Times that follow from the length of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    lease: Nanos,
    decide: Nanos,
    renew: Nanos,
}

/// A lease that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lease of {0} ns is too short: the least is 2 s")]
pub struct LeaseTooShort(pub Nanos);

impl Timing {
    /// The shortest lease, in nanoseconds.
    pub const LEAST_LEASE: Nanos = 2 * SECOND;

    /// Times for a lease in nanoseconds. Fails below [`Timing::LEAST_LEASE`].
    pub fn new(lease: Nanos) -> Result<Self, LeaseTooShort> {
        if lease < Self::LEAST_LEASE {
            return Err(LeaseTooShort(lease));
        }
        Ok(Self { lease, decide: lease - lease / 10 - MARGIN, renew: lease / 5 })
    }

    /// Times of a test, in ticks.
    #[cfg(test)]
    pub(crate) fn of_ticks(lease: Nanos, decide: Nanos, renew: Nanos) -> Self {
        Self { lease, decide, renew }
    }

    /// Time for which one version of a member's record must be seen before the member may be
    /// deposed, by the observer's clock. A longer one in the record counts instead
    /// ([`MemberRecord::waited_for`](crate::MemberRecord::waited_for)).
    pub fn lease(self) -> Nanos {
        self.lease
    }

    /// Time for which a member may decide after it first sent its last renewal that counts, by its
    /// own clock. Shorter than the lease by a tenth and 0.2 s, so that two clocks may differ by
    /// that.
    pub fn decide(self) -> Nanos {
        self.decide
    }

    /// Time between the beginnings of two renewals.
    pub fn renew(self) -> Nanos {
        self.renew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_stops_a_tenth_and_a_fifth_of_a_second_early() {
        let timing = Timing::new(5 * SECOND).unwrap();
        assert_eq!((timing.decide(), timing.renew()), (4_300_000_000, SECOND));
        assert_eq!(Timing::new(SECOND), Err(LeaseTooShort(SECOND)));
    }
}
