//! Notices to the former owner of a resource manager (RM) that showed its proof at another member.
//!
//! Without a notice the former owner ends its session with its next renewal, a fifth of the lease
//! later. A notice may get lost, and nothing waits for it.
//!
//! # Invariant
//! A notice is a reason to read the claim. The session ends by what the claim says.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use monoceros_cluster::{Epoch, Event, Key, Owner, Record, Reply, Request, RmId};
use tokio::time::timeout;
use tonic::codegen::http::{self, Method, StatusCode, Uri, Version};
use tracing::debug;

use super::membership::Membership;
use crate::grpc::routing::Remote;
use crate::identity::Identity;

/// Path of notices on the listener for members. The body has the epoch of the claim, a blank, and
/// the id of the RM.
const PATH: &str = "/cluster/claimed";
/// Time within which a notice has to be answered.
const PATIENCE: Duration = Duration::from_secs(1);

impl Membership {
    /// Notifies the former owner of an RM that this member has claimed.
    pub(super) async fn notify(self: Arc<Self>, owner: Owner, rm: RmId, epoch: Epoch) {
        let Some(peer) = self.peer(&owner) else { return };
        let body = Body::from(format!("{} {}", epoch.0, rm.0));
        let mut request = http::Request::new(tonic::body::Body::new(body));
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::from_static(PATH);
        let sent = Remote::send(&peer, request, &Identity::nobody());
        let status = match timeout(PATIENCE, sent).await {
            Ok(Ok(response)) if response.status() == StatusCode::NO_CONTENT => return,
            Ok(Ok(response)) => response.status().to_string(),
            Ok(Err(status)) => status.message().to_owned(),
            Err(_) => "no answer".to_owned(),
        };
        let member = peer.id();
        debug!(member, rm = &*rm.0, status, "the former owner was not notified");
    }

    /// Reads the claim of an RM if a notice says that this member has lost it, and has the session
    /// ended if that is so.
    pub(super) async fn look_at_claim(&self, rm: RmId, epoch: Epoch) {
        if self.epoch_of(&rm).is_none_or(|held| held >= epoch) {
            return;
        }
        let (Some(handle), Some(sources)) = (self.handle(), self.sources()) else { return };
        let read = sources.arbiter.ask(Request::Read(Key::Claim(rm.clone()))).await;
        let Ok(Reply::Read(Some(found), _)) = read else { return };
        let Record::Claim(claim) = found.value else { return };
        if claim.owner.as_ref() != Some(&self.me()) {
            handle.send(Event::ClaimedElsewhere(rm, claim.epoch, claim.owner)).await;
        }
    }
}

/// The paths of notices, for the listener of members only.
pub(super) fn notices(membership: &Arc<Membership>) -> Router {
    let membership = Arc::clone(membership);
    let receive = move |notice: String| {
        let membership = Arc::clone(&membership);
        async move {
            let Some((rm, epoch)) = parsed(&notice) else { return StatusCode::BAD_REQUEST };
            membership.look_at_claim(rm, epoch).await;
            StatusCode::NO_CONTENT
        }
    };
    Router::new().route(PATH, post(receive))
}

fn parsed(notice: &str) -> Option<(RmId, Epoch)> {
    let (epoch, rm) = notice.split_once(' ')?;
    Some((RmId(rm.into()), Epoch(epoch.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_has_epoch_and_rm() {
        assert_eq!(parsed("7 an rm"), Some((RmId("an rm".into()), Epoch(7))));
        assert_eq!(parsed("rm"), None);
        assert_eq!(parsed("x rm"), None);
    }
}
