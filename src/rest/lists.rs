//! Documents that are read of a partition: whole, in pages, or not at all where the client has them.
//!
//! A page begins behind the last row of the page before and not at a number, so a row that comes or
//! goes between two pages moves no other one: none is shown twice, and none is skipped.

use std::sync::Arc;

use axum::http::Uri;
use axum::http::request::Parts;
use monoceros_actors::names;
use monoceros_actors::{Listed, Page, Steps};
use serde::Serialize;

use super::documents::{Document, Tag, shows_tags};
use super::endpoints::{Failure, value};
use super::replies::{Class, EndpointReply};
use super::{Reads, RestEdge};

/// Answers with something of a partition, which was read at some steps of it.
pub(super) async fn document<S: Reads, T, F>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: &str,
    read: impl FnOnce() -> F + Send + 'static,
) -> Result<EndpointReply, Failure>
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<(T, Steps), Failure>> + Send + 'static,
{
    if let Some(unchanged) = unchanged(edge, request, partition).await? {
        return Ok(unchanged);
    }
    let (wanted, uri) = (wanted(partition, &request.uri), request.uri.clone());
    let read = || async move {
        let (value, steps) = read().await?;
        let document = Document::json(value).await?;
        Ok(Arc::new(document.read_at(Tag::of(&steps, &uri), steps)))
    };
    let document = edge.joined.read(&wanted, &wanted, read).await?;
    Ok(EndpointReply::shared(Class::Json, document))
}

/// Answers with a list of a partition, or with a page of it.
pub(super) async fn list<S: Reads, T, F>(
    edge: &RestEdge<S>,
    request: &Parts,
    subject: &str,
    partition: &str,
    read: impl FnOnce(Page) -> F + Send + 'static,
) -> Result<EndpointReply, Failure>
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<Listed<T>, Failure>> + Send + 'static,
{
    let page = match page(request.uri.query()) {
        Ok(page) => page,
        Err(failure) => {
            // Of two faults the partition comes first.
            edge.source.steps(partition).await?;
            return Err(failure);
        }
    };
    if let Some(unchanged) = unchanged(edge, request, partition).await? {
        return Ok(unchanged);
    }
    let uri = request.uri.clone();
    let read = || async move {
        let Listed { rows, next, steps } = read(page).await?;
        let mut document = Document::json(rows).await?;
        document.next = next.map(|next| behind(&uri, &next));
        Ok(Arc::new(document.read_at(Tag::of(&steps, &uri), steps)))
    };
    let subject = format!("{subject} of {partition}");
    let document = edge.joined.read(&subject, &wanted(partition, &request.uri), read).await?;
    Ok(EndpointReply::shared(Class::Json, document))
}

/// What is said where the client has the document already.
async fn unchanged<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: &str,
) -> Result<Option<EndpointReply>, Failure> {
    if !shows_tags(request) {
        return Ok(None);
    }
    let steps = edge.source.steps(partition).await?;
    let tag = Tag::of(&steps, &request.uri);
    Ok(tag.is_shown(request).then(|| EndpointReply::not_modified(tag, steps)))
}

/// What says which document is wanted: requests that say the same share it. One name of a partition
/// may mean different ones to different callers, so the one that is meant is part of it.
fn wanted(partition: &str, uri: &Uri) -> String {
    format!("{partition} {}", uri.path_and_query().map_or("", |wanted| wanted.as_str()))
}

fn page(query: Option<&str>) -> Result<Page, Failure> {
    let limit = value(query, "limit").map(|text| match text.parse() {
        Ok(0) | Err(_) => Err(Failure::Limit(names::shown(&text))),
        Ok(limit) => Ok(limit),
    });
    Ok(Page { after: value(query, "after"), limit: limit.transpose()? })
}

/// The page of the same request behind this place.
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
    fn a_page_is_asked_for_by_its_beginning_and_its_length() {
        let page_of = |query| page(Some(query)).map_err(|failure| failure.to_string());
        assert_eq!(page(None).unwrap(), Page::default());
        let after = |after: &str, limit| Ok(Page { after: Some(after.to_owned()), limit });
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
