//! Tests the example of `docs/limits.md`.

use std::sync::Arc;

use monoceros_rules::limits::{Joined, Trackers};
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::Resources;

use super::super::parse;

const PAGE: &str = include_str!("../../../../docs/limits.md");

#[test]
fn the_documented_example_is_true() {
    let text = PAGE.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let root = parse(text).unwrap().partitions.remove(0).root;
    let mut trackers = Trackers::new(&root);
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows: Vec<Vec<&str>> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 7);
    let mut joined = Vec::new();
    for row in &rows {
        let [id, owner, groups, queue, holds, ..] = row[..] else { panic!("{row:?}") };
        let groups: Vec<String> = groups.split_whitespace().map(str::to_owned).collect();
        let [id, owner, queue]: [Arc<str>; 3] = [id, owner, queue].map(Arc::from);
        let application = trackers.join(&owner, &groups, &id, &queue);
        let holds: i64 = holds.parse().unwrap();
        if holds > 0 {
            trackers.charge(
                application.lane,
                &Resources::of(&[("vcore", holds * 1000)]),
                Loosening::NONE,
            );
            trackers.start(application.lane, &id);
        }
        joined.push(application);
    }
    for (row, Joined { lane, group }) in rows.iter().zip(joined) {
        let left = trackers.headroom(lane).to_string();
        let may_start = if trackers.may_start(lane) { "yes" } else { "no" };
        assert_eq!(row[5], group.as_deref().unwrap_or_default(), "{row:?}");
        assert_eq!(format!("map[vcore:{}000]", row[6]), left, "{row:?}");
        assert_eq!(row[7], may_start, "{row:?}");
    }
}
