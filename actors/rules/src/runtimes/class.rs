//! The names of rows: what the allocations of a row have in common.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::values::resources::Resources;
use crate::values::text::beginning;

/// The longest stem of an application's id, in bytes.
const STEM_BYTES: usize = 64;
/// The most resources in a shape.
const SHAPE_NAMES: usize = 8;
/// The shortest word that may be a generated name, in bytes.
const NAME_BYTES: usize = 5;
/// The shortest word that may be a part of a hash, in bytes.
const HASH_BYTES: usize = 4;
/// The letters and digits of the names that Kubernetes generates.
const GENERATED: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The name of a row. A field that is `None` may have any value: with all four the row is a class,
/// with queue and user it is wider, then with the queue alone, and the widest has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowKey {
    /// The path of the leaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Arc<str>>,
    /// The owner of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// The id of the application without digits and hashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stem: Option<Arc<str>>,
    /// The amount of the allocation, to a factor of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Arc<str>>,
}

impl RowKey {
    /// Whether the row is a class.
    pub fn is_class(&self) -> bool {
        self.shape.is_some()
    }

    /// Returns the name of the next wider row; `None` for the widest.
    pub fn wider(&self) -> Option<Self> {
        let Self { queue, user, .. } = self.clone();
        let wider = Self::default();
        match (self.is_class(), user.is_some(), queue.is_some()) {
            (true, ..) => Some(Self { queue, user, ..wider }),
            (false, true, _) => Some(Self { queue, ..wider }),
            (false, false, true) => Some(wider),
            (false, false, false) => None,
        }
    }

    /// Whether the fields are those of a row.
    pub(super) fn is_whole(&self) -> bool {
        let Self { queue, user, stem, shape } = self;
        let is_nested = queue.is_some() || user.is_none();
        let has_both = stem.is_some() == shape.is_some();
        is_nested && has_both && (shape.is_none() || user.is_some())
    }
}

/// The application of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// The path of its leaf.
    pub queue: &'a Arc<str>,
    /// The owner of the application.
    pub user: &'a Arc<str>,
    /// The id of the application.
    pub application: &'a str,
}

impl Whose<'_> {
    /// Returns the name of the class of its allocations of this amount.
    pub fn class(&self, stem: impl Into<Arc<str>>, resources: &Resources) -> RowKey {
        RowKey {
            queue: Some(Arc::clone(self.queue)),
            user: Some(Arc::clone(self.user)),
            stem: Some(stem.into()),
            shape: Some(Arc::from(shape(resources))),
        }
    }

    /// Returns the stem of the application's id.
    pub fn stem(&self) -> Arc<str> {
        Arc::from(stem(self.application))
    }
}

/// Returns the part of an application's id that other runs of the same work share: its words without
/// digits, joined by `-`, except for hashes and generated names.
fn stem(id: &str) -> String {
    let mut stem = String::new();
    let words = id.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    for (number, word) in words.enumerate() {
        let is_generated = number > 0 && is_generated(word);
        if is_generated || is_hash(word) {
            continue;
        }
        let end = stem.len();
        stem.extend(word.chars().filter(|letter| !letter.is_numeric()));
        if end > 0 && stem.len() > end {
            stem.insert(end, '-');
        }
        if stem.len() > STEM_BYTES {
            return beginning(&stem, STEM_BYTES).to_owned();
        }
    }
    stem
}

/// Whether a word may be a name that Kubernetes generated: its letters have no vowels.
fn is_generated(word: &str) -> bool {
    word.len() >= NAME_BYTES && word.bytes().all(|letter| GENERATED.contains(&letter))
}

/// Whether a word looks like a hash or a random number in letters and digits.
fn is_hash(word: &str) -> bool {
    let is_hex = word.bytes().all(|letter| letter.is_ascii_hexdigit());
    let has_digit = word.bytes().any(|letter| letter.is_ascii_digit());
    let is_change = |pair: &&[u8]| pair[0].is_ascii_digit() != pair[1].is_ascii_digit();
    let n_changes = word.as_bytes().windows(2).filter(is_change).count();
    word.len() >= HASH_BYTES && has_digit && (is_hex || n_changes >= 3)
}

/// Returns an amount to a factor of two, such as `memory=2^33 vcore=2^12`. Of an amount of many
/// resources, the first count.
fn shape(resources: &Resources) -> String {
    let mut shape = String::new();
    let present = resources.sorted().into_iter().filter(|(_, quantity)| *quantity > 0);
    for (name, quantity) in present.take(SHAPE_NAMES) {
        let space = if shape.is_empty() { "" } else { " " };
        let power = nearest_power(quantity.unsigned_abs());
        write!(shape, "{space}{name}=2^{power}").expect("a string takes what is written");
    }
    shape
}

/// Returns the exponent of the power of two that is nearest to a quantity above zero, by ratio.
fn nearest_power(quantity: u64) -> u32 {
    let below = quantity.ilog2();
    let square = u128::from(quantity) * u128::from(quantity);
    // The middle between two powers is the root of their product.
    below + u32::from(square >= 1_u128 << (2 * below + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_of_names_have_no_digits_and_hashes() {
        for (id, expected) in [
            ("nightly-20261130", "nightly"),
            ("nightly-etl-2026-11-30T08:15", "nightly-etl-T"),
            ("application_1638349287_0042", "application"),
            ("spark-0a1b2c3d4e5f60718293a4b5c6d7e8f9", "spark"),
            ("train.resnet50.v2", "train-resnet-v"),
            ("3f2a77de-11b4-4c02-9a5e-0cafe0ff1234", ""),
            ("report-x7k2p", "report"),
            ("report-bcdfg", "report"),
            ("web-7d4b9c6f5d-xkpqz", "web"),
            ("https-proxy", "https-proxy"),
            ("s3sync-12", "ssync"),
            ("facade-decade", "facade-decade"),
            ("facade-dec4de", "facade"),
            ("zählung_17", "zählung"),
            ("12345", ""),
            ("", ""),
        ] {
            assert_eq!(stem(id), expected, "`{id}`");
        }
        assert_eq!(stem(&"werkä ".repeat(40)).len(), STEM_BYTES);
    }

    #[test]
    fn shapes_are_amounts_to_a_factor_of_two() {
        let amount = |memory, vcore| Resources::of(&[("vcore", vcore), ("memory", memory)]);
        let shapes = |memory, vcore| shape(&amount(memory, vcore));
        assert_eq!(shapes(1 << 33, 4_000), "memory=2^33 vcore=2^12");
        assert_eq!(shapes(1 << 33, 4_000), shapes(9_000_000_000, 5_000));
        assert_ne!(shapes(1 << 33, 4_000), shapes(1 << 34, 4_000));
        assert_eq!(shapes(0, 1), "vcore=2^0");
        assert_eq!([1, 2, 3, 5, 6, 8].map(nearest_power), [0, 1, 2, 2, 3, 3]);
        assert_eq!(nearest_power(u64::MAX), 64);
        let many: Vec<_> = (0..20).map(|number| format!("r{number:02}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), 1)).collect();
        assert_eq!(shape(&Resources::of(&many)).split(' ').count(), SHAPE_NAMES);
    }

    #[test]
    fn each_row_is_in_three_wider_ones() {
        let (queue, user) = (Arc::from("root.a"), Arc::from("ada"));
        let whose = Whose { queue: &queue, user: &user, application: "nightly-7" };
        let class = whose.class(whose.stem(), &Resources::of(&[("vcore", 1)]));
        let rows: Vec<_> = std::iter::successors(Some(class), RowKey::wider).collect();
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(RowKey::is_whole));
        assert_eq!(
            rows.iter().map(RowKey::is_class).collect::<Vec<_>>(),
            [true, false, false, false]
        );
        assert_eq!((rows[2].queue.as_deref(), rows[2].user.as_deref()), (Some("root.a"), None));
        assert_eq!(rows[3], RowKey::default());
        let partly = RowKey { queue: None, ..rows[1].clone() };
        assert!(!partly.is_whole());
        assert!(!RowKey { stem: None, ..rows[0].clone() }.is_whole());
    }
}
