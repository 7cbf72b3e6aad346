//! Requests in a cluster: what concerns one resource manager (RM) is answered by its owner, and
//! lists are those of all members.
//!
//! # Which member answers
//! A partition that is named as `[rm]name` is read at the owner of the RM. A plain name is looked for
//! here first, and then at all other members side by side, of whose answers the first in the order of
//! their ids counts. The configuration is that of the RM which `rm` names, at its owner. Without `rm`
//! it is that of an RM of this member, or else of the first RM of the cluster.
//!
//! # Lists
//! All members are asked side by side, for a second at most, and their lists are joined
//! (`member_lists`). Lists that are too large together are refused, so memory is bounded.
//!
//! # Silent members
//! A member that is silent for its lease, or refuses connections, is not waited for. Members without an answer, or with one that cannot be read, are named in the header
//! `x-monoceros-missing-members`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HOST, HeaderName,
    IF_NONE_MATCH, TE, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{Method, Request, StatusCode, Uri, Version};
use axum::response::Response;
use futures::future::{BoxFuture, join_all};
use futures::stream::{self, FuturesOrdered};
use futures::{FutureExt as _, StreamExt as _};
use monoceros_actors::partition_name::{plain_name, rm_id};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::warn;

use super::endpoints::value;
use super::failures::Failure;
use super::member_lists::{Form, List, contested, joined};
use super::replies::error_object;
use super::routes::Endpoint;
use super::{Reads, RestEdge, found, readable};
use crate::grpc::end::ClaimRefusal;
use crate::grpc::routing::{
    GATHER_PATIENCE, LISTS_BYTES, MISSING_HEADER, OwnerSource, Remote, Route, Routing, TRIES,
    is_not_owner, name_rm,
};
use crate::grpc::{FORWARDED_HEADER, FORWARDED_RM_HEADER, missing_header};
use crate::identity::Identity;

#[cfg(test)]
mod tests;

/// Claims that are read at a time for RMs in the lists of several members.
const CLAIM_READS: usize = 16;
/// Most bytes of an error object that is looked at.
const ERROR_BYTES: usize = 4 << 10;
/// Headers of a connection, which concern no other one.
const OF_CONNECTION: [HeaderName; 7] =
    [CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TE, TRANSFER_ENCODING, UPGRADE];

/// Answers a request at the members that it concerns.
pub(super) async fn answer<S: Reads>(
    edge: &RestEdge<S>,
    routing: &dyn Routing,
    mut endpoint: Endpoint,
    parts: &Parts,
    caller: &Identity,
    body: Body,
) -> Response {
    let list = match endpoint {
        Endpoint::Partitions | Endpoint::Clusters | Endpoint::NodeUtilizations => Some(Form::Rows),
        Endpoint::Sessions => Some(Form::Sessions),
        _ => None,
    };
    let is_shared = parts.method == Method::GET && !routing.others().is_empty();
    if let Some(form) = list.filter(|_| is_shared) {
        return gathered(edge, routing, endpoint, parts, caller, form).await;
    }
    if endpoint == Endpoint::Config {
        let names = edge.source.partition_names();
        if let Some(response) = configuration(&names, routing, parts, caller).await {
            return response;
        }
    }
    let elsewhere = match endpoint.partition_mut() {
        Some(named) if named.starts_with('[') => {
            let rm = rm_id(named).to_owned();
            at_owner(routing, &rm, parts, caller).await.ok_or_else(Vec::new)
        }
        Some(named) if readable(named, &edge.source.partition_names(), caller).is_ok() => {
            let is_here = edge.source.partition_names().iter().any(|it| is_named(it, named));
            if is_here { Err(Vec::new()) } else { at_any(routing, parts, caller).await }
        }
        Some(_) => at_any(routing, parts, caller).await,
        None => Err(Vec::new()),
    };
    match elsewhere {
        Ok(response) => response,
        Err(silent) => with_silent(found(edge, endpoint, parts, caller, body).await, &silent),
    }
}

/// Whether a partition `[rm]name` has this plain name.
fn is_named(partition: &str, name: &str) -> bool {
    plain_name(partition) == name
}

/// The configuration of an RM that another member serves. `None`: this member, which has these
/// partitions, has to answer.
async fn configuration(
    names: &[String],
    routing: &dyn Routing,
    parts: &Parts,
    caller: &Identity,
) -> Option<Response> {
    if let Some(rm) = value(parts.uri.query(), "rm") {
        return at_owner(routing, &rm, parts, caller).await;
    }
    if names.iter().any(|name| caller.may_read(rm_id(name))) {
        return None;
    }
    let rm = routing.resource_managers().into_iter().find(|rm| caller.may_read(rm))?;
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("rm", &rm).finish();
    let mut parts = parts.clone();
    parts.uri = Uri::try_from(format!("{}?{query}", parts.uri.path())).ok()?;
    at_owner(routing, &rm, &parts, caller).await
}

/// The answer of the owner of an RM. `None`: this member has to answer.
async fn at_owner(
    routing: &dyn Routing,
    rm_id: &str,
    parts: &Parts,
    caller: &Identity,
) -> Option<Response> {
    if caller.check_read(rm_id).is_err() {
        // Refused here.
        return None;
    }
    for attempt in 0..=TRIES {
        let remote = match routing.route(rm_id, OwnerSource::of_try(attempt)).await {
            Route::To(remote) => remote,
            Route::Refused(refusal) => return Some(refused_by(&refusal)),
            Route::Here => return None,
        };
        match send(&*remote, parts, caller, Some(rm_id)).await {
            Some(response) if is_not_owner(&response) => {}
            Some(response) => return Some(response),
            None => {
                let member = remote.id().to_owned();
                return Some(refused_by(&ClaimRefusal::OwnerUnreachable { member }));
            }
        }
    }
    Some(refused_by(&ClaimRefusal::Contended))
}

/// The answer of the first other member that has the partition. `Err`: none has it; names those that
/// did not answer.
async fn at_any(
    routing: &dyn Routing,
    parts: &Parts,
    caller: &Identity,
) -> Result<Response, Vec<String>> {
    let others = routing.others();
    let asked = others.iter().map(|remote| async {
        if remote.is_missing() {
            return (remote.id(), None);
        }
        let answer = timeout(GATHER_PATIENCE, of_partition(&**remote, parts, caller)).await;
        (remote.id(), answer.ok().flatten())
    });
    let mut asked: FuturesOrdered<_> = asked.collect();
    let mut silent = Vec::new();
    while let Some((id, answer)) = asked.next().await {
        match answer {
            Some(Ok(response)) => return Ok(with_silent(response, &silent)),
            Some(Err(NoPartition)) => {}
            None => silent.push(id.to_owned()),
        }
    }
    Err(silent)
}

/// The member has no such partition.
struct NoPartition;

/// The answer of another member about a partition. `None`: it does not answer.
async fn of_partition(
    remote: &dyn Remote,
    parts: &Parts,
    caller: &Identity,
) -> Option<Result<Response, NoPartition>> {
    let response = send(remote, parts, caller, None).await?;
    if response.status() != StatusCode::NOT_FOUND {
        return Some(Ok(response));
    }
    let (head, body) = response.into_parts();
    let body = to_bytes(body, ERROR_BYTES).await.unwrap_or_default();
    let no_partition = Failure::PartitionNotFound.to_string();
    let is_it = body.windows(no_partition.len()).any(|part| part == no_partition.as_bytes());
    Some(if is_it { Err(NoPartition) } else { Ok(Response::from_parts(head, Body::from(body))) })
}

/// The answer with the names of members that gave none.
fn with_silent(mut response: Response, silent: &[String]) -> Response {
    let silent: Vec<_> = silent.iter().map(String::as_str).collect();
    if let Some(silent) = missing_header(&silent) {
        response.headers_mut().insert(MISSING_HEADER, silent);
    }
    response
}

/// Sends a request to another member, which answers only as the owner of `rm_id`, if there is one.
/// `None`: it does not answer.
async fn send(
    remote: &dyn Remote,
    parts: &Parts,
    caller: &Identity,
    rm_id: Option<&str>,
) -> Option<Response> {
    let mut request = Request::new(tonic::body::Body::empty());
    *request.method_mut() = parts.method.clone();
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    for name in OF_CONNECTION {
        request.headers_mut().remove(name);
    }
    request.headers_mut().remove(FORWARDED_RM_HEADER);
    if let Some(rm_id) = rm_id {
        name_rm(request.headers_mut(), rm_id);
    }
    let response = remote.send(request, caller).await.ok()?;
    let (mut head, body) = response.into_parts();
    head.version = Version::HTTP_11;
    Some(Response::from_parts(head, Body::new(body)))
}

fn refused_by(refusal: &ClaimRefusal) -> Response {
    error(StatusCode::SERVICE_UNAVAILABLE, &refusal.to_string())
}

/// The answer to a client that claims to be a member.
pub(super) fn refused() -> Response {
    let text = format!("`{FORWARDED_HEADER}` is for members of the cluster, on their own listener");
    error(StatusCode::FORBIDDEN, &text)
}

fn error(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(error_object(status, text)));
    *response.status_mut() = status;
    response
}

/// Answers with the list of all members.
async fn gathered<S: Reads>(
    edge: &RestEdge<S>,
    routing: &dyn Routing,
    endpoint: Endpoint,
    parts: &Parts,
    caller: &Identity,
    form: Form,
) -> Response {
    let mut plain = parts.clone();
    plain.headers.remove(ACCEPT_ENCODING);
    plain.headers.remove(IF_NONE_MATCH);
    let me = edge.logbook.cluster.operations().map(|operations| operations.member_id());
    let here = found(edge, endpoint, &plain, caller, Body::empty());
    joined_lists(routing, &me.unwrap_or_default(), here, &plain, caller, form).await
}

/// Joins the list of this member, with the id `me`, and those of all others.
async fn joined_lists(
    routing: &dyn Routing,
    me: &str,
    here: impl Future<Output = Response>,
    parts: &Parts,
    caller: &Identity,
    form: Form,
) -> Response {
    let others = routing.others();
    let left = AtomicUsize::new(LISTS_BYTES);
    let asked = others.iter().map(|remote| async {
        if remote.is_missing() {
            return Err(NoList::Silent);
        }
        let answer = async {
            let response = send(&**remote, parts, caller, None).await.ok_or(NoList::Silent)?;
            if response.status() != StatusCode::OK {
                return Err(NoList::Unreadable(format!("status {}", response.status())));
            }
            list_of(response.into_body(), form, &left).await
        };
        timeout(GATHER_PATIENCE, answer).await.unwrap_or(Err(NoList::Silent))
    });
    let (here, asked) = tokio::join!(here, join_all(asked));
    if here.status() != StatusCode::OK {
        return here;
    }
    let (mut head, body) = here.into_parts();
    let own = list_of(body, form, &left).await;
    let (mut lists, mut members, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let ids = [me].into_iter().chain(others.iter().map(|remote| remote.id()));
    for (member, list) in ids.zip([own].into_iter().chain(asked)) {
        match list {
            Ok(list) => {
                lists.push(list);
                members.push(member);
            }
            Err(NoList::TooLarge) => return too_large(member),
            Err(NoList::Unreadable(why)) => {
                warn!(member, why, path = parts.uri.path(), "list of a member left out");
                missing.push(member.to_owned());
            }
            Err(NoList::Silent) => missing.push(member.to_owned()),
        }
    }
    if members.first() != Some(&me) {
        let text = "the list of this member cannot be read: its log says why";
        return error(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    let owners = match form {
        // The first one has the highest session.
        Form::Sessions => contested(&lists).into_iter().map(|(rm, at)| (rm, at[0])).collect(),
        Form::Rows => owners(routing, contested(&lists), &members).await,
    };
    let Ok(whole) = spawn_blocking(move || joined(&lists, &owners)).await else {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "the lists of members cannot be joined");
    };
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(ETAG);
    with_silent(Response::from_parts(head, Body::from(whole)), &missing)
}

/// Returns, for each RM in the lists of several members, the position of the list that counts: that
/// of the member which the claim names, or the first one if it names none of these members.
async fn owners(
    routing: &dyn Routing,
    contested: BTreeMap<String, Vec<usize>>,
    members: &[&str],
) -> BTreeMap<String, usize> {
    let mut owners: BTreeMap<_, _> =
        contested.iter().map(|(rm, lists)| (rm.clone(), lists[0])).collect();
    let mut reads: Vec<BoxFuture<'_, _>> = Vec::new();
    for (rm, lists) in &contested {
        let read = async move {
            let owner = routing.claim_owner(rm).await?;
            let at = lists.iter().find(|at| members.get(**at) == Some(&&*owner))?;
            Some((rm, *at))
        };
        reads.push(read.boxed());
    }
    let mut reads = stream::iter(reads).buffer_unordered(CLAIM_READS);
    let all = async {
        while let Some(read) = reads.next().await {
            if let Some((rm, at)) = read {
                owners.insert(rm.clone(), at);
            }
        }
    };
    // Those that were not read in time keep the first list.
    let _ = timeout(GATHER_PATIENCE, all).await;
    owners
}

/// Why there is no list of a member.
#[derive(Debug)]
enum NoList {
    /// No answer came in time.
    Silent,
    /// The answer is no list, or ended early.
    Unreadable(String),
    /// It does not fit into what is left of [`LISTS_BYTES`].
    TooLarge,
}

/// Reads the list of a member, whose bytes are taken off `left`.
async fn list_of(body: Body, form: Form, left: &AtomicUsize) -> Result<List, NoList> {
    let mut whole = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| NoList::Unreadable(error.to_string()))?;
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(piece.len())
        });
        taken.map_err(|_| NoList::TooLarge)?;
        whole.extend_from_slice(&piece);
    }
    let read = spawn_blocking(move || List::parse(form, whole.into())).await;
    read.unwrap_or_else(|panic| Err(panic.to_string())).map_err(NoList::Unreadable)
}

fn too_large(member: &str) -> Response {
    let text = format!(
        "the list of member `{member}` is too large: those of all members may have {} MiB together",
        LISTS_BYTES >> 20
    );
    error(StatusCode::INSUFFICIENT_STORAGE, &text)
}
