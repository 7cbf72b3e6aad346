//! A cluster with a little of everything: running, pending, reserved, rejected and foreign items.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use monoceros_proto::si::v1 as si;
use serde_json::Value;

use crate::harness::{Rm, Seen, Service, amount, application, ask, node, registration, release};

pub(crate) const P: &str = "/ws/v1/partition/default";

const QUEUES: &str = r#"
partitions:
  - name: default
    placementrules:
      - name: provided
        create: false
    queues:
      - name: root
        submitacl: "*"
        limits:
          - {limit: everybody, users: ["*"], maxresources: {vcore: 64}}
        queues:
          - name: a
            resources: {max: {vcore: 2, memory: 4Gi}, guaranteed: {vcore: 1}}
            properties: {owner: ops}
          - name: b
            parent: true
            childtemplate: {maxapplications: 3}
            queues: [{name: c, maxapplications: 5}]
"#;

/// A service with that cluster, at rest.
pub(crate) struct Scene {
    pub(crate) service: Service,
    pub(crate) rm: Rm,
    /// Start of the cluster, in nanoseconds since the epoch.
    begun_ns: i64,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts it in a service with some settings.
    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let begun_ns = now_ns();
        let service = Service::start_with(settings);
        let mut client = service.client().await;
        let build_info = [("buildVersion", "r7"), ("buildDate", "2026-05-04T10:11:12+0000")];
        let request = si::RegisterResourceManagerRequest {
            build_info: texts(&build_info),
            ..registration("lab", QUEUES)
        };
        client.register_resource_manager(request).await.unwrap();
        let rm = Rm::open(client, "lab").await;
        let attributes = [("si/hostname", "host-1"), ("si/rackname", "/rack-1"), ("zone", "z")];
        let first = si::NodeInfo { attributes: texts(&attributes), ..node("n1", 4_000, 16) };
        rm.send_nodes(vec![first]).await;
        rm.until("n1", |seen| seen.accepted_nodes.len() == 1).await;
        rm.send_nodes(vec![si::NodeInfo {
            action: si::node_info::ActionFromRm::CreateDrain.into(),
            ..node("n2", 0, 8)
        }])
        .await;
        rm.until("n2", |seen| seen.accepted_nodes.len() == 2).await;
        let scene = Self { service, rm, begun_ns };
        scene.fill().await;
        scene
    }

    async fn fill(&self) {
        let (rm, service) = (&self.rm, &self.service);
        // Foreign allocations, one of which has a creation time.
        let foreign = |key: &str, kind: &str, more: &[(&str, &str)]| si::Allocation {
            allocation_tags: texts(&[&[("foreign", kind)], more].concat()),
            resource_per_alloc: Some(amount(&[("vcore", 100)])),
            node_id: "n1".to_owned(),
            priority: 7,
            ..ask("", key)
        };
        let created = ("creationTime", "1700000000");
        rm.send_allocations(vec![], vec![foreign("daemon", "static", &[created])], vec![]).await;
        rm.send_allocations(vec![], vec![foreign("other", "default", &[])], vec![]).await;
        self.until_some(&format!("{P}/node/n1"), "/foreignAllocations/1").await;
        // Running requests with the tags of a pod, and ones that are pending for their queue.
        rm.send_applications(vec![application("runs", "root.a")], vec![]).await;
        rm.until("runs", |seen| seen.accepted_applications.len() == 1).await;
        let pod =
            [("kubernetes.io/meta/namespace", "lab"), ("kubernetes.io/meta/podName", "pod-1")];
        let placed = si::Allocation {
            allocation_tags: texts(&pod),
            task_group_name: "workers".to_owned(),
            priority: 3,
            originator: true,
            ..ask("runs", "k1")
        };
        rm.send_allocations(vec![], vec![placed], vec![]).await;
        rm.until("k1", |seen| seen.new.len() == 1).await;
        let too_large = si::Allocation {
            task_group_name: "workers".to_owned(),
            allocation_tags: texts(&pod),
            resource_per_alloc: Some(amount(&[("vcore", 1_500)])),
            ..ask("runs", "k2")
        };
        rm.send_allocations(vec![], vec![too_large], vec![]).await;
        self.until_some(&format!("{P}/application/runs"), "/requests/0/allocationLog/0").await;
        // Placeholders, and rejected requests.
        let gang = si::AddApplicationRequest {
            placeholder_ask: Some(amount(&[("vcore", 500)])),
            ..application("keeps", "root.b.c")
        };
        rm.send_applications(vec![gang], vec![]).await;
        rm.until("keeps", |seen| seen.accepted_applications.len() == 2).await;
        let placeholder = si::Allocation {
            placeholder: true,
            task_group_name: "members".to_owned(),
            resource_per_alloc: Some(amount(&[("vcore", 500)])),
            ..ask("keeps", "p1")
        };
        rm.send_allocations(vec![], vec![placeholder], vec![]).await;
        rm.until("p1", |seen| seen.new.len() == 2).await;
        rm.send_applications(vec![application("bad", "root.nowhere")], vec![]).await;
        rm.until("bad", |seen| seen.rejected_applications.len() == 1).await;
        // The front was never stuck.
        assert_eq!(service.counted("monoceros_front_stuck").await, 0);
    }

    /// Runs an application and completes it: the resource manager releases its allocations and ends
    /// its asks.
    pub(crate) async fn end_one(&self) {
        let rm = &self.rm;
        rm.send_applications(vec![application("over", "root.b.c")], vec![]).await;
        let accepted = |seen: &Seen| seen.accepted_applications.iter().any(|id| id == "over");
        rm.until("over", accepted).await;
        rm.send_allocations(vec![], vec![ask("over", "k1")], vec![]).await;
        let is_of_it = |it: &si::Allocation| it.application_id == "over";
        rm.until("its allocation", |seen| seen.new.iter().any(is_of_it)).await;
        rm.send_allocations(vec![], vec![], vec![release("over", "k1")]).await;
        let is_completing =
            |it: &si::UpdatedApplication| it.application_id == "over" && it.state == "Completing";
        rm.until("it has nothing", |seen| seen.updated_applications.iter().any(is_completing))
            .await;
        rm.send_allocations(vec![], vec![], vec![release("over", "")]).await;
        self.until_some(&format!("{P}/applications/completed"), "/0").await;
    }

    /// Waits until a document has a value at this place.
    pub(crate) async fn until_some(&self, path: &str, pointer: &str) {
        let reached = async { while self.get(path).await.pointer(pointer).is_none() {} };
        let in_time = tokio::time::timeout(crate::harness::PATIENCE, reached).await.is_ok();
        assert!(in_time, "{path} has no {pointer}");
    }

    /// Returns a body as JSON.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.service.http("GET", path, &[], "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    /// Returns a body as text, without the parts that differ from run to run.
    pub(crate) async fn shown(&self, path: &str) -> String {
        let mut document = self.get(path).await;
        self.settle(&mut document);
        serde_json::to_string_pretty(&document).unwrap() + "\n"
    }

    fn settle(&self, document: &mut Value) {
        match document {
            Value::Array(entries) => entries.iter_mut().for_each(|entry| self.settle(entry)),
            Value::Object(fields) => {
                // The number of attempts depends on what happened in between.
                let is_log = fields.contains_key("lastOccurrence");
                for (key, value) in fields {
                    match key.as_str() {
                        "InstanceUUID" => *value = "<uuid>".into(),
                        // Depends on the environment of the test.
                        "logLevel" => *value = "<level>".into(),
                        "schedulerId" | "sessionId" => *value = "<id>".into(),
                        // Counts whole seconds, and may be off by one.
                        "resourceHistory" => {
                            value.as_object_mut().unwrap().remove("resourceUsage");
                        }
                        "count" if is_log => *value = "<times>".into(),
                        _ => self.settle(value),
                    }
                }
            }
            Value::Number(number) => {
                let day_ns = 86_400_000_000_000;
                let at = number.as_i64().unwrap_or(0);
                if (0..day_ns).contains(&(at - self.begun_ns)) {
                    *document = "<ns>".into();
                } else if (0..day_ns / 1_000_000).contains(&(at - self.begun_ns / 1_000_000)) {
                    *document = "<ms>".into();
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
}

/// Texts by name.
fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn now_ns() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "to know times of this run from others")]
    let now = SystemTime::now();
    i64::try_from(now.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}
