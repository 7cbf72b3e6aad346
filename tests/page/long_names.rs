//! A cluster with the names of real ones: ids with UUIDs, queues five levels deep, nodes of a
//! cloud, and GPUs. Everything is on the screen, and what is cut has a title.

use monoceros_proto::si::v1 as si;
use serde_json::Value;

use crate::browser::{Chromium, Tab};
use crate::harness::{Rm, Service, amount, application, ask, node, registration};

/// The rules of layout, as a script that returns all violations.
const LAYOUT: &str = include_str!("layout.js");

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

/// Asserts the rules of layout, once the page has adapted itself to the size of the screen.
async fn assert_layout(tab: &Tab, what: &str) {
    let rules = LAYOUT.trim().trim_end_matches(';');
    let rules = rules.split_once('\n').unwrap().1;
    let wrong: Vec<String> = tab
        .value(&format!(
            "(async () => {{
              for (let n = 0; ; n++) {{
                const wrong = {rules};
                if (!wrong.length || n === 40) return wrong;
                await new Promise(then => setTimeout(then, 50));
              }}
            }})()"
        ))
        .await;
    assert_eq!(wrong, [""; 0], "{what}");
}

#[tokio::test]
async fn everything_is_on_the_screen_with_long_names() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    let views = [
        "/".to_owned(),
        format!("/?mine=user:{USER}"),
        "/ui/applications".to_owned(),
        "/ui/applications?list=rejected".to_owned(),
        "/ui/applications?by=queue".to_owned(),
        format!("/ui/applications?open=application:{WAITS}"),
        format!("/ui/application?id={WAITS}"),
        "/ui/queues?types=all".to_owned(),
        format!("/ui/queue?path={TEAM}.production-2027"),
        "/ui/nodes".to_owned(),
        "/ui/nodes?by=rack&type=nvidia.com/gpu".to_owned(),
        format!("/ui/node?id={}", node_name(1)),
        "/ui/decisions".to_owned(),
        "/ui/events".to_owned(),
        "/ui/events?from=0".to_owned(),
        "/ui/sessions".to_owned(),
    ];
    for view in views {
        tab.open(&format!("{address}{view}")).await;
        tab.until("document.querySelector('#state').className === 'live'").await;
        tab.until("document.querySelectorAll('main section').length > 0").await;
        tab.until("document.querySelector('.reading') === null").await;
        for width in [1_400, 1_024, 390] {
            tab.resize(width, 900).await;
            tab.until(&format!("innerWidth === {width}")).await;
            for scheme in ["light", "dark"] {
                tab.prefer(scheme).await;
                assert_layout(&tab, &format!("{view} at {width}, {scheme}")).await;
            }
        }
    }
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn a_cut_name_has_its_whole_as_title_and_is_copied() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    // The browser asks before it gives a test the clipboard.
    tab.before_all(
        "navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }",
    )
    .await;
    tab.resize(1_400, 900).await;
    tab.open(&format!("{address}/ui/applications?search=spark")).await;
    tab.until("document.querySelectorAll('main tbody tr').length === 1").await;
    let cut = tab.text("[data-column=id] a").await;
    assert!(cut.starts_with("spark-3f2c") && cut.ends_with("retry-3") && cut.len() < WAITS.len());
    let title: String = tab.value("document.querySelector('[data-column=id] a').title").await;
    assert_eq!(title, WAITS);
    tab.click("[data-column=id] .copy").await;
    tab.until(&format!("window.copied === {}", Value::from(WAITS))).await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn gpus_are_shown_and_unused_types_only_on_demand() {
    let Some(LongScene { service: _service, rm: _rm, chromium, tab, address }) =
        LongScene::start().await
    else {
        return;
    };
    tab.open(&address).await;
    let heads = "[...document.querySelectorAll('#queues th.bars')].map(it => it.innerText)";
    tab.until(&format!("{heads}.includes('nvidia.com/gpu')")).await;
    let shown: Vec<String> = tab.value(heads).await;
    assert_eq!(shown, ["cores", "memory", "nvidia.com/gpu"]);
    tab.click("#queues .types").await;
    tab.until(&format!("{heads}.length === 5 && location.search.includes('types=all')")).await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
