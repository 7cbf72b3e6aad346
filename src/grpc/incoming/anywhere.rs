//! Calls of operators in a cluster: what concerns one resource manager (RM) is answered by its
//! owner, and lists are those of all members.
//!
//! # Which RM a call concerns
//! The one that it names, or whose partition it names. A call may leave it out while the whole
//! cluster has one RM.
//!
//! # Lists
//! All members are asked side by side, for a second at most. A member that is silent for its lease,
//! or refuses connections, is not waited for. Members without an answer are named in the metadata
//! `x-monoceros-missing-members`, so that none is left out silently. Lists that are too large
//! together are refused, so memory is bounded.

use std::cmp::{Ordering, Reverse};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use futures::future::{join_all, poll_fn};
use hyper::body::Frame;
use monoceros_actors::partition_name::rm_id;
use monoceros_proto::v1;
use prost::Message;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::Body as HttpBody;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{HeaderMap, HeaderValue, Response};
use tonic::{Code, Status};

use super::measure::text;
use super::shapes::{Method, Shape};
use super::{Common, head};
use crate::grpc::admin::refusal::CallRefusal;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::routing::{
    GATHER_PATIENCE, LISTS_BYTES, MISSING_HEADER, OwnerSource, PassableCall, Route, Routing, TRIES,
    misdirected,
};
use crate::grpc::shared::HEAD_BYTES;
use crate::identity::Identity;

/// Services whose calls may concern one RM.
const SERVICES: [&str; 2] = ["/monoceros.v1.AdminService/", "/monoceros.v1.MetricsService/"];
/// Methods that concern this process, or all that it has, if they name no RM.
const WITHOUT_RM: [&str; 5] =
    ["Shutdown", "GetStateDump", "GetSnapshot", "StreamEvents", "WatchEvents"];
/// Methods that find the members which carry them out by themselves.
const BY_THEMSELVES: [&str; 5] =
    ["ListMembers", "ListClaims", "MoveResourceManager", "DrainMember", "AcceptRestore"];

/// The subject of a call.
enum Subject {
    /// This process.
    Here,
    /// An RM.
    Rm(String),
    /// The lists of all members.
    Sessions,
    Partitions,
}

/// Whether calls of this path may be answered by other members.
pub(super) fn may_go_elsewhere(path: &str) -> bool {
    SERVICES.iter().any(|service| path.starts_with(service))
}

/// Refuses a call of another member about a resource manager that a third one serves.
pub(super) async fn refuse_misdirected(
    routing: Option<&dyn Routing>,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    let refusal = misdirected(routing?, headers).await?;
    Some(Status::from(&refusal).into_http())
}

/// Has a call answered: by this member, which `here` does, by the owner of its RM, or by all
/// members. `here` gets whether its answer is merged with others.
pub(super) async fn answer(
    common: &Common,
    routing: &dyn Routing,
    method: Method,
    call: &PassableCall,
    here: impl AsyncFnOnce(bool) -> Response<Body>,
) -> Response<Body> {
    match subject(common.shapes.shape(method.request), routing, call) {
        Ok(Subject::Here) => here(false).await,
        Ok(Subject::Sessions | Subject::Partitions) if routing.others().is_empty() => {
            here(false).await
        }
        Ok(Subject::Rm(rm_id)) => match by_owner(routing, &rm_id, call).await {
            Some(answer) => answer,
            None => here(false).await,
        },
        Ok(Subject::Sessions) => gathered(routing, call, here(true), merge_sessions).await,
        Ok(Subject::Partitions) => gathered(routing, call, here(true), merge_partitions).await,
        Err(refusal) => Status::from(refusal).into_http(),
    }
}

fn subject(
    shape: &Shape,
    routing: &dyn Routing,
    call: &PassableCall,
) -> Result<Subject, CallRefusal> {
    if BY_THEMSELVES.contains(&call.method()) {
        return Ok(Subject::Here);
    }
    let message = call.message();
    let named = |field: Option<u32>| field.and_then(|field| text(shape, message, field));
    let of_partition = named(shape.partition).filter(|name| name.starts_with('[')).map(rm_id);
    let rm = named(shape.rm).filter(|id| !id.is_empty()).or(of_partition);
    if let Some(rm) = rm {
        return Ok(Subject::Rm(rm.to_owned()));
    }
    match call.method() {
        "ListSessions" => return Ok(Subject::Sessions),
        "ListPartitions" if call.caller().check_read_all().is_ok() => {
            return Ok(Subject::Partitions);
        }
        method if WITHOUT_RM.contains(&method) => return Ok(Subject::Here),
        _ => {}
    }
    Ok(only_rm(routing, call.caller())?.map_or(Subject::Here, Subject::Rm))
}

/// The RM of a call that names none. `None` if this member finds out by itself that there is none,
/// or that the caller is unknown.
pub(super) fn only_rm(
    routing: &dyn Routing,
    caller: &Identity,
) -> Result<Option<String>, CallRefusal> {
    let mut registered = routing.resource_managers();
    match registered.len() {
        0 => Ok(None),
        1 => Ok(Some(registered.remove(0))),
        _ if caller.check_known().is_ok() => Err(CallRefusal::rm_id_missing(&registered, caller)),
        _ => Ok(None),
    }
}

/// The answer of the owner of an RM. `None`: this member has to answer.
async fn by_owner(
    routing: &dyn Routing,
    rm_id: &str,
    call: &PassableCall,
) -> Option<Response<Body>> {
    if call.caller().check_read(rm_id).is_err() {
        // The service refuses the call.
        return None;
    }
    for attempt in 0..=TRIES {
        let remote = match routing.route(rm_id, OwnerSource::of_try(attempt)).await {
            Route::Here => return None,
            Route::Refused(refusal) => return Some(Status::from(&refusal).into_http()),
            Route::To(remote) => remote,
        };
        match call.sent_to_owner(&*remote, rm_id).await {
            Ok(Some(answer)) => return Some(answer),
            Ok(None) => {}
            Err(_) => {
                let member = remote.id().to_owned();
                let refusal = ClaimRefusal::OwnerUnreachable { member };
                return Some(Status::from(&refusal).into_http());
            }
        }
    }
    Some(Status::from(&ClaimRefusal::Contended).into_http())
}

/// The list of all members: that of this one, and of those that answer in time.
async fn gathered(
    routing: &dyn Routing,
    call: &PassableCall,
    here: impl Future<Output = Response<Body>>,
    merge: fn(Vec<Bytes>) -> Result<Vec<u8>, prost::DecodeError>,
) -> Response<Body> {
    let uncompressed = call.uncompressed();
    let others = routing.others();
    let left = AtomicUsize::new(LISTS_BYTES);
    let asked = others.iter().map(|remote| async {
        if remote.is_missing() {
            return Err(NoList::Broken);
        }
        let answer = async {
            let response = uncompressed.sent_to(&**remote).await.map_err(|_| NoList::Broken)?;
            message(response, &left).await
        };
        timeout(GATHER_PATIENCE, answer).await.unwrap_or(Err(NoList::Broken))
    });
    let here = async { message(here.await, &left).await };
    let (here, asked) = tokio::join!(here, join_all(asked));
    let (mut lists, mut missing) = (Vec::new(), Vec::new());
    match here {
        Ok(here) => lists.push(here),
        Err(NoList::Refused(refused)) => return refused,
        Err(NoList::TooLarge) => return too_large("this member"),
        Err(NoList::Broken) => {
            return Status::new(Code::Internal, "a member has sent no list").into_http();
        }
    }
    for (remote, list) in others.iter().zip(asked) {
        match list {
            Ok(list) => lists.push(list),
            Err(NoList::TooLarge) => return too_large(&format!("member `{}`", remote.id())),
            Err(NoList::Refused(_) | NoList::Broken) => missing.push(remote.id()),
        }
    }
    match merge(lists) {
        Ok(merged) => whole(merged.into(), &missing),
        Err(error) => {
            Status::new(Code::Internal, format!("lists do not match: {error}")).into_http()
        }
    }
}

/// Why there is no list of a member.
enum NoList {
    /// The answer is this status.
    Refused(Response<Body>),
    /// It does not fit into what is left of [`LISTS_BYTES`].
    TooLarge,
    /// The answer is no list, or did not come whole and in time.
    Broken,
}

/// Reads the message of a unary answer, whose bytes are taken off `left`.
async fn message(response: Response<Body>, left: &AtomicUsize) -> Result<Bytes, NoList> {
    if response.headers().contains_key(Status::GRPC_STATUS) {
        return Err(NoList::Refused(response));
    }
    let (mut body, mut read) = (response.into_body(), Vec::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        // Trailers say nothing more.
        let Ok(piece) = frame.map_err(|_| NoList::Broken)?.into_data() else { continue };
        let taken = |left: usize| left.checked_sub(piece.len());
        left.fetch_update(Relaxed, Relaxed, taken).map_err(|_| NoList::TooLarge)?;
        read.extend_from_slice(&piece);
    }
    if read.first() != Some(&0) || read.len() < HEAD_BYTES {
        return Err(NoList::Broken);
    }
    let mut message = Bytes::from(read);
    message.advance(HEAD_BYTES);
    Ok(message)
}

/// The answer where the list of one member does not fit.
fn too_large(whose: &str) -> Response<Body> {
    let mebibytes = LISTS_BYTES >> 20;
    Status::from(CallRefusal::ListTooLarge { whose: whose.to_owned(), mebibytes }).into_http()
}

/// Merges lists of sessions. Two members may both show a resource manager that moves: the later
/// session counts.
fn merge_sessions(lists: Vec<Bytes>) -> Result<Vec<u8>, prost::DecodeError> {
    let mut merged = v1::ListSessionsResponse::default();
    for (at, list) in lists.into_iter().enumerate() {
        let list = v1::ListSessionsResponse::decode(list)?;
        if at == 0 {
            merged.scheduler_id = list.scheduler_id;
        }
        merged.sessions.extend(list.sessions);
    }
    let key = |it: &v1::SessionInfo| (it.rm_id.clone(), Reverse(it.session_id));
    merged.sessions.sort_by_cached_key(key);
    merged.sessions.dedup_by(|one, kept| one.rm_id == kept.rm_id);
    Ok(merged.encode_to_vec())
}

fn merge_partitions(lists: Vec<Bytes>) -> Result<Vec<u8>, prost::DecodeError> {
    let mut partitions = Vec::new();
    for list in lists {
        partitions.extend(v1::ListPartitionsResponse::decode(list)?.partitions);
    }
    partitions.sort_by(by_name);
    Ok(v1::ListPartitionsResponse { partitions }.encode_to_vec())
}

/// `default` first, then by name, then by RM.
fn by_name(one: &v1::PartitionInfo, other: &v1::PartitionInfo) -> Ordering {
    let key = |it: &v1::PartitionInfo| (it.name != "default", it.name.clone(), it.rm_id.clone());
    key(one).cmp(&key(other))
}

/// A unary answer, with the members that gave none.
fn whole(message: Bytes, missing: &[&str]) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    let frames = [Frame::data(head(message.len())), Frame::data(message)];
    let frames = frames.into_iter().chain([Frame::trailers(trailers)]).collect();
    let mut response = Response::new(Body::new(Whole(frames)));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    if let Some(missing) = missing_header(missing) {
        response.headers_mut().insert(MISSING_HEADER, missing);
    }
    response
}

/// The header that names members without an answer. `None` if all have answered.
pub(crate) fn missing_header(missing: &[&str]) -> Option<HeaderValue> {
    if missing.is_empty() { None } else { HeaderValue::try_from(missing.join(",")).ok() }
}

/// A body of ready frames.
struct Whole(VecDeque<Frame<Bytes>>);

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use tonic::codegen::http::Request;

    use super::*;
    use crate::grpc::REASON_TRAILER;
    use crate::grpc::incoming::one_message;
    use crate::grpc::routing::Remote;

    /// A member with this list. `None`: it refuses the call.
    #[derive(Clone)]
    struct Member(&'static str, Option<Bytes>);

    impl Member {
        /// A member whose list has so many bytes, and some more.
        fn new(id: &'static str, bytes: usize) -> Self {
            let scheduler_id = "x".repeat(bytes);
            let list = v1::ListSessionsResponse { scheduler_id, sessions: Vec::new() };
            Self(id, Some(list.encode_to_vec().into()))
        }

        fn answer(&self) -> Response<Body> {
            match &self.1 {
                Some(list) => Response::new(Body::new(one_message(list.clone()))),
                None => Status::new(Code::Unavailable, "not now").into_http(),
            }
        }
    }

    impl Remote for Member {
        fn id(&self) -> &str {
            self.0
        }

        fn grpc(&self) -> &str {
            self.0
        }

        fn send(
            &self,
            _: Request<Body>,
            _: &Identity,
        ) -> BoxFuture<'static, Result<Response<Body>, Status>> {
            let answer = self.answer();
            async { Ok(answer) }.boxed()
        }
    }

    struct Others(Vec<Member>);

    impl Routing for Others {
        fn others(&self) -> Vec<Arc<dyn Remote>> {
            self.0.iter().map(|it| Arc::new(it.clone()) as Arc<dyn Remote>).collect()
        }

        fn resource_managers(&self) -> Vec<String> {
            Vec::new()
        }

        fn serves(&self, _: &str) -> bool {
            false
        }

        fn route<'a>(&'a self, _: &'a str, _: OwnerSource) -> BoxFuture<'a, Route> {
            async { Route::Here }.boxed()
        }

        fn claim_owner<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<String>> {
            async { None }.boxed()
        }
    }

    async fn gather(here: &Member, others: Vec<Member>) -> Response<Body> {
        let call = PassableCall::new(&Request::new(()), Bytes::new());
        let here = async { here.answer() };
        gathered(&Others(others), &call, here, merge_sessions).await
    }

    #[tokio::test]
    async fn lists_beyond_the_bound_are_refused() {
        const PART: usize = LISTS_BYTES / 3;
        let member = |id| Member::new(id, PART);
        let silent = Member("c", None);
        let fits = gather(&member("a"), vec![member("b"), silent]).await;
        assert!(!fits.headers().contains_key(Status::GRPC_STATUS));
        assert_eq!(fits.headers().get(MISSING_HEADER).unwrap(), "c");

        for (own, last, whose) in [(PART, 2 * PART, "member `c`"), (4 * PART, 1, "this member")] {
            let others = vec![Member::new("b", 1), Member::new("c", last)];
            let refused = gather(&Member::new("a", own), others).await;
            assert_eq!(refused.headers().get(REASON_TRAILER).unwrap(), "LIMIT_BYTES");
            let status = Status::from_header_map(refused.headers()).unwrap();
            assert_eq!(status.code(), Code::ResourceExhausted);
            let text = format!(
                "the list of {whose} is too large: those of all members may have 64 MiB together"
            );
            assert_eq!(status.message(), text);
        }
    }

    #[test]
    fn lists_are_merged_in_their_order() {
        let partition = |name: &str, rm_id: &str| v1::PartitionInfo {
            name: name.to_owned(),
            rm_id: rm_id.to_owned(),
            ..Default::default()
        };
        let list =
            |partitions| Bytes::from(v1::ListPartitionsResponse { partitions }.encode_to_vec());
        let lists = vec![
            list(vec![partition("default", "b"), partition("gpu", "a")]),
            list(vec![]),
            list(vec![partition("default", "a"), partition("arm", "a")]),
        ];
        let merged = merge_partitions(lists).unwrap();
        let merged = v1::ListPartitionsResponse::decode(&*merged).unwrap().partitions;
        let names: Vec<_> = merged.iter().map(|it| format!("[{}]{}", it.rm_id, it.name)).collect();
        assert_eq!(names, ["[a]default", "[b]default", "[a]arm", "[a]gpu"]);

        let sessions = |scheduler: &str, ids: &[&str]| {
            let session = |id: &&str| v1::SessionInfo { rm_id: (*id).into(), ..Default::default() };
            let sessions = ids.iter().map(session).collect();
            let scheduler_id = scheduler.to_owned();
            Bytes::from(v1::ListSessionsResponse { scheduler_id, sessions }.encode_to_vec())
        };
        let merged = merge_sessions(vec![sessions("x", &["b"]), sessions("y", &["c", "a"])]);
        let merged = v1::ListSessionsResponse::decode(&*merged.unwrap()).unwrap();
        let ids: Vec<_> = merged.sessions.iter().map(|session| &*session.rm_id).collect();
        assert_eq!((&*merged.scheduler_id, &*ids), ("x", &["a", "b", "c"][..]));

        let moved = |session_id| {
            let session = v1::SessionInfo { rm_id: "a".into(), session_id, ..Default::default() };
            let sessions = vec![session];
            let list = v1::ListSessionsResponse { sessions, ..Default::default() };
            Bytes::from(list.encode_to_vec())
        };
        let merged = merge_sessions(vec![moved(3), moved(4), moved(2)]).unwrap();
        let merged = v1::ListSessionsResponse::decode(&*merged).unwrap();
        let ids: Vec<_> = merged.sessions.iter().map(|session| session.session_id).collect();
        assert_eq!(ids, [4], "the owner's");
        assert!(merge_sessions(vec![Bytes::from_static(b"\xff")]).is_err());
    }
}
