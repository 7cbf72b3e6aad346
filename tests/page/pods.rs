//! Names of pods, with the UID as a title. Other requests have their key.

use monoceros_proto::si::v1 as si;
use serde_json::{Value, json};

use crate::browser::{Chromium, Tab};
use crate::harness::{Rm, Service, amount, ask, node};

/// The first part of all UIDs here, by which they are recognized.
const UID: &str = "7d1c0f2e";

/// Returns the UID of a pod. UIDs sort in reverse order of one-letter names.
fn uid(name: &str) -> String {
    format!("{UID}-0000-4000-8000-{:012}", 255 - name.as_bytes()[0])
}

/// Makes a request for one core, by a pod in the namespace `lab`.
fn pod(application: &str, name: &str) -> si::Allocation {
    let tags = [("namespace", "lab"), ("podName", name)];
    let tags = tags.map(|(tag, value)| (format!("kubernetes.io/meta/{tag}"), value.to_owned()));
    si::Allocation { allocation_tags: tags.into(), ..ask(application, &uid(name)) }
}

/// Two pods run on the only node. Two other pods, and a request that is no pod, are too large for
/// it. One pod is foreign.
async fn start() -> Option<(Service, Rm, Chromium, Tab, String)> {
    let chromium = Chromium::start().await?;
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_application("job", "root.a").await;
    rm.send_nodes(vec![node("n1", 2_000, 16)]).await;
    rm.until("the node", |seen| seen.accepted_nodes.len() == 1).await;
    let mut other = si::Allocation {
        resource_per_alloc: Some(amount(&[("pods", 1)])),
        node_id: "n1".to_owned(),
        ..pod("", "proxy")
    };
    other.allocation_tags.insert("foreign".to_owned(), "default".to_owned());
    rm.send_allocations(vec![], vec![other, pod("job", "a"), pod("job", "b")], vec![]).await;
    rm.until("those that fit", |seen| seen.new.len() == 2).await;
    let large = |of: si::Allocation, vcore| si::Allocation {
        resource_per_alloc: Some(amount(&[("vcore", vcore)])),
        ..of
    };
    let [c, d] = ["c", "d"].map(|name| large(pod("job", name), 9_000));
    rm.send_allocations(vec![], vec![c, d, large(ask("job", "plain"), 8_000)], vec![]).await;
    let tab = chromium.tab().await;
    let page = format!("http://{}/ui", service.http);
    Some((service, rm, chromium, tab, page))
}

/// Returns the names in a part of the page, each with its title.
async fn names(tab: &Tab, within: &str) -> Value {
    let names = format!("[...document.querySelectorAll('{within} [title^=\"{UID}\"]')]");
    tab.value(&format!("{names}.map(it => [it.textContent, it.title])")).await
}

/// Returns names of pods with their titles, in the form of [`names`].
fn titled(pods: &[&str]) -> Value {
    pods.iter().map(|pod| json!([format!("lab/{pod}"), uid(pod)])).collect::<Vec<_>>().into()
}

#[tokio::test]
async fn pods_are_shown_by_namespace_and_name() {
    let Some((_service, _rm, chromium, tab, page)) = start().await else { return };
    tab.open(&format!("{page}/application?id=job&sort=key")).await;
    tab.until("document.querySelectorAll('#requests tbody tr').length === 2").await;
    tab.until("document.querySelectorAll('article.why').length === 2").await;
    assert_eq!(names(&tab, "#allocations").await, titled(&["a", "b"]), "in order of names");
    assert_eq!(names(&tab, "#requests").await, titled(&["d"]));
    let requests = tab.rows("#requests table").await;
    for (row, begins) in requests.iter().zip(["lab/d and 1 more", "plain"]) {
        assert!(row["key"]["text"].as_str().unwrap().starts_with(begins), "{row}");
    }
    let alike: String =
        tab.value("document.querySelector('#requests [title*=\", \"]').title").await;
    assert_eq!(alike, "lab/d, lab/c");
    // Pending requests, and their place in the order.
    assert_eq!(names(&tab, ".keys").await, titled(&["c", "d"]));
    assert_eq!(names(&tab, ".order").await, titled(&["c"]));
    let why: Vec<String> =
        tab.value("[...document.querySelectorAll('.keys')].map(it => it.innerText)").await;
    assert!(why[0].starts_with("lab/c, lab/d ·") && why[1].starts_with("plain ·"), "{why:?}");
    tab.until_text("#why", "in job, behind lab/c").await;
    let text = tab.text("main").await;
    assert!(!text.contains(UID), "{text}");
    // The same list, sorted in the other direction.
    tab.open(&format!("{page}/application?id=job&sort=-key")).await;
    tab.until("document.querySelectorAll('#allocations tbody tr').length === 2").await;
    assert_eq!(names(&tab, "#allocations").await, titled(&["b", "a"]));
    // The pods on their node, with foreign pods.
    tab.open(&format!("{page}/node?id=n1&sort=key")).await;
    tab.until("document.querySelectorAll('#foreign tbody tr').length === 1").await;
    assert_eq!(names(&tab, "#allocations").await, titled(&["a", "b"]));
    assert_eq!(names(&tab, "#foreign").await, titled(&["proxy"]));
    let text = tab.text("main").await;
    assert!(!text.contains(UID), "{text}");
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn decisions_are_searched_by_pod_name() {
    let Some((_service, rm, chromium, tab, page)) = start().await else { return };
    // A pod with a required node preempts one of those there.
    let rm = rm.with_application("daemons", "root.b").await;
    let mut daemon = si::Allocation { priority: 5, ..pod("daemons", "x") };
    let required = ("yunikorn.apache.org/requiredNode".to_owned(), "n1".to_owned());
    daemon.allocation_tags.extend([required]);
    rm.send_allocations(vec![], vec![daemon], vec![]).await;
    rm.until("one has to leave", |seen| seen.released.len() == 1).await;
    let gone = rm.read(|seen| seen.released[0].allocation_key.clone());
    let (leaves, stays) = if gone == uid("a") { ("a", "b") } else { ("b", "a") };
    // The node is reserved for it, and its victim names the preemptor.
    tab.open(&format!("{page}/node?id=n1")).await;
    tab.until_text("#summary", "lab/x").await;
    assert_eq!(names(&tab, "#summary").await, titled(&["x"]));
    tab.open(&format!("{page}/decisions?application=job")).await;
    tab.until("document.querySelector('.decision .grounds') !== null").await;
    let grounds: String =
        tab.value("document.querySelector('.decision .grounds').textContent").await;
    assert!(grounds.contains("for pod lab/x of application daemons"), "{grounds}");
    tab.until_text(".decision .key", &format!("lab/{leaves}")).await;
    assert_eq!(names(&tab, ".decision .key").await, titled(&[leaves, "b", "a"]));
    assert_eq!(names(&tab, ".decision .levels").await, titled(&[leaves, stays]));
    // A placement compares queues and applications.
    let levels: String = tab.value("document.querySelectorAll('.levels')[1].textContent").await;
    assert!(levels.contains("root.a") && levels.contains("job"), "{levels}");
    // Name and UID find the same.
    for key in [format!("lab/{stays}"), uid(stays)] {
        tab.open(&format!("{page}/decisions?application=job&key={key}")).await;
        tab.until("document.querySelectorAll('.decision').length === 1").await;
        tab.until_text(".decision .key", &format!("lab/{stays}")).await;
    }
    tab.open(&format!("{page}/decisions?application=job&key=lab/nobody")).await;
    tab.until_text("main", "No decision that is kept is of this kind").await;
    tab.open(&format!("{page}/decisions?node=n1&key=lab/{leaves}&kind=allocation")).await;
    tab.until("document.querySelectorAll('.decision').length === 1").await;
    assert_eq!(names(&tab, ".decision .key").await, titled(&[leaves]));
    // No decision is shown for an unknown application.
    tab.open(&format!("{page}/decisions?application=gone&key={}", uid("a"))).await;
    tab.until_text("main", "No decision that is kept is of this kind").await;
    // Without a filter, each decision has its own pod.
    for key in [format!("lab/{stays}"), uid(stays)] {
        tab.open(&format!("{page}/decisions?key={key}")).await;
        tab.until_text(".decision .key", &format!("lab/{stays}")).await;
    }
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn events_are_searched_by_pod_name() {
    let Some((_service, _rm, chromium, tab, page)) = start().await else { return };
    // One of the foreign pod, three of each running one, and at least one of each pending one.
    tab.open(&format!("{page}/events?from=0&search=lab/")).await;
    tab.until("document.querySelectorAll('#events tbody tr').length >= 9").await;
    let text = tab.text("main").await;
    assert!(!text.contains(UID), "{text}");
    for pod in ["a", "proxy"] {
        tab.open(&format!("{page}/events?from=0&search=lab/{pod}")).await;
        tab.until_text("#events tbody", &format!("lab/{pod}")).await;
        let rows = "document.querySelectorAll('#events tbody tr').length";
        let n_rows: usize = tab.value(rows).await;
        assert_eq!(names(&tab, "#events tbody").await, titled(&vec![pod; n_rows]));
    }
    // A request that is no pod has its key.
    tab.open(&format!("{page}/events?from=0&search=plain")).await;
    tab.until_text("#events tbody", "plain").await;
    assert_eq!(names(&tab, "#events tbody").await, json!([]));
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
