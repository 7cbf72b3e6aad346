//! On what terms a session is held: the settings of the service, with what the resource manager
//! wants otherwise for itself.
//!
//! A resource manager knows best how long its own restart takes and how fast it reads, so it may
//! bring those terms in the `extraConfig` of its registration. What guards the service as a whole
//! is not among them.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use tracing::warn;

use super::super::outbox::Bounds;
use super::backlog::{Load, Marks};
use super::state::Patience;
use crate::settings::{GrpcSettings, OnStreamLoss, SessionSettings, seconds};

/// What holds for one session: times without streams, sizes of its outboxes, and how long items wait
/// for each other.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How long it may be without allocation stream.
    pub patience: Patience,
    /// How much an outbox holds.
    pub bounds: Bounds,
    /// How long items may wait for what they name.
    pub reorder_window: Duration,
    /// How many items may.
    pub reorder_items: usize,
    /// In percent of an outbox.
    high_water: u8,
    low_water: u8,
}

impl Terms {
    /// Those of the settings.
    pub fn new(grpc: &GrpcSettings, session: &SessionSettings) -> Self {
        let patience = Patience { attach: session.attach_timeout, pause: session.pause_timeout };
        let bounds = Bounds {
            chunk_items: grpc.send_chunk_items.get(),
            chunk_bytes: grpc.send_chunk_bytes.get(),
            outbox: Load { items: session.outbox_items.get(), bytes: session.outbox_bytes.get() },
            grace: session.delivery_grace,
            resyncs: session.on_stream_loss == OnStreamLoss::Resync,
        };
        Self {
            patience,
            bounds,
            reorder_window: session.reorder_window,
            reorder_items: session.reorder_items,
            high_water: session.outbox_high_water.min(100),
            low_water: session.outbox_low_water.min(session.outbox_high_water),
        }
    }

    /// The same with what `extra` of a registration says otherwise, and how many of its values
    /// cannot be used: those leave the default, and a warning in the log.
    #[must_use]
    pub fn with(mut self, rm_id: &str, extra: &BTreeMap<String, String>) -> (Self, usize) {
        let mut n_unusable = 0;
        for (key, text) in extra {
            // As registrations spell it or as the settings do: `attachTimeout`, `attach_timeout`.
            let name = key.replace('_', "").to_lowercase();
            let known = match name.as_str() {
                "session.attachtimeout" => set(&mut self.patience.attach, seconds::parse(text)),
                "session.pausetimeout" => set(&mut self.patience.pause, seconds::parse(text)),
                "session.onstreamloss" => {
                    let wanted = OnStreamLoss::try_from(text.clone()).ok();
                    let resyncs = wanted.map(|wanted| wanted == OnStreamLoss::Resync);
                    set(&mut self.bounds.resyncs, resyncs)
                }
                "session.outboxitems" => set(&mut self.bounds.outbox.items, amount(text)),
                "session.outboxbytes" => set(&mut self.bounds.outbox.bytes, amount(text)),
                "session.reorderwindow" => set(&mut self.reorder_window, seconds::parse(text)),
                "session.reorderitems" => set(&mut self.reorder_items, parsed(text)),
                _ => continue,
            };
            if !known {
                // Not the value: what an RM keeps there is its own, and may be a secret.
                warn!(rm = rm_id, key, "unusable value of a registration ignored");
                n_unusable += 1;
            }
        }
        (self, n_unusable)
    }

    /// When too much waits in the outboxes of a session.
    pub fn marks(&self) -> Marks {
        let outbox = self.bounds.outbox;
        Marks { high: outbox.percent(self.high_water), low: outbox.percent(self.low_water) }
    }
}

fn set<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

fn amount(text: &str) -> Option<usize> {
    parsed::<NonZeroUsize>(text).map(NonZeroUsize::get)
}

/// A number, perhaps with underscores.
fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.trim().replace('_', "").parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The shipped ones, with `extra`.
    pub(in super::super) fn terms(extra: &[(&str, &str)]) -> Terms {
        read(extra).0
    }

    fn read(extra: &[(&str, &str)]) -> (Terms, usize) {
        let flags = crate::settings::Flags::default();
        let settings = crate::settings::Settings::load(None, &flags).unwrap();
        let extra = extra.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Terms::new(&settings.grpc, &settings.session).with("rm", &extra.collect())
    }

    #[test]
    fn a_registration_may_set_its_own_terms_in_either_spelling() {
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
    fn what_cannot_be_used_leaves_the_default() {
        let (terms, n_unusable) = read(&[
            ("session.attachTimeout", "soon"),
            ("session.onStreamLoss", "perhaps"),
            ("session.outboxItems", "0"),
            ("session.reorderItems", "7"),
        ]);
        assert_eq!(n_unusable, 3);
        assert_eq!(terms.patience.attach, Duration::from_secs(60));
        assert!(!terms.bounds.resyncs);
        assert_eq!(terms.bounds.outbox.items, 1_000_000);
    }
}
