//! The terms of a session: the settings of the service, as overridden by the resource manager.
//!
//! A resource manager knows best how long its restart takes and how fast it reads, so it may
//! override these terms in the `extraConfig` of its registration. It cannot weaken the protection
//! of the service as a whole: limits on memory may be lowered, but not raised above the settings.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use super::super::outbox::Bounds;
use super::backlog::{Load, Marks};
use super::state::Patience;
use crate::extra_config::ExtraConfig;
use crate::settings::{GrpcSettings, ItemsAndBytes, OnStreamLoss, SessionSettings, seconds};

/// The terms of one session: timeouts, sizes of outboxes, and reorder window.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How long the session may be without a stream for allocations.
    pub patience: Patience,
    /// The bounds of each outbox.
    pub bounds: Bounds,
    /// How long items may wait for objects that they name.
    pub reorder_window: Duration,
    /// Most items that may wait for objects in one partition.
    pub reorder_items: usize,
    /// Bounds of numbered requests held because they came early.
    pub ingress: Load,
    /// How long a request may be missing.
    pub gap_timeout: Duration,
}

/// Percent of an outbox. With more unsent, no new decisions are made.
const HIGH_WATER: u8 = 50;
/// Percent of an outbox. With less unsent, decisions resume.
const LOW_WATER: u8 = 25;

impl Terms {
    /// The terms without overrides.
    pub fn new(grpc: &GrpcSettings, session: &SessionSettings) -> Self {
        let patience = Patience { attach: session.attach_timeout, pause: session.pause_timeout };
        let bounds = Bounds {
            chunk_items: grpc.send_chunk_items.get(),
            chunk_bytes: grpc.send_chunk_bytes.get(),
            outbox: load(session.outbox()),
            grace: session.delivery_grace,
            resyncs: session.on_stream_loss == OnStreamLoss::Resync,
        };
        Self {
            patience,
            bounds,
            reorder_window: session.reorder_window,
            reorder_items: session.reorder_items,
            ingress: load(session.ingress()),
            gap_timeout: session.gap_timeout,
        }
    }

    /// The terms as overridden by a resource manager.
    #[must_use]
    pub fn with(mut self, extra: &mut ExtraConfig<'_>) -> Self {
        extra.set("session.attachTimeout", &mut self.patience.attach, seconds::read);
        extra.set("session.pauseTimeout", &mut self.patience.pause, seconds::read);
        extra.set("session.onStreamLoss", &mut self.bounds.resyncs, |text| {
            Ok(OnStreamLoss::try_from(text.to_owned())? == OnStreamLoss::Resync)
        });
        let Load { items, bytes } = self.bounds.outbox;
        let at_most = |most: usize| move |text: &str| no_more(amount(text)?, most);
        extra.set("session.outboxItems", &mut self.bounds.outbox.items, at_most(items));
        extra.set("session.outboxBytes", &mut self.bounds.outbox.bytes, at_most(bytes));
        extra.set("session.reorderWindow", &mut self.reorder_window, seconds::read);
        let items = self.reorder_items;
        extra.set("session.reorderItems", &mut self.reorder_items, |text| {
            no_more(number(text)?, items)
        });
        self
    }

    /// The reorder window, and the most items that may wait in one partition.
    pub(super) fn reorder(&self) -> (Duration, usize) {
        (self.reorder_window, self.reorder_items)
    }

    /// The marks of the backlog.
    pub fn marks(&self) -> Marks {
        let outbox = self.bounds.outbox;
        Marks { high: outbox.percent(HIGH_WATER), low: outbox.percent(LOW_WATER) }
    }
}

fn load(bounds: ItemsAndBytes) -> Load {
    Load { items: bounds.items.get(), bytes: bounds.bytes.get() }
}

fn amount(text: &str) -> Result<usize, String> {
    number::<NonZeroUsize>(text).map(NonZeroUsize::get)
}

fn no_more(amount: usize, most: usize) -> Result<usize, String> {
    if amount > most {
        return Err(format!("more than the {most} of the service's own setting"));
    }
    Ok(amount)
}

/// Parses a number, which may contain underscores.
fn number<T: FromStr>(text: &str) -> Result<T, String> {
    let digits = text.trim().replace('_', "");
    digits.parse().map_err(|_| format!("`{text}` is not a whole number that can be used"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The default terms with these overrides.
    pub(in super::super) fn terms(extra: &[(&str, &str)]) -> Terms {
        read(extra).0
    }

    fn read(extra: &[(&str, &str)]) -> (Terms, usize) {
        let flags = crate::settings::Flags::default();
        let settings = crate::settings::Settings::load(None, &flags).unwrap();
        let extra = extra.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let entries = extra.collect();
        let mut extra = ExtraConfig::new("rm", &entries);
        let terms = Terms::new(&settings.grpc, &settings.session).with(&mut extra);
        (terms, extra.n_unusable())
    }

    #[test]
    fn registration_may_override_terms() {
        let terms = terms(&[
            ("session.attachTimeout", "5s"),
            ("session.pause_timeout", "10m"),
            ("session.onStreamLoss", "resync"),
            ("session.outbox_items", "1_000"),
            ("session.reorderWindow", "0"),
            ("session.reorderItems", "7"),
            ("service.other", "is not for sessions"),
        ]);
        assert_eq!(terms.patience.attach, Duration::from_secs(5));
        assert_eq!(terms.patience.pause, Duration::from_secs(600));
        assert!(terms.bounds.resyncs);
        assert_eq!(terms.bounds.outbox.items, 1_000);
        assert_eq!(terms.marks().high.items, 500);
        assert_eq!((terms.reorder_window, terms.reorder_items), (Duration::ZERO, 7));
    }

    #[test]
    fn unusable_values_keep_the_default() {
        let (terms, n_unusable) = read(&[
            ("session.attachTimeout", "soon"),
            ("session.onStreamLoss", "perhaps"),
            ("session.outboxItems", "0"),
            ("session.outboxBytes", "1_000_000_000_000"),
            ("session.reorderItems", "10_001"),
        ]);
        assert_eq!(n_unusable, 5);
        assert_eq!(terms.reorder_items, 10_000);
        assert_eq!(terms.patience.attach, Duration::from_secs(60));
        assert!(!terms.bounds.resyncs);
        assert_eq!(terms.bounds.outbox.items, 1_000_000);
    }
}
