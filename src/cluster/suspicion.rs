//! Members that a client could go to, and owners that a client takes for lost.
//!
//! A client whose owner fell silent registers at another member, and names the owner. If the owner
//! acts, the silence was that of a line, or a pause: the client is sent back once, since to stay
//! costs less than to report everything to another owner.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use monoceros_cluster::{Details, Life, Owner};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::membership::{Membership, Probe};
use crate::grpc::end::ClaimRefusal;
use crate::grpc::registry::id_of;

/// Time within which a suspected member has to react. A client loses this time if its suspicion is
/// right.
const PATIENCE: Duration = Duration::from_millis(150);
/// First bytes of an HTTP/2 client: the preface, and empty settings.
const HTTP_2_BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Facts by which suspicions are judged.
pub(super) struct Suspicion {
    /// The gRPC address of this member.
    pub(super) grpc: String,
    /// Finds out whether a member acts at this moment.
    pub(super) is_heard: Probe,
}

impl Membership {
    /// Redirects a registration whose process suspects a live member that acts.
    pub(super) async fn refuse_false_suspicion(&self, suspects: &str) -> Result<(), ClaimRefusal> {
        let is_suspect = |owner: &Owner| id_of(owner.incarnation.0) == suspects;
        let suspect = self.others_alive().into_iter().find(|(owner, _)| is_suspect(owner));
        let Some((owner, details)) = suspect else { return Ok(()) };
        if !(self.suspicion.is_heard)(details.grpc.clone()).await {
            return Ok(());
        }
        let member = owner.member.0.to_string();
        Err(ClaimRefusal::NotOwner { member, owner: Some(details.grpc.clone()) })
    }

    /// The gRPC addresses of the members that live, this one first.
    pub(super) fn addresses(&self) -> Vec<String> {
        let others = self.others_alive();
        let others = others.iter().map(|(_, details)| details.grpc.clone());
        let all = iter::once(self.suspicion.grpc.clone()).chain(others);
        all.filter(|address| !address.is_empty()).collect()
    }

    /// The other members that lived at the last renewal.
    fn others_alive(&self) -> Vec<(Owner, Arc<Details>)> {
        let Some(handle) = self.handle() else { return Vec::new() };
        let me = self.me().member;
        let members = handle.members();
        let live = members
            .values()
            .map(|record| &record.value)
            .filter(|record| record.life == Life::Alive && record.owner.member != me);
        live.map(|record| (record.owner.clone(), Arc::clone(&record.details))).collect()
    }
}

/// Whether the process at the address does anything with a new connection: sends a byte, or closes
/// it. A connection alone shows nothing, since the kernel accepts it for a process that stands
/// still.
pub(super) fn reacts(address: String) -> BoxFuture<'static, bool> {
    let reaction = async move {
        let Ok(mut connection) = TcpStream::connect(address).await else { return false };
        let _ = connection.write_all(HTTP_2_BEGIN).await;
        // An end or an error counts, too.
        let _ = connection.read(&mut [0; 1]).await;
        true
    };
    async move { timeout(PATIENCE, reaction).await.unwrap_or(false) }.boxed()
}
