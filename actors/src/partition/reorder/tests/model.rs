//! Compares the buffer with a plain list that is always searched from end to end.

use super::*;
use crate::partition::NewNode;

/// Items in order of arrival.
#[derive(Debug, Default)]
struct Plain(Vec<Waiting>);

#[derive(Clone, Debug)]
enum Step {
    Put(WaitsFor, Item, i64),
    Came(WaitsFor),
    Gone(WaitsFor),
    Expire(i64),
    NodeLeaves(Arc<str>),
    Release(Arc<str>, Op),
}

impl Plain {
    fn take_if(&mut self, wanted: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let (taken, left) = std::mem::take(&mut self.0).into_iter().partition(wanted);
        self.0 = left;
        taken
    }

    fn of_node(&mut self, id: &Arc<str>) -> Vec<Waiting> {
        self.take_if(|waiting| waiting.item.of_node().is_some_and(|(of, _)| of == id))
    }

    fn release(&mut self, application: &Arc<str>, op: &Op) -> (bool, Vec<Existing>, Vec<Waiting>) {
        let (mut any, mut ended, mut free) = (false, Vec::<Existing>::new(), Vec::new());
        let mut left = Vec::new();
        for mut waiting in std::mem::take(&mut self.0) {
            let mut end = |it: &Existing| {
                if ended.iter().all(|known| known.uuid != it.uuid) {
                    ended.push(it.clone());
                }
            };
            match &mut waiting.item {
                Item::Op(of, earlier) if of == application && takes(op, earlier) => {
                    any = true;
                    if let Op::Existing(existing) = earlier {
                        end(existing);
                    }
                    continue;
                }
                Item::Node(node) => {
                    let names = |node: &NewNode| match &waiting.awaited {
                        WaitsFor::Application(id) => node.existing.iter().any(|(of, _)| of == id),
                        WaitsFor::Node(_) => false,
                    };
                    let before = names(node);
                    node.existing.retain(|(of, existing)| {
                        let op_of = Op::Existing(Box::new(existing.clone()));
                        let is_taken = of == application && takes(op, &op_of);
                        if is_taken {
                            any = true;
                            end(existing);
                        }
                        !is_taken
                    });
                    if before && !names(node) {
                        free.push(Arc::clone(&node.id));
                    }
                }
                Item::Op(..) | Item::NodeChange(..) => {}
            }
            left.push(waiting);
        }
        self.0 = left;
        let freed = free.iter().flat_map(|id| self.of_node(id)).collect();
        (any, ended, freed)
    }
}

/// Whether a release ends or withdraws what the order `earlier` reported or asked for.
fn takes(release: &Op, earlier: &Op) -> bool {
    let Some(spec) = earlier.spec() else { return false };
    let uuid = match earlier {
        Op::Existing(existing) => Some(&existing.uuid),
        _ => None,
    };
    match release {
        Op::WithdrawAsks(key) => uuid.is_none() && key.as_ref().is_none_or(|key| *key == spec.key),
        Op::Release { cause, .. } if cause.is_failure_to_start() => false,
        Op::Release { cause: Cause::ConfirmedTimeout, .. } if uuid.is_none() => false,
        Op::Release { which, .. } => match which {
            Which::All => spec.form != Form::Ask,
            Which::Key(key) => *key == spec.key,
            Which::Uuid(name) => match uuid {
                Some(uuid) => uuid == name,
                None => *name == spec.key && spec.form == Form::Unified,
            },
        },
        _ => false,
    }
}

fn id() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c")]
}

fn awaited() -> impl Strategy<Value = WaitsFor> {
    prop_oneof![
        3 => id().prop_map(app),
        1 => id().prop_map(|id| WaitsFor::Node(Arc::from(id))),
    ]
}

fn item() -> impl Strategy<Value = (WaitsFor, Item)> {
    let op = prop_oneof![
        (id(), id()).prop_map(|(of, key)| ask(of, key)),
        (id(), id()).prop_map(|(of, key)| unified(of, key)),
        (id(), id(), id()).prop_map(|(of, key, uuid)| existing(of, key, uuid)),
    ];
    let brought = vec((id(), id(), id()), 1..4);
    prop_oneof![
        4 => (awaited(), op),
        2 => (id(), brought).prop_map(|(id, brought)| (app(brought[0].0), node(id, &brought))),
        1 => (awaited(), id().prop_map(change)),
    ]
}

fn release_of_some() -> impl Strategy<Value = Op> {
    let which = prop_oneof![id().prop_map(by_key), id().prop_map(by_uuid), Just(Which::All)];
    let cause = prop_oneof![
        3 => Just(Cause::Stopped),
        1 => Just(Cause::Failed),
        1 => Just(Cause::ConfirmedReplacement),
        1 => Just(Cause::ConfirmedTimeout),
        1 => Just(Cause::SchedulingFailed),
    ];
    prop_oneof![
        4 => (which, cause).prop_map(|(which, cause)| release(which, cause)),
        1 => proptest::option::of(id()).prop_map(|key| Op::WithdrawAsks(key.map(Arc::from))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (item(), 0..50_i64).prop_map(|((awaited, item), wait)| Step::Put(awaited, item, wait)),
        1 => awaited().prop_map(Step::Came),
        1 => awaited().prop_map(Step::Gone),
        2 => (1..20_i64).prop_map(Step::Expire),
        1 => id().prop_map(|id| Step::NodeLeaves(Arc::from(id))),
        3 => (id(), release_of_some()).prop_map(|(of, op)| Step::Release(Arc::from(of), op)),
    ]
}

proptest! {
    /// For any steps both return the same items in the same order, no item is kept for longer than
    /// it may be, and a caller that obeys the buffer's deadlines checks whenever an item is due.
    #[test]
    fn the_buffer_agrees_with_a_plain_list(steps in vec(step(), 0..60)) {
        let (mut buffer, mut plain) = (buffer(), Plain::default());
        let (mut now, mut armed) = (0, BTreeSet::new());
        for step in steps {
            match step {
                Step::Put(awaited, item, wait) => {
                    armed.extend(buffer.put(awaited.clone(), item.clone(), now + wait));
                    plain.0.push(Waiting { awaited, item, until_ns: now + wait });
                }
                Step::Came(awaited) => {
                    let expected = plain.take_if(|waiting| waiting.awaited == awaited);
                    prop_assert_eq!(shown(&buffer.came(&awaited)), shown(&expected));
                }
                Step::Gone(awaited) => {
                    let expected = plain.take_if(|waiting| waiting.awaited == awaited);
                    prop_assert_eq!(shown(&buffer.gone(awaited)), shown(&expected));
                }
                Step::Expire(after) => {
                    now += after;
                    let mut expired = Vec::new();
                    while armed.first().is_some_and(|due| *due <= now) {
                        let due = armed.pop_first().unwrap_or_default();
                        let (more, next) = buffer.expire(due);
                        expired.extend(more);
                        armed.extend(next);
                    }
                    let mut expected = plain.take_if(|waiting| waiting.until_ns <= now);
                    expected.sort_by_key(|waiting| waiting.until_ns);
                    prop_assert_eq!(shown(&expired), shown(&expected));
                }
                Step::NodeLeaves(id) => {
                    let expected = plain.of_node(&id);
                    prop_assert_eq!(shown(&buffer.take_node(&id)), shown(&expected));
                }
                Step::Release(application, op) => {
                    let ReleasedItems { any, existing, freed } = buffer.release(&application, &op);
                    let (expected_any, ended, expected_freed) = plain.release(&application, &op);
                    prop_assert_eq!(any, expected_any);
                    let uuids = |of: &[Existing]| -> Vec<_> {
                        of.iter().map(|it| (Arc::clone(&it.spec.key), Arc::clone(&it.uuid))).collect()
                    };
                    prop_assert_eq!(uuids(&existing), uuids(&ended));
                    prop_assert_eq!(shown(&freed), shown(&expected_freed));
                }
            }
            prop_assert_eq!(buffer.items.len(), plain.0.len());
            prop_assert_eq!(buffer.waiting.len(), plain.0.len());
            prop_assert_eq!(buffer.due.len(), plain.0.len());
        }
        let mut all = plain.0;
        all.sort_by(|a, b| a.awaited.cmp(&b.awaited));
        prop_assert_eq!(shown(&buffer.take_all()), shown(&all));
        prop_assert!(is_clear(&buffer));
    }
}
