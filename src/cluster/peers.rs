//! The other members of the cluster, and calls to them.
//!
//! A connection is kept to each member whose record says that it lives (`link`). It is made as soon
//! as a record names the member: that of a renewal, or one that a call has read. A call has the
//! identity of the caller for whom it is made, the name of this member, and the incarnation that it
//! is for. The member that gets it answers it: nothing is forwarded twice. A process of another
//! incarnation at the same address refuses it, which counts as no answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use monoceros_cluster::{Incarnation, Life, MemberRecord, Owner};
use monoceros_cluster_store::Members;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codegen::http::uri::{Authority, PathAndQuery, Scheme};
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response, Uri};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tower::Service;
use tracing::debug;

use super::link::Link;
use super::membership::Membership;
use super::tls::MemberTls;
use crate::grpc::{FORWARDED_HEADER, FORWARDED_TO_HEADER, is_other_incarnation};
use crate::identity::Identity;
use crate::identity::passed::CALLER_HEADER;
use crate::locked::locked;

/// Another member of the cluster.
#[derive(Clone)]
pub struct Peer {
    owner: Owner,
    grpc: String,
    /// `MEMBER/INCARNATION` of this member.
    sender: HeaderValue,
    link: Arc<Link>,
}

/// A channel to another member, for clients of gRPC services and for REST. Calls wait for a
/// connection for at most a second.
#[derive(Clone)]
pub struct Channel {
    owner: Owner,
    link: Arc<Link>,
}

impl Peer {
    /// The id of the member.
    pub fn id(&self) -> &str {
        &self.owner.member.0
    }

    /// The member and its incarnation.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The address of its gRPC edge for clients.
    pub fn grpc(&self) -> &str {
        &self.grpc
    }

    /// A channel for calls to the member.
    pub fn channel(&self) -> Channel {
        Channel { owner: self.owner.clone(), link: Arc::clone(&self.link) }
    }

    /// A request with this message, made for `caller`.
    pub fn request<T>(&self, message: T, caller: &Identity) -> tonic::Request<T> {
        let mut headers = HeaderMap::new();
        self.mark(&mut headers, caller);
        let metadata = MetadataMap::from_headers(headers);
        tonic::Request::from_parts(metadata, tonic::Extensions::default(), message)
    }

    /// Adds the headers of a request that is made for `caller`.
    pub fn mark(&self, headers: &mut HeaderMap, caller: &Identity) {
        mark(headers, self.sender.clone(), &self.owner, caller);
    }

    /// Whether the member answers pings now.
    pub fn answers_pings(&self) -> bool {
        self.link.answers_pings()
    }

    /// Whether the last attempt to connect to the member was refused.
    pub(super) fn refuses(&self) -> bool {
        self.link.refuses()
    }

    /// Whether the member sends anything from now on. Takes 0.3 s at most.
    pub(super) async fn acts(&self) -> bool {
        self.link.acts().await
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("id", &self.id())
            .field("answers_pings", &self.answers_pings())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("to", &self.owner.member.0).finish_non_exhaustive()
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Response<Body>, Status>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Self { owner, link } = self.clone();
        async move {
            let member = &*owner.member.0;
            let unavailable =
                |why: &str| Status::new(Code::Unavailable, format!("member `{member}` {why}"));
            let sender = link.sender().await;
            let mut sender = sender.ok_or_else(|| unavailable("cannot be reached"))?;
            *request.uri_mut() = with_origin(request.uri());
            let answered = sender.send_request(request);
            // A request that meets the end of the connection stays with its senders, and ends with
            // the last of them.
            drop(sender);
            let answered = answered.await;
            let response = answered.map_err(|error| {
                debug!(member, %error, "call of another member without an answer");
                unavailable("does not answer")
            })?;
            if is_other_incarnation(&response) {
                return Err(unavailable("has begun again"));
            }
            Ok(response.map(Body::new))
        }
        .boxed()
    }
}

/// The URI with an origin, which HTTP/2 wants. No member reads it.
fn with_origin(uri: &Uri) -> Uri {
    let mut parts = uri.clone().into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(Authority::from_static("member"));
    parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
    Uri::from_parts(parts).unwrap_or_default()
}

/// The connections to other members.
#[derive(Debug, Default)]
pub(super) struct Links {
    tls: Option<MemberTls>,
    links: Mutex<BTreeMap<Owner, Kept>>,
}

/// The connection to one member.
#[derive(Debug)]
struct Kept {
    address: String,
    link: Arc<Link>,
    /// Whether no renewal has been followed since the connection was made. The next one may have
    /// been read before the member had a record.
    is_new: bool,
}

impl Links {
    pub(super) fn new(tls: Option<MemberTls>) -> Self {
        Self { tls, links: Mutex::default() }
    }

    /// Connects to the members that live and have an address by the read of a renewal, and ends the
    /// connections to all others. A connection that is new ends with the second read only.
    fn follow(&self, members: &Members, me: &Owner) {
        let mut links = locked(&self.links);
        let addresses: BTreeMap<_, _> = members
            .values()
            .map(|record| &record.value)
            .filter(|record| record.life == Life::Alive && record.owner.member != me.member)
            .filter(|record| !record.details.internal.is_empty())
            .map(|record| (&record.owner, &record.details.internal))
            .collect();
        links.retain(|owner, kept| {
            let was_new = std::mem::take(&mut kept.is_new);
            addresses.get(owner).map_or(was_new, |address| **address == kept.address)
        });
        for (owner, address) in addresses {
            if !links.contains_key(owner) {
                links.insert(owner.clone(), self.connect(owner, address, false, me));
            }
        }
    }

    /// The connection to a member, if there is one.
    pub(super) fn of(&self, owner: &Owner) -> Option<Arc<Link>> {
        locked(&self.links).get(owner).map(|kept| Arc::clone(&kept.link))
    }

    /// The connection to the member with this record, which is made if there is none.
    fn to(&self, record: &MemberRecord, me: &Owner) -> Arc<Link> {
        let (owner, address) = (&record.owner, &record.details.internal);
        let mut links = locked(&self.links);
        let kept = links.entry(owner.clone());
        let kept = kept.or_insert_with(|| self.connect(owner, address, true, me));
        Arc::clone(&kept.link)
    }

    fn connect(&self, owner: &Owner, address: &str, is_new: bool, me: &Owner) -> Kept {
        let tls = self.tls.as_ref().map(|tls| Arc::clone(&tls.client));
        let mut headers = HeaderMap::new();
        mark(&mut headers, sender_header(me), owner, &Identity::nobody());
        let link = Arc::new(Link::to(&owner.member.0, address, tls, headers));
        Kept { address: address.to_owned(), link, is_new }
    }
}

/// Keeps connections to the members that the last renewal read, until the member's tasks end.
pub(super) async fn keep_links(
    membership: Weak<Membership>,
    mut members: watch::Receiver<Members>,
) {
    loop {
        let read = members.borrow_and_update().clone();
        match membership.upgrade() {
            Some(membership) => membership.links().follow(&read, &membership.me()),
            None => return,
        }
        if members.changed().await.is_err() {
            return;
        }
    }
}

impl Membership {
    /// The members that live by their records, without this one.
    pub(super) fn peers(&self) -> Vec<Peer> {
        let Some(handle) = self.handle() else { return Vec::new() };
        let me = self.me();
        let members = handle.members();
        let records = members.values().map(|record| &record.value);
        let live = records.filter(|record| record.life == Life::Alive);
        live.filter_map(|record| self.peer_of(&record.owner, &me)).collect()
    }

    /// Another member, if it lives by the record that the last renewal read and has an address for
    /// members.
    pub(super) fn peer(&self, owner: &Owner) -> Option<Peer> {
        self.peer_of(owner, &self.me())
    }

    fn peer_of(&self, owner: &Owner, me: &Owner) -> Option<Peer> {
        let members = self.handle()?.members();
        let record = members.get(&owner.member).filter(|record| record.value.owner == *owner)?;
        self.peer_with(&record.value, me)
    }

    /// The other member with this record, if it lives by it and has an address for members.
    pub(super) fn peer_by(&self, record: &MemberRecord) -> Option<Peer> {
        self.peer_with(record, &self.me())
    }

    fn peer_with(&self, record: &MemberRecord, me: &Owner) -> Option<Peer> {
        let MemberRecord { owner, life, details, .. } = record;
        if *life != Life::Alive || details.internal.is_empty() || owner.member == me.member {
            return None;
        }
        let (owner, grpc, sender) = (owner.clone(), details.grpc.clone(), sender_header(me));
        Some(Peer { owner, grpc, sender, link: self.links().to(record, me) })
    }
}

/// Adds the headers of a request to a member, of the member `sender` for `caller`.
fn mark(headers: &mut HeaderMap, sender: HeaderValue, to: &Owner, caller: &Identity) {
    let incarnation = format!("{:032x}", to.incarnation.0);
    let incarnation = HeaderValue::from_str(&incarnation).expect("hexadecimal digits are ASCII");
    headers.insert(FORWARDED_HEADER, sender);
    headers.insert(FORWARDED_TO_HEADER, incarnation);
    headers.insert(CALLER_HEADER, caller.to_header());
}

/// The value of `x-si-forwarded` of a member.
fn sender_header(me: &Owner) -> HeaderValue {
    let Owner { member, incarnation: Incarnation(incarnation) } = me;
    let text = format!("{}/{incarnation:032x}", member.0);
    HeaderValue::from_str(&text).expect("an id is letters, digits and signs of ASCII")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures::future::join_all;
    use hyper::body::Incoming;
    use hyper::server::conn::http2::Builder;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use monoceros_cluster::{Details, MemberId, Version, Versioned};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::grpc::REASON_TRAILER;

    fn owner(id: &str, incarnation: u128) -> Owner {
        Owner { member: MemberId(id.into()), incarnation: Incarnation(incarnation) }
    }

    fn record_at(address: &str, id: &str, incarnation: u128) -> MemberRecord {
        let details = Details { internal: address.to_owned(), ..Details::default() };
        let (owner, details) = (owner(id, incarnation), Arc::new(details));
        MemberRecord { owner, beat: 0, life: Life::Alive, lease: None, details }
    }

    fn record(id: &str, incarnation: u128) -> MemberRecord {
        record_at("127.0.0.1:9", id, incarnation)
    }

    /// Serves a connection as a process of the second incarnation, which answers the first request
    /// alone.
    async fn serve(stream: TcpStream) {
        let service = service_fn(|request: Request<Incoming>| async move {
            if request.uri().path() != "/readyz" {
                std::future::pending::<()>().await;
            }
            let mut response = Response::new(Body::empty());
            let named = request.headers().get(FORWARDED_TO_HEADER);
            if named.is_none_or(|named| named != "00000000000000000000000000000002") {
                let reason = HeaderValue::from_static("OTHER_INCARNATION");
                response.headers_mut().insert(REASON_TRAILER, reason);
            }
            Ok::<_, Infallible>(response)
        });
        let http = Builder::new(TokioExecutor::new());
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    fn read(records: &[MemberRecord]) -> Members {
        let versioned = |record: &MemberRecord| {
            let value = record.clone();
            (record.owner.member.clone(), Versioned { version: Version(1), value })
        };
        Arc::new(records.iter().map(versioned).collect())
    }

    #[tokio::test]
    async fn a_connection_by_a_record_that_a_call_has_read_outlives_one_renewal() {
        let (links, me) = (Links::default(), owner("me", 1));
        let (former, present) = (record("m", 1), record("m", 2));
        links.follow(&read(std::slice::from_ref(&former)), &me);
        let link = links.to(&present, &me);
        // That renewal was read before the member began again.
        links.follow(&read(std::slice::from_ref(&former)), &me);
        assert!(Arc::ptr_eq(&link, &links.to(&present, &me)));
        // The next one names it, and it stays.
        links.follow(&read(std::slice::from_ref(&present)), &me);
        assert!(Arc::ptr_eq(&link, &links.to(&present, &me)));
        assert_eq!(locked(&links.links).len(), 1, "the former one has ended");
        links.follow(&read(&[]), &me);
        assert!(locked(&links.links).is_empty());
        // It ends with the second renewal that does not name it.
        links.to(&present, &me);
        links.follow(&read(&[]), &me);
        links.follow(&read(&[]), &me);
        assert!(locked(&links.links).is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_call_ends_on_a_line_that_comes_and_goes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let accept = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = timeout(Duration::from_millis(20), serve(stream)).await;
            }
        });
        let (links, present) = (Links::default(), record_at(&address, "m", 2));
        let link = links.to(&present, &owner("me", 1));
        let channel = Channel { owner: present.owner.clone(), link };
        let begun = Instant::now();
        let calls = (0..64).map(|_| {
            let mut channel = channel.clone();
            tokio::spawn(async move {
                while begun.elapsed() < Duration::from_secs(1) {
                    let called = channel.call(Request::new(Body::empty()));
                    let called = timeout(Duration::from_secs(10), called).await;
                    assert!(called.expect("the call ends").is_err());
                }
            })
        });
        for ended in join_all(calls).await {
            ended.unwrap();
        }
        accept.abort();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_process_of_another_incarnation_counts_as_not_heard() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let accept = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        let (links, me) = (Links::default(), owner("me", 1));
        let former = links.to(&record_at(&address, "m", 1), &me);
        let present = links.to(&record_at(&address, "m", 2), &me);
        let begun = Instant::now();
        while !present.answers_pings() || !former.refuses() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{present:?} {former:?}");
            sleep(Duration::from_millis(10)).await;
        }
        assert!(present.acts().await && !present.refuses());
        assert!(!former.acts().await && !former.answers_pings());
        assert_eq!(former.problem(), "another incarnation of it is at its address");
        accept.abort();
    }

    #[test]
    fn a_member_names_itself_with_its_incarnation() {
        let me = owner("m-1", 255);
        assert_eq!(sender_header(&me), "m-1/000000000000000000000000000000ff");
        let uri = with_origin(&"/ws/v1/partitions?a=b".parse().unwrap());
        assert_eq!(uri.to_string(), "http://member/ws/v1/partitions?a=b");
    }
}
