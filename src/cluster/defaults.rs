//! The text of a policy group for RMs that bring none, and the answers of registered RMs to it.
//!
//! # Why answers are awaited apart
//! All partitions of an RM have to answer before the RM does. One that hangs may lose its own RM
//! only: RMs that register get the text as soon as the scheduler has taken it.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::PendingOutcome;
use monoceros_cluster::Checksum;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Time within which an RM has to answer a text.
pub(super) const RM_PATIENCE: Duration = Duration::from_secs(10);

/// The text for RMs that bring none.
#[derive(Default)]
pub(super) struct Defaults {
    /// Number of the last read whose text was set, or could not be.
    pub(super) read: u64,
    /// `None`: the scheduler has no text of this process, or it is not known which one.
    pub(super) in_scheduler: Option<InScheduler>,
}

/// A text that the scheduler has.
pub(super) struct InScheduler {
    pub(super) checksum: Checksum,
    pub(super) text: Arc<str>,
    /// Whether all RMs that bring none have it. Those that register later do.
    is_complete: bool,
    /// Answers that nobody awaits now.
    pending: Vec<PendingOutcome>,
}

impl Defaults {
    /// The answers to the present text that have to be awaited.
    pub(super) fn take_pending(&mut self) -> Vec<PendingOutcome> {
        let present = self.in_scheduler.as_mut();
        present.map(|it| std::mem::take(&mut it.pending)).unwrap_or_default()
    }
}

impl InScheduler {
    /// A text that was just set, with the answers to it.
    pub(super) fn new(checksum: &Checksum, text: &Arc<str>, pending: Vec<PendingOutcome>) -> Self {
        let (checksum, text) = (Arc::clone(checksum), Arc::clone(text));
        Self { checksum, text, is_complete: pending.is_empty(), pending }
    }

    /// Whether an RM has refused the text, or its answer was lost.
    pub(super) fn is_to_be_set_again(&self) -> bool {
        !self.is_complete && self.pending.is_empty()
    }
}

/// Awaits the answers of RMs to a text. Returns the reasons of RMs that do not have it. Late
/// answers are kept for the next call, unless an RM has refused the text, which is then set again.
pub(super) async fn answers(
    defaults: &Mutex<Defaults>,
    text: &Arc<str>,
    pending: Vec<PendingOutcome>,
) -> Vec<String> {
    let (reasons, late) = answers_in_time(pending).await;
    let mut defaults = defaults.lock().await;
    let present = defaults.in_scheduler.as_mut();
    // A registration may have set another text meanwhile.
    if let Some(present) = present.filter(|it| Arc::ptr_eq(&it.text, text)) {
        present.is_complete = reasons.is_empty();
        if late.len() == reasons.len() {
            present.pending = late;
        }
    }
    reasons
}

/// Awaits each RM for a bounded time. Returns the reasons of those that do not have the text, and
/// the answers that are late.
async fn answers_in_time(pending: Vec<PendingOutcome>) -> (Vec<String>, Vec<PendingOutcome>) {
    let (mut reasons, mut late) = (Vec::new(), Vec::new());
    for (rm, mut outcome) in pending {
        let answered = timeout(RM_PATIENCE, &mut outcome).await;
        let why = match answered {
            Ok(Ok(_)) => continue,
            Ok(Err(why)) => why.to_string(),
            Err(_) => {
                late.push((rm.clone(), outcome));
                no_answer()
            }
        };
        reasons.push(reason_of(&rm, &why));
    }
    (reasons, late)
}

/// The reason of an RM that does not have the text of its group.
pub(super) fn reason_of(rm: &str, why: &str) -> String {
    format!("resource manager `{rm}`: {why}")
}

/// Why an RM that has not answered does not have the text of its group.
pub(super) fn no_answer() -> String {
    format!("it did not answer within {RM_PATIENCE:?}")
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use monoceros_actors::{ConfigurationError, ConfigurationUpdate};
    use tokio::time::Instant;

    use super::*;

    fn hanging() -> PendingOutcome {
        ("hangs".to_owned(), Box::pin(pending()))
    }

    fn refusing() -> PendingOutcome {
        let gone = ConfigurationError::NotRegistered("gone".to_owned());
        let answer: Result<ConfigurationUpdate, _> = Err(gone);
        ("gone".to_owned(), Box::pin(ready(answer)))
    }

    fn set(pending: Vec<PendingOutcome>) -> (Mutex<Defaults>, Arc<str>) {
        let text = Arc::<str>::from("a text");
        let in_scheduler = Some(InScheduler::new(&"checksum".into(), &text, pending));
        (Mutex::new(Defaults { read: 1, in_scheduler }), text)
    }

    fn is_to_be_set_again(defaults: &Defaults) -> bool {
        defaults.in_scheduler.as_ref().is_some_and(InScheduler::is_to_be_set_again)
    }

    #[tokio::test(start_paused = true)]
    async fn an_rm_that_does_not_answer_holds_up_no_registration() {
        let (defaults, text) = set(vec![hanging()]);
        let pending = defaults.lock().await.take_pending();
        let begun = Instant::now();
        let mut awaited = Box::pin(answers(&defaults, &text, pending));
        assert!(futures::poll!(&mut awaited).is_pending());
        assert!(defaults.try_lock().is_ok(), "a registration needs it");
        let why = "resource manager `hangs`: it did not answer within 10s";
        assert_eq!(awaited.await, [why]);
        assert!(begun.elapsed() < 2 * RM_PATIENCE, "{:?}", begun.elapsed());
        let mut defaults = defaults.lock().await;
        assert!(!is_to_be_set_again(&defaults));
        assert_eq!(defaults.take_pending().len(), 1, "its answer may still come");
        assert!(is_to_be_set_again(&defaults), "a call that is cut off loses it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_that_an_rm_refuses_is_set_again() {
        let (defaults, text) = set(vec![hanging(), refusing()]);
        let pending = defaults.lock().await.take_pending();
        let reasons = answers(&defaults, &text, pending).await;
        assert!(reasons[1].starts_with("resource manager `gone`: "), "{reasons:?}");
        assert_eq!(reasons.len(), 2);
        let defaults = defaults.into_inner();
        assert!(is_to_be_set_again(&defaults));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_to_an_earlier_text_do_not_count() {
        let (defaults, _) = set(vec![hanging()]);
        answers(&defaults, &"a text".into(), vec![refusing()]).await;
        assert_eq!(defaults.lock().await.take_pending().len(), 1);
    }
}
