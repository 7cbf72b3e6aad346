use super::*;
use crate::decide::explain::why::Over;
use crate::limits::Subject;
use crate::values::resources::Limits;

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

fn over(queue: &str, max: i64, used: i64, want: i64) -> Why {
    let max = Limits::of(&[("vcore", max)]);
    let over = Over::of(&max, &vcores(used), &vcores(want)).expect("it does not fit");
    Why::Queue { queue: Arc::from(queue), over }
}

fn lacks(node: &str, short: i64) -> Why {
    let nearest = Some(Nearest { node: Arc::from(node), lacks: vcores(short) });
    let want = vcores(9_000);
    Why::Nodes { lacks: NodeLacks::default(), nearest, drained: None, held: None, want }
}

fn sentence_of(obstacles: &[Why]) -> String {
    sentence(&cure(obstacles))
}

#[test]
fn nothing_in_the_way_needs_no_change() {
    assert_eq!(cure(&[]), [Change::Nothing]);
    assert_eq!(cure(&[Why::Loosened]), [Change::Nothing]);
}

#[test]
fn two_obstacles_need_two_changes_and_time_comes_first() {
    let backs_off = Why::BacksOff { until_ns: 5_000_000_000 };
    let user = Subject::User(Arc::from("ann"));
    let runs = Why::LimitRuns { whose: user, queue: Arc::from("root.a"), running: 3, most: 2 };
    assert_eq!(
        sentence_of(&[over("root.a", 4_000, 5_000, 2_000), runs, backs_off, lacks("n1", 1_000)]),
        "wait until 1970-01-01T00:00:05.0Z; and free 1 core on node n1; and raise the maximum of \
         root.a by 3 cores, or free as much there; and let 2 more applications run: user ann in \
         root.a"
    );
}
