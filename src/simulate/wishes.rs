//! Wishes: optional fields of a pod's ask, such as its priority, preemption policy, tags and
//! placement constraint.
//!
//! A trace of a real cluster rarely has them. So they may be columns of the file of pods, or a file
//! of their own with rows for some of the pods.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use monoceros_actors::config::task_groups;
use monoceros_proto::si::v1 as si;

use super::table::{CsvRow, Problems, for_each_row};
use super::trace::Pod;

/// The tag of an ask with its placement constraint in JSON.
const CONSTRAINT_TAG: &str = "monoceros.io/placement-constraint";

/// The columns, all optional.
pub(super) const WISH_COLUMNS: [&str; 5] = [PRIORITY, PREEMPTS, PREEMPTABLE, TAGS, CONSTRAINT];
const PRIORITY: &str = "priority";
const PREEMPTS: &str = "preempts";
const PREEMPTABLE: &str = "preemptable";
const TAGS: &str = "tags";
const CONSTRAINT: &str = "constraint";

/// The wishes of a pod. Absent ones have no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) priority: Option<i32>,
    /// Whether it may preempt others.
    pub(crate) preempts: Option<bool>,
    /// Whether others may preempt it.
    pub(crate) preemptable: Option<bool>,
    pub(crate) tags: BTreeMap<String, String>,
    /// JSON, or empty.
    pub(crate) constraint: String,
}

impl Wishes {
    pub(crate) fn all_tags(&self) -> BTreeMap<String, String> {
        let mut tags = self.tags.clone();
        if !self.constraint.is_empty() {
            tags.insert(CONSTRAINT_TAG.to_owned(), self.constraint.clone());
        }
        tags
    }

    /// Returns the preemption policy of the pod's ask. `all_preempt` is the default for pods
    /// without one.
    pub(crate) fn policy(&self, all_preempt: bool) -> Option<si::PreemptionPolicy> {
        let is_said = all_preempt || self.preempts.is_some() || self.preemptable.is_some();
        is_said.then(|| si::PreemptionPolicy {
            allow_preempt_self: self.preemptable.unwrap_or(true),
            allow_preempt_other: self.preempts.unwrap_or(all_preempt),
        })
    }

    /// Overwrites the wishes that `other` has.
    fn take(&mut self, other: Self) {
        let Self { priority, preempts, preemptable, tags, constraint } = other;
        self.priority = priority.or(self.priority);
        self.preempts = preempts.or(self.preempts);
        self.preemptable = preemptable.or(self.preemptable);
        self.tags.extend(tags);
        if !constraint.is_empty() {
            self.constraint = constraint;
        }
    }
}

/// Parses the wishes of a row. `None` after mistakes.
pub(super) fn of_row(row: &mut CsvRow<'_>) -> Option<Wishes> {
    let (priority, preempts) = (row.priority(PRIORITY), row.yes_or_no(PREEMPTS));
    let (preemptable, tags) = (row.yes_or_no(PREEMPTABLE), row.texts(TAGS));
    let constraint = constraint(row);
    if tags.as_ref().is_some_and(|tags| tags.contains_key(CONSTRAINT_TAG)) {
        row.complain(TAGS, format_args!("`{CONSTRAINT_TAG}` has the column `{CONSTRAINT}`"));
        return None;
    }
    let (preempts, preemptable) = (preempts?, preemptable?);
    Some(Wishes {
        priority: priority?,
        preempts,
        preemptable,
        tags: tags?,
        constraint: constraint?,
    })
}

/// Parses a constraint, which may be empty. `None` after a mistake. Without this check the
/// scheduler would reject the pod in the middle of a replay, and the message would not name the
/// line.
fn constraint(row: &mut CsvRow<'_>) -> Option<String> {
    let text = row.object(CONSTRAINT)?;
    if !text.is_empty()
        && let Err(fault) = task_groups::constraint(&text)
    {
        row.complain(CONSTRAINT, format_args!("is not a placement constraint: {fault}"));
        return None;
    }
    Some(text)
}

/// Reads the file of wishes. They override those in the file of pods.
pub(super) fn parse(file: &Path, text: &[u8], pods: &mut [Pod], problems: &mut Problems) {
    let places = pods.iter().enumerate().map(|(at, pod)| (pod.name.clone(), at));
    let places: HashMap<String, usize> = places.collect();
    let mut without_any = None;
    for_each_row(file, text, (&["name"], &WISH_COLUMNS), problems, |row| {
        if !WISH_COLUMNS.iter().any(|column| row.has(column)) {
            without_any = Some(row.header_line);
        }
        let (name, wishes) = (row.name("name"), of_row(row));
        let Some(name) = name else { return };
        let Some(at) = places.get(&name) else {
            return row.complain("name", format_args!("there is no pod `{name}`"));
        };
        if let Some(wishes) = wishes {
            pods[*at].wishes.take(wishes);
        }
    });
    if let Some(header_line) = without_any {
        let columns = WISH_COLUMNS.map(|column| format!("`{column}`")).join(", ");
        problems.add(file, header_line, None, format_args!("has none of the columns {columns}"));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::read::{parse, parse_with};
    use super::*;

    const MACHINES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,4000,1024,2,T4\n";
    const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                        creation_time,deletion_time,scheduled_time,priority,preempts\n\
                        a,1,1,0,0,,LS,Running,0,1,0,-7,yes\n\
                        b,1,1,0,0,,LS,Running,0,1,0,,\n";

    fn mistakes(wishes: &str) -> String {
        format!("{}\n", parse_with(MACHINES, PODS, wishes).unwrap_err())
    }

    #[test]
    fn the_file_of_wishes_overrides_columns() {
        let wishes = "constraint,name,priority,preemptable,tags\n\
                      \"{\"\"simpleConstraint\"\": {}}\",b,3,no,\"{\"\"app\"\": \"\"web\"\"}\"\n\
                      ,a,,,\n";
        let pods = parse_with(MACHINES, PODS, wishes).unwrap().pods;
        let first = Wishes { priority: Some(-7), preempts: Some(true), ..Wishes::default() };
        assert_eq!(pods[0].wishes, first);
        let second = &pods[1].wishes;
        assert_eq!(
            (second.priority, second.preemptable, second.preempts),
            (Some(3), Some(false), None)
        );
        let tags = second.all_tags();
        assert_eq!(tags["app"], "web");
        assert_eq!(tags["monoceros.io/placement-constraint"], "{\"simpleConstraint\": {}}");
        assert_eq!(tags.len(), 2);
    }

    #[test]
    fn a_policy_is_sent_where_something_is_said() {
        let policy_of = |preempts, preemptable, all| {
            let wishes = Wishes { preempts, preemptable, ..Wishes::default() };
            wishes.policy(all).map(|it| (it.allow_preempt_self, it.allow_preempt_other))
        };
        assert_eq!(policy_of(None, None, false), None);
        assert_eq!(policy_of(None, None, true), Some((true, true)));
        assert_eq!(policy_of(Some(false), None, true), Some((true, false)));
        assert_eq!(policy_of(Some(true), Some(false), false), Some((false, true)));
    }

    #[test]
    fn all_mistakes_have_line_and_column() {
        let wishes = "name,priority,preempts,preemptable,tags,constraint\n\
                      a,high,maybe,2,[1],nonsense\n\
                      c,1,,,,\n\
                      b,2147483648,,,\"{\"\"a\"\": 1}\",[]\n\
                      b,1,,,,\n\
                      a,1,,,\"{\"\"monoceros.io/placement-constraint\"\": \"\"x\"\"}\",\n\
                      a,,,,,\"{\"\"simpleConstraint\"\": {\"\"nodeAffinity\"\": 7}}\"\n";
        expect![[r#"
            the trace has mistakes
            wishes.csv:2: column `priority`: `high` is not a whole number from -2147483648 to 2147483647
            wishes.csv:2: column `preempts`: `maybe` is neither `true` nor `false`
            wishes.csv:2: column `preemptable`: `2` is neither `true` nor `false`
            wishes.csv:2: column `tags`: is not a JSON object of texts: invalid type: sequence, expected a map at line 1 column 0
            wishes.csv:2: column `constraint`: is not a JSON object: expected ident at line 1 column 2
            wishes.csv:3: column `name`: there is no pod `c`
            wishes.csv:4: column `priority`: `2147483648` is not a whole number from -2147483648 to 2147483647
            wishes.csv:4: column `tags`: is not a JSON object of texts: invalid type: integer `1`, expected a string at line 1 column 7
            wishes.csv:4: column `constraint`: is not a JSON object: invalid type: sequence, expected a map at line 1 column 0
            wishes.csv:5: column `name`: `b` is already in line 4
            wishes.csv:6: column `name`: `a` is already in line 2
            wishes.csv:6: column `tags`: `monoceros.io/placement-constraint` has the column `constraint`
            wishes.csv:7: column `name`: `a` is already in line 2
            wishes.csv:7: column `constraint`: is not a placement constraint: key `constraint.simpleConstraint.nodeAffinity` is not known
        "#]].assert_eq(&mistakes(wishes));
    }

    #[test]
    fn a_file_without_pods_or_columns_says_so() {
        let missing = mistakes("pod,priority\na,1\n");
        assert!(
            missing.contains("wishes.csv:1: column `name`: is missing in the header"),
            "{missing}"
        );
        let columns = mistakes("name,prio\na,1\n");
        assert!(columns.contains("wishes.csv:1: has none of the columns"), "{columns}");
        let attributes = "sn,cpu_milli,memory_mib,gpu,model,attributes\nm1,4000,1024,2,T4,zone=a\n";
        let error = parse(attributes, PODS).unwrap_err().to_string();
        assert!(
            error.contains("nodes.csv:2: column `attributes`: is not a JSON object"),
            "{error}"
        );
    }
}
