//! The placeholders of an application, and the places that are held for members of its declared
//! gang: how many are still to be placed, which are free, and how long they may wait.

use std::time::Duration;

use crate::allocations::{Allocation, AllocationTable};
use crate::applications::application::Application;
use crate::applications::application_state::ApplicationState;
use crate::applications::gang::PlaceholderEnd;
use crate::applications::native::Native;
use crate::specs::ask::{AskSpec, TaskGroup};
use crate::specs::tags::PLACEHOLDERS_SINCE;
use crate::values::ids::{AllocationId, NodeSlot};

/// The time for which placeholders may wait if their RM states none.
const WAITING_TIME: Duration = Duration::from_secs(15 * 60);
/// The least wait until a deadline, even if its time has passed already.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Deadlines of placeholders and held places.
impl Application {
    /// Returns the wait until the deadline of the placeholders. `None` if the deadline is set
    /// already, or not needed: there are no placeholders, or the application fails or has
    /// terminated.
    pub fn placeholders_wait(&self, now_ns: i64) -> Option<Duration> {
        let state = self.state();
        let needs_one = state != ApplicationState::Failing && !state.is_terminated();
        let gang = self.gang.as_ref().filter(|gang| needs_one && gang.timer.is_none())?;
        if self.placeholders().is_zero() {
            return None;
        }
        // Places are held since the decision, unless an earlier scheduler held them.
        let since_ns = match &gang.native {
            Some(native) => native.held_since_ns(),
            None => self.stated_creation_ns().map(|created_ns| created_ns.min(self.arrived_ns)),
        };
        Some(self.waiting_time_left(since_ns.unwrap_or(now_ns), now_ns).max(LEAST_WAIT))
    }

    /// Returns and clears the number of the placeholders' deadline, if there are no placeholders
    /// any more or the application has terminated.
    pub fn take_unneeded_deadline(&mut self) -> Option<u64> {
        let is_needed = !self.placeholders().is_zero() && !self.state().is_terminated();
        self.gang.as_mut().filter(|_| !is_needed)?.timer.take()
    }

    /// Returns the remaining time for which places that an earlier scheduler held may be held.
    pub fn holding_time_left(&self, now_ns: i64) -> Duration {
        let since_ns = self.undecided().and_then(Native::held_since_ns);
        self.waiting_time_left(since_ns.unwrap_or(now_ns), now_ns)
    }

    fn waiting_time_left(&self, since_ns: i64, now_ns: i64) -> Duration {
        let stated = self.execution_timeout_ms.map(|ms| Duration::from_millis(ms.get()));
        let age = u64::try_from(now_ns.saturating_sub(since_ns)).unwrap_or(0);
        stated.unwrap_or(WAITING_TIME).saturating_sub(Duration::from_nanos(age))
    }

    /// Returns the time since when its placeholders wait by its tags, ns since the epoch.
    fn stated_creation_ns(&self) -> Option<i64> {
        let seconds = self.tags.as_ref()?.get(PLACEHOLDERS_SINCE)?.parse::<i64>().ok()?;
        seconds.checked_mul(1_000_000_000)
    }
}

/// Counts of placeholders.
impl Application {
    /// Records that a placeholder is no longer free.
    pub fn take_free(&mut self, id: AllocationId, place: &Allocation) {
        if let (Some(group), Some(gang)) = (place.spec.place_in(), &mut self.gang) {
            gang.take_free(group, id, place);
        }
    }

    /// Removes a placeholder, or a held place, that has ended everywhere else. Returns whether
    /// members are scheduled like any ask from now on.
    pub fn forget_placeholder(
        &mut self,
        id: AllocationId,
        place: &Allocation,
        end: PlaceholderEnd,
    ) -> bool {
        let Some(group) = place.spec.place_in() else { return false };
        let gang = self.gang_mut();
        if let Some(native) = &mut gang.native {
            native.holds.remove(&id);
        }
        gang.take_free(group, id, place);
        gang.end(group, end, 1);
        self.placeholders_fewer(group)
    }

    /// Moves the count of an allocation from the task group `before`, if it had any, to the one of
    /// this specification. Returns whether members are scheduled like any ask from now on.
    pub fn count_otherwise(&mut self, before: Option<&TaskGroup>, spec: &AskSpec) -> bool {
        if before == spec.place_in() {
            return false;
        }
        if let Some(group) = spec.place_in() {
            self.gang_mut().add(group, &spec.resources, 1);
        }
        before.is_some_and(|group| {
            self.gang_mut().take_off(group, 1);
            self.placeholders_fewer(group)
        })
    }

    /// Reviews a task group that has fewer placeholders, placed or pending. If it has none, its
    /// members are scheduled like any ask. Returns whether there are such members.
    pub fn placeholders_fewer(&mut self, group: &TaskGroup) -> bool {
        !self.waits_for_placeholders(group) && self.asks.wake_members(group)
    }
}

/// Held places.
impl Application {
    /// Whether places that an earlier scheduler held are searched.
    pub fn holds_again(&self) -> bool {
        self.undecided().is_some_and(Native::holds_again)
    }

    /// Whether the application may hold such places: it runs, and has a real allocation.
    pub fn may_hold_again(&self) -> bool {
        let has_real = !self.allocated().same_amount(self.placeholders());
        has_real && self.state() == ApplicationState::Running
    }

    /// Returns the held place that is replaced by an allocation that the RM reports for this group
    /// on this node: one on the same node if there is one, else the newest. No member may be
    /// waiting to take it.
    pub fn hold_of_reported(
        &self,
        group: &TaskGroup,
        node: NodeSlot,
        table: &AllocationTable,
    ) -> Option<AllocationId> {
        let free = self.holds().filter_map(|id| Some((id, table.get(id)?)));
        let free = free.filter(|(_, hold)| {
            hold.spec.place_in() == Some(group) && hold.gives_way_to().is_none()
        });
        let taken = free.max_by(|(_, one), (_, other)| {
            let order = |hold: &Allocation| hold.node == node;
            order(one).cmp(&order(other)).then_with(|| one.newness().cmp(&other.newness()))
        });
        taken.map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Arc;

    use super::*;
    use crate::allocations::Pairing;
    use crate::applications::application::{GangStyle, NewApplication};
    use crate::specs::ask::Form;
    use crate::specs::declaration::{Declaration, DeclaredGroup};
    use crate::specs::tags::TagMap;
    use crate::values::ids::ApplicationSlot;
    use crate::values::resources::Resources;

    fn vcores(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    /// Returns an application that arrived after two seconds, whose placeholders may wait for one.
    fn book(declared: bool) -> Application {
        let workers = DeclaredGroup::new("w", 2, Some(vcores(1)));
        let declaration = Declaration::new(vec![workers]).unwrap();
        let new = NewApplication {
            id: Arc::from("app"),
            queue: "root.a".to_owned(),
            user: Arc::from("ann"),
            groups: Vec::new(),
            tags: Some(Arc::new(TagMap::from([(PLACEHOLDERS_SINCE.into(), "1".into())]))),
            placeholder_ask: vcores(2),
            task_groups: declared.then(|| Box::new(Ok(declaration))),
            execution_timeout_ms: NonZeroU64::new(1_500),
            run_limit_ms: None,
            gang_style: GangStyle::Soft,
        };
        Application::new(new, Arc::from("root.a"), 2_000_000_000)
    }

    fn workers() -> TaskGroup {
        TaskGroup::new("w".to_owned())
    }

    fn placeholder(node: u32, bound_ns: i64) -> Allocation {
        let spec =
            AskSpec { placeholder: true, form: Form::Internal, ..AskSpec::new("p", vcores(1)) };
        let spec = Arc::new(spec.with(|it| it.task_group = Some(workers())));
        let (whose, node) = (ApplicationSlot::at(0), NodeSlot::at(node));
        Allocation::new(whose, spec, node, 0, bound_ns)
    }

    #[test]
    fn placeholders_wait_since_their_stated_creation() {
        let mut book = book(false);
        assert_eq!(book.placeholders_wait(2_000_000_000), None, "there are none");
        book.booked(&vcores(1), true, 0, &mut Vec::new());
        let wait = book.placeholders_wait(2_000_000_000);
        assert_eq!(wait, Some(Duration::from_millis(500)));
        assert_eq!(book.placeholders_wait(9_000_000_000), Some(LEAST_WAIT));
        book.gang_mut().timer = Some(3);
        assert_eq!(book.placeholders_wait(9_000_000_000), None, "it is set");
        assert_eq!(book.take_unneeded_deadline(), None);
        book.unbooked(&vcores(1), true);
        assert_eq!(book.take_unneeded_deadline(), Some(3));
    }

    #[test]
    fn members_are_woken_by_the_last_placeholder() {
        let mut book = book(false);
        book.gang_mut().add(&workers(), &vcores(1), 2);
        let member = AskSpec::new("m", vcores(1)).with(|it| it.task_group = Some(workers()));
        book.asks.put(member, 0, 1);
        let (id, place) = (AllocationId::numbered(1), placeholder(0, 0));
        book.forget_placeholder(id, &place, PlaceholderEnd::TimedOut);
        assert!(book.waits_for_placeholders(&workers()));
        let other = AskSpec::new("x", vcores(1));
        book.count_otherwise(Some(&workers()), &other);
        assert!(!book.waits_for_placeholders(&workers()));
        book.count_otherwise(None, &place.spec);
        assert!(book.waits_for_placeholders(&workers()));
    }

    #[test]
    fn a_reported_member_takes_the_hold_on_its_node() {
        let (mut book, mut table) = (book(true), AllocationTable::new());
        let holds = [(0, 5), (1, 7), (2, 9)].map(|(node, bound_ns)| {
            let id = table.insert(placeholder(node, bound_ns));
            book.native_mut().unwrap().holds.insert(id);
            id
        });
        let taken = |table: &AllocationTable, node| {
            book.hold_of_reported(&workers(), NodeSlot::at(node), table)
        };
        assert_eq!(taken(&table, 1), Some(holds[1]));
        assert_eq!(taken(&table, 7), Some(holds[2]), "the newest");
        let real = AllocationId::numbered(9);
        table.get_mut(holds[2]).unwrap().change().pairing = Pairing::GivesWay(real);
        assert_eq!(taken(&table, 7), Some(holds[1]), "no member waits for it");
    }
}
