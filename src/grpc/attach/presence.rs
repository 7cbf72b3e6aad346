//! Decides how predicates are asked while a shim is attached, and which rule applies without one.
//!
//! Without a stream a verdict has to be chosen: passing everything may place pods where they cannot
//! run, and holding everything stops the cluster. The settings choose; the shim may choose for its
//! own absence; after a grace period the settings choose again.

use monoceros_proto::v1::AbsentPolicy;
use tokio::time::Instant;

use super::options::CallbackOptions;
use crate::settings::callback::{AfterGrace, Asking};

/// The treatment of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PredicateMode {
    /// No questions are asked: every node passes.
    Local,
    /// The shim answers; `holds` if also about places to be held.
    Remote { holds: bool },
    /// No placements are decided.
    Hold,
    /// No node passes.
    Fail,
}

/// Whether a shim answers predicates, and the policy for its absence.
#[derive(Debug)]
pub(super) struct Presence {
    attached: bool,
    /// Whether the shim also judges places to be held.
    holds: bool,
    /// Whether a shim has answered predicates in this session, now or before.
    known: bool,
    /// The policy for its absence, as requested by the last stream.
    wish: AbsentPolicy,
    /// The time since which no shim answers predicates.
    missing_since: Option<Instant>,
}

impl Presence {
    /// The state before any stream.
    pub(super) fn new() -> Self {
        let wish = AbsentPolicy::AbsentUnspecified;
        Self { attached: false, holds: false, known: false, wish, missing_since: None }
    }

    /// Starts the session, and with it the grace period.
    pub(super) fn begin(&mut self, now: Instant) {
        self.missing_since = Some(now);
    }

    /// A shim answers predicates from now on; `holds` if also about places to be held.
    pub(super) fn attach(&mut self, wish: AbsentPolicy, holds: bool) {
        (self.attached, self.known, self.wish, self.holds) = (true, true, wish, holds);
        self.missing_since = None;
    }

    /// The shim has stopped answering.
    pub(super) fn detach(&mut self, now: Instant) {
        if std::mem::take(&mut self.attached) {
            self.missing_since = Some(now);
        }
    }

    /// The mode at this time.
    pub(super) fn mode(&self, options: &CallbackOptions, now: Instant) -> PredicateMode {
        if options.callback.predicates == Asking::None {
            return PredicateMode::Local;
        }
        if self.attached {
            return PredicateMode::Remote { holds: self.holds };
        }
        match self.absent(options) {
            AbsentPolicy::AbsentPass => PredicateMode::Local,
            AbsentPolicy::AbsentFail => PredicateMode::Fail,
            AbsentPolicy::AbsentHold | AbsentPolicy::AbsentUnspecified => {
                match options.callback.after_grace {
                    _ if self.grace_ends(options).is_none_or(|end| now < end) => {
                        PredicateMode::Hold
                    }
                    AfterGrace::Hold => PredicateMode::Hold,
                    AfterGrace::Fail => PredicateMode::Fail,
                    AfterGrace::Pass => PredicateMode::Local,
                }
            }
        }
    }

    /// The policy without a stream.
    pub(super) fn absent(&self, options: &CallbackOptions) -> AbsentPolicy {
        match options.callback.predicates {
            Asking::None | Asking::Optional => AbsentPolicy::AbsentPass,
            Asking::Required => AbsentPolicy::AbsentHold,
            Asking::Auto if !self.known => AbsentPolicy::AbsentPass,
            Asking::Auto => match self.wish {
                AbsentPolicy::AbsentUnspecified => AbsentPolicy::AbsentHold,
                wish => wish,
            },
        }
    }

    /// When [`Self::mode`] changes by itself.
    pub(super) fn due(&self, options: &CallbackOptions, now: Instant) -> Option<Instant> {
        let holds = self.mode(options, now) == PredicateMode::Hold;
        let changes = options.callback.after_grace != AfterGrace::Hold;
        self.grace_ends(options).filter(|_| holds && changes)
    }

    fn grace_ends(&self, options: &CallbackOptions) -> Option<Instant> {
        self.missing_since.map(|since| since + options.callback.reattach_grace)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn options(asking: Asking, after_grace: AfterGrace) -> CallbackOptions {
        let mut options = CallbackOptions::for_tests();
        options.callback.predicates = asking;
        options.callback.after_grace = after_grace;
        options
    }

    #[test]
    fn modes_of_each_setting() {
        use AbsentPolicy::{AbsentFail, AbsentHold, AbsentPass, AbsentUnspecified};
        for (asking, wish, before, during, after) in [
            (
                Asking::None,
                AbsentHold,
                PredicateMode::Local,
                PredicateMode::Local,
                PredicateMode::Local,
            ),
            (
                Asking::Optional,
                AbsentHold,
                PredicateMode::Local,
                PredicateMode::Remote { holds: false },
                PredicateMode::Local,
            ),
            (
                Asking::Required,
                AbsentPass,
                PredicateMode::Hold,
                PredicateMode::Remote { holds: false },
                PredicateMode::Hold,
            ),
            (
                Asking::Auto,
                AbsentUnspecified,
                PredicateMode::Local,
                PredicateMode::Remote { holds: false },
                PredicateMode::Hold,
            ),
            (
                Asking::Auto,
                AbsentHold,
                PredicateMode::Local,
                PredicateMode::Remote { holds: false },
                PredicateMode::Hold,
            ),
            (
                Asking::Auto,
                AbsentPass,
                PredicateMode::Local,
                PredicateMode::Remote { holds: false },
                PredicateMode::Local,
            ),
            (
                Asking::Auto,
                AbsentFail,
                PredicateMode::Local,
                PredicateMode::Remote { holds: false },
                PredicateMode::Fail,
            ),
        ] {
            let options = options(asking, AfterGrace::Hold);
            let mut presence = Presence::new();
            let now = Instant::now();
            presence.begin(now);
            assert_eq!(presence.mode(&options, now), before, "{asking:?} before");
            presence.attach(wish, false);
            assert_eq!(presence.mode(&options, now), during, "{asking:?} during");
            presence.detach(now);
            assert_eq!(presence.mode(&options, now), after, "{asking:?} {wish:?} after");
        }
    }

    #[test]
    fn mode_changes_after_the_grace() {
        for (after_grace, then) in [
            (AfterGrace::Hold, PredicateMode::Hold),
            (AfterGrace::Fail, PredicateMode::Fail),
            (AfterGrace::Pass, PredicateMode::Local),
        ] {
            let options = options(Asking::Required, after_grace);
            let mut presence = Presence::new();
            let now = Instant::now();
            presence.begin(now);
            let end = now + options.callback.reattach_grace;
            assert_eq!(
                presence.mode(&options, end - Duration::from_millis(1)),
                PredicateMode::Hold
            );
            assert_eq!(presence.mode(&options, end), then);
            let due = presence.due(&options, now);
            assert_eq!(due, (after_grace != AfterGrace::Hold).then_some(end));
        }
    }
}
