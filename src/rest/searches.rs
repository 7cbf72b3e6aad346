//! Lists that are searched by name: nodes, users and groups.

use axum::http::request::Parts;
use monoceros_actors::snapshot::{GroupSnapshot, NodeSnapshot, UserSnapshot};
use monoceros_actors::{Listed, Page};

use super::endpoints::value;
use super::failures::Failure;
use super::gathered::{Searched, part};
use super::lists::{self, Subject};
use super::replies::EndpointReply;
use super::{Reads, RestEdge, brief};
use crate::reads::Kind;

/// Answers with nodes: all, or those with a text in their id or host name.
pub(super) async fn nodes<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
) -> Result<EndpointReply, Failure> {
    let (is_brief, search) = (brief::is_wanted(request.uri.query()), search(request));
    let subject = subject(Kind::Nodes, &partition, is_brief, search.as_deref());
    let source = edge.source.clone();
    let read = move |page| async move {
        let page = Page { brief: is_brief, ..page };
        let listed = match search {
            Some(text) => found_nodes(&source, &partition, &text, page).await?,
            None => source.nodes(&partition, page).await?,
        };
        Ok(listed.map(|node| brief::node(node, is_brief)))
    };
    lists::list(edge, request, &subject, read).await
}

/// Answers with tracked users: all, or those with a text in their name.
pub(super) async fn users<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
) -> Result<EndpointReply, Failure> {
    let search = search(request);
    let subject = subject(Kind::Users, &partition, false, search.as_deref());
    let source = edge.source.clone();
    let read = move |page| async move {
        match search {
            Some(text) => found_users(&source, &partition, &text, page).await,
            None => Ok(source.users(&partition, page).await?),
        }
    };
    lists::list(edge, request, &subject, read).await
}

/// Answers with tracked groups: all, or those with a text in their name.
pub(super) async fn groups<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
) -> Result<EndpointReply, Failure> {
    let search = search(request);
    let subject = subject(Kind::Groups, &partition, false, search.as_deref());
    let source = edge.source.clone();
    let read = move |page| async move {
        match search {
            Some(text) => found_groups(&source, &partition, &text, page).await,
            None => Ok(source.groups(&partition, page).await?),
        }
    };
    lists::list(edge, request, &subject, read).await
}

/// Returns the text that is searched.
fn search(request: &Parts) -> Option<String> {
    value(request.uri.query(), "search")
}

fn subject(kind: Kind, partition: &str, is_brief: bool, search: Option<&str>) -> Subject {
    match search {
        Some(text) => Subject::which(kind, partition, &brief::values(&["search", text], is_brief)),
        None if is_brief => Subject::which(kind, partition, &brief::values(&[], true)),
        None => Subject::all(kind, partition),
    }
}

async fn found_nodes<S: Reads>(
    source: &S,
    partition: &str,
    text: &str,
    page: Page,
) -> Result<Listed<NodeSnapshot>, Failure> {
    let (mut searched, mut after) = (Searched::new(text, page.limit), page.after);
    loop {
        after = searched.take(source.nodes(partition, part(after, page.brief)).await?);
        if after.is_none() {
            return Ok(searched.listed());
        }
    }
}

async fn found_users<S: Reads>(
    source: &S,
    partition: &str,
    text: &str,
    page: Page,
) -> Result<Listed<UserSnapshot>, Failure> {
    let (mut searched, mut after) = (Searched::new(text, page.limit), page.after);
    loop {
        after = searched.take(source.users(partition, part(after, false)).await?);
        if after.is_none() {
            return Ok(searched.listed());
        }
    }
}

async fn found_groups<S: Reads>(
    source: &S,
    partition: &str,
    text: &str,
    page: Page,
) -> Result<Listed<GroupSnapshot>, Failure> {
    let (mut searched, mut after) = (Searched::new(text, page.limit), page.after);
    loop {
        after = searched.take(source.groups(partition, part(after, false)).await?);
        if after.is_none() {
            return Ok(searched.listed());
        }
    }
}
