use proptest::prelude::*;

use super::*;
use crate::applications::application::{GangStyle, NewApplication};
use crate::values::again::written_and_read;

const DAY_NS: i64 = 24 * 60 * 60 * 1_000_000_000;

fn rejected(id: &str, now_ns: i64) -> Ended {
    let why = Rejection::NotLeaf { id: Arc::from(id), queue: "root.q".to_owned() };
    Ended::rejected(&Arc::from(id), "root.q", "ada", &[], &why, now_ns)
}

fn completed(id: &str, now_ns: i64) -> Ended {
    let state = ApplicationState::Completed;
    let log = vec![(now_ns, state)];
    Ended { state, log, rejected: None, cure: Fixed::default(), ..rejected(id, now_ns) }
}

fn shown<'a>(entries: impl Iterator<Item = &'a Ended>) -> Vec<String> {
    entries.map(|ended| format!("{} {}", ended.id, ended.state)).collect()
}

#[test]
fn runs_of_one_id_are_entries_of_their_own() {
    let mut ended = EndedApplications::new(10);
    ended.keep(completed("a", 1));
    ended.keep(completed("a", 1));
    assert_eq!(shown(ended.terminated()), ["a Completed", "a Completed"]);
}

#[test]
fn a_later_rejection_of_an_id_takes_the_place_of_the_earlier_one() {
    let mut ended = EndedApplications::new(10);
    ended.keep(rejected("a", 1));
    ended.keep(rejected("b", 2));
    ended.keep(Ended { rejected: Some("again".into()), ..rejected("a", 3) });
    assert_eq!(shown(ended.rejected()), ["b Rejected", "a Rejected"]);
    assert_eq!(ended.rejected().last().unwrap().rejected.as_deref(), Some("again"));
    assert_eq!(ended.states(), [(ApplicationState::Rejected, 2)].into());
}

#[test]
fn an_entry_expires_after_three_days_and_is_gone_after_the_next_sweep() {
    let mut ended = EndedApplications::new(10);
    assert_eq!(ended.due_ns(), None);
    ended.keep(completed("a", 5));
    ended.keep(rejected("b", 7));
    assert_eq!(ended.due_ns(), Some(3 * DAY_NS + 5));
    assert_eq!(ended.pass(3 * DAY_NS + 4), []);
    let expired = ended.pass(3 * DAY_NS + 7);
    assert_eq!(expired.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((expired[0].is_rejected, expired[1].is_rejected), (false, true));
    assert_eq!(shown(ended.terminated()), ["a Expired"]);
    assert_eq!(shown(ended.rejected()), ["b Expired"]);
    let log = &ended.terminated().next().unwrap().log;
    assert_eq!(log.last(), Some(&(3 * DAY_NS + 7, ApplicationState::Expired)));
    assert_eq!(ended.due_ns(), Some(4 * DAY_NS + 7));
    assert_eq!(ended.pass(4 * DAY_NS + 7), []);
    assert_eq!(ended.terminated().count() + ended.rejected().count(), 0);
    assert_eq!(ended.due_ns(), None);
}

fn removed(id: &str, now_ns: i64) -> Ended {
    Ended { removal: Some(Box::default()), ..completed(id, now_ns) }.into_removed()
}

#[test]
fn removed_applications_are_a_bounded_list_of_their_own() {
    let mut ended = EndedApplications::new(2);
    for (at, id) in [(1, "a"), (3, "b"), (5, "c")] {
        ended.keep(removed(id, at));
        ended.keep(completed(&format!("done-{id}"), at + 1));
    }
    assert_eq!(shown(ended.terminated()), ["done-b Completed", "done-c Completed"]);
    assert_eq!(shown(ended.removed()), ["b Removed", "c Removed"]);
    assert_eq!(ended.states(), [(ApplicationState::Completed, 2)].into());
    let ids = |entries: &mut dyn Iterator<Item = (u64, &Ended)>| -> Vec<String> {
        entries.map(|(_, ended)| ended.id.to_string()).collect()
    };
    assert_eq!(ids(&mut ended.all_behind(0)), ["b", "done-b", "c", "done-c"]);
    assert_eq!(ids(&mut ended.all_before(u64::MAX)), ["done-c", "c", "done-b", "b"]);
    let (number, _) = ended.all_behind(0).nth(1).unwrap();
    assert_eq!(ids(&mut ended.all_behind(number)), ["c", "done-c"]);
    assert_eq!(ids(&mut ended.all_before(number)), ["b"]);
}

#[test]
fn a_removed_application_expires_without_a_notice() {
    let mut ended = EndedApplications::new(2);
    ended.keep(removed("a", 5));
    assert_eq!(ended.due_ns(), Some(3 * DAY_NS + 5));
    assert_eq!(ended.pass(3 * DAY_NS + 5), []);
    assert_eq!(shown(ended.removed()), ["a Removed"]);
    assert_eq!(ended.due_ns(), Some(4 * DAY_NS + 5));
    ended.pass(4 * DAY_NS + 5);
    assert_eq!((ended.removed().count(), ended.due_ns()), (0, None));
}

#[test]
fn an_id_whose_rejection_was_swept_is_kept_anew() {
    let mut ended = EndedApplications::new(10);
    ended.keep(rejected("a", 0));
    ended.pass(3 * DAY_NS);
    ended.pass(4 * DAY_NS);
    ended.keep(rejected("a", 4 * DAY_NS));
    ended.keep(rejected("b", 4 * DAY_NS));
    assert_eq!(shown(ended.rejected()), ["a Rejected", "b Rejected"]);
}

#[test]
fn one_more_than_there_may_be_pushes_out_the_oldest() {
    let mut ended = EndedApplications::new(2);
    for id in ["a", "b", "c"] {
        ended.keep(completed(id, 0));
        ended.keep(rejected(id, 0));
    }
    assert_eq!(shown(ended.terminated()), ["b Completed", "c Completed"]);
    assert_eq!(shown(ended.rejected()), ["b Rejected", "c Rejected"]);
    assert_eq!(ended.rejected_by_id.len(), 2);
    let mut none = EndedApplications::new(0);
    none.keep(completed("a", 0));
    none.keep(rejected("a", 0));
    assert_eq!(none.due_ns(), None);
}

#[test]
fn what_is_kept_of_an_application_is_what_it_was_when_it_ended() {
    let new = NewApplication {
        id: Arc::from("a"),
        queue: String::new(),
        user: Arc::from("ada"),
        groups: vec!["dev".to_owned()],
        tags: None,
        placeholder_ask: Resources::new(),
        task_groups: None,
        execution_timeout_ms: None,
        run_limit_ms: None,
        gang_style: GangStyle::Soft,
    };
    let mut application = Application::new(new, Arc::from("root.q"), 1);
    let mut changes = Vec::new();
    // More changes of state than the log can keep.
    application.fire(ApplicationEvent::Run, 2, &mut changes);
    for round in 0..1_000 {
        application.fire(ApplicationEvent::Run, 3 + round, &mut changes);
        application.fire(ApplicationEvent::Complete, 3 + round, &mut changes);
    }
    application.fire(ApplicationEvent::Complete, 5_000, &mut changes);
    let kept = Ended::of(&application);
    assert_eq!(kept.log.len(), 1_000);
    assert_eq!(kept.log.last(), Some(&(5_000, ApplicationState::Completed)));
    assert_eq!((kept.submitted_ns, kept.started_ns, kept.finished_ns), (1, Some(1_002), 5_000));
    assert_eq!((&*kept.id, &*kept.queue, &*kept.user), ("a", "root.q", "ada"));
    assert_eq!((kept.groups, kept.state), (vec!["dev".to_owned()], ApplicationState::Completed));
    assert_eq!(changes.len(), 2_002);
}

#[test]
fn of_an_unchecked_text_the_beginning_is_kept() {
    let text = "é".repeat(TEXT_BYTES);
    let why = Rejection::NotLeaf { id: Arc::from("a"), queue: text.clone() };
    let kept = Ended::rejected(&Arc::from("a"), &text, &text, &[], &why, 0);
    assert_eq!(kept.cure, why.cure(), "it does not depend on the text, which ends early");
    assert_eq!(kept.queue.len(), TEXT_BYTES);
    let rejected = kept.rejected.unwrap();
    assert!((TEXT_BYTES - 1..=TEXT_BYTES).contains(&rejected.len()), "{}", rejected.len());
}

proptest! {
    /// An entry is kept for three to four days, if each deadline is obeyed and the bound does not
    /// displace it.
    #[test]
    fn an_entry_is_seen_for_three_to_four_days(
        ends in prop::collection::vec((0_i64..3 * DAY_NS, any::<bool>(), 0_usize..4), 1..60),
        most in 1_usize..50,
    ) {
        let mut ended = EndedApplications::new(most);
        let mut now_ns = 0;
        let pass_until = |until_ns: i64, ended: &mut EndedApplications| {
            while let Some(due_ns) = ended.due_ns().filter(|due_ns| *due_ns <= until_ns) {
                ended.pass(due_ns);
                prop_assert!(ended.due_ns().is_none_or(|next_ns| next_ns > due_ns));
            }
            Ok(())
        };
        for (wait_ns, is_rejected, id) in ends {
            now_ns += wait_ns;
            pass_until(now_ns, &mut ended)?;
            let id = format!("a{id}");
            ended.keep(if is_rejected { rejected(&id, now_ns) } else { completed(&id, now_ns) });
            for list in [&ended.terminated, &ended.rejected] {
                prop_assert!(list.entries.len() <= most);
                let times = list.entries.values().map(|entry| entry.finished_ns);
                prop_assert!(times.is_sorted());
                let mut states = BTreeMap::new();
                for entry in list.entries.values() {
                    *states.entry(entry.state).or_default() += 1;
                }
                prop_assert_eq!(&list.states, &states);
                // Reading one entry after another, by its number, finds all.
                let (mut read, mut number) = (0, 0);
                while let Some((next, _)) = list.behind(number).next() {
                    prop_assert!(next > number);
                    (read, number) = (read + 1, next);
                }
                prop_assert_eq!(read, list.entries.len());
            }
            for entry in ended.terminated().chain(ended.rejected()) {
                let age_ns = now_ns - entry.finished_ns;
                prop_assert!(age_ns <= 4 * DAY_NS);
                prop_assert_eq!(
                    entry.state == ApplicationState::Expired,
                    age_ns >= 3 * DAY_NS
                );
            }
            prop_assert_eq!(ended.rejected_by_id.len(), ended.rejected().count());
            ended = written_and_read(&ended);
        }
        pass_until(now_ns + 4 * DAY_NS, &mut ended)?;
        prop_assert_eq!(ended.terminated().chain(ended.rejected()).count(), 0);
        prop_assert_eq!(ended.due_ns(), None);
    }
}
