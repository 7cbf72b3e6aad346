//! One registration of a resource manager, from the edge's side: where the scheduler's answers go.

use std::sync::{Arc, OnceLock};

use monoceros_actors::ResourceManagerCallback;
use monoceros_proto::si::legacy::v0::UpdateResponse;
use monoceros_proto::si::v1 as si;
use tracing::warn;

use super::end::{Cause, End};
use super::kind::{Dialect, Kind};
use super::legacy::{self, Legacy, Translator};
use super::line::Line;
use super::outbox::{Bounds, Closed, Outbox, Overflow};

/// The session that a registration opened. It is the callback that the scheduler calls.
pub struct Session {
    rm_id: String,
    number: u64,
    /// Why client and scheduler no longer know the same: no stream may bind any more.
    lost: OnceLock<Cause>,
    /// For allocation streams.
    pub allocations: Outbox<si::AllocationResponse>,
    /// For application streams.
    pub applications: Outbox<si::ApplicationResponse>,
    /// For node streams.
    pub nodes: Outbox<si::NodeResponse>,
    /// For the one stream of the oldest dialect.
    pub legacy: Translator,
    /// Which streams it has, once it has had one.
    dialect: OnceLock<Dialect>,
}

impl Session {
    /// A session without streams.
    pub fn new(
        rm_id: String,
        number: u64,
        bounds: Bounds,
        legacy: legacy::options::Options,
    ) -> Self {
        Self {
            rm_id,
            number,
            lost: OnceLock::new(),
            allocations: Outbox::new(bounds),
            applications: Outbox::new(bounds),
            nodes: Outbox::new(bounds),
            legacy: Translator::new(bounds, legacy),
            dialect: OnceLock::new(),
        }
    }

    /// Whose session it is.
    pub fn rm_id(&self) -> &str {
        &self.rm_id
    }

    /// Its number: larger than that of any earlier session, restarts included.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Makes `line` the stream of its kind.
    pub fn bind<K: Kind>(self: &Arc<Self>, line: &Arc<Line>) -> Result<(), End> {
        let refusal = || match self.lost.get() {
            Some(cause) => End::ResyncRequired(cause.clone()),
            None => End::Superseded,
        };
        if self.lost.get().is_some() {
            return Err(refusal());
        }
        if *self.dialect.get_or_init(|| K::DIALECT) != K::DIALECT {
            return Err(End::DialectMixed);
        }
        line.set_session(self);
        K::outbox(self).bind(line).map_err(|Closed| refusal())
    }

    /// A message of the client could not be read: open streams go on, later ones are refused until
    /// the client registers again and says everything anew.
    pub fn lose_items(&self) {
        self.lost.get_or_init(|| Cause::ItemsLost);
    }

    /// Ends all streams and drops what waits.
    pub fn close(&self, end: &End) {
        self.allocations.close(end);
        self.applications.close(end);
        self.nodes.close(end);
        self.legacy.outbox.close(end);
    }

    fn speaks_legacy(&self) -> bool {
        self.dialect.get() == Some(&Dialect::Legacy)
    }

    /// Says something in the oldest dialect.
    pub fn push_legacy(&self, response: UpdateResponse) {
        if let Err(Overflow) = self.legacy.outbox.push(response) {
            self.overflow(Legacy::NAME);
        }
    }

    fn overflow(&self, kind: &'static str) {
        warn!(rm = %self.rm_id, kind, "client reads too slowly, it has to register again");
        self.lose(Cause::Overflow);
    }

    fn lose(&self, cause: Cause) {
        self.lost.get_or_init(|| cause.clone());
        self.close(&End::ResyncRequired(cause));
    }
}

impl ResourceManagerCallback for Session {
    fn update_allocation(&self, response: si::AllocationResponse) {
        if self.speaks_legacy() {
            return self.push_legacy(self.legacy.allocation(response));
        }
        if let Err(Overflow) = self.allocations.push(response) {
            self.overflow("allocation");
        }
    }

    fn update_application(&self, response: si::ApplicationResponse) {
        if self.speaks_legacy() {
            return self.push_legacy(legacy::response::application(response));
        }
        if let Err(Overflow) = self.applications.push(response) {
            self.overflow("application");
        }
    }

    fn update_node(&self, response: si::NodeResponse) {
        if self.speaks_legacy() {
            return self.push_legacy(legacy::response::node(response));
        }
        if let Err(Overflow) = self.nodes.push(response) {
            self.overflow("node");
        }
    }

    fn dialect(&self) -> &'static str {
        self.dialect.get().map_or("none", |dialect| dialect.name())
    }

    fn application_placed(&self, partition: &str, application_id: &str, queue: Option<&str>) {
        if self.speaks_legacy() {
            self.legacy.placed(partition, application_id, queue);
        }
    }

    fn resync_required(&self, cause: &str) {
        warn!(rm = %self.rm_id, cause, "state lost, the resource manager has to register again");
        self.lose(Cause::StateLost(cause.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::{Applications, Nodes};
    use super::*;

    fn accepted(ids: &[&str]) -> si::NodeResponse {
        let accepted =
            ids.iter().map(|id| si::AcceptedNode { node_id: (*id).to_owned() }).collect();
        si::NodeResponse { accepted, ..si::NodeResponse::default() }
    }

    fn session() -> Arc<Session> {
        let bounds =
            Bounds { chunk_items: 9, chunk_bytes: 999, outbox_items: 2, outbox_bytes: 999 };
        Arc::new(Session::new("rm".to_owned(), 1, bounds, legacy::options::Options::default()))
    }

    #[test]
    fn a_client_that_does_not_read_loses_all_its_streams_and_has_to_register_again() {
        let session = session();
        let (nodes, applications) = (Arc::new(Line::new()), Arc::new(Line::new()));
        session.bind::<Nodes>(&nodes).unwrap();
        session.bind::<Applications>(&applications).unwrap();
        session.update_node(accepted(&["n1", "n2"]));
        session.update_node(accepted(&["n3"]));
        for line in [&nodes, &applications] {
            assert!(matches!(line.end(), Some(End::ResyncRequired(Cause::Overflow))));
        }
        assert!(session.nodes.take(&nodes).is_none());
        let late = Arc::new(Line::new());
        assert!(matches!(session.bind::<Nodes>(&late), Err(End::ResyncRequired(_))));
    }

    #[test]
    fn a_loss_in_the_scheduler_ends_all_streams() {
        let session = session();
        let open = Arc::new(Line::new());
        session.bind::<Nodes>(&open).unwrap();
        session.resync_required("a step was lost");
        assert!(matches!(open.end(), Some(End::ResyncRequired(Cause::StateLost(_)))));
        let late = session.bind::<Nodes>(&Arc::new(Line::new()));
        assert!(late.unwrap_err().to_string().contains("a step was lost"));
    }

    #[test]
    fn after_an_unreadable_message_open_streams_go_on_and_later_ones_are_refused() {
        let session = session();
        let open = Arc::new(Line::new());
        session.bind::<Nodes>(&open).unwrap();
        session.lose_items();
        session.update_node(accepted(&["n1"]));
        assert!(session.nodes.take(&open).is_some());
        assert!(session.bind::<Applications>(&Arc::new(Line::new())).is_err());
    }
}
