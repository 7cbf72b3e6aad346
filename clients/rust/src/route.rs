//! The addresses of a scheduler, and which of them is tried next.
//!
//! # Order
//! In a cluster another member serves whoever has lost its own, so after a loss all addresses are
//! tried at once, each for a short time: first the owner that the lost one named, then the members
//! of the last list, then the configured addresses. The address that was lost comes last. If none
//! serves, the client pauses before each further round, and waits longer for each answer.
//!
//! # Invariants
//! * After a redirect the next address is one of the list, so members that name each other in a
//!   circle are asked at most twice as often as there are addresses before a pause.
//! * With a single address each attempt but the first is preceded by a pause.

use std::collections::VecDeque;
use std::time::Duration;

/// Most members that are kept, and bytes of an address.
const MOST_MEMBERS: usize = 64;
const ADDRESS_BYTES: usize = 256;
/// Time for an answer in the first round, if there are other addresses. Doubled in each round.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest time for an answer, if there are other addresses.
const MOST_PATIENCE: Duration = Duration::from_secs(30);
/// A session that lasted at least this long is no brief one.
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

/// The addresses, and the position among them.
#[derive(Debug)]
pub(crate) struct Route {
    /// Host and port of the configured addresses. Never empty.
    configured: Vec<String>,
    /// The members of the last list. Empty without a cluster.
    members: Vec<String>,
    current: Target,
    /// The rest of the round.
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
    /// How long the session had its streams. `None` if it had none.
    pub(crate) lasted: Option<Duration>,
    /// Whether the session goes on with other streams, or another one is to begin there.
    pub(crate) stays: bool,
    /// Whether the scheduler gave a reason.
    pub(crate) is_answered: bool,
    /// The address of the owner, if the scheduler named it.
    pub(crate) owner: Option<&'s str>,
}

/// When the next address is tried.
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

    /// The address to try now.
    pub(crate) fn current(&self) -> &Target {
        &self.current
    }

    /// Whether the scheduler is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        !self.members.is_empty()
    }

    /// Whether members may answer with the owner's address in place of forwarding.
    pub(crate) fn takes_redirects(&self) -> bool {
        !self.redirects_fail
    }

    /// How long to wait for an answer. `None` if there is no other address.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let longer = PATIENCE.saturating_mul(1 << self.round.min(5));
        (self.all().len() > 1).then_some(longer.min(MOST_PATIENCE))
    }

    /// Keeps the members that a registration was answered with.
    pub(crate) fn keep_members(&mut self, list: Option<&str>) {
        let members = list.unwrap_or_default().split(',').map(str::trim);
        let is_address = |address: &&str| !address.is_empty() && address.len() <= ADDRESS_BYTES;
        self.members =
            members.filter(is_address).take(MOST_MEMBERS).map(ToOwned::to_owned).collect();
    }

    /// Chooses the next address.
    pub(crate) fn after(&mut self, end: Attempted<'_>) -> Pace {
        let was_redirected = std::mem::take(&mut self.is_redirected);
        if let Some(lasted) = end.lasted {
            self.redirects_fail = false;
            self.round = 0;
            self.brief = if lasted < BRIEF { self.brief + 1 } else { 0 };
            self.begin_round(end.stays);
        } else if was_redirected && !end.is_answered {
            self.redirects_fail = true;
        }
        let owner = end.owner.map(|owner| self.target(owner));
        if let Some(owner) = owner.filter(|owner| !was_redirected && *owner != self.current) {
            self.left.retain(|target| *target != owner);
            self.current = owner;
            self.is_redirected = true;
            return Pace::AtOnce;
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
    /// `stays` there.
    fn begin_round(&mut self, stays: bool) {
        let mut all = self.all();
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
        route.keep_members(Some(members));
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
        assert_eq!(route.patience(), Some(2 * PATIENCE));
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
        assert_eq!(after(&mut route, to("b")), "a*", "the round is over");
    }

    #[test]
    fn members_forward_after_a_redirect_to_nowhere() {
        let mut route = route(&["service"], "");
        let to = Attempted { owner: Some("10.0.0.7:1"), is_answered: true, ..failed() };
        assert_eq!(after(&mut route, to), "10.0.0.7:1");
        assert!(route.takes_redirects());
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
        let list = vec!["host:1"; 1_000].join(",") + "," + &"x".repeat(300);
        let mut route = route(&["a"], &list);
        assert_eq!(route.members.len(), MOST_MEMBERS);
        route.keep_members(Some(" b ,,c"));
        assert_eq!(route.members, ["b", "c"]);
        route.keep_members(None);
        assert!(!route.is_cluster());
    }
}
