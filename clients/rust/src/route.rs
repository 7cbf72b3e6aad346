//! The addresses of a scheduler, and which of them is tried next.
//!
//! # Order
//! In a cluster another member can serve a resource manager whose owner is lost. So after a loss all
//! addresses are tried without a pause, each for a short time: first the owner that the end of the
//! session names, then the members of the last list, then the configured addresses. The addresses of
//! the lost owner come last. If no member serves, the client pauses before each further round, and
//! waits longer for each answer. The members of a list are shuffled, so that the clients of a lost
//! member go to different ones.
//!
//! # Invariants
//! * An address that an answer names is tried at once, but an address named by its answer is not. So a
//!   round has at most twice as many attempts as addresses, and one more for a suspicion, also if
//!   members name each other in a circle.
//! * With a single address each attempt but the first is preceded by a pause.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// Most members that are kept, and bytes of an address.
const MOST_MEMBERS: usize = 100;
const ADDRESS_BYTES: usize = 256;
/// Times in the first round, if there are other addresses. Doubled in each round.
const PATIENCE: Patience =
    Patience { connection: Duration::from_secs(1), answer: Duration::from_secs(5) };
/// Longest times, if there are other addresses.
const MOST_PATIENCE: Patience =
    Patience { connection: Duration::from_secs(5), answer: Duration::from_secs(60) };
/// Shortest duration of a session that is not brief.
const BRIEF: Duration = Duration::from_secs(1);
/// Most brief sessions in a row that are followed by another one at once.
const MOST_BRIEF: u32 = 3;

/// An address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A configured one, by its index.
    Configured(usize),
    /// `host:port` of a member.
    Member(String),
}

/// Time limits of one address, if there are others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Time to connect.
    pub(crate) connection: Duration,
    /// Time for the answer to each call.
    pub(crate) answer: Duration,
}

/// Changes the order of members at random.
pub(crate) type Shuffle = fn(&mut [String]);

/// Shuffles members by random numbers of the system. Keeps their order if there are none.
pub(crate) fn shuffle(members: &mut [String]) {
    let mut bytes = vec![0; 2 * members.len()];
    if getrandom::fill(&mut bytes).is_err() {
        return;
    }
    let (draws, _) = bytes.as_chunks::<2>();
    for (last, draw) in (1..members.len()).rev().zip(draws) {
        members.swap(last, usize::from(u16::from_ne_bytes(*draw)) % (last + 1));
    }
}

/// The addresses, and the position among them.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// Host and port of the configured addresses. Never empty.
    configured: Vec<String>,
    /// The members of the last list, the owner first. Empty without a cluster.
    members: Vec<String>,
    current: Target,
    /// Addresses of the round that were not tried yet.
    left: VecDeque<Target>,
    /// Rounds since a session had streams.
    round: u32,
    /// Brief sessions in a row.
    brief: u32,
    /// Whether the present address was named by a member.
    is_redirected: bool,
    /// Whether a redirect led to an address that does not answer, so that members have to forward.
    redirects_fail: bool,
}

/// The end of an attempt, or of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempted<'s> {
    /// Duration for which streams were open. `None` if they never were.
    pub(crate) lasted: Option<Duration>,
    /// Whether the same address is to be tried next.
    pub(crate) stays: bool,
    /// Whether the scheduler gave a reason.
    pub(crate) is_answered: bool,
    /// The address of the owner, if the scheduler named it.
    pub(crate) owner: Option<&'s str>,
    /// Whether the attempt named a silent owner. If a member answers that this owner is alive and it
    /// fails again, the attempt is repeated without its name.
    pub(crate) is_suspicion: bool,
}

/// Time of the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    AtOnce,
    AfterPause,
}

impl Route {
    /// Creates a route to these addresses, given as host and port.
    pub(crate) fn new(configured: Vec<String>) -> Self {
        let left = (1..configured.len()).map(Target::Configured).collect();
        Self {
            configured,
            members: Vec::new(),
            current: Target::Configured(0),
            left,
            round: 0,
            brief: 0,
            is_redirected: false,
            redirects_fail: false,
        }
    }

    /// Whether these are the configured addresses.
    pub(crate) fn is_of(&self, configured: &[String]) -> bool {
        self.configured == configured
    }

    /// The address to try now.
    pub(crate) fn current(&self) -> &Target {
        &self.current
    }

    /// Whether the scheduler is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        !self.members.is_empty()
    }

    /// Whether there are addresses besides those of the present owner.
    pub(crate) fn has_others(&self) -> bool {
        let owner = self.members.first().map(|owner| self.target(owner));
        self.all()
            .into_iter()
            .any(|target| target != self.current && Some(&target) != owner.as_ref())
    }

    /// Whether there are addresses besides the present one.
    pub(crate) fn has_several(&self) -> bool {
        self.all().len() > 1
    }

    /// Whether members may answer with the owner's address in place of forwarding. A member that was
    /// named may not: of two that each take the other for the one with less load, one has to serve.
    pub(crate) fn takes_redirects(&self) -> bool {
        !self.redirects_fail && !self.is_redirected
    }

    /// Time limits of the present address. `None` if it is the only one.
    pub(crate) fn patience(&self) -> Option<Patience> {
        let factor = 1 << self.round.min(5);
        let longer = |first: Duration, most: Duration| first.saturating_mul(factor).min(most);
        self.has_several().then_some(Patience {
            connection: longer(PATIENCE.connection, MOST_PATIENCE.connection),
            answer: longer(PATIENCE.answer, MOST_PATIENCE.answer),
        })
    }

    /// Keeps the members that a registration was answered with. Those after the owner are shuffled
    /// before the list is cut, so that none is left out by all clients.
    pub(crate) fn keep_members(&mut self, list: Option<&str>, shuffle: Shuffle) {
        let members = list.unwrap_or_default().split(',').map(str::trim);
        let is_address = |address: &&str| !address.is_empty() && address.len() <= ADDRESS_BYTES;
        let mut seen = HashSet::new();
        let members = members.filter(is_address).filter(|&address| seen.insert(address));
        self.members = members.map(ToOwned::to_owned).collect();
        if let [_, others @ ..] = &mut self.members[..] {
            shuffle(others);
        }
        self.members.truncate(MOST_MEMBERS);
    }

    /// Chooses the next address.
    pub(crate) fn after(&mut self, end: Attempted<'_>) -> Pace {
        let mut was_redirected = std::mem::take(&mut self.is_redirected);
        if let Some(lasted) = end.lasted {
            // The redirect led to a session, so this is the first one after it.
            was_redirected = false;
            self.redirects_fail = false;
            self.round = 0;
            self.brief = if lasted < BRIEF { self.brief + 1 } else { 0 };
            self.begin_round(end.stays);
        } else if was_redirected && !end.is_answered {
            self.redirects_fail = true;
        }
        let owner = end.owner.map(|owner| self.target(owner));
        if let Some(owner) = owner.filter(|owner| !was_redirected && *owner != self.current) {
            if end.is_suspicion {
                self.left.push_front(self.current.clone());
            }
            self.left.retain(|target| *target != owner);
            self.current = owner;
            self.is_redirected = true;
            return if self.brief > MOST_BRIEF { Pace::AfterPause } else { Pace::AtOnce };
        }
        let has_just_begun = end.lasted.is_some();
        let is_flapping = self.brief > MOST_BRIEF || self.left.len() < 2;
        if let Some(next) = self.left.pop_front() {
            self.current = next;
            return if has_just_begun && is_flapping { Pace::AfterPause } else { Pace::AtOnce };
        }
        self.begin_round(false);
        self.round += 1;
        if let Some(next) = self.left.pop_front() {
            self.current = next;
        }
        Pace::AfterPause
    }

    /// Begins a round over all addresses. The present one comes last, or first if the session
    /// `stays` there. The address by which the members know the owner comes just before the last: it
    /// may be the same member, if the present address is that of a service.
    fn begin_round(&mut self, stays: bool) {
        let mut all = self.all();
        if !stays && !self.members.is_empty() {
            // The members come first, the owner before the others.
            all.rotate_left(1);
        }
        if let Some(at) = all.iter().position(|target| *target == self.current)
            && let Some(current) = all.remove(at)
        {
            if stays {
                all.push_front(current);
            } else {
                all.push_back(current);
            }
        }
        self.left = all;
    }

    /// All addresses: members first, each once.
    fn all(&self) -> VecDeque<Target> {
        let mut all = VecDeque::new();
        let members = self.members.iter().map(|member| self.target(member));
        for target in members.chain((0..self.configured.len()).map(Target::Configured)) {
            if !all.contains(&target) {
                all.push_back(target);
            }
        }
        all
    }

    fn target(&self, address: &str) -> Target {
        let configured = self.configured.iter().position(|configured| configured == address);
        configured.map_or_else(|| Target::Member(address.to_owned()), Target::Configured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_secs(9));

    fn route(configured: &[&str], members: &str) -> Route {
        let mut route = Route::new(configured.iter().map(|&it| it.to_owned()).collect());
        route.keep_members(Some(members), |_| {});
        route
    }

    fn text(route: &Route) -> String {
        match route.current() {
            Target::Configured(at) => route.configured[*at].clone(),
            Target::Member(address) => address.clone(),
        }
    }

    /// The next address, with a star after a pause.
    fn after(route: &mut Route, end: Attempted<'_>) -> String {
        let pace = route.after(end);
        let star = if pace == Pace::AfterPause { "*" } else { "" };
        text(route) + star
    }

    fn failed<'s>() -> Attempted<'s> {
        Attempted::default()
    }

    fn lost<'s>() -> Attempted<'s> {
        Attempted { lasted: LONG, is_answered: true, ..Attempted::default() }
    }

    #[test]
    fn a_single_address_is_tried_after_pauses() {
        let mut route = route(&["a"], "");
        assert_eq!((text(&route), route.patience()), ("a".to_owned(), None));
        let stays = Attempted { stays: true, ..lost() };
        let tried = [failed(), stays, lost(), failed()].map(|end| after(&mut route, end));
        assert_eq!(tried, ["a*", "a*", "a*", "a*"]);
    }

    #[test]
    fn members_come_before_configured_addresses_and_the_lost_one_last() {
        let mut route = route(&["a", "service"], "a,b,c");
        let mut tried = vec![after(&mut route, lost())];
        tried.extend((0..5).map(|_| after(&mut route, failed())));
        assert_eq!(tried, ["b", "c", "service", "a", "b*", "c"]);
        let second = |seconds| Duration::from_secs(seconds);
        let doubled = Patience { connection: second(2), answer: second(10) };
        assert_eq!(route.patience(), Some(doubled));
    }

    #[test]
    fn an_owner_that_was_reached_by_another_address_comes_late_too() {
        let mut route = route(&["service"], "a,b");
        let mut tried = vec![after(&mut route, lost())];
        tried.extend((0..2).map(|_| after(&mut route, failed())));
        assert_eq!(tried, ["b", "a", "service"]);
    }

    #[test]
    fn the_named_owner_comes_first_and_once_in_a_row() {
        let mut route = route(&["a"], "a,b,c");
        let to = |owner| Attempted { owner: Some(owner), is_answered: true, ..failed() };
        let moved = Attempted { owner: Some("c"), ..lost() };
        assert_eq!(after(&mut route, moved), "c");
        // Both name each other.
        let tried: Vec<_> =
            ["a", "c", "b", "c"].map(|owner| after(&mut route, to(owner))).into_iter().collect();
        assert_eq!(tried, ["b", "c", "a", "c"]);
        assert_eq!(after(&mut route, to("b")), "b*", "the round is over");
    }

    #[test]
    fn a_session_reached_by_a_redirect_may_move_on() {
        let mut route = route(&["a"], "a,b,c,d");
        let to = |owner, end| Attempted { owner: Some(owner), is_answered: true, ..end };
        assert_eq!(after(&mut route, to("c", failed())), "c");
        assert_eq!(after(&mut route, to("d", lost())), "d");
        // It cannot move on for ever.
        let brief = |owner| Attempted { lasted: Some(Duration::ZERO), ..to(owner, failed()) };
        let tried = ["c", "d", "c", "d"].map(|owner| after(&mut route, brief(owner)));
        assert_eq!(tried, ["c", "d", "c", "d*"]);
    }

    #[test]
    fn a_member_that_denies_a_suspicion_is_asked_again() {
        let mut route = route(&["a"], "a,b");
        assert_eq!(after(&mut route, lost()), "b");
        let denied = Attempted { owner: Some("a"), is_answered: true, ..failed() };
        assert_eq!(after(&mut route, Attempted { is_suspicion: true, ..denied }), "a");
        assert_eq!(after(&mut route, failed()), "b", "without a pause");
    }

    #[test]
    fn members_but_the_owner_are_shuffled() {
        let list: Vec<_> = (0..MOST_MEMBERS).map(|number| format!("m{number:02}:1")).collect();
        let mut route = route(&["a"], "");
        let mut firsts = std::collections::BTreeSet::new();
        for _ in 0..20 {
            route.keep_members(Some(&list.join(",")), shuffle);
            assert_eq!(route.members[0], list[0]);
            firsts.insert(route.members[1].clone());
            let mut sorted = route.members.clone();
            sorted.sort();
            assert_eq!(sorted, list);
        }
        assert!(firsts.len() > 1, "{firsts:?}");
    }

    #[test]
    fn each_member_of_a_long_list_is_kept_by_some_clients() {
        let list: Vec<_> = (0..2 * MOST_MEMBERS).map(|number| format!("m{number}:1")).collect();
        let mut route = route(&["a"], "");
        let mut kept = HashSet::new();
        for _ in 0..40 {
            route.keep_members(Some(&list.join(",")), shuffle);
            assert_eq!((route.members.len(), &route.members[0]), (MOST_MEMBERS, &list[0]));
            kept.extend(route.members.clone());
        }
        assert_eq!(kept.len(), list.len());
    }

    #[test]
    fn an_owner_has_no_others_although_it_has_two_addresses() {
        let alone = route(&["service"], "a");
        assert!(!alone.has_others() && alone.has_several());
        let beside_another = route(&["service"], "a,b");
        assert!(beside_another.has_others() && beside_another.has_several());
        let single = route(&["a"], "");
        assert!(!single.has_others() && !single.has_several());
    }

    #[test]
    fn members_forward_after_a_redirect_to_nowhere() {
        let mut route = route(&["service"], "");
        let to = Attempted { owner: Some("10.0.0.7:1"), is_answered: true, ..failed() };
        assert_eq!(after(&mut route, to), "10.0.0.7:1");
        assert!(!route.takes_redirects(), "one redirect in a row");
        assert_eq!(after(&mut route, failed()), "service*");
        assert!(!route.takes_redirects());
        after(&mut route, lost());
        assert!(route.takes_redirects());
    }

    #[test]
    fn sessions_that_end_at_once_are_followed_by_pauses() {
        let mut route = route(&["a"], "a,b");
        let brief = Attempted { lasted: Some(Duration::ZERO), ..lost() };
        let tried: Vec<_> = (0..5).map(|_| after(&mut route, brief)).collect();
        assert_eq!(tried, ["b", "a", "b", "a*", "b*"]);
        assert_eq!(after(&mut route, lost()), "a");
    }

    #[test]
    fn lists_are_bounded() {
        let list: Vec<_> = (0..1_000).map(|number| format!("host:{number}")).collect();
        let mut route = route(&["a"], &(list.join(",") + "," + &"x".repeat(300)));
        assert_eq!(route.members, list[..MOST_MEMBERS]);
        route.keep_members(Some("a, a,b,a"), |_| {});
        assert_eq!(route.members, ["a", "b"]);
        route.keep_members(Some(" b ,,c"), shuffle);
        assert_eq!(route.members, ["b", "c"]);
        route.keep_members(None, shuffle);
        assert!(!route.is_cluster());
    }
}
