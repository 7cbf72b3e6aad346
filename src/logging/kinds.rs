//! Rate limit of log lines: one per kind, resource manager and second.
//!
//! A kind is a location in the code, together with the values of [`KIND_FIELDS`] if the line has
//! some: the key of a setting, the state that is entered, the member of a cluster. Identifiers of
//! items are not part of it.
//! So 50,000 faulty requests of a resource manager give one line a second, which states how many it
//! stands for.
//!
//! Records ([`is_record`]) are never dropped, because each may be needed later: acts of
//! administrators, and findings in an operator's file, which are no more frequent than changes of
//! that file.
//!
//! # Invariants
//! * At most one line per kind, resource manager and second, and at most [`KINDS`] per location,
//!   resource manager and second, whatever the values are.
//! * Dropped lines are counted: on the next line of the kind or, if none comes for two seconds, by
//!   [`Kinds::overdue`].
//! * The table has at most [`ENTRIES`] entries, plus one for each location in the code. If it is
//!   full, lines of one location share an entry for all resource managers.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tracing::Metadata;

use super::AUDIT;

/// Fields whose values distinguish kinds. Most values come from lists in the code.
pub(super) const KIND_FIELDS: [&str; 7] =
    ["kind", "key", "state", "change", "warning", "member", "log.target"];

/// Kinds of one location and one resource manager that are distinguished in a second.
const KINDS: u32 = 32;

/// Entries of the table.
const ENTRIES: usize = 4_096;

const SECOND: Duration = Duration::from_secs(1);

/// Wait for the next line of a kind before the count of dropped lines is logged without it.
const OVERDUE: Duration = Duration::from_secs(2);

/// Longest stored name of a resource manager, in bytes.
const NAME_BYTES: usize = 128;

/// Whether lines from this location are records, which are never dropped.
pub(super) fn is_record(place: &Metadata<'_>) -> bool {
    let fields = place.fields();
    place.target() == AUDIT || ["file", "files"].iter().any(|name| fields.field(name).is_some())
}

/// Decision about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Write the line, and state how many lines of its kind were dropped before it.
    Write { left_out: u64 },
    /// Drop the line: a line of its kind was written in this second.
    LeftOut,
}

/// Dropped lines that no further line has counted.
#[derive(Debug)]
pub(super) struct Overdue {
    pub(super) place: &'static Metadata<'static>,
    /// The resource manager. Empty if the lines were about none, or about several.
    pub(super) rm: Box<str>,
    pub(super) left_out: u64,
}

/// Recent lines by kind.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    entries: HashMap<u64, Entry>,
    hasher: RandomState,
    swept: Duration,
}

#[derive(Debug)]
struct Entry {
    place: &'static Metadata<'static>,
    rm: Box<str>,
    /// When the last line was written, or when the counted second began.
    since: Duration,
    /// Number of lines, or of kinds, in that second.
    written: u32,
    left_out: u64,
}

impl Entry {
    fn new(place: &'static Metadata<'static>, rm: &str, now: Duration) -> Self {
        let fits = |&bytes: &usize| rm.is_char_boundary(bytes);
        let bytes = (0..=NAME_BYTES.min(rm.len())).rev().find(fits).unwrap_or(0);
        Self { place, rm: rm[..bytes].into(), since: now, written: 0, left_out: 0 }
    }

    fn take(&mut self, now: Duration, most: u32) -> Verdict {
        if now >= self.since + SECOND {
            self.since = now;
            self.written = 0;
        }
        if self.written >= most {
            self.left_out += 1;
            return Verdict::LeftOut;
        }
        self.written += 1;
        Verdict::Write { left_out: std::mem::take(&mut self.left_out) }
    }
}

impl Kinds {
    /// Decides about a line from the location `place` about `rm`, at `now`. `kind` holds the values
    /// that distinguish its kind, and may be empty.
    pub(super) fn admit(
        &mut self,
        place: &'static Metadata<'static>,
        rm: &str,
        kind: &str,
        now: Duration,
    ) -> Verdict {
        let site = place.callsite();
        let of_kind = self.hasher.hash_one((&site, rm, kind));
        if !kind.is_empty() && !self.is_written(of_kind, now) {
            // A further kind of its location in this second.
            let of_place = self.hasher.hash_one((&site, rm, KINDS));
            if let Some(entry) = self.entry(of_place, place, rm, now)
                && entry.take(now, KINDS) == Verdict::LeftOut
            {
                return Verdict::LeftOut;
            }
        }
        if let Some(entry) = self.entry(of_kind, place, rm, now) {
            return entry.take(now, 1);
        }
        let shared = self.hasher.hash_one(&site);
        self.entries.entry(shared).or_insert_with(|| Entry::new(place, "", now)).take(now, 1)
    }

    /// Returns dropped lines that were not counted in time, and forgets idle kinds.
    pub(super) fn overdue(&mut self, now: Duration, most: usize) -> Vec<Overdue> {
        let mut overdue = Vec::new();
        for entry in self.entries.values_mut() {
            if entry.left_out > 0 && now >= entry.since + OVERDUE && overdue.len() < most {
                let left_out = std::mem::take(&mut entry.left_out);
                overdue.push(Overdue { place: entry.place, rm: entry.rm.clone(), left_out });
            }
        }
        self.sweep(now);
        overdue
    }

    /// Whether a line of this kind was written in this second.
    fn is_written(&self, of_kind: u64, now: Duration) -> bool {
        let entry = self.entries.get(&of_kind);
        entry.is_some_and(|entry| entry.written > 0 && now < entry.since + SECOND)
    }

    /// Returns the entry under `key`, new if needed. `None` if the table is full.
    fn entry(
        &mut self,
        key: u64,
        place: &'static Metadata<'static>,
        rm: &str,
        now: Duration,
    ) -> Option<&mut Entry> {
        if self.entries.len() >= ENTRIES && now >= self.swept + SECOND {
            self.sweep(now);
        }
        if self.entries.len() >= ENTRIES && !self.entries.contains_key(&key) {
            return None;
        }
        Some(self.entries.entry(key).or_insert_with(|| Entry::new(place, rm, now)))
    }

    fn sweep(&mut self, now: Duration) {
        self.swept = now;
        self.entries.retain(|_, entry| entry.left_out > 0 || now < entry.since + SECOND);
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing::callsite::{Callsite, Identifier};
    use tracing::field::FieldSet;
    use tracing::metadata::Kind;
    use tracing::subscriber::Interest;

    use super::*;

    /// A location in the code.
    struct Place(Metadata<'static>);

    impl Callsite for Place {
        fn set_interest(&self, _: Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            &self.0
        }
    }

    macro_rules! place {
        ($place:ident) => {
            static $place: Place = Place(Metadata::new(
                "here",
                "monoceros",
                Level::WARN,
                None,
                None,
                None,
                FieldSet::new(&[], Identifier(&$place)),
                Kind::EVENT,
            ));
        };
    }

    place!(HERE);
    place!(THERE);

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn written(verdict: Verdict) -> bool {
        matches!(verdict, Verdict::Write { .. })
    }

    #[test]
    fn one_line_per_kind_and_second_with_dropped_count() {
        let mut kinds = Kinds::default();
        assert_eq!(kinds.admit(&HERE.0, "rm", "", at(0)), Verdict::Write { left_out: 0 });
        for ms in 1..1_000 {
            assert_eq!(kinds.admit(&HERE.0, "rm", "", at(ms)), Verdict::LeftOut);
        }
        assert_eq!(kinds.admit(&HERE.0, "other", "", at(1)), Verdict::Write { left_out: 0 });
        assert_eq!(kinds.admit(&THERE.0, "rm", "", at(1)), Verdict::Write { left_out: 0 });
        assert_eq!(kinds.admit(&HERE.0, "rm", "", at(1_000)), Verdict::Write { left_out: 999 });
        assert_eq!(kinds.admit(&HERE.0, "rm", "", at(2_000)), Verdict::Write { left_out: 0 });
    }

    #[test]
    fn kinds_by_value_are_distinguished_up_to_a_bound() {
        let mut kinds = Kinds::default();
        for second in 0..3 {
            let now = |n: u64| at(second * 1_000 + n);
            let logged = (0..900).filter(|n| {
                written(kinds.admit(&HERE.0, "rm", &format!("key-{n}"), now(*n)))
                    && !written(kinds.admit(&HERE.0, "rm", &format!("key-{n}"), now(*n)))
            });
            assert_eq!(logged.count(), 32, "in second {second}");
        }
    }

    #[test]
    fn uncounted_drops_are_reported_after_two_seconds() {
        let mut kinds = Kinds::default();
        for _ in 0..10 {
            kinds.admit(&HERE.0, "rm", "", at(0));
        }
        assert!(kinds.overdue(at(1_999), 16).is_empty());
        let overdue = kinds.overdue(at(2_000), 16);
        assert_eq!((overdue.len(), overdue[0].left_out, &*overdue[0].rm), (1, 9, "rm"));
        assert!(kinds.overdue(at(5_000), 16).is_empty());
        assert!(kinds.entries.is_empty(), "nothing is kept of what is over");
    }

    #[test]
    fn a_full_table_limits_lines_by_place() {
        let mut kinds = Kinds::default();
        let lines = (0..50_000).filter(|n| {
            let rm = format!("rm-{n}");
            written(kinds.admit(&HERE.0, &rm, "", at(0)))
        });
        assert_eq!(lines.count(), ENTRIES + 1);
        assert!(!written(kinds.admit(&HERE.0, "another", "k", at(1))));
        assert!(written(kinds.admit(&THERE.0, "another", "k", at(1))), "that is another place");
        assert_eq!(kinds.entries.len(), ENTRIES + 2);
        kinds.overdue(at(3_000), 16);
        kinds.overdue(at(6_000), 16);
        assert!(kinds.entries.is_empty());
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let mut kinds = Kinds::default();
        let long = "ä".repeat(NAME_BYTES);
        kinds.admit(&HERE.0, &long, "", at(0));
        kinds.admit(&HERE.0, &long, "", at(0));
        assert_eq!(&*kinds.overdue(at(9_000), 1)[0].rm, "ä".repeat(NAME_BYTES / 2));
    }

    #[test]
    fn places_are_told_apart() {
        assert_ne!(HERE.0.callsite(), THERE.0.callsite());
    }
}
