//! Surveys of one partition: sent to it, and answered. A list is read in slices, each when the one
//! before has been answered, so that decisions are made in between.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::api::listing::{Listed, Page, Steps};
use crate::api::outcomes::ReadError;
use crate::front::rosters::PartitionEntry;
use crate::partition::surveys::{List, Named, Read, ReadOn, ReadSlice, Slice, Sliced};
use crate::step::Survey;

/// Has a partition run a survey, and waits for the answer that the survey sends.
pub(super) async fn ask<T, S: Survey>(
    entry: &PartitionEntry,
    survey: impl FnOnce(oneshot::Sender<T>) -> S,
) -> Result<T, ReadError> {
    let (reply, answer) = oneshot::channel();
    entry.mailbox.post(Read(Box::new(survey(reply))));
    answer.await.map_err(|_| ReadError::PartitionNotFound(entry.name.to_string()))
}

/// All rows of a list.
pub(super) async fn whole<L: List, T>(
    entry: &PartitionEntry,
    list: L,
    shown: impl Fn(L::Row) -> T,
) -> Result<Listed<T>, ReadError> {
    let (rows, _, steps) = slices(entry, list, None, None, shown).await?.unwrap_or_default();
    Ok(Listed { rows, next: None, steps })
}

/// A page of a list whose rows have names. `None`: the object of the list, such as a queue, does not
/// exist.
pub(super) async fn by_name<L: List<At: Named>, T>(
    entry: &PartitionEntry,
    list: L,
    page: Page,
    shown: impl Fn(L::Row) -> T,
) -> Result<Option<Listed<T>>, ReadError> {
    let after = page.after.map(|name| L::At::behind(Arc::from(name)));
    let read = slices(entry, list, after, page.limit, shown).await?;
    Ok(read.map(|(rows, next, steps)| {
        let next = next.map(|at: L::At| at.name().to_string());
        Listed { rows, next, steps }
    }))
}

/// Rows, the position after which the next page begins, and the steps between which they were read.
type Rows<T, A> = (Vec<T>, Option<A>, Steps);

/// Reads a list after a position, up to a number of rows. `None`: the object of the list does not
/// exist.
pub(super) async fn slices<L: List, T>(
    entry: &PartitionEntry,
    list: L,
    after: Option<L::At>,
    limit: Option<usize>,
    shown: impl Fn(L::Row) -> T,
) -> Result<Option<Rows<T, L::At>>, ReadError> {
    let limit = limit.unwrap_or(usize::MAX).max(1);
    // The last row may continue in the next slice.
    let (mut rows, mut open): (_, Option<L::Row>) = (Vec::new(), None);
    let Some(mut slice) = first(entry, list.clone(), after, limit).await? else { return Ok(None) };
    let mut steps = Steps { partition: slice.incarnation, first: slice.step, last: slice.step };
    loop {
        steps.last = slice.step;
        for row in slice.rows {
            let next = match &mut open {
                Some(open) => L::join(open, row),
                None => Some(row),
            };
            let Some(next) = next else { continue };
            let Some(whole) = open.replace(next) else { continue };
            let at_end = L::behind_all_of(&whole);
            rows.push(shown(whole));
            if rows.len() == limit {
                // Another row was read, so there is a next page.
                return Ok(Some((rows, Some(at_end), steps)));
            }
        }
        let next = match slice.behind {
            // One more than needed, to know whether there is a next page.
            Some(behind) => {
                let most = limit.saturating_sub(rows.len());
                next(entry, list.clone(), behind, most.saturating_add(1)).await?
            }
            None => None,
        };
        // Without a next slice, the list is at its end, or its object has been removed.
        let Some(next) = next else {
            rows.extend(open.map(&shown));
            return Ok(Some((rows, None, steps)));
        };
        slice = next;
    }
}

/// The first slice of a list, of up to `limit` rows and one more.
pub(super) async fn first<L: List>(
    entry: &PartitionEntry,
    list: L,
    after: Option<L::At>,
    limit: usize,
) -> Result<Option<Sliced<L>>, ReadError> {
    let (reply, answer) = oneshot::channel();
    let slice = Slice::new(list, after, limit.saturating_add(1), reply);
    entry.mailbox.post(ReadSlice(Box::new(slice)));
    answer.await.map_err(|_| ReadError::PartitionNotFound(entry.name.to_string()))
}

/// The slice of a list after `behind`, of up to `most` rows.
pub(super) async fn next<L: List>(
    entry: &PartitionEntry,
    list: L,
    behind: L::At,
    most: usize,
) -> Result<Option<Sliced<L>>, ReadError> {
    let (reply, answer) = oneshot::channel();
    entry.mailbox.post(ReadOn(Box::new(Slice::new(list, Some(behind), most, reply))));
    answer.await.map_err(|_| ReadError::PartitionNotFound(entry.name.to_string()))
}
