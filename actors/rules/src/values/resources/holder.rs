//! Holders of the names of resource types: each holds names, up to a limit.
//!
//! # Why
//! Names come from outside. With one table for all and no limit, one resource manager could use up
//! the names of all others. So each has a holder with a limit of its own, and names that are not in
//! use any more are released.
//!
//! # Release of names
//! Amounts with a name are everywhere, so they are not counted. When half of the limit is held, the
//! owner of the holder [begins](NameHolder::begin_look) a scan of all its amounts, and then
//! releases the names that [it did not find](NameHolder::end_look). A name that was held again
//! since the scan began is kept, since its amount may not exist yet. A holder that is dropped
//! releases all its names.
//!
//! ```
//! use monoceros_rules::values::resources::{Name, NameHolder};
//! let holder = NameHolder::new(2);
//! let one = holder.hold("example.org/one").unwrap();
//! holder.hold("example.org/two").unwrap();
//! assert!(holder.hold("example.org/three").is_err());
//! let began = holder.begin_look();
//! holder.end_look(began, |name| name == one);
//! assert!(Name::known("example.org/two").is_none());
//! assert!(holder.hold("example.org/three").is_ok());
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::names::{self, Name, TooManyNames};
use crate::values::hashing::SeededMap;

/// The most names of one RM unless set otherwise, and of one configuration.
pub const NAMES_MAX: usize = 1_024;

/// Held names. The well-known ones need no holder and do not count.
#[derive(Debug)]
pub struct NameHolder {
    limit: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    names: SeededMap<Arc<str>, HeldName>,
    /// The number of scans begun.
    looks: u64,
    /// The number of names held when the last scan ended.
    left_by_last: usize,
    /// A name was refused since the last scan began.
    has_refused: bool,
}

#[derive(Clone, Copy, Debug)]
struct HeldName {
    name: Name,
    /// The number of scans begun when the name was last held or held again.
    named: u64,
}

/// Written as its names, in the order in which this process got to know them: it settles ties, and a
/// new process gets to know them in the same order. What is read may hold [`NAMES_MAX`], or as many as were written.
impl Serialize for NameHolder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let held = self.held();
        let mut names: Vec<_> = held.names.iter().map(|(text, held)| (held.name, text)).collect();
        names.sort_unstable();
        serializer.collect_seq(names.into_iter().map(|(_, text)| text))
    }
}

impl<'de> Deserialize<'de> for NameHolder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let holder = Self::new(NAMES_MAX);
        for text in texts.iter().filter(|text| Name::well_known(text).is_none()) {
            holder.held().hold(text);
        }
        Ok(holder)
    }
}

impl NameHolder {
    /// Builds a holder for at most `limit` names.
    pub fn new(limit: usize) -> Self {
        Self { limit, held: Mutex::default() }
    }

    /// Holds the name of this text from now on.
    pub fn hold(&self, text: &str) -> Result<Name, TooManyNames> {
        if let Some(name) = Name::well_known(text) {
            return Ok(name);
        }
        let mut held = self.held();
        if held.names.len() >= self.limit && !held.names.contains_key(text) {
            held.has_refused = true;
            return Err(TooManyNames { name: text.to_owned(), limit: self.limit });
        }
        Ok(held.hold(text))
    }

    /// Holds all names of another holder as well, even beyond the limit.
    pub fn hold_all_of(&self, other: &Self) {
        let texts: Vec<Arc<str>> = other.held().names.keys().cloned().collect();
        let mut held = self.held();
        for text in texts {
            held.hold(&text);
        }
    }

    /// Returns the number of held names.
    pub fn len(&self) -> usize {
        self.held().names.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this one holds the name.
    pub fn holds(&self, name: Name) -> bool {
        self.held().names.values().any(|held| held.name == name)
    }

    /// Whether a scan of the names in use is due: a name was refused, or more than half of the
    /// limit is held, and more than an eighth of it was added since the last scan.
    pub fn wants_look(&self) -> bool {
        let held = self.held();
        let n_held = held.names.len();
        let n_new = n_held.saturating_sub(held.left_by_last);
        held.has_refused || (n_held > self.limit / 2 && n_new > self.limit / 8)
    }

    /// Begins a scan, which keeps all names that are held from now on. Returns the number of the
    /// scan.
    pub fn begin_look(&self) -> u64 {
        let mut held = self.held();
        held.looks += 1;
        held.has_refused = false;
        held.looks
    }

    /// Ends a scan: releases names that are not in use and were not held again since it began.
    /// Returns the number of released names.
    pub fn end_look(&self, number: u64, is_in_use: impl Fn(Name) -> bool) -> usize {
        let mut held = self.held();
        let mut unused = Vec::new();
        held.names.retain(|_, held| {
            let stays = held.named >= number || is_in_use(held.name);
            if !stays {
                unused.push(held.name);
            }
            stays
        });
        held.left_by_last = held.names.len();
        let n_unused = unused.len();
        names::give_back(unused);
        n_unused
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn hold(&mut self, text: &str) -> Name {
        let named = self.looks;
        if let Some(held) = self.names.get_mut(text) {
            held.named = named;
            return held.name;
        }
        let (name, text) = names::hold(text);
        self.names.insert(text, HeldName { name, named });
        name
    }
}

impl Drop for NameHolder {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        names::give_back(held.names.values().map(|held| held.name));
    }
}

/// Holds as many names as one RM may hold unless set otherwise.
impl Default for NameHolder {
    fn default() -> Self {
        Self::new(NAMES_MAX)
    }
}

/// Equal always: held names follow from the texts that were read, so comparisons of configurations
/// ignore them.
impl PartialEq for NameHolder {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_refusal_names_the_name_and_the_limit() {
        let holder = NameHolder::new(1);
        holder.hold("holder/a").unwrap();
        holder.hold("vcore").unwrap();
        let error = holder.hold("holder/b").unwrap_err().to_string();
        assert!(error.contains("`holder/b`") && error.contains("1 names"), "{error}");
        assert!(holder.hold("holder/a").is_ok(), "what is held may be named again");
    }

    #[test]
    fn one_that_is_full_takes_nothing_from_another() {
        let (full, other) = (NameHolder::new(3), NameHolder::new(3));
        for n in 0..9 {
            let _ = full.hold(&format!("full/{n}"));
        }
        assert_eq!(full.len(), 3);
        assert!(other.hold("full/8").is_ok());
        drop(full);
        assert!(Name::known("full/0").is_none() && Name::known("full/8").is_some());
    }

    #[test]
    fn what_another_holds_is_held_beyond_the_limit() {
        let (document, rm) = (NameHolder::new(9), NameHolder::new(1));
        for n in 0..3 {
            document.hold(&format!("beyond/{n}")).unwrap();
        }
        rm.hold_all_of(&document);
        drop(document);
        assert_eq!(rm.len(), 3);
        assert!(Name::known("beyond/2").is_some() && rm.hold("beyond/x").is_err());
    }

    #[test]
    fn a_look_is_wanted_when_half_is_held_and_again_when_an_eighth_is_new() {
        let holder = NameHolder::new(16);
        let mut n = 0;
        let mut until_wanted = || {
            while !holder.wants_look() {
                n += 1;
                holder.hold(&format!("looks/{n}")).unwrap();
            }
            holder.len()
        };
        assert_eq!(until_wanted(), 9);
        holder.end_look(holder.begin_look(), |_| true);
        assert_eq!(until_wanted(), 12);
        holder.end_look(holder.begin_look(), |_| true);
        while holder.hold(&format!("looks/more-{}", holder.len())).is_ok() {}
        assert!(holder.wants_look(), "one was refused");
        holder.end_look(holder.begin_look(), |_| true);
        assert!(!holder.wants_look(), "nothing has come since");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Hold(usize, u8),
        Begin(usize),
        /// A scan ends that finds these names in use.
        End(usize, BTreeSet<u8>),
        Drop(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let which = 0..2_usize;
        prop_oneof![
            8 => (which.clone(), 0..8_u8).prop_map(|(of, text)| Step::Hold(of, text)),
            2 => which.clone().prop_map(Step::Begin),
            2 => (which.clone(), proptest::collection::btree_set(0..8_u8, 0..4))
                .prop_map(|(of, used)| Step::End(of, used)),
            1 => which.prop_map(Step::Drop),
        ]
    }

    proptest! {
        /// A name is known exactly as long as a holder has it: until the holder is dropped, or
        /// until a scan that began after the name was last held does not find it.
        #[test]
        fn names_are_known_as_long_as_they_are_held(steps in vec(step(), 0..60)) {
            const LIMIT: usize = 5;
            // Tests run in parallel with one table, so each thread has names of its own.
            let text = |n: u8| format!("model-{:?}/{n}", std::thread::current().id());
            let mut holders = [NameHolder::new(LIMIT), NameHolder::new(LIMIT)];
            let mut model: [BTreeMap<u8, bool>; 2] = Default::default();
            let mut looks = [None, None];
            for step in steps {
                match step {
                    Step::Hold(of, n) => {
                        let fits = model[of].len() < LIMIT || model[of].contains_key(&n);
                        let held = holders[of].hold(&text(n));
                        prop_assert_eq!(held.is_ok(), fits);
                        if fits {
                            model[of].insert(n, true);
                        }
                    }
                    Step::Begin(of) => {
                        looks[of] = Some(holders[of].begin_look());
                        model[of].values_mut().for_each(|named_since| *named_since = false);
                    }
                    Step::End(of, used) => {
                        if let Some(number) = looks[of].take() {
                            let used_names: Vec<_> =
                                used.iter().filter_map(|n| Name::known(&text(*n))).collect();
                            holders[of].end_look(number, |name| used_names.contains(&name));
                            model[of].retain(|n, named_since| *named_since || used.contains(n));
                        }
                    }
                    Step::Drop(of) => {
                        holders[of] = NameHolder::new(LIMIT);
                        model[of].clear();
                        looks[of] = None;
                    }
                }
                for n in 0..8 {
                    let is_held = model.iter().any(|held| held.contains_key(&n));
                    prop_assert_eq!(Name::known(&text(n)).is_some(), is_held, "{}", n);
                }
            }
        }
    }
}
