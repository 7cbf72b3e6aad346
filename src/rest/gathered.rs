//! Selections and orders of lists that the scheduler does not have itself: the list is read to its
//! end, some rows at a time, and the wanted rows are kept.

use monoceros_actors::snapshot::{ApplicationSnapshot, GroupSnapshot, NodeSnapshot, UserSnapshot};
use monoceros_actors::{Listed, Page, Steps, names};

use super::failures::Failure;

/// Rows that are read at a time.
const ROWS_READ: usize = 1_000;

/// Most rows of a page of waiting applications, which bounds the rows that are kept meanwhile.
const WAITING_MAX: usize = 1_000;

/// Returns the part of a list that is read next, after this id.
pub(super) fn part(after: Option<String>, brief: bool) -> Page {
    Page { after, limit: Some(ROWS_READ), brief, ..Page::default() }
}

/// A row that is found by a part of its names, the first of which is its id.
pub(super) trait Named {
    fn names(&self) -> [&str; 2];
}

impl Named for NodeSnapshot {
    fn names(&self) -> [&str; 2] {
        [&self.node_id, &self.host_name]
    }
}

impl Named for UserSnapshot {
    fn names(&self) -> [&str; 2] {
        [&self.user_name, ""]
    }
}

impl Named for GroupSnapshot {
    fn names(&self) -> [&str; 2] {
        [&self.group_name, ""]
    }
}

/// The rows with a text in their names, in the order of the list.
pub(super) struct Searched<T> {
    /// In lower case, and not empty.
    text: String,
    limit: usize,
    rows: Vec<T>,
    next: Option<String>,
    steps: Option<Steps>,
}

impl<T: Named> Searched<T> {
    /// Starts a search for a page of at most `limit` rows.
    pub(super) fn new(text: &str, limit: Option<usize>) -> Self {
        let (text, limit) = (text.to_lowercase(), limit.unwrap_or(usize::MAX));
        Self { text, limit, rows: Vec::new(), next: None, steps: None }
    }

    /// Takes a part of the list. Returns the id after which the next part begins; `None` if no
    /// further part is needed.
    pub(super) fn take(&mut self, part: Listed<T>) -> Option<String> {
        self.steps = Some(joined(self.steps, part.steps));
        for row in part.rows {
            let text = self.text.as_str();
            let is_found = row.names().iter().any(|name| name.to_lowercase().contains(text));
            if !is_found {
                continue;
            }
            if self.rows.len() >= self.limit {
                self.next = self.rows.last().map(|last| last.names()[0].to_owned());
                return None;
            }
            self.rows.push(row);
        }
        part.next
    }

    /// Returns the page that was found.
    pub(super) fn listed(self) -> Listed<T> {
        let Self { rows, next, steps, .. } = self;
        Listed { rows, next, steps: steps.unwrap_or_default() }
    }
}

/// The live applications with pending requests, the oldest submission first.
pub(super) struct Waiting {
    /// The position after which the page begins.
    after: Option<(i64, String)>,
    limit: usize,
    rows: Vec<ApplicationSnapshot>,
    has_more: bool,
    steps: Option<Steps>,
}

impl Waiting {
    /// Starts a page; a page without limit has [`WAITING_MAX`] rows.
    pub(super) fn new(page: &Page) -> Result<Self, Failure> {
        let after = page.after.as_deref().map(position).transpose()?;
        let limit = page.limit.unwrap_or(WAITING_MAX).min(WAITING_MAX);
        Ok(Self { after, limit, rows: Vec::new(), has_more: false, steps: None })
    }

    /// Takes a part of the list by id. Returns the id after which the next part begins.
    pub(super) fn take(&mut self, part: Listed<ApplicationSnapshot>) -> Option<String> {
        self.steps = Some(joined(self.steps, part.steps));
        let after = self.after.as_ref().map(|(time, id)| (*time, id.as_str()));
        let is_wanted = |row: &ApplicationSnapshot| {
            !row.requests.is_empty() && after.is_none_or(|after| age(row) > after)
        };
        self.rows.extend(part.rows.into_iter().filter(is_wanted));
        self.rows.sort_unstable_by(|a, b| age(a).cmp(&age(b)));
        self.has_more |= self.rows.len() > self.limit;
        self.rows.truncate(self.limit);
        part.next
    }

    /// Returns the page.
    pub(super) fn listed(self) -> Listed<ApplicationSnapshot> {
        let Self { rows, has_more, steps, .. } = self;
        let last = rows.last().filter(|_| has_more);
        let next = last.map(|row| format!("{}.{}", row.submission_time, row.application_id));
        Listed { rows, next, steps: steps.unwrap_or_default() }
    }
}

/// Returns the position of an application in the order of submissions.
fn age(row: &ApplicationSnapshot) -> (i64, &str) {
    (row.submission_time, row.application_id.as_str())
}

/// Parses a position in the order of submissions: `NANOSECONDS.ID`.
fn position(text: &str) -> Result<(i64, String), Failure> {
    let parts = text.split_once('.');
    let position = parts.and_then(|(time, id)| Some((time.parse::<i64>().ok()?, id.to_owned())));
    position.ok_or_else(|| Failure::After(names::shown(text)))
}

/// Returns the steps of a read that consists of several.
fn joined(before: Option<Steps>, next: Steps) -> Steps {
    Steps { last: next.last, ..before.unwrap_or(next) }
}

#[cfg(test)]
mod tests {
    use monoceros_actors::snapshot::AskSnapshot;

    use super::*;

    fn steps(first: u64, last: u64) -> Steps {
        Steps { partition: 1, first, last }
    }

    fn nodes(ids: &[(&str, &str)], next: Option<&str>, at: u64) -> Listed<NodeSnapshot> {
        let node = |(id, host): &(&str, &str)| NodeSnapshot {
            node_id: (*id).to_owned(),
            host_name: (*host).to_owned(),
            ..NodeSnapshot::default()
        };
        let rows = ids.iter().map(node).collect();
        Listed { rows, next: next.map(str::to_owned), steps: steps(at, at) }
    }

    #[test]
    fn a_search_ends_once_its_page_is_full() {
        let parts = || {
            [
                nodes(&[("a1", ""), ("b1", "HOST-A")], Some("b1"), 3),
                nodes(&[("b2", "x"), ("bA", "")], None, 5),
            ]
        };
        for (limit, expected, next) in [
            (None, vec!["a1", "b1", "bA"], None),
            (Some(3), vec!["a1", "b1", "bA"], None),
            (Some(2), vec!["a1", "b1"], Some("b1")),
            (Some(1), vec!["a1"], Some("a1")),
        ] {
            let mut searched = Searched::new("A", limit);
            for part in parts() {
                if searched.take(part).is_none() {
                    break;
                }
            }
            let listed = searched.listed();
            let ids: Vec<&str> = listed.rows.iter().map(|row| row.node_id.as_str()).collect();
            assert_eq!(ids, expected, "{limit:?}");
            assert_eq!(listed.next.as_deref(), next, "{limit:?}");
            let last = if limit == Some(1) { 3 } else { 5 };
            assert_eq!(listed.steps, steps(3, last), "{limit:?}");
        }
    }

    fn application(id: &str, submission_time: i64, asks: usize) -> ApplicationSnapshot {
        ApplicationSnapshot {
            application_id: id.to_owned(),
            submission_time,
            requests: vec![AskSnapshot::default(); asks],
            ..ApplicationSnapshot::default()
        }
    }

    /// Returns the ids of a page, and the position of the next one.
    fn waiting(after: Option<String>, limit: Option<usize>) -> (Vec<String>, Option<String>) {
        let page = Page { after, limit, ..Page::default() };
        let mut waiting = Waiting::new(&page).unwrap();
        let first = vec![application("a", 9, 1), application("b", 3, 0), application("c", 5, 2)];
        let second = vec![application("d.1", 5, 1), application("e", 1, 1)];
        let next = Some("c".to_owned());
        assert_eq!(waiting.take(Listed { rows: first, next, steps: steps(2, 2) }).unwrap(), "c");
        assert!(waiting.take(Listed { rows: second, next: None, steps: steps(4, 4) }).is_none());
        let listed = waiting.listed();
        assert_eq!(listed.steps, steps(2, 4));
        (listed.rows.into_iter().map(|row| row.application_id).collect(), listed.next)
    }

    #[test]
    fn those_that_wait_are_listed_by_submission() {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(waiting(None, None), (owned(&["e", "c", "d.1", "a"]), None));
        let (rows, next) = waiting(None, Some(3));
        assert_eq!((rows, next.as_deref()), (owned(&["e", "c", "d.1"]), Some("5.d.1")));
        assert_eq!(waiting(next, Some(3)), (owned(&["a"]), None));
    }

    #[test]
    fn a_position_is_a_time_and_an_id() {
        for wrong in ["", "a", "x.a"] {
            let page = Page { after: Some(wrong.to_owned()), ..Page::default() };
            assert!(Waiting::new(&page).is_err(), "{wrong}");
        }
    }
}
