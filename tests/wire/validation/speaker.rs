//! One interface to write items in any revision.

use prost_reflect::DynamicMessage;

use crate::harness::Service;
use crate::revisions::client::{Client, Revision, SPLIT, field, vcore};

/// A client of a revision, with a node `n1` of 8 cores and an application `app`.
pub(crate) struct Speaker {
    pub(crate) client: Client,
    pub(crate) revision: &'static str,
}

/// An ask.
#[derive(Clone)]
pub(crate) struct Ask<'a> {
    pub(crate) key: &'a str,
    pub(crate) application: &'a str,
    pub(crate) partition: &'a str,
    /// Amounts by resource name.
    pub(crate) size: Vec<(&'a str, i64)>,
    /// Number of allocations, which only the older form has.
    pub(crate) n: i32,
    /// Further fields, known to both forms.
    pub(crate) more: &'a str,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self {
            key: "k",
            application: "app",
            partition: "default",
            size: vec![("vcore", 1_000)],
            n: 1,
            more: "",
        }
    }
}

impl Speaker {
    /// One client per dialect, each a separate RM.
    pub(crate) async fn all(service: &Service) -> [Self; 3] {
        [
            Self::start(service, "l").await,
            Self::start(service, "m").await,
            Self::start(service, "t").await,
        ]
    }

    pub(crate) async fn start(service: &Service, revision: &'static str) -> Self {
        let definitions = Revision::new(revision);
        let methods: &[&str] = if revision == "l" { &["Update"] } else { &SPLIT };
        let rm_id = format!("rm-{revision}");
        let client = Client::register(service, &definitions, &rm_id, methods).await;
        let speaker = Self { client, revision };
        speaker.node("n1", &vcore("schedulableResource", 8_000)).await;
        speaker.accepted_node("n1").await;
        speaker.application("app", &speaker.queue()).await;
        speaker.accepted_application("app").await;
        speaker
    }

    pub(crate) fn is_legacy(&self) -> bool {
        self.revision == "l"
    }

    /// Whether the client asks with `Allocation`.
    pub(crate) fn is_todays(&self) -> bool {
        self.revision == "t"
    }

    /// The metric series of this client.
    pub(crate) fn series(&self, counter: &str, reason: &str) -> String {
        let dialect = if self.is_legacy() { "legacy" } else { "split" };
        let rm = &self.client.rm_id;
        format!(
            r#"monoceros_si_{counter}_total{{dialect="{dialect}",reason="{reason}",rm="{rm}"}}"#
        )
    }

    /// The field that names a leaf open to everybody.
    pub(crate) fn queue(&self) -> String {
        let namespace =
            if self.is_legacy() { r#"tags { key: "namespace" value: "default" }"# } else { "" };
        format!(r#"queueName: "{}" {namespace}"#, self.leaf())
    }

    /// Clients of the oldest revision bring no queues; the built-in ones have a leaf per namespace.
    pub(crate) fn leaf(&self) -> &'static str {
        if self.is_legacy() { "root.default" } else { "root.a" }
    }

    fn method(&self, split: &'static str) -> &'static str {
        if self.is_legacy() { "Update" } else { split }
    }

    // -------------------------------------------------------------------------- sending

    pub(crate) async fn application(&self, id: &str, more: &str) {
        let user = r#"ugi { user: "alice" groups: "dev" }"#;
        self.bare_application(&format!(r#"applicationID: "{id}" {user} {more}"#)).await;
    }

    pub(crate) async fn bare_application(&self, fields: &str) {
        let list = if self.is_legacy() { "newApplications" } else { "new" };
        self.client.send(self.method("UpdateApplication"), &format!("{list} {{ {fields} }}")).await;
    }

    pub(crate) async fn remove_application(&self, fields: &str) {
        let list = if self.is_legacy() { "removeApplications" } else { "remove" };
        self.client.send(self.method("UpdateApplication"), &format!("{list} {{ {fields} }}")).await;
    }

    /// Sends a new node.
    pub(crate) async fn node(&self, id: &str, more: &str) {
        self.nodes(&self.new_node(id, more)).await;
    }

    pub(crate) fn new_node(&self, id: &str, more: &str) -> String {
        if self.is_legacy() {
            format!(r#"newSchedulableNodes {{ nodeID: "{id}" {more} }}"#)
        } else {
            format!(r#"nodes {{ nodeID: "{id}" action: CREATE {more} }}"#)
        }
    }

    /// The text of a changed node.
    pub(crate) fn changed_node(&self, id: &str, action: &str, more: &str) -> String {
        let list = if self.is_legacy() { "updatedNodes" } else { "nodes" };
        format!(r#"{list} {{ nodeID: "{id}" action: {action} {more} }}"#)
    }

    pub(crate) async fn nodes(&self, lists: &str) {
        self.client.send(self.method("UpdateNode"), lists).await;
    }

    pub(crate) fn ask_text(&self, ask: &Ask<'_>) -> String {
        let Ask { key, application, partition, size, n, more } = ask;
        let entry = |(name, value): &(&str, i64)| {
            format!(r#"resources {{ key: "{name}" value {{ value: {value} }} }}"#)
        };
        let entries = size.iter().map(entry).collect::<Vec<_>>().concat();
        let ids = format!(
            r#"allocationKey: "{key}" applicationID: "{application}" partitionName: "{partition}""#
        );
        if self.revision == "t" {
            format!("allocations {{ {ids} resourcePerAlloc {{ {entries} }} {more} }}")
        } else {
            format!("asks {{ {ids} resourceAsk {{ {entries} }} maxAllocations: {n} {more} }}")
        }
    }

    pub(crate) async fn ask(&self, ask: Ask<'_>) {
        self.allocation(&self.ask_text(&ask)).await;
    }

    pub(crate) async fn allocation(&self, lists: &str) {
        self.client.send(self.method("UpdateAllocation"), lists).await;
    }

    /// Ends an allocation; earlier revisions name it by its UUID, which equals the key if the key
    /// has only one allocation.
    pub(crate) async fn release(&self, application: &str, key: &str, more: &str) {
        let name = if self.revision == "t" { "allocationKey" } else { "UUID" };
        let fields = format!(r#"applicationID: "{application}" {name}: "{key}" {more}"#);
        self.allocation(&format!("releases {{ allocationsToRelease {{ {fields} }} }}")).await;
    }

    /// Withdraws all requests and releases all allocations of `app`.
    pub(crate) async fn release_all(&self) {
        let all = r#"{ applicationID: "app" }"#;
        let lists = if self.revision == "t" {
            format!("allocationsToRelease {all}")
        } else {
            format!("allocationAsksToRelease {all} allocationsToRelease {all}")
        };
        self.allocation(&format!("releases {{ {lists} }}")).await;
    }

    // -------------------------------------------------------------------------- receiving

    pub(crate) async fn accepted_node(&self, id: &str) {
        let list = if self.is_legacy() { "acceptedNodes" } else { "accepted" };
        self.heard(self.method("UpdateNode"), list, "nodeID", id).await;
    }

    /// Adds a node without room; its acceptance shows that all earlier node messages were
    /// processed.
    pub(crate) async fn accepts_nodes(&self, id: &str) {
        self.node(id, "").await;
        self.accepted_node(id).await;
    }

    pub(crate) async fn rejected_node(&self, id: &str, code: &str) -> String {
        let list = if self.is_legacy() { "rejectedNodes" } else { "rejected" };
        let item = self.heard(self.method("UpdateNode"), list, "nodeID", id).await;
        self.reason(&item, code)
    }

    pub(crate) async fn accepted_application(&self, id: &str) {
        let list = if self.is_legacy() { "acceptedApplications" } else { "accepted" };
        self.heard(self.method("UpdateApplication"), list, "applicationID", id).await;
    }

    pub(crate) async fn rejected_application(&self, id: &str, code: &str) -> String {
        let list = if self.is_legacy() { "rejectedApplications" } else { "rejected" };
        let item = self.heard(self.method("UpdateApplication"), list, "applicationID", id).await;
        self.reason(&item, code)
    }

    pub(crate) async fn rejected_ask(&self, key: &str, code: &str) -> String {
        let list = if self.revision == "m" { "rejected" } else { "rejectedAllocations" };
        let item = self.heard(self.method("UpdateAllocation"), list, "allocationKey", key).await;
        self.reason(&item, code)
    }

    pub(crate) async fn allocated(&self, key: &str) -> DynamicMessage {
        let list = if self.is_legacy() { "newAllocations" } else { "new" };
        self.heard(self.method("UpdateAllocation"), list, "allocationKey", key).await
    }

    pub(crate) fn n_allocated(&self) -> usize {
        let list = if self.is_legacy() { "newAllocations" } else { "new" };
        self.client.items(self.method("UpdateAllocation"), list).len()
    }

    /// Waits for the release of an allocation whose key is its UUID.
    pub(crate) async fn released(&self, key: &str) -> DynamicMessage {
        let name = if self.revision == "t" { "allocationKey" } else { "UUID" };
        let list = self.releases();
        self.heard(self.method("UpdateAllocation"), list, name, key).await
    }

    pub(crate) fn n_released(&self) -> usize {
        self.client.items(self.method("UpdateAllocation"), self.releases()).len()
    }

    fn releases(&self) -> &'static str {
        if self.is_legacy() { "releasedAllocations" } else { "released" }
    }

    /// Waits until all earlier messages of the allocation stream were processed, by a request of
    /// one core.
    pub(crate) async fn settled(&self, key: &str) {
        self.ask(Ask { key, ..Ask::default() }).await;
        self.allocated(key).await;
    }

    async fn heard(
        &self,
        method: &'static str,
        list: &'static str,
        name: &'static str,
        value: &str,
    ) -> DynamicMessage {
        let what = format!("{}: `{value}` in {list}", self.revision);
        let found = || {
            let mut items = self.client.items(method, list).into_iter().rev();
            items.find(|item| field(item, name) == value)
        };
        self.client.wait(&what, found).await
    }

    /// The reason of a rejection, which must end in the code.
    fn reason(&self, item: &DynamicMessage, code: &str) -> String {
        let reason = field(item, "reason");
        let bracket = reason.rsplit_once('[').map(|(_, code)| code);
        let code_sent = bracket.and_then(|text| text.trim_end_matches(']').split(' ').next());
        assert_eq!(code_sent, Some(code), "{}: {reason}", self.revision);
        reason
    }
}
