//! The long-named scene: a cluster with the names of real ones (ids with UUIDs, queues five levels
//! deep, nodes of a cloud) and GPUs. One application runs in part and waits for its queue, one waits
//! for a node that is not there, one was rejected.

use monoceros_proto::si::v1 as si;

use crate::browser::{Chromium, Tab};
use crate::harness::{Rm, Service, amount, application, ask, node, registration};

pub(crate) const TEAM: &str =
    "root.department-of-theoretical-physics.quantum-chromodynamics.lattice-simulations";
pub(crate) const USER: &str = "ann-marie.van-der-hoeven@theoretical-physics.example.org";
/// Runs some of its pods and waits for the others, for the maximum of its queue.
pub(crate) const WAITS: &str = "spark-3f2c1b7e-9a4d-4c1e-b7aa-0b6f9d2e7c11-retry-3";
/// Waits for a node that is not there.
pub(crate) const GIANT: &str = "training-7d1c0f2e-51b0-4f4e-8a39-6f0d4f7b2c55-attempt-12";

const QUEUES: &str = r#"
partitions:
  - name: default
    placementrules:
      - name: provided
        create: false
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: department-of-theoretical-physics
            queues:
              - name: quantum-chromodynamics
                queues:
                  - name: lattice-simulations
                    queues:
                      - name: production-2027
                        resources: {max: {vcore: 8, memory: 32Gi, nvidia.com/gpu: 4}, guaranteed: {vcore: 4}}
                        limits:
                          - {limit: everybody, users: ["*"], maxresources: {vcore: 8}}
                      - name: interactive-notebooks
"#;

const GIB: i64 = 1 << 30;

/// The name of a node.
pub(crate) fn node_name(number: usize) -> String {
    format!("ip-10-128-44-{number}.eu-central-1.compute.internal.prod-cluster-7")
}

/// Makes a pod with a long name, of two cores and two GPUs.
fn pod(of: &str, number: usize) -> si::Allocation {
    let name = format!("{of}-executor-{number}");
    let tags = [("namespace", "theoretical-physics"), ("podName", name.as_str())];
    let tags = tags.map(|(tag, value)| (format!("kubernetes.io/meta/{tag}"), value.to_owned()));
    let resource = amount(&[("vcore", 2_000), ("memory", 8 * GIB), ("nvidia.com/gpu", 2)]);
    si::Allocation {
        allocation_tags: tags.into(),
        resource_per_alloc: Some(resource),
        ..ask(of, &format!("3f2c1b7e-9a4d-4c1e-b7aa-{number:012}"))
    }
}

/// The service with that cluster, at rest, and a tab.
pub(crate) struct LongScene {
    pub(crate) service: Service,
    pub(crate) rm: Rm,
    pub(crate) chromium: Chromium,
    pub(crate) tab: Tab,
    pub(crate) address: String,
}

impl LongScene {
    pub(crate) async fn start() -> Option<Self> {
        let chromium = Chromium::start().await?;
        let service = Service::start();
        let mut client = service.client().await;
        client.register_resource_manager(registration("long", QUEUES)).await.unwrap();
        let rm = Rm::open(client, "long").await;
        let nodes = (1..=3).map(|number| {
            let rack = format!("/eu-central-1/hall-north/row-{}/rack-42", number % 2);
            let has = [
                ("vcore", 32_000),
                ("memory", 256 * GIB),
                ("nvidia.com/gpu", 8),
                ("ephemeral-storage", 900 * GIB),
                ("hugepages-2Mi", GIB),
            ];
            si::NodeInfo {
                attributes: [("si/rackname".to_owned(), rack)].into(),
                schedulable_resource: Some(amount(&has)),
                ..node(&node_name(number), 0, 0)
            }
        });
        rm.send_nodes(nodes.collect()).await;
        rm.until("the nodes", |seen| seen.accepted_nodes.len() == 3).await;
        let owner = si::UserGroupInformation {
            user: USER.to_owned(),
            groups: vec!["theoretical-physicists-with-gpus".to_owned()],
        };
        let new = |id: &str, queue: &str, owner: Option<&si::UserGroupInformation>| {
            let new = application(id, queue);
            si::AddApplicationRequest { ugi: owner.cloned().or(new.ugi.clone()), ..new }
        };
        let (busy, idle) =
            (format!("{TEAM}.production-2027"), format!("{TEAM}.interactive-notebooks"));
        let asked = vec![
            new(WAITS, &busy, Some(&owner)),
            new(GIANT, &idle, None),
            new("swarm-with-a-mistyped-queue-0001", &format!("{TEAM}.production-2028"), None),
        ];
        rm.send_applications(asked, vec![]).await;
        rm.until("all are answered", |seen| {
            seen.accepted_applications.len() == 2 && seen.rejected_applications.len() == 1
        })
        .await;
        let giant = si::Allocation {
            resource_per_alloc: Some(amount(&[("vcore", 96_000), ("nvidia.com/gpu", 16)])),
            ..pod(GIANT, 0)
        };
        let pods = (1..=5).map(|number| pod(WAITS, number)).chain([giant]).collect();
        rm.send_allocations(vec![], pods, vec![]).await;
        rm.until("two pods run", |seen| seen.new.len() == 2).await;
        let tab = chromium.tab().await;
        let address = format!("http://{}", service.http);
        Some(Self { service, rm, chromium, tab, address })
    }
}
