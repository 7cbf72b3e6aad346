//! How predicates are asked while a stream is there, and what holds while none is.
//!
//! An answer that nobody gives must be chosen by somebody: passing everything may place pods where
//! they cannot run, and holding everything stops the cluster. The settings choose; the shim may
//! choose for its own absence; and after a grace the settings choose again.

use monoceros_proto::v1::AbsentPolicy;
use tokio::time::Instant;

use super::options::CallbackOptions;
use crate::settings::callback::{AfterGrace, Asking};

/// What becomes of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PredicateMode {
    /// None is asked: every node passes.
    Local,
    /// The shim answers, perhaps about places that are to be held, too.
    Remote { holds: bool },
    /// Nothing is decided.
    Hold,
    /// No node passes.
    Fail,
}

/// Whether somebody answers predicates, and what was said about when nobody does.
#[derive(Debug)]
pub(super) struct Presence {
    attached: bool,
    /// It judges places that are to be held, too.
    holds: bool,
    /// Somebody has answered predicates in this session, now or before.
    known: bool,
    /// What the last stream wanted to hold without it.
    wish: AbsentPolicy,
    /// The time since which nobody answers predicates.
    missing_since: Option<Instant>,
}

impl Presence {
    /// The presence before any stream. The grace begins with the session.
    pub(super) fn new() -> Self {
        let wish = AbsentPolicy::AbsentUnspecified;
        Self { attached: false, holds: false, known: false, wish, missing_since: None }
    }

    /// The session begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.missing_since = Some(now);
    }

    /// Somebody answers predicates from now on, perhaps those about places that are to be held, too.
    pub(super) fn attach(&mut self, wish: AbsentPolicy, holds: bool) {
        (self.attached, self.known, self.wish, self.holds) = (true, true, wish, holds);
        self.missing_since = None;
    }

    /// Nobody answers predicates any more.
    pub(super) fn detach(&mut self, now: Instant) {
        if std::mem::take(&mut self.attached) {
            self.missing_since = Some(now);
        }
    }

    /// What holds now.
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

    /// What holds, or would hold, without a stream.
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

    /// The time at which [`Self::mode`] changes by itself.
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
    fn each_setting_holds_before_during_and_after_a_stream() {
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
    fn after_the_grace_a_missing_stream_may_mean_something_else() {
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
