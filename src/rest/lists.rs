//! Reads of a partition's documents: whole, by page, or not at all if the client has the current
//! document.
//!
//! A page begins after the last row of the page before, not at an offset. So a row that is added or
//! removed between two pages does not shift others: no row is shown twice or skipped.
//!
//! # Invariants
//! * A [`Subject`] contains everything that the endpoint takes from the request. Requests with
//!   equal subjects share one read, one document and one tag.

use std::sync::Arc;

use axum::http::Uri;
use axum::http::request::Parts;
use monoceros_actors::names;
use monoceros_actors::{Listed, Page, Steps};
use serde::Serialize;

use super::documents::{Tag, shows_tags};
use super::endpoints::value;
use super::failures::Failure;
use super::replies::{Class, EndpointReply};
use super::{Reads, RestEdge};
use crate::reads::{Document, Draft, Kind, Made};

/// The subject of a read: a kind of item in a partition, and a selection.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    kind: Kind,
    partition: String,
    which: String,
}

impl Subject {
    /// Selects all items of this kind.
    pub(super) fn all(kind: Kind, partition: &str) -> Self {
        Self { kind, partition: partition.to_owned(), which: String::new() }
    }

    /// Selects by these values of the request. Different values give different subjects.
    pub(super) fn which(kind: Kind, partition: &str, values: &[&str]) -> Self {
        Self { which: format!("{values:?}"), ..Self::all(kind, partition) }
    }

    /// Returns a text that is equal for requests with equal subjects in one partition.
    fn text(&self) -> String {
        format!("{:?} {}", self.kind, self.which)
    }
}

/// Answers with a document without steps, such as one of several partitions.
pub(super) async fn plain<S: Reads, T, F>(
    edge: &RestEdge<S>,
    subject: &Subject,
    read: impl FnOnce() -> F + Send + 'static,
) -> Result<EndpointReply, Failure>
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let read = |_| async move { Ok(json(read().await?).await?.into()) };
    let document = through_door(edge, subject, &subject.text(), read).await?;
    Ok(EndpointReply::shared(Class::Json, document))
}

/// Answers with a document of a partition, read at some of its steps.
pub(super) async fn document<S: Reads, T, F>(
    edge: &RestEdge<S>,
    request: &Parts,
    subject: &Subject,
    read: impl FnOnce() -> F + Send + 'static,
) -> Result<EndpointReply, Failure>
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<(T, Steps), Failure>> + Send + 'static,
{
    let wanted = subject.text();
    if let Some(unchanged) = unchanged(edge, request, subject, &wanted).await? {
        return Ok(unchanged);
    }
    let (source, partition) = (edge.source.clone(), subject.partition.clone());
    let read = move |in_hand| async move {
        if let Some(same) = same(&source, &partition, in_hand).await {
            return Ok(Made::InHand(same));
        }
        let (value, steps) = read().await?;
        Ok(Draft { steps: Some(steps), ..json(value).await? }.into())
    };
    let document = through_door(edge, subject, &wanted, read).await?;
    Ok(EndpointReply::read(document, &wanted, None))
}

/// Answers with a list of a partition, or with a page of it.
pub(super) async fn list<S: Reads, T, F>(
    edge: &RestEdge<S>,
    request: &Parts,
    subject: &Subject,
    read: impl FnOnce(Page) -> F + Send + 'static,
) -> Result<EndpointReply, Failure>
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<Listed<T>, Failure>> + Send + 'static,
{
    let partition = subject.partition.clone();
    let page = match page(request.uri.query()) {
        Ok(page) => page,
        Err(failure) => {
            // If the page is malformed, an unknown partition is reported first.
            edge.source.steps(&partition).await?;
            return Err(failure);
        }
    };
    // Other differences between pages are part of the subject.
    let wanted = format!("{} {:?} {:?}", subject.text(), page.after, page.limit);
    if let Some(unchanged) = unchanged(edge, request, subject, &wanted).await? {
        return Ok(unchanged);
    }
    let source = edge.source.clone();
    let read = move |in_hand| async move {
        if let Some(same) = same(&source, &partition, in_hand).await {
            return Ok(Made::InHand(same));
        }
        let Listed { rows, next, steps } = read(page).await?;
        Ok(Draft { next, steps: Some(steps), ..json(rows).await? }.into())
    };
    let document = through_door(edge, subject, &wanted, read).await?;
    let next = document.next.as_deref().map(|next| behind(&request.uri, next));
    Ok(EndpointReply::read(document, &wanted, next))
}

async fn through_door<S: Reads, F>(
    edge: &RestEdge<S>,
    subject: &Subject,
    wanted: &str,
    read: impl FnOnce(Option<Arc<Document>>) -> F + Send + 'static,
) -> Result<Arc<Document>, Failure>
where
    F: Future<Output = Result<Made, Failure>> + Send + 'static,
{
    edge.joined.read(subject.kind, &subject.partition, wanted, read).await
}

/// Returns the cached document if it was read at one step, and the partition has made no step
/// since.
async fn same<S: Reads>(
    source: &S,
    partition: &str,
    in_hand: Option<Arc<Document>>,
) -> Option<Arc<Document>> {
    let document = in_hand?;
    let read = document.steps.filter(|steps| steps.first == steps.last)?;
    (source.steps(partition).await.ok()? == read).then_some(document)
}

async fn json<T: Serialize + Send + 'static>(value: T) -> Result<Draft, Failure> {
    Draft::json(value).await.map_err(Failure::Document)
}

/// Answers `304` if the client has the current document.
async fn unchanged<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    subject: &Subject,
    wanted: &str,
) -> Result<Option<EndpointReply>, Failure> {
    if !shows_tags(request) {
        return Ok(None);
    }
    let steps = edge.source.steps(&subject.partition).await?;
    let tag = Tag::of(&steps, wanted);
    Ok(tag.is_shown(request).then(|| EndpointReply::not_modified(tag, steps)))
}

fn page(query: Option<&str>) -> Result<Page, Failure> {
    let limit = value(query, "limit").map(|text| match text.parse() {
        Ok(0) | Err(_) => Err(Failure::Limit(names::shown(&text))),
        Ok(limit) => Ok(limit),
    });
    Ok(Page { after: value(query, "after"), limit: limit.transpose()?, ..Page::default() })
}

/// Returns the same request for the page that follows `next`.
fn behind(uri: &Uri, next: &str) -> String {
    let query = uri.query().unwrap_or("");
    let others = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key != "after");
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(others).append_pair("after", next);
    format!("{}?{}", uri.path(), query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_parameters_are_beginning_and_length() {
        let page_of = |query| page(Some(query)).map_err(|failure| failure.to_string());
        assert_eq!(page(None).unwrap(), Page::default());
        let after = |after: &str, limit| {
            Ok(Page { after: Some(after.to_owned()), limit, ..Page::default() })
        };
        assert_eq!(page_of("limit=7&after=a%2Fb+c"), after("a/b c", Some(7)));
        assert_eq!(page_of("after=n1"), after("n1", None));
        assert_eq!(page_of("after=&limit="), Ok(Page::default()));
        for wrong in ["0", "-1", "x"] {
            let query = format!("limit={wrong}");
            let failure = page(Some(&query)).unwrap_err().to_string();
            assert_eq!(failure, format!("limit `{wrong}` is no number of rows (1 or more)"));
        }
    }

    #[test]
    fn the_next_page_is_of_the_same_request() {
        let uri: Uri = "/ws/v1/x/nodes?limit=2&after=a&status=new".parse().unwrap();
        assert_eq!(behind(&uri, "b/ü"), "/ws/v1/x/nodes?limit=2&status=new&after=b%2F%C3%BC");
    }
}
