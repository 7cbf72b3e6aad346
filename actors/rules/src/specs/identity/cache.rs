//! Cache of the groups of users, as a resolver answered. A lookup may take seconds; an owner
//! submits many applications, and without a cache each would wait for one.
//!
//! # Expiry
//! An entry ends at a time that is fixed when it is made: 300 s later if the groups are known, 30 s
//! later if the user could not be resolved. An entry that has ended is never returned, whether or
//! not it has been removed; [`UserCache::clean`], which every new entry calls, only frees memory.
//! So no timer is needed, a failure is not returned for longer than it should be, and the memory of
//! ended entries is bounded even if no new user is looked up.
//!
//! # Invariants
//! * There are never more entries than the capacity: the entry with the earliest end is removed
//!   first.
//! * A user has one entry, and an entry is replaced as a whole: groups are never added to it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::LookupError;

/// The time for which groups are kept.
const POSITIVE: Duration = Duration::from_secs(300);
/// The time for which a failed resolution is kept.
const NEGATIVE: Duration = Duration::from_secs(30);

/// The answer of a [`UserCache`] about one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// The user's groups.
    Groups(&'a [String]),
    /// The user could not be resolved.
    Failed(&'a LookupError),
    /// There is no entry: the resolver must be asked.
    Nothing,
}

#[derive(Debug)]
struct Entry {
    answer: Result<Vec<String>, LookupError>,
    /// The last moment at which it is returned; see [`UserCache`].
    until: Duration,
}

/// The groups of users who were looked up recently, and failures of look-ups. Times are measured
/// from one fixed moment, and never decrease.
#[derive(Debug)]
pub struct UserCache {
    capacity: usize,
    entries: HashMap<Arc<str>, Entry>,
    /// Every entry, ordered by its end.
    ends: BTreeSet<(Duration, Arc<str>)>,
}

impl UserCache {
    /// An empty cache for at most `capacity` users, at least one.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), entries: HashMap::new(), ends: BTreeSet::new() }
    }

    /// The entry of a user at `now`.
    pub fn get(&self, user: &str, now: Duration) -> Known<'_> {
        match self.entries.get(user).filter(|entry| now <= entry.until) {
            Some(Entry { answer: Ok(groups), .. }) => Known::Groups(groups),
            Some(Entry { answer: Err(error), .. }) => Known::Failed(error),
            None => Known::Nothing,
        }
    }

    /// Stores an answer of the resolver.
    pub fn resolved(
        &mut self,
        user: &str,
        answer: Result<Vec<String>, LookupError>,
        now: Duration,
    ) {
        let lifetime = if answer.is_ok() { POSITIVE } else { NEGATIVE };
        self.put(user, answer, now.saturating_add(lifetime), now);
    }

    /// Stores the groups that an RM has sent for a user.
    pub fn given(&mut self, user: &str, groups: &[String], now: Duration) {
        let until = now.saturating_add(POSITIVE);
        if let Some(entry) = self.entries.get(user)
            && entry.until == until
            && entry.answer.as_deref().is_ok_and(|known| known == groups)
        {
            // The same answer was just stored: one message often has many applications of one user.
            return;
        }
        self.put(user, Ok(groups.to_vec()), until, now);
    }

    /// Removes entries that have ended.
    pub fn clean(&mut self, now: Duration) {
        while self.ends.first().is_some_and(|(until, _)| *until < now) {
            self.remove_first();
        }
    }

    /// The number of users.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn put(
        &mut self,
        user: &str,
        answer: Result<Vec<String>, LookupError>,
        until: Duration,
        now: Duration,
    ) {
        if user.is_empty() {
            return;
        }
        self.clean(now);
        let known = self.entries.remove_entry(user);
        let user = match known {
            Some((user, entry)) => {
                self.ends.remove(&(entry.until, Arc::clone(&user)));
                user
            }
            None => Arc::from(user),
        };
        if self.entries.len() >= self.capacity {
            self.remove_first();
        }
        self.ends.insert((until, Arc::clone(&user)));
        self.entries.insert(user, Entry { answer, until });
    }

    fn remove_first(&mut self) {
        if let Some((_, user)) = self.ends.pop_first() {
            self.entries.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn error() -> LookupError {
        LookupError { why: "unknown user".to_owned(), groups: owned(&["found-before"]) }
    }

    #[test]
    fn a_second_lookup_within_30_s_of_a_failure_is_the_error_from_the_cache() {
        let mut cache = UserCache::new(10);
        cache.resolved("eve", Err(error()), s(100));
        assert_eq!(cache.get("eve", s(100)), Known::Failed(&error()), "with what was found");
        assert_eq!(cache.get("eve", s(130)), Known::Failed(&error()));
        let later = s(130) + Duration::from_nanos(1);
        assert_eq!(cache.get("eve", later), Known::Nothing, "older than 30 s: asked again");
        cache.resolved("eve", Ok(owned(&["g"])), later);
        assert_eq!(cache.get("eve", later), Known::Groups(&owned(&["g"])));
    }

    #[test]
    fn a_lookup_301_s_after_success_resolves_again_and_duplicates_no_group() {
        let mut cache = UserCache::new(10);
        cache.resolved("sue", Ok(owned(&["sue", "g1"])), s(0));
        assert_eq!(cache.get("sue", s(300)), Known::Groups(&owned(&["sue", "g1"])));
        assert_eq!(cache.get("sue", s(301)), Known::Nothing);
        cache.resolved("sue", Ok(owned(&["sue", "g1"])), s(301));
        assert_eq!(cache.get("sue", s(301)), Known::Groups(&owned(&["sue", "g1"])));
    }

    #[test]
    fn given_groups_replace_whatever_was_known() {
        let mut cache = UserCache::new(10);
        cache.resolved("sue", Err(error()), s(0));
        cache.given("sue", &owned(&["g1"]), s(1));
        assert_eq!(cache.get("sue", s(31)), Known::Groups(&owned(&["g1"])));
        cache.given("sue", &owned(&["g2"]), s(200));
        cache.given("sue", &owned(&["g2"]), s(200));
        assert_eq!(cache.get("sue", s(500)), Known::Groups(&owned(&["g2"])));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn an_empty_name_is_not_cached() {
        let mut cache = UserCache::new(10);
        cache.resolved("", Err(error()), s(0));
        cache.given("", &owned(&["g"]), s(0));
        assert!(cache.is_empty());
    }

    #[test]
    fn the_cleaner_removes_what_has_ended_and_nothing_else() {
        let mut cache = UserCache::new(10);
        cache.resolved("sue", Ok(owned(&["sue"])), s(0));
        cache.resolved("eve", Err(error()), s(0));
        for (now, left) in [(30, 2), (31, 1), (300, 1), (301, 0)] {
            cache.clean(s(now));
            assert_eq!(cache.len(), left, "at {now} s");
        }
    }

    #[test]
    fn a_full_cache_forgets_what_would_end_first() {
        let mut cache = UserCache::new(2);
        cache.resolved("a", Ok(owned(&["a"])), s(0));
        cache.resolved("eve", Err(error()), s(1));
        cache.resolved("b", Ok(owned(&["b"])), s(2));
        assert_eq!(cache.get("eve", s(2)), Known::Nothing);
        cache.given("c", &owned(&["c"]), s(3));
        assert_eq!(cache.get("a", s(3)), Known::Nothing);
        assert_eq!(cache.get("b", s(3)), Known::Groups(&owned(&["b"])));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Wait(u64),
        Resolved(u8, Result<u8, ()>),
        Given(u8, u8),
        Clean,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let answer = prop_oneof![(0..3_u8).prop_map(Ok), Just(Err(()))];
        let step = prop_oneof![
            (0..200_u64).prop_map(Step::Wait),
            (0..5_u8, answer).prop_map(|(user, answer)| Step::Resolved(user, answer)),
            (0..5_u8, 0..3_u8).prop_map(|(user, group)| Step::Given(user, group)),
            Just(Step::Clean),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// The model is the list of all earlier answers: for a user the last one counts, unless it
        /// is too old.
        #[test]
        fn the_cache_tells_the_last_answer_unless_it_is_too_old(steps in steps()) {
            let mut cache = UserCache::new(5);
            let mut log: Vec<(u64, u8, Result<u8, ()>)> = Vec::new();
            let mut now = 0;
            let groups = |group: u8| vec![format!("g{group}")];
            for step in steps {
                match step {
                    Step::Wait(seconds) => now += seconds,
                    Step::Clean => cache.clean(s(now)),
                    Step::Resolved(user, answer) => {
                        let told = answer.map(groups).map_err(|()| error());
                        cache.resolved(&format!("u{user}"), told, s(now));
                        log.push((now, user, answer));
                    }
                    Step::Given(user, group) => {
                        cache.given(&format!("u{user}"), &groups(group), s(now));
                        log.push((now, user, Ok(group)));
                    }
                }
                for user in 0..5 {
                    let last = log.iter().rfind(|(_, of, _)| *of == user);
                    let fresh = last.filter(|(at, _, answer)| {
                        now - at <= if answer.is_ok() { 300 } else { 30 }
                    });
                    let told = match cache.get(&format!("u{user}"), s(now)) {
                        Known::Groups(groups) => Some(Ok(groups.to_vec())),
                        Known::Failed(failure) => Some(Err(failure.clone())),
                        Known::Nothing => None,
                    };
                    let expected = fresh.map(|(_, _, answer)| {
                        answer.map(groups).map_err(|()| error())
                    });
                    prop_assert_eq!(told, expected);
                }
                prop_assert_eq!(cache.entries.len(), cache.ends.len());
                prop_assert!(cache.len() <= 5);
            }
        }
    }
}
