//! The way of calls to the member of a cluster that serves their resource manager.
//!
//! A registration is tried here first; the claim says which member it has to go to
//! ([`PassableCall`]). A stream goes to the member that the claim names ([`Routing`]). What another
//! member answers goes to the client as it came.
//!
//! # Members that have just lost a resource manager
//! A request that is passed on names its resource manager (`name_rm`). A member that does not
//! serve that one reads the claim, and answers `NOT_OWNER` if it names another member
//! (`misdirected`). The first member then reads the claim, too, and passes the request on again.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::CONTENT_LENGTH;
use tonic::codegen::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, Version,
};

use super::end::ClaimRefusal;
use super::incoming::one_message;
use super::{FORWARDED_RM_HEADER, REASON_TRAILER, REDIRECT_HEADER};
use crate::identity::Identity;
use crate::locked::locked;

/// Time within which other members have to answer where all are asked.
pub(crate) const GATHER_PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes of the lists of all members together.
pub(crate) const LISTS_BYTES: usize = 64 << 20;
/// Reason of a member that does not serve the resource manager.
pub(super) const NOT_OWNER: &str = "NOT_OWNER";
/// Reason of a member that ends or is drained.
const SHUTTING_DOWN: &str = "SHUTTING_DOWN";
/// Other reasons of a member that a third one need not have.
const NOT_NOW: [&str; 3] = ["MEMBER_FENCED", "CLAIM_CONTENDED", "ARBITER_UNAVAILABLE"];
/// Number of times that the claim is read again because the member that it named does not serve the
/// resource manager.
pub(crate) const TRIES: usize = 3;
/// Header of an answer with the lists of all members: ids of those that gave none, with commas.
pub const MISSING_HEADER: &str = "x-monoceros-missing-members";

/// The other members of the cluster, and what they serve.
pub trait Routing: Send + Sync {
    /// The other members that live, as far as is known here.
    fn others(&self) -> Vec<Arc<dyn Remote>>;

    /// Whether this member has the incarnation with this text now.
    fn is_incarnation(&self, _incarnation: &str) -> bool {
        true
    }

    /// The ids of all resource managers that a member serves, as far as is known here.
    fn resource_managers(&self) -> Vec<String>;

    /// Whether this member serves the resource manager now.
    fn serves(&self, rm_id: &str) -> bool;

    /// Finds the member for calls of a resource manager.
    fn route<'a>(&'a self, rm_id: &'a str, source: OwnerSource) -> BoxFuture<'a, Route>;

    /// The id of the member that the claim of a resource manager names, by one read now. `None`:
    /// nobody, or the arbiter does not answer.
    fn claim_owner<'a>(&'a self, rm_id: &'a str) -> BoxFuture<'a, Option<String>>;
}

/// Source from which the owner of a resource manager is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerSource {
    /// The claims that the last renewal read, and registrations since. The claim is read now if
    /// they name no owner that answers pings.
    LastRenewal,
    /// The claim, read now: the member that was asked before does not serve the resource manager.
    ReadNow,
}

impl OwnerSource {
    /// The source for a try with this number, 0 for the first one.
    pub(crate) fn of_try(number: usize) -> Self {
        if number == 0 { Self::LastRenewal } else { Self::ReadNow }
    }
}

/// The member for calls of a resource manager.
pub enum Route {
    /// This member: it serves the resource manager, or nobody does.
    Here,
    /// Another member.
    To(Arc<dyn Remote>),
    /// No call can be made.
    Refused(ClaimRefusal),
}

/// Another member of the cluster.
pub trait Remote: Send + Sync {
    /// Its id.
    fn id(&self) -> &str;

    /// The address of its gRPC edge for clients.
    fn grpc(&self) -> &str;

    /// Whether it is known not to answer now. Lists do not wait for it.
    fn is_missing(&self) -> bool {
        false
    }

    /// Sends a request that is made for `caller`. Fails if the member does not answer; it may have
    /// received the request all the same.
    fn send(
        &self,
        request: Request<Body>,
        caller: &Identity,
    ) -> BoxFuture<'static, Result<Response<Body>, Status>>;
}

/// How another member answered a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It did what was asked.
    Accepted,
    /// It refused the call.
    Refused,
    /// It refused the call because it ends or is drained.
    Leaving,
    /// It refused the call for another reason that a third member need not have: it is fenced, is
    /// busy with the resource manager, or does not reach the arbiter.
    NotNow,
    /// It does not serve the resource manager.
    AtNoOwner,
}

/// A unary call that can be made at another member in place of this one.
#[derive(Clone)]
pub struct PassableCall(Arc<Passable>);

struct Passable {
    uri: Uri,
    headers: HeaderMap,
    message: Bytes,
    caller: Identity,
    /// The answer of another member.
    answer: Mutex<Option<Response<Body>>>,
}

impl PassableCall {
    /// A call with this one message, uncompressed.
    pub(super) fn new<B>(request: &Request<B>, message: Bytes) -> Self {
        let (uri, mut headers) = (request.uri().clone(), request.headers().clone());
        headers.remove(CONTENT_LENGTH);
        headers.remove(FORWARDED_RM_HEADER);
        let caller = Identity::of(request.extensions());
        Self(Arc::new(Passable { uri, headers, message, caller, answer: Mutex::default() }))
    }

    /// Whether the client wants the address of the other member in place of its answer.
    pub fn wants_redirect(&self) -> bool {
        wants_redirect(&self.0.headers)
    }

    /// The message.
    pub(super) fn message(&self) -> &Bytes {
        &self.0.message
    }

    /// The name of the method, without its service.
    pub(super) fn method(&self) -> &str {
        self.0.uri.path().rsplit('/').next().unwrap_or_default()
    }

    /// The caller.
    pub(super) fn caller(&self) -> &Identity {
        &self.0.caller
    }

    /// The same call, for an answer without compression.
    pub(super) fn uncompressed(&self) -> Self {
        let Passable { uri, headers, message, caller, .. } = &*self.0;
        let (uri, mut headers) = (uri.clone(), headers.clone());
        headers.remove(ACCEPT_ENCODING);
        let (message, caller) = (message.clone(), caller.clone());
        Self(Arc::new(Passable { uri, headers, message, caller, answer: Mutex::default() }))
    }

    /// Makes the call at another member, and returns its answer.
    pub(super) async fn sent_to(&self, remote: &dyn Remote) -> Result<Response<Body>, Status> {
        self.send(remote, self.0.headers.clone()).await
    }

    /// Makes the call at the member that serves the resource manager, and returns its answer.
    /// `None`: the member does not serve it.
    pub(super) async fn sent_to_owner(
        &self,
        remote: &dyn Remote,
        rm_id: &str,
    ) -> Result<Option<Response<Body>>, Status> {
        let mut headers = self.0.headers.clone();
        name_rm(&mut headers, rm_id);
        let response = self.send(remote, headers).await?;
        Ok(Some(response).filter(|response| !is_not_owner(response)))
    }

    async fn send(
        &self,
        remote: &dyn Remote,
        headers: HeaderMap,
    ) -> Result<Response<Body>, Status> {
        let Passable { uri, message, caller, .. } = &*self.0;
        let body = Body::new(one_message(message.clone()));
        remote.send(request_to(uri, headers, body), caller).await
    }

    /// Makes the call at another member, and keeps its answer unless that is
    /// [`Made::AtNoOwner`]. Fails if there is no answer within `patience`: a member that answers
    /// pings may have lost the call all the same.
    pub async fn make_at(&self, remote: &dyn Remote, patience: Duration) -> Result<Made, Status> {
        let answered = timeout(patience, self.sent_to(remote)).await;
        let response = answered.map_err(|_| {
            let (member, method) = (remote.id(), self.method());
            Status::deadline_exceeded(format!("no answer of member `{member}` to {method}"))
        })??;
        if is_not_owner(&response) {
            return Ok(Made::AtNoOwner);
        }
        let made = if has_reason(&response, SHUTTING_DOWN) {
            Made::Leaving
        } else if NOT_NOW.iter().any(|reason| has_reason(&response, reason)) {
            Made::NotNow
        } else if is_refusal(&response) {
            Made::Refused
        } else {
            Made::Accepted
        };
        *locked(&self.0.answer) = Some(response);
        Ok(made)
    }

    /// Drops the answer of another member, so that this one answers the client.
    pub fn forget_answer(&self) {
        drop(self.take_answer());
    }

    /// The answer of another member, if one has answered.
    pub(super) fn take_answer(&self) -> Option<Response<Body>> {
        locked(&self.0.answer).take()
    }
}

impl fmt::Debug for PassableCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may have a secret of the client.
        f.debug_struct("PassableCall").field("uri", &self.0.uri).finish_non_exhaustive()
    }
}

/// A request to another member.
pub(super) fn request_to(uri: &Uri, headers: HeaderMap, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers;
    request
}

/// Header of the encodings that the client can read.
pub(super) const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Whether the client wants the address of the owner, and no forwarding.
pub(super) fn wants_redirect(headers: &HeaderMap) -> bool {
    headers.get(REDIRECT_HEADER).is_some_and(|value| value == "yes")
}

/// Whether a member refused a call: its answer is a status without a message.
fn is_refusal<B>(response: &Response<B>) -> bool {
    response.headers().get(Status::GRPC_STATUS).is_some_and(|status| status != "0")
}

/// Names the resource manager of a request to another member.
pub(crate) fn name_rm(headers: &mut HeaderMap, rm_id: &str) {
    let rm_id = utf8_percent_encode(rm_id, NON_ALPHANUMERIC).to_string();
    headers.insert(FORWARDED_RM_HEADER, HeaderValue::try_from(rm_id).expect("letters and digits"));
}

/// The resource manager that a request of another member names.
pub(super) fn named_rm(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    percent_decode(headers.get(FORWARDED_RM_HEADER)?.as_bytes()).decode_utf8().ok()
}

/// Why a request of another member is not answered here: another member serves the resource
/// manager that it names. `None` also if nobody does, so that this member says so.
pub(super) async fn misdirected(
    routing: &dyn Routing,
    headers: &HeaderMap,
) -> Option<ClaimRefusal> {
    let rm_id = named_rm(headers)?;
    if routing.serves(&rm_id) {
        return None;
    }
    let member = match routing.route(&rm_id, OwnerSource::ReadNow).await {
        Route::Here => return None,
        Route::To(remote) => remote.id().to_owned(),
        Route::Refused(_) => "another".to_owned(),
    };
    Some(ClaimRefusal::NotOwner { member, owner: None })
}

/// Whether a member answered that it does not serve the resource manager.
pub(crate) fn is_not_owner<B>(response: &Response<B>) -> bool {
    has_reason(response, NOT_OWNER)
}

fn has_reason<B>(response: &Response<B>, reason: &str) -> bool {
    response.headers().get(REASON_TRAILER).is_some_and(|value| value == reason)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::Instant;
    use tonic::Code;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A member that answers no call.
    struct Silent;

    impl Remote for Silent {
        fn id(&self) -> &'static str {
            "m3"
        }

        fn grpc(&self) -> &'static str {
            "m3:50051"
        }

        fn send(
            &self,
            _: Request<Body>,
            _: &Identity,
        ) -> BoxFuture<'static, Result<Response<Body>, Status>> {
            std::future::pending().boxed()
        }
    }

    /// A member that answers each call with these headers.
    struct Answering(Vec<(&'static str, &'static str)>);

    impl Remote for Answering {
        fn id(&self) -> &'static str {
            "m2"
        }

        fn grpc(&self) -> &'static str {
            "m2:50051"
        }

        fn send(
            &self,
            _: Request<Body>,
            _: &Identity,
        ) -> BoxFuture<'static, Result<Response<Body>, Status>> {
            let mut response = Response::new(Body::empty());
            for (name, value) in &self.0 {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            async { Ok(response) }.boxed()
        }
    }

    #[tokio::test]
    async fn a_refusal_of_another_member_is_no_accepted_call() {
        for (headers, expected) in [
            (vec![], Made::Accepted),
            (vec![("grpc-status", "0")], Made::Accepted),
            (vec![("grpc-status", "7")], Made::Refused),
            (vec![("grpc-status", "14"), (REASON_TRAILER, "SHUTTING_DOWN")], Made::Leaving),
            (vec![("grpc-status", "14"), (REASON_TRAILER, "CLAIM_CONTENDED")], Made::NotNow),
            (vec![("grpc-status", "14"), (REASON_TRAILER, "OWNER_UNREACHABLE")], Made::Refused),
            (vec![("grpc-status", "14"), (REASON_TRAILER, "NOT_OWNER")], Made::AtNoOwner),
        ] {
            let call = PassableCall::new(&Request::new(()), Bytes::new());
            assert_eq!(call.make_at(&Answering(headers), PATIENCE).await.unwrap(), expected);
            assert_eq!(call.take_answer().is_some(), expected != Made::AtNoOwner);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_never_answers_has_not_made_the_call() {
        let request = Request::builder().uri("/si.Scheduler/Register").body(()).unwrap();
        let call = PassableCall::new(&request, Bytes::new());
        let begun = Instant::now();
        let status = call.make_at(&Silent, PATIENCE).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(status.message(), "no answer of member `m3` to Register");
        assert!(begun.elapsed() < PATIENCE * 2, "{:?}", begun.elapsed());
        assert!(call.take_answer().is_none());
    }
}
