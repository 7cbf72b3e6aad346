//! The rules of safety by name, so that a test can leave one out and show that the model finds the
//! fault. Outside tests all are kept, and the compiler removes the questions.

/// A rule that a test may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A member decides only within its lease.
    DecidesWithinLease,
    /// A renewal counts from its first sending, not from its reply.
    CountsFromFirstSending,
    /// A renewal counts only after a read of all claims.
    ReadsClaimsAfterRenewal,
    /// A session ends when a read shows that another member has claimed its RM since.
    EndsClaimedSessions,
    /// A session ends by a claim with a larger epoch only: an older read is no reason.
    EndsByEpoch,
    /// A lost compare-and-set that finds its own contents was won.
    OwnContentsAreWon,
    /// A store whose revision went back fences the member.
    NoticesRestore,
    /// A record of one's own id is replaced only if its life is left or deposed.
    WaitsForPredecessor,
    /// A member is deposed after a whole lease of silence only.
    WaitsForLease,
    /// Of two leases of different lengths the longer one is waited for.
    WaitsForLongerLease,
    /// Silence is counted from the reply in which a version was seen, not from the request.
    SilenceFromReply,
    /// Silence is that of the version which the record still has.
    SilenceOfThisVersion,
    /// The owner's record is read after the claim that names it.
    ReadsOwnerAfterClaim,
    /// Claims of an incarnation that is over are free.
    ClaimsOfTheDeadAreFree,
    /// A live owner loses an RM only to a process that shows the proof.
    AsksForProof,
    /// A registration that is older than the claim's is refused.
    RefusesOlderAttempts,
    /// A process whose session another process has ended does not take it back.
    RefusesSuperseded,
    /// A registration is answered after a compare-and-set, also at the owner.
    ClaimsBeforeAnswer,
    /// An owner ends its session before it claims the RM for another registration.
    EndsBeforeClaim,
    /// The clock is looked at again before a registration is answered.
    LooksAgainBeforeAnswer,
    /// An epoch is larger than that of the claim before.
    EpochAboveLast,
    /// An epoch is larger than any that the RM shows.
    EpochAboveShown,
    /// An epoch is larger than the floor of the era.
    EpochAboveFloor,
    /// A session ends before its RM is handed over.
    EndsBeforeHandOver,
    /// An owner hands over an RM for which another member could not reach it.
    HandsOverWanted,
    /// A wanted RM goes only to a member that lives and is not drained.
    SparesMembersThatTakeNone,
    /// Deregistration sets the owner to none only for the epoch that it ended.
    DeregistersOwnEpoch,
    /// A claim is freed without a deregistration only while its RM has no session here.
    FreesOnlyUnserved,
    /// All sessions end before a member writes that it has left.
    EndsBeforeLeaving,
}

/// The rules that are in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    #[cfg(test)]
    pub(crate) left_out: Option<Rule>,
}

impl Rules {
    /// Whether a rule is in force.
    #[cfg(test)]
    pub(crate) fn keep(self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }

    /// Whether a rule is in force: always.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests leave rules out")]
    pub(crate) fn keep(self, _rule: Rule) -> bool {
        true
    }
}
