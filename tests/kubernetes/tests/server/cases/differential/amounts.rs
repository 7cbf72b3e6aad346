//! Amounts of pods and nodes. A row offers nodes of growing size, so the nodes that a pod may use
//! show how much it counts for.

use serde_json::{Value, json};

use super::run::alike;
use super::{
    Call, Outcome, Row, Scene, beside, create, delete, given, goes, node, own, patch, pod, scene,
    with,
};
use crate::cluster::Cluster;

/// A node with these amounts.
fn of(name: &str, amounts: Value) -> Value {
    node(name, json!({}), json!({"status": {"allocatable": amounts}}))
}

/// Nodes of one to four cores.
fn four() -> Vec<Value> {
    ["1", "2", "3", "4"].map(|cores| of(&format!("c{cores}"), json!({"cpu": cores}))).to_vec()
}

const FROM_2: &[&str] = &["c2", "c3", "c4"];
const FROM_3: &[&str] = &["c3", "c4"];

fn asks(cpu: &str) -> Value {
    json!({"resources": {"requests": {"cpu": cpu}}})
}

fn containers(cpu: &[&str]) -> Value {
    json!({"containers": cpu.iter().map(|cpu| asks(cpu)).collect::<Vec<_>>()})
}

fn spec(what: &str, spec: Value, nodes: &[&'static str]) -> Scene {
    scene("amounts", four(), vec![goes(what, pod(json!({}), spec), nodes).pinned()])
}

fn of_pods() -> Vec<Scene> {
    let sidecar = |cpu: &str| with(&asks(cpu), &json!({"restartPolicy": "Always"}));
    let with_init =
        |init: Vec<Value>, cpu: &[&str]| with(&containers(cpu), &json!({"initContainers": init}));
    let whole = |more: Value| with(&containers(&["1"]), &json!({"resources": more}));
    vec![
        spec("a sum", containers(&["1500m", "500m"]), FROM_2),
        spec("a little more", containers(&["1500m", "501m"]), FROM_3),
        spec("less than a thousandth", containers(&["1", "0.0005"]), FROM_2),
        spec(
            "what is limited is wanted",
            json!({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}),
            FROM_2,
        ),
        spec("init containers one by one", with_init(vec![asks("3"), asks("2")], &["1"]), FROM_3),
        spec("less than the containers", with_init(vec![asks("1")], &["1", "1"]), FROM_2),
        spec("a sidecar beside containers", with_init(vec![sidecar("1")], &["1", "1"]), FROM_3),
        spec(
            "a sidecar beside what comes behind it",
            with_init(vec![sidecar("1"), asks("2")], &["1"]),
            FROM_3,
        ),
        spec(
            "a sidecar behind the large one",
            with_init(vec![asks("3"), sidecar("1")], &["1"]),
            FROM_3,
        ),
        spec("two sidecars", with_init(vec![sidecar("1"), sidecar("1")], &["1"]), FROM_3),
        spec("of the pod as a whole", whole(json!({"requests": {"cpu": "3"}})), FROM_3),
        spec(
            "of the pod as a whole, by its limit",
            json!({"resources": {"limits": {"cpu": "3"}}}),
            FROM_3,
        ),
        spec(
            "the whole and an init container",
            with(
                &with_init(vec![asks("1")], &["1"]),
                &json!({"resources": {"requests": {"cpu": "2"}}}),
            ),
            FROM_2,
        ),
        spec("nothing", json!({}), &["c1", "c2", "c3", "c4"]),
        scene(
            "overhead",
            four(),
            vec![
                goes(
                    "overhead",
                    pod(
                        json!({}),
                        with(&containers(&["1"]), &json!({"runtimeClassName": "heavy"})),
                    ),
                    FROM_3,
                )
                .pinned(),
            ],
        )
        .with(create(
            "/apis/node.k8s.io/v1/runtimeclasses",
            json!({"metadata": {"name": "heavy"},
                "handler": "heavy", "overhead": {"podFixed": {"cpu": "1500m"}}}),
        )),
    ]
}

/// Amounts of other types, and the reasons if no node fits.
fn of_kinds() -> Vec<Scene> {
    let gpu = "example.com/gpu";
    let wants = |kind: &str, amount: &str| {
        let amounts = json!({kind: amount});
        let resources = json!({"requests": amounts, "limits": amounts});
        pod(json!({}), json!({"containers": [{"resources": resources}]}))
    };
    let two = |kind: &str, less: &str, more: &str| {
        vec![of("less", json!({kind: less})), of("more", json!({kind: more}))]
    };
    let kinds = [
        ("memory", "1Gi", "2Gi", "1025Mi"),
        ("ephemeral-storage", "1Gi", "2Gi", "1025Mi"),
        (gpu, "1", "4", "2"),
        ("hugepages-2Mi", "2Mi", "64Mi", "4Mi"),
    ];
    let mut pinned = Vec::new();
    for (kind, less, more, wanted) in kinds {
        let wants = match kind {
            // Nodes always need memory and cores.
            "hugepages-2Mi" => with(
                &wants(kind, wanted),
                &json!({"spec": {"containers": [
                {"resources": {"requests": {"cpu": "1", kind: wanted}, "limits": {kind: wanted}}}]}}),
            ),
            _ => wants(kind, wanted),
        };
        let row = goes(kind, wants, &["more"]).pinned();
        pinned.push(scene("kinds", two(kind, less, more), vec![row]));
    }
    let mut scenes = vec![beside("kinds", pinned)];
    scenes.push(scene(
        "nowhere",
        four(),
        vec![
            given("of no node").asks("asked", wants("example.com/none", "1"), Outcome::Waits),
            given("of no node at all").asks(
                "asked",
                pod(json!({}), containers(&["5"])),
                Outcome::Waits,
            ),
            given("of two kinds")
                .asks(
                    "asked",
                    pod(
                        json!({}),
                        json!({"containers": [{"resources": {"requests":
                    {"cpu": "3500m", "memory": "65Gi"}}}]}),
                    ),
                    Outcome::Waits,
                )
                .counts(Some("ours counts a node that is too small once, not for each amount")),
        ],
    ));
    scenes
}

/// A pod that takes two cores of `c4`, and is resized to three.
fn of_what_runs() -> Vec<Scene> {
    let two = || pod(json!({}), containers(&["2"]));
    let row = |what: &str, cpu: &str, outcome: Outcome| {
        let row = given(what).runs("c4", two()).pinned();
        row.asks("asked", pod(json!({}), containers(&[cpu])), outcome)
    };
    let there = || Outcome::Goes(vec!["c4"]);
    let waits = || Outcome::Goes(vec![]);
    let phase = |phase: &str| patch(&own("pods/r0/status"), json!({"status": {"phase": phase}}));
    let gone = |grace: u32| delete(&own("pods/r0"), grace);
    // Allocated amounts, and the status of the resize.
    let set_aside = |cpu: &str, conditions: Value| {
        let container = json!({"name": "c0", "image": "c", "imageID": "", "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}});
        let status = json!({"phase": "Running", "containerStatuses": [container],
            "conditions": conditions});
        patch(&own("pods/r0/status"), json!({"status": status}))
    };
    let resize = |cpu: &str| {
        let containers =
            json!([{"name": "c0", "image": "c", "resources": {"requests": {"cpu": cpu}}}]);
        patch(&own("pods/r0/resize"), json!({"spec": {"containers": containers}}))
    };
    let pending =
        |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    let resized = |row: Row, cpu: &str, conditions: Value| {
        let row = row.happened(set_aside("2", json!([]))).happened(resize(cpu));
        row.happened(set_aside("2", conditions))
    };
    let none = || json!([]);
    let rows = vec![
        row("enough is left", "2", there()),
        row("too little is left", "2001m", waits()).then(vec![gone(0)], [there()]),
        row("one that has succeeded", "4", there()).happened(phase("Succeeded")),
        row("one that has failed", "4", there()).happened(phase("Failed")),
        row("one that ends then", "4", waits()).then(vec![phase("Succeeded")], [there()]),
        row("one that is going", "3", waits()).happened(gone(30)).then(vec![gone(0)], [there()]),
        // A resize in place counts the larger of the desired and the allocated amounts.
        resized(row("one that grows", "2", waits()), "3", none()),
        resized(row("one that grows leaves one", "1", there()), "3", none()),
        resized(row("one that shrinks", "3", waits()), "1", none())
            .then(vec![set_aside("1", none())], [there()]),
        resized(row("a growth that is deferred", "2", waits()), "3", pending("Deferred")),
        resized(row("a growth that is infeasible", "2", there()), "4", pending("Infeasible")),
        row("one that grows then", "3", waits())
            .then(vec![set_aside("2", none()), resize("1"), set_aside("1", none())], [there()]),
    ];
    let alone = |row| scene("runs", vec![four()[3].clone()], vec![row]);
    vec![beside("runs", rows.into_iter().map(alone).collect())]
}

/// Rows about the number of pods of a node, full nodes, and pools.
fn of_nodes() -> Vec<Scene> {
    let plain = || pod(json!({}), json!({}));
    let one_place = vec![of("p1", json!({"pods": "1"})), of("p2", json!({"pods": "2"}))];
    let places = goes("places for pods", plain(), &["p2"]).pinned();
    let places = places.runs("p1", plain()).runs("p2", plain());
    let no_place = given("no place for pods").runs("p1", plain());
    let no_place = no_place.asks("asked", plain(), Outcome::Waits);
    let full =
        given("nothing fits where all is taken").runs("c1", pod(json!({}), containers(&["1"])));
    let full = full.asks("asked", plain(), Outcome::Among(vec!["c1"]));
    let over = given("nothing fits where too much is taken");
    let over = over.runs("c1", pod(json!({}), containers(&["2"])));
    let over = over.asks("asked", plain(), Outcome::Among(vec!["c1"]));
    let later = given("a node that comes").asks(
        "asked",
        pod(json!({}), containers(&["3"])),
        Outcome::Waits,
    );
    let later = later.then(
        vec![create("/api/v1/nodes", of("c9", json!({"cpu": "9"})))],
        [Outcome::Among(vec!["c9"])],
    );
    let grown = given("a node that grows").asks(
        "asked",
        pod(json!({}), containers(&["3"])),
        Outcome::Waits,
    );
    let more = json!({"status": {"allocatable": {"cpu": "3"}, "capacity": {"cpu": "3"}}});
    let grown =
        grown.then(vec![patch("/api/v1/nodes/c1/status", more)], [Outcome::Among(vec!["c1"])]);
    let c1 = || vec![of("c1", json!({"cpu": "1"}))];
    vec![
        scene("places", one_place, vec![places]),
        scene("no place", vec![of("p1", json!({"pods": "1"}))], vec![no_place]),
        scene("full", c1(), vec![full]),
        scene("over-committed", c1(), vec![over]),
        scene("a node comes", c1(), vec![later]),
        scene("a node grows", c1(), vec![grown]),
        pools(),
    ]
}

/// Pools: one with a node that has one core left and a tainted node, and one with only the tainted
/// node.
fn pools() -> Scene {
    let pool = |name: &str, pool: &str, more: Value| {
        let cores = json!({"status": {"allocatable": {"cpu": "4"}}});
        node(name, json!({"pool": pool}), with(&cores, &more))
    };
    let tainted = json!({"spec": {"taints": [
        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}});
    let nodes = vec![
        pool("full", "a", json!({})),
        pool("other", "b", json!({})),
        pool("master", "a", tainted),
    ];
    let of_a = with(&containers(&["2"]), &json!({"nodeSelector": {"pool": "a"}}));
    let row = given("the node of its pool is full");
    let row = row.runs("full", pod(json!({}), containers(&["3"])));
    let row = row.asks("asked", pod(json!({}), of_a), Outcome::Waits);
    let freed: Vec<Call> = vec![delete(&own("pods/r0"), 0)];
    scene("pools", nodes, vec![row.then(freed, [Outcome::Among(vec!["full"])])])
}

/// Nodes that lack room and fail for another reason too.
fn of_two_obstacles() -> Vec<Scene> {
    let wants = |what: &str, cpu: &str, more: Value| {
        given(what).asks("asked", pod(json!({}), with(&containers(&[cpu]), &more)), Outcome::Waits)
    };
    let tainted = |name: &str, cores: &str| {
        let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        with(&of(name, json!({"cpu": cores})), &taint)
    };
    let nowhere = json!({"nodeSelector": {"no": "where"}});
    let port = json!([{"hostPort": 80}]);
    let listens = json!({"containers": [with(&asks("1"), &json!({"ports": port}))]});
    let listens_too = json!({"containers": [with(&asks("2"), &json!({"ports": port}))]});
    let port = given("no port, and no room").runs("c2", pod(json!({}), listens));
    let port = port.asks("asked", pod(json!({}), listens_too), Outcome::Waits);
    let of_node = |what: &str, more: Value| wants(what, "4", more);
    let (small, large) = (|| of("c2", json!({"cpu": "2"})), || of("c8", json!({"cpu": "8"})));
    vec![
        scene("selector", vec![small(), large()], vec![of_node("no room, and no label", nowhere)]),
        scene(
            "taint",
            vec![tainted("c2", "2"), tainted("c8", "8")],
            vec![of_node("no room, and a taint", json!({}))],
        ),
        scene(
            "port",
            vec![small()],
            vec![port.counts(Some("ours looks at ports of nodes with room alone"))],
        ),
    ]
}

pub async fn requests_and_capacities(cluster: &mut Cluster) -> anyhow::Result<()> {
    let mut scenes = vec![beside("pods", of_pods())];
    scenes.extend(of_kinds());
    scenes.extend(of_what_runs());
    scenes.extend(of_nodes());
    scenes.extend(of_two_obstacles());
    alike(cluster, &[], scenes).await
}
