//! How predicates are asked while a stream is there, and what holds while none is.
//!
//! An answer that nobody gives must be chosen by somebody: passing everything may place pods where
//! they cannot run, and holding everything stops the cluster. The settings choose; the shim may
//! choose for its own absence; and after a grace the settings choose again.

use monoceros_proto::callback::v1::AbsentPolicy;
use tokio::time::Instant;

use super::options::Options;
use crate::settings::callback::{AfterGrace, Asking};

/// What becomes of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// None is asked: every node passes.
    Local,
    /// The shim answers.
    Remote,
    /// Nothing is decided.
    Hold,
    /// No node passes.
    Fail,
}

/// Whether somebody answers predicates, and what was said about when nobody does.
#[derive(Debug)]
pub(super) struct Presence {
    attached: bool,
    /// Somebody did at some time in this session.
    known: bool,
    /// What the last one wanted for its absence.
    wish: AbsentPolicy,
    /// Since when nobody does.
    missing_since: Option<Instant>,
}

impl Presence {
    /// Nobody was ever there. The grace begins with the session.
    pub(super) fn new() -> Self {
        let wish = AbsentPolicy::AbsentUnspecified;
        Self { attached: false, known: false, wish, missing_since: None }
    }

    /// The session begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.missing_since = Some(now);
    }

    /// Somebody answers predicates from now on.
    pub(super) fn attach(&mut self, wish: AbsentPolicy) {
        (self.attached, self.known, self.wish) = (true, true, wish);
        self.missing_since = None;
    }

    /// Nobody does any more.
    pub(super) fn detach(&mut self, now: Instant) {
        if std::mem::take(&mut self.attached) {
            self.missing_since = Some(now);
        }
    }

    /// What holds now.
    pub(super) fn mode(&self, options: &Options, now: Instant) -> Mode {
        if options.callback.predicates == Asking::None {
            return Mode::Local;
        }
        if self.attached {
            return Mode::Remote;
        }
        match self.absent(options) {
            AbsentPolicy::AbsentPass => Mode::Local,
            AbsentPolicy::AbsentFail => Mode::Fail,
            AbsentPolicy::AbsentHold | AbsentPolicy::AbsentUnspecified => {
                match options.callback.after_grace {
                    _ if self.grace_ends(options).is_none_or(|end| now < end) => Mode::Hold,
                    AfterGrace::Hold => Mode::Hold,
                    AfterGrace::Fail => Mode::Fail,
                    AfterGrace::Pass => Mode::Local,
                }
            }
        }
    }

    /// What holds, or would hold, without a stream.
    pub(super) fn absent(&self, options: &Options) -> AbsentPolicy {
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
    pub(super) fn due(&self, options: &Options, now: Instant) -> Option<Instant> {
        let holds = self.mode(options, now) == Mode::Hold;
        let changes = options.callback.after_grace != AfterGrace::Hold;
        self.grace_ends(options).filter(|_| holds && changes)
    }

    fn grace_ends(&self, options: &Options) -> Option<Instant> {
        self.missing_since.map(|since| since + options.callback.reattach_grace)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn options(asking: Asking, after_grace: AfterGrace) -> Options {
        let mut options = Options::for_tests();
        options.callback.predicates = asking;
        options.callback.after_grace = after_grace;
        options
    }

    #[test]
    fn each_setting_holds_before_during_and_after_a_stream() {
        use AbsentPolicy::{AbsentFail, AbsentHold, AbsentPass, AbsentUnspecified};
        for (asking, wish, before, during, after) in [
            (Asking::None, AbsentHold, Mode::Local, Mode::Local, Mode::Local),
            (Asking::Optional, AbsentHold, Mode::Local, Mode::Remote, Mode::Local),
            (Asking::Required, AbsentPass, Mode::Hold, Mode::Remote, Mode::Hold),
            (Asking::Auto, AbsentUnspecified, Mode::Local, Mode::Remote, Mode::Hold),
            (Asking::Auto, AbsentHold, Mode::Local, Mode::Remote, Mode::Hold),
            (Asking::Auto, AbsentPass, Mode::Local, Mode::Remote, Mode::Local),
            (Asking::Auto, AbsentFail, Mode::Local, Mode::Remote, Mode::Fail),
        ] {
            let options = options(asking, AfterGrace::Hold);
            let mut presence = Presence::new();
            let now = Instant::now();
            presence.begin(now);
            assert_eq!(presence.mode(&options, now), before, "{asking:?} before");
            presence.attach(wish);
            assert_eq!(presence.mode(&options, now), during, "{asking:?} during");
            presence.detach(now);
            assert_eq!(presence.mode(&options, now), after, "{asking:?} {wish:?} after");
        }
    }

    #[test]
    fn after_the_grace_a_missing_stream_may_mean_something_else() {
        for (after_grace, then) in [
            (AfterGrace::Hold, Mode::Hold),
            (AfterGrace::Fail, Mode::Fail),
            (AfterGrace::Pass, Mode::Local),
        ] {
            let options = options(Asking::Required, after_grace);
            let mut presence = Presence::new();
            let now = Instant::now();
            presence.begin(now);
            let end = now + options.callback.reattach_grace;
            assert_eq!(presence.mode(&options, end - Duration::from_millis(1)), Mode::Hold);
            assert_eq!(presence.mode(&options, end), then);
            let due = presence.due(&options, now);
            assert_eq!(due, (after_grace != AfterGrace::Hold).then_some(end));
        }
    }
}
