//! Queue configurations of policy groups: one record for each group, which all members apply.
//!
//! # Who may replace a configuration
//! The newest write wins. A text that was in force before counts as old where its author may not
//! know of the present one: a process reads its file at the start, and an RM registers again with
//! the text of its first registration. Such a text changes nothing. An RM that brings another text
//! than the group has, while other RMs of the group are served, conflicts with the group.
//!
//! # Contents tell who wrote them
//! Two members that write the same text with the same version mean the same: the one that loses the
//! compare-and-set finds its text in force.

use std::sync::Arc;

/// Most bytes of a configuration's text: [`MAX_PACKED`] bytes could be decompressed to 900 MiB.
pub const MAX_TEXT: usize = 8 << 20;
/// Most bytes of a compressed configuration: its record, of 900 KiB at most, has 4 KiB besides.
pub const MAX_PACKED: usize = 896 * 1024;
/// Most earlier checksums that a record keeps.
pub const MAX_EARLIER: usize = 16;
/// Most bytes of [`Configuration::source`]. A longer one is cut.
pub const MAX_SOURCE: usize = 256;

/// Group whose configuration a record has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupId {
    /// All groups without a record of their own.
    Others,
    /// The policy group with this name.
    Named(Arc<str>),
}

/// Checksum of a configuration's text, as the scheduler computes it. Empty for no text.
pub type Checksum = Arc<str>;

/// Configuration of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// Number of the write: 1 at the first, then one more each time.
    pub version: u64,
    /// Checksum of the text. Empty once the configuration is withdrawn.
    pub checksum: Checksum,
    /// Checksums of the texts before, the last one first.
    pub earlier: Vec<Checksum>,
    /// Where the text comes from, for people.
    pub source: Arc<str>,
    /// The text, compressed. Empty once the configuration is withdrawn.
    pub packed: Arc<[u8]>,
}

impl Configuration {
    /// Whether the group has no text any more.
    pub fn is_withdrawn(&self) -> bool {
        self.checksum.is_empty()
    }
}

/// A configuration that no record can hold, or no member reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// The text has this many bytes, more than [`MAX_TEXT`].
    #[error(
        "the queue configuration has {0} bytes: a cluster keeps at most {MAX_TEXT}, and \
         {MAX_PACKED} compressed"
    )]
    Text(usize),
    /// The compressed text has this many bytes, more than [`MAX_PACKED`].
    #[error(
        "the queue configuration has {0} bytes compressed: a cluster keeps at most {MAX_PACKED}, \
         and {MAX_TEXT} uncompressed"
    )]
    Packed(usize),
}

/// A text for a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    checksum: Checksum,
    packed: Arc<[u8]>,
    source: Arc<str>,
    occasion: Occasion,
}

/// Why a text is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occasion {
    /// A file as a process read it when it started.
    FileAtStart,
    /// A file that changed, or appeared.
    FileChanged,
    /// An RM registers with it.
    Registration {
        /// Whether this process of the RM had a session before.
        is_again: bool,
        /// Whether other RMs of the group are served. `None`: not known yet.
        is_shared: Option<bool>,
    },
    /// An operator sets it, after all members have tried it.
    Set {
        /// Version of the record before the trial. 0 if there was none.
        tried_at: u64,
    },
}

/// Result of judging an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The group has this text already, or has none and is offered none.
    InForce,
    /// The record has to be replaced by this one.
    Write(Configuration),
    /// The text was in force before: the present one counts.
    Older,
    /// The group has another text. Whether the offer replaces it depends on other RMs of the group.
    DependsOnOthers,
    /// The group has another text, and other RMs use it.
    Conflict,
    /// The record has changed since the trial.
    ChangedMeanwhile,
}

impl Offer {
    /// An offer of a text. Without a text (both empty) the configuration is withdrawn.
    pub fn new(
        checksum: Checksum,
        packed: Arc<[u8]>,
        source: &str,
        occasion: Occasion,
    ) -> Result<Self, TooLarge> {
        debug_assert_eq!(checksum.is_empty(), packed.is_empty(), "a text has a checksum");
        if packed.len() > MAX_PACKED {
            return Err(TooLarge::Packed(packed.len()));
        }
        let fits = |&bytes: &usize| source.is_char_boundary(bytes);
        let end = (0..=MAX_SOURCE.min(source.len())).rev().find(fits).unwrap_or_default();
        Ok(Self { checksum, packed, source: source[..end].into(), occasion })
    }

    /// The same text once it is known whether other RMs of the group are served.
    #[must_use]
    pub fn among_others(mut self, others: bool) -> Self {
        if let Occasion::Registration { is_shared, .. } = &mut self.occasion {
            *is_shared = Some(others);
        }
        self
    }

    /// Judges the offer by the record as it was read.
    pub fn judge(&self, present: Option<&Configuration>) -> Judgement {
        let has = present.map(|present| &*present.checksum).unwrap_or_default();
        if *has == *self.checksum {
            return Judgement::InForce;
        }
        let version = present.map_or(0, |present| present.version);
        let was_before =
            present.is_some_and(|present| present.earlier.iter().any(|it| **it == *self.checksum));
        match self.occasion {
            Occasion::Set { tried_at } if tried_at != version => Judgement::ChangedMeanwhile,
            Occasion::FileAtStart | Occasion::Registration { is_again: true, .. }
                if was_before && !has.is_empty() =>
            {
                Judgement::Older
            }
            Occasion::Registration { is_shared: None, .. } if !has.is_empty() => {
                Judgement::DependsOnOthers
            }
            Occasion::Registration { is_shared: Some(true), .. } if !has.is_empty() => {
                Judgement::Conflict
            }
            Occasion::Set { .. }
            | Occasion::FileAtStart
            | Occasion::FileChanged
            | Occasion::Registration { .. } => Judgement::Write(self.successor(present)),
        }
    }

    fn successor(&self, present: Option<&Configuration>) -> Configuration {
        let before = present
            .into_iter()
            .flat_map(|present| std::iter::once(&present.checksum).chain(&present.earlier));
        let is_other = |it: &&Checksum| !it.is_empty() && ***it != *self.checksum;
        Configuration {
            version: present.map_or(0, |present| present.version).saturating_add(1),
            checksum: self.checksum.clone(),
            earlier: before.filter(is_other).take(MAX_EARLIER).cloned().collect(),
            source: self.source.clone(),
            packed: self.packed.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(text: &str, occasion: Occasion) -> Offer {
        Offer::new(text.into(), text.as_bytes().into(), "test", occasion).unwrap()
    }

    fn written(present: Option<&Configuration>, offer: &Offer) -> Configuration {
        match offer.judge(present) {
            Judgement::Write(written) => written,
            other => panic!("{other:?}"),
        }
    }

    /// The record after changes of a file to these texts.
    fn after(texts: &[&str]) -> Configuration {
        let mut record = None;
        for text in texts {
            record = Some(written(record.as_ref(), &offer(text, Occasion::FileChanged)));
        }
        record.unwrap()
    }

    fn registration(is_again: bool, is_shared: Option<bool>) -> Occasion {
        Occasion::Registration { is_again, is_shared }
    }

    const ALL: [Occasion; 5] = [
        Occasion::FileAtStart,
        Occasion::FileChanged,
        Occasion::Registration { is_again: false, is_shared: None },
        Occasion::Registration { is_again: true, is_shared: None },
        Occasion::Set { tried_at: 0 },
    ];

    #[test]
    fn the_first_text_is_written_whoever_brings_it() {
        for occasion in ALL {
            let first = written(None, &offer("a", occasion));
            assert_eq!((first.version, &*first.checksum, first.earlier.len()), (1, "a", 0));
            assert_eq!(offer("a", occasion).judge(Some(&first)), Judgement::InForce);
            assert_eq!(offer("", occasion).judge(None), Judgement::InForce);
        }
    }

    #[test]
    fn a_changed_file_wins_and_texts_before_are_kept() {
        let record = after(&["a", "b", "c"]);
        let earlier: Vec<_> = record.earlier.iter().map(|it| &**it).collect();
        assert_eq!((record.version, &*record.checksum, earlier), (3, "c", vec!["b", "a"]));
        // A return to an earlier text makes the others older than that.
        let back = written(Some(&record), &offer("a", Occasion::FileChanged));
        let earlier: Vec<_> = back.earlier.iter().map(|it| &**it).collect();
        assert_eq!((back.version, &*back.checksum, earlier), (4, "a", vec!["c", "b"]));
        let names: Vec<_> = (0..30).map(|number| number.to_string()).collect();
        let many = after(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.earlier.len(), MAX_EARLIER);
    }

    #[test]
    fn a_text_from_before_is_no_news_at_a_start_or_another_registration() {
        let record = after(&["a", "b"]);
        for occasion in [Occasion::FileAtStart, registration(true, None)] {
            assert_eq!(offer("a", occasion).judge(Some(&record)), Judgement::Older);
        }
        let new = written(Some(&record), &offer("c", Occasion::FileAtStart));
        assert_eq!(new.version, 3, "a file that was changed while no process ran");
        // A new process of the RM may mean to go back.
        let back = offer("a", registration(false, Some(false)));
        assert_eq!(written(Some(&record), &back).version, 3);
    }

    #[test]
    fn an_rm_replaces_the_text_of_its_group_only_while_it_is_alone() {
        let record = after(&["a"]);
        for is_again in [false, true] {
            let brings = offer("b", registration(is_again, None));
            assert_eq!(brings.judge(Some(&record)), Judgement::DependsOnOthers);
            let alone = brings.clone().among_others(false);
            assert_eq!(written(Some(&record), &alone).version, 2);
            assert_eq!(brings.among_others(true).judge(Some(&record)), Judgement::Conflict);
        }
    }

    #[test]
    fn a_withdrawn_text_conflicts_with_none() {
        let record = after(&["a", ""]);
        assert!(record.is_withdrawn() && record.version == 2, "{record:?}");
        for occasion in ALL {
            let expected = match occasion {
                Occasion::Set { .. } => Judgement::ChangedMeanwhile,
                _ => Judgement::Write(after(&["a", "", "a"])),
            };
            assert_eq!(offer("a", occasion).judge(Some(&record)), expected, "{occasion:?}");
        }
    }

    #[test]
    fn a_text_is_set_only_where_it_was_tried() {
        let record = after(&["a", "b"]);
        assert_eq!(written(Some(&record), &offer("c", Occasion::Set { tried_at: 2 })).version, 3);
        for tried_at in [0, 1, 3] {
            let judged = offer("c", Occasion::Set { tried_at }).judge(Some(&record));
            assert_eq!(judged, Judgement::ChangedMeanwhile);
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let packed = |size| vec![1; size].into();
        let new = |size, source: &str| Offer::new("a".into(), packed(size), source, ALL[0]);
        let source = "ä".repeat(MAX_SOURCE);
        let largest = written(None, &new(MAX_PACKED, &source).unwrap());
        assert_eq!((largest.packed.len(), largest.source.len()), (MAX_PACKED, MAX_SOURCE));
        let refused = new(MAX_PACKED + 1, "").unwrap_err();
        let text = "the queue configuration has 917505 bytes compressed: a cluster keeps at most \
                    917504, and 8388608 uncompressed";
        assert_eq!(refused.to_string(), text);
    }
}
