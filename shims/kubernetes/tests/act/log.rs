//! Records log lines.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Installs the recorder, which records for each thread separately. Every test calls it first: a
/// log statement that runs before any subscriber exists may be cached as disabled.
pub fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Keeper).unwrap());
}

/// Lines logged on this thread from its creation on, with their fields.
pub struct Log;

impl Log {
    pub fn begin() -> Self {
        LINES.take();
        Self
    }

    /// Returns the lines that contain `part`.
    #[allow(clippy::unused_self)] // There are none before it has begun.
    pub fn lines(&self, part: &str) -> Vec<String> {
        LINES.with_borrow(|all| all.iter().filter(|line| line.contains(part)).cloned().collect())
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("monoceros")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        LINES.with_borrow_mut(|all| all.push(fields.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
