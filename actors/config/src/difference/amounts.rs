//! Compares amounts: raised, lowered, introduced or removed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::usage::Used;
use super::{LONGEST_LINE, Line, Weight};
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::values::quantity;
use monoceros_rules::values::resources::Limits;

/// Clauses about one queue, each with its weight.
#[derive(Default)]
pub(super) struct Clauses(Vec<(Weight, String)>);

impl Clauses {
    pub(super) fn add(&mut self, weight: Weight, text: impl Into<String>) {
        self.0.push((weight, text.into()));
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Gives all clauses the same weight.
    pub(super) fn all_of(self, weight: Weight) -> Self {
        Self(self.0.into_iter().map(|(_, text)| (weight, text)).collect())
    }

    /// Joins the clauses into one text.
    pub(super) fn joined(self) -> String {
        let texts: Vec<_> = self.0.into_iter().map(|(_, text)| text).collect();
        texts.join(", ")
    }

    /// Makes one line per weight, each with the prefix `place`.
    pub(super) fn into_lines(self, place: &str) -> impl Iterator<Item = Line> {
        let mut lines: BTreeMap<Weight, Vec<String>> = BTreeMap::new();
        for (weight, text) in self.0 {
            lines.entry(weight).or_default().push(text);
        }
        let line = move |(weight, texts): (Weight, Vec<String>)| {
            Line::new(weight, format!("{place}: {}", in_one_line(&texts)))
        };
        lines.into_iter().map(line).collect::<Vec<_>>().into_iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Describes the difference between two amounts named `what`. More of an amount loosens the
    /// limit.
    pub(super) fn compare(
        &mut self,
        what: &str,
        old: &[(Arc<str>, i64)],
        new: &[(Arc<str>, i64)],
        absent: Absent,
    ) {
        let old: BTreeMap<&str, i64> = old.iter().map(|(name, value)| (&**name, *value)).collect();
        let new: BTreeMap<&str, i64> = new.iter().map(|(name, value)| (&**name, *value)).collect();
        let mut told: [Vec<String>; 4] = Default::default();
        let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
        let mut names: Vec<&str> = names.copied().collect();
        names.sort_unstable();
        for name in names {
            let text = |value: i64| quantity::written(name, value);
            let (change, told_as) = match (old.get(name), new.get(name)) {
                (Some(&old), Some(&new)) if old > new => {
                    (AmountChange::Lowered, format!("{name} from {} to {}", text(old), text(new)))
                }
                (Some(&old), Some(&new)) if old < new => {
                    (AmountChange::Raised, format!("{name} from {} to {}", text(old), text(new)))
                }
                (None, Some(&new)) => (AmountChange::Introduced, format!("{name} {}", text(new))),
                (Some(&old), None) => {
                    (AmountChange::Removed, format!("{name} (was {})", text(old)))
                }
                _ => continue,
            };
            told[change as usize].push(told_as);
        }
        for change in [
            AmountChange::Lowered,
            AmountChange::Raised,
            AmountChange::Introduced,
            AmountChange::Removed,
        ] {
            let told = &told[change as usize];
            if !told.is_empty() {
                let weight = change.weight(absent);
                self.add(weight, format!("{what} {}: {}", change.text(), listed(told)));
            }
        }
    }

    /// Like [`Self::compare`], for a number of which 0 means unlimited.
    pub(super) fn compare_count(&mut self, what: &str, old: u64, new: u64) {
        let entry = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let (weight, text) = match (entry(old), entry(new)) {
            (old, new) if old == new => return,
            (0, new) => (Weight::Tightened, format!("{what} introduced: {new}")),
            (old, 0) => (Weight::Loosened, format!("{what} removed (was {old})")),
            (old, new) if old > new => {
                (Weight::Tightened, format!("{what} lowered from {old} to {new}"))
            }
            (old, new) => (Weight::Loosened, format!("{what} raised from {old} to {new}")),
        };
        self.add(weight, text);
    }
}

/// Meaning of a name that is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// Unlimited, in a maximum.
    Unlimited,
    /// Zero, in a guarantee.
    Nothing,
}

#[derive(Clone, Copy)]
enum AmountChange {
    Lowered,
    Raised,
    Introduced,
    Removed,
}

impl AmountChange {
    fn text(self) -> &'static str {
        match self {
            Self::Lowered => "lowered",
            Self::Raised => "raised",
            Self::Introduced => "introduced",
            Self::Removed => "removed",
        }
    }

    fn weight(self, absent: Absent) -> Weight {
        match (self, absent) {
            (Self::Lowered, _)
            | (Self::Introduced, Absent::Unlimited)
            | (Self::Removed, Absent::Nothing) => Weight::Tightened,
            (Self::Raised, _)
            | (Self::Removed, Absent::Unlimited)
            | (Self::Introduced, Absent::Nothing) => Weight::Loosened,
        }
    }
}

/// Limits of a queue, or of a user or group in it.
#[derive(Clone, Copy, Default)]
pub(super) struct Allowance<'a> {
    pub(super) max: Option<&'a Limits>,
    /// Maximum number of applications; 0 is unlimited.
    pub(super) applications: u64,
}

impl<'a> Allowance<'a> {
    pub(super) fn of(queue: &'a QueueConfig) -> Self {
        Self { max: queue.max.as_ref(), applications: queue.max_applications }
    }

    /// Lists the amounts of `used` that exceed this allowance but did not exceed `before`, as in
    /// `120 of 100 vcore`.
    pub(super) fn newly_exceeded(&self, before: &Self, used: &Used) -> Vec<String> {
        let is_above = |max: Option<i64>, used: i64| max.is_some_and(|max| used > max);
        let mut exceeded = Vec::new();
        let max = self.max.map(Limits::sorted).unwrap_or_default();
        let old: BTreeMap<_, _> =
            before.max.map(Limits::sorted).unwrap_or_default().into_iter().collect();
        let used_of: BTreeMap<_, _> = used.allocated.sorted().into_iter().collect();
        for (name, max) in max {
            let used = used_of.get(&name).copied().unwrap_or(0);
            if used > max && !is_above(old.get(&name).copied(), used) {
                let (used, max) = (quantity::written(&name, used), quantity::written(&name, max));
                exceeded.push(format!("{used} of {max} {name}"));
            }
        }
        let is_above = |most: u64| most > 0 && used.running > most;
        if is_above(self.applications) && !is_above(before.applications) {
            exceeded.push(format!("{} of {} applications", used.running, self.applications));
        }
        exceeded
    }
}

/// Most names or amounts in one list.
const MOST_LISTED: usize = 5;
/// Longest value in characters that is shown in full.
const LONGEST_VALUE: usize = 80;

/// Joins as many clauses as one line can hold.
fn in_one_line(clauses: &[String]) -> String {
    let mut line = String::new();
    let mut length = 0;
    for (told, clause) in clauses.iter().enumerate() {
        let clause = shortened(clause, LONGEST_LINE * 2 / 3);
        length += clause.chars().count();
        // The prefix of the line needs room, too.
        if told > 0 && length > LONGEST_LINE * 4 / 5 {
            let _ = write!(line, "; and {} more changes of this kind", clauses.len() - told);
            break;
        }
        if told > 0 {
            line.push_str("; ");
        }
        line.push_str(&clause);
    }
    line
}

/// Formats `a, b, c`. A longer list ends with the number of those left out.
pub(super) fn listed(told: &[String]) -> String {
    match told.get(..MOST_LISTED) {
        Some(shown) if told.len() > MOST_LISTED => {
            format!("{} and {} more", shown.join(", "), told.len() - MOST_LISTED)
        }
        _ => told.join(", "),
    }
}

/// Formats a text of any length and with any characters on one line.
pub(super) fn value(text: &str) -> String {
    let shortened = shortened(text, LONGEST_VALUE);
    let is_plain = |c: char| !c.is_control();
    shortened
        .chars()
        .map(|c| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect()
}

/// Returns the text, or its beginning and its length if it is longer than `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let length = text.chars().count();
            Cow::Owned(format!("{}... ({length} characters)", &text[..end]))
        }
    }
}

/// Formats `a`, `a and b`, `a, b and c`. If there are more than `most`, the list ends with the
/// number of those left out.
pub(super) fn enumerate(names: &[String], most: usize) -> String {
    if names.len() > most {
        let (shown, rest) = names.split_at(most.saturating_sub(1));
        return format!("{} and {} more", shown.join(", "), rest.len());
    }
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
