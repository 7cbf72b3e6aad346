//! Requests in a cluster: what concerns one resource manager (RM) is answered by its owner, and
//! lists are those of all members.
//!
//! # Which member answers
//! A partition that is named as `[rm]name` is read at the owner of the RM. A plain name is looked for
//! here first, and then at all other members side by side, of whose answers the first in the order of
//! their ids counts.
//!
//! # Lists
//! All members are asked side by side, for a second at most, and the rows of this member come first.
//!
//! # Silent members
//! Members without an answer are named in the header `x-monoceros-missing-members`.

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HOST, HeaderName,
    IF_NONE_MATCH, TE, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{Method, Request, StatusCode, Version};
use axum::response::Response;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesOrdered;
use monoceros_actors::partition_name::{plain_name, rm_id};
use tokio::time::timeout;

use super::failures::Failure;
use super::replies::error_object;
use super::routes::Endpoint;
use super::{Reads, RestEdge, found, readable};
use crate::grpc::end::ClaimRefusal;
use crate::grpc::routing::{
    GATHER_PATIENCE, MISSING_HEADER, Remote, Route, Routing, TRIES, is_not_owner, name_rm,
};
use crate::grpc::{FORWARDED_HEADER, FORWARDED_RM_HEADER, missing_header};
use crate::identity::Identity;

/// Most bytes of the list of one member.
const LIST_BYTES: usize = 64 << 20;
/// Most bytes of an error object that is looked at.
const ERROR_BYTES: usize = 4 << 10;
/// Headers of a connection, which concern no other one.
const OF_CONNECTION: [HeaderName; 7] =
    [CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TE, TRANSFER_ENCODING, UPGRADE];

/// The part of a list before its rows. The rows follow, then the end.
struct Form {
    beginning: &'static str,
    end: &'static str,
}

/// A list of rows.
const ROWS: Form = Form { beginning: "[", end: "]" };
/// The sessions, which are the last field of their document.
const SESSIONS: Form = Form { beginning: "\"sessions\":[", end: "]}" };

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
        Endpoint::Partitions | Endpoint::Clusters | Endpoint::NodeUtilizations => Some(ROWS),
        Endpoint::Sessions => Some(SESSIONS),
        _ => None,
    };
    if let Some(form) = list.filter(|_| parts.method == Method::GET) {
        return gathered(edge, routing, endpoint, parts, caller, &form).await;
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
        let remote = match routing.route(rm_id, attempt > 0).await {
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

/// The list of all members.
async fn gathered<S: Reads>(
    edge: &RestEdge<S>,
    routing: &dyn Routing,
    endpoint: Endpoint,
    parts: &Parts,
    caller: &Identity,
    form: &Form,
) -> Response {
    let mut plain = parts.clone();
    plain.headers.remove(ACCEPT_ENCODING);
    plain.headers.remove(IF_NONE_MATCH);
    let others = routing.others();
    let asked = others.iter().map(|remote| async {
        let answer = async { rows(send(&**remote, &plain, caller, None).await?, form).await };
        timeout(GATHER_PATIENCE, answer).await.ok().flatten()
    });
    let here = found(edge, endpoint, &plain, caller, Body::empty());
    let (here, asked) = tokio::join!(here, join_all(asked));
    if here.status() != StatusCode::OK {
        return here;
    }
    let missing = others.iter().zip(&asked).filter(|(_, answer)| answer.is_none());
    let missing: Vec<_> = missing.map(|(remote, _)| remote.id().to_owned()).collect();
    let (mut head, body) = here.into_parts();
    let body = to_bytes(body, LIST_BYTES).await.unwrap_or_default();
    let others: Vec<_> = asked.into_iter().flatten().collect();
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(ETAG);
    let merged = Response::from_parts(head, Body::from(merged(body, &others, form)));
    with_silent(merged, &missing)
}

/// The rows of the list of another member. `None`: there is no list.
async fn rows(response: Response, form: &Form) -> Option<Bytes> {
    let is_list = response.status() == StatusCode::OK;
    let body = to_bytes(response.into_body(), LIST_BYTES).await.ok().filter(|_| is_list)?;
    let (_, rows) = split(&body, form)?;
    Some(body.slice_ref(rows))
}

/// Splits a list into the beginning and the rows.
fn split<'b>(body: &'b [u8], form: &Form) -> Option<(&'b [u8], &'b [u8])> {
    let text = body.trim_ascii_end();
    let beginning = form.beginning.as_bytes();
    let at = text.windows(beginning.len()).position(|part| part == beginning)?;
    let (beginning, rows) = text.split_at(at + beginning.len());
    Some((beginning, rows.strip_suffix(form.end.as_bytes())?))
}

/// The list of this member with the rows of others.
fn merged(body: Bytes, others: &[Bytes], form: &Form) -> Bytes {
    let Some((beginning, own)) = split(&body, form) else { return body };
    let all = [own].into_iter().chain(others.iter().map(|rows| &**rows));
    let rows: Vec<_> = all.filter(|rows| !rows.trim_ascii().is_empty()).collect();
    [beginning, &rows.join(&b","[..]), form.end.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use tokio::time::{Duration, Instant, sleep};
    use tonic::Status;

    use super::*;

    /// A member that answers with this status, or never.
    #[derive(Clone)]
    struct Fake(&'static str, Option<StatusCode>);

    impl Remote for Fake {
        fn id(&self) -> &str {
            self.0
        }

        fn grpc(&self) -> &str {
            self.0
        }

        fn send(
            &self,
            _: Request<tonic::body::Body>,
            _: &Identity,
        ) -> BoxFuture<'static, Result<axum::http::Response<tonic::body::Body>, Status>> {
            let Some(status) = self.1 else { return std::future::pending().boxed() };
            async move {
                sleep(GATHER_PATIENCE / 2).await;
                let text = error_object(status, &Failure::PartitionNotFound.to_string());
                let mut response = Response::new(tonic::body::Body::new(Body::from(text)));
                *response.status_mut() = status;
                if status == StatusCode::MISDIRECTED_REQUEST {
                    response.headers_mut().insert("x-si-reason", "NOT_OWNER".parse().unwrap());
                }
                Ok(response)
            }
            .boxed()
        }
    }

    struct Others(Vec<Fake>);

    impl Routing for Others {
        fn has_others(&self) -> bool {
            true
        }

        fn others(&self) -> Vec<Arc<dyn Remote>> {
            self.0.iter().map(|it| Arc::new(it.clone()) as Arc<dyn Remote>).collect()
        }

        fn resource_managers(&self) -> Vec<String> {
            Vec::new()
        }

        fn serves(&self, _: &str) -> bool {
            false
        }

        /// The first member, and the last one after the claim was read.
        fn route<'a>(&'a self, _: &'a str, is_anew: bool) -> BoxFuture<'a, Route> {
            let owner = if is_anew { self.0.last() } else { self.0.first() };
            let route = match owner {
                Some(owner) => Route::To(Arc::new(owner.clone())),
                None => Route::Refused(ClaimRefusal::ArbiterUnavailable),
            };
            async { route }.boxed()
        }
    }

    fn play(story: impl AsyncFnOnce(Parts, Identity)) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let (parts, ()) = Request::new(()).into_parts();
        runtime.block_on(story(parts, Identity::anybody()));
    }

    #[test]
    fn an_owner_that_cannot_be_named_is_no_missing_partition() {
        play(async |parts, caller| {
            let answer = at_owner(&Others(Vec::new()), "rm", &parts, &caller).await.unwrap();
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            let body = to_bytes(answer.into_body(), ERROR_BYTES).await.unwrap();
            let body = String::from_utf8(body.to_vec()).unwrap();
            assert!(body.contains("the arbiter of the cluster does not answer"), "{body}");
        });
    }

    #[test]
    fn a_request_follows_an_rm_that_has_moved() {
        play(async |parts, caller| {
            let (former, owner) = (Some(StatusCode::MISDIRECTED_REQUEST), Some(StatusCode::OK));
            let others = Others(vec![Fake("a", former), Fake("b", owner)]);
            let answer = at_owner(&others, "rm", &parts, &caller).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            let others = Others(vec![Fake("a", former), Fake("b", former)]);
            let answer = at_owner(&others, "rm", &parts, &caller).await.unwrap();
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "it moves all the time");
        });
    }

    #[test]
    fn members_are_asked_for_a_partition_side_by_side() {
        play(async |parts, caller| {
            let begun = Instant::now();
            let (none, ok) = (Some(StatusCode::NOT_FOUND), Some(StatusCode::OK));
            let others = Others(vec![Fake("a", none), Fake("b", None), Fake("c", ok)]);
            let answer = at_any(&others, &parts, &caller).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(answer.headers()[MISSING_HEADER], "b");
            assert!(begun.elapsed() < GATHER_PATIENCE + Duration::from_millis(10));
            let others = Others(vec![Fake("a", none), Fake("b", None), Fake("c", None)]);
            assert_eq!(at_any(&others, &parts, &caller).await.unwrap_err(), ["b", "c"]);
            assert!(begun.elapsed() < 2 * GATHER_PATIENCE + Duration::from_millis(20));
        });
    }

    #[test]
    fn rows_of_all_members_are_one_list() {
        let merge = |own: &'static str, others: &[&'static str], form| {
            let others: Vec<_> =
                others.iter().map(|rows| Bytes::from_static(rows.as_bytes())).collect();
            let merged = merged(Bytes::from_static(own.as_bytes()), &others, form);
            String::from_utf8(merged.to_vec()).unwrap()
        };
        assert_eq!(merge("[]\n", &["", ""], &ROWS), "[]");
        assert_eq!(merge("[{\"a\":[1]}]", &["", "{},{}"], &ROWS), "[{\"a\":[1]},{},{}]");
        assert_eq!(merge("[]", &["{}"], &ROWS), "[{}]");
        let own = "{\"schedulerId\":\"x\",\"sessions\":[{\"rmId\":\"a\"}]}";
        let both = "{\"schedulerId\":\"x\",\"sessions\":[{\"rmId\":\"a\"},{\"rmId\":\"b\"}]}";
        assert_eq!(merge(own, &["{\"rmId\":\"b\"}"], &SESSIONS), both);
        assert_eq!(split(b"{\"error\":1}", &SESSIONS), None);
    }
}
