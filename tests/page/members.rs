//! The view of the members of a cluster, with a document of the cluster in place of a real one; and
//! a service without a cluster, which has no such view.

use serde_json::{Value, json};

use crate::browser::{Chromium, Tab};
use crate::long_names::assert_layout;
use crate::scene::Scene;

/// Returns the document of a cluster whose member `m1` answers and serves the RM of the scene.
fn cluster(state: &str, problem: Option<&str>) -> Value {
    let member = |id: &str, state: &str, rms: u32, beat: Option<u32>| {
        let incarnation = "0".repeat(32);
        let addresses = [50_051, 9_080].map(|port| format!("{id}.members.scheduler.svc:{port}"));
        let [grpc, rest] = addresses;
        let mut row = json!({"id": id, "incarnation": incarnation, "version": "1.2.3", "grpc": grpc,
            "rest": rest, "state": state, "rms": rms, "load": 1_000 * rms + 7});
        if let Some(beat) = beat {
            row["beatAgoMs"] = beat.into();
        }
        row
    };
    let mut claims = vec![json!({"rmId": "lab", "sessionId": "18446744073709551615",
        "member": "m1", "sinceMs": 1_790_000_000_000_u64})];
    claims.extend((0..4).map(|n| {
        json!({"rmId": format!("rm-{n}"), "sessionId": "7", "member": "m3", "sinceMs": 1_790_000_000_000_u64})
    }));
    claims.push(json!({"rmId": "nowhere", "sessionId": "8", "wantedBy": "m3", "sinceMs": 1}));
    let mut document = json!({
        "name": "west", "arbiter": "etcd", "member": "m1", "state": state, "leaseMs": 5_000,
        "readAgoMs": 20, "claims": claims,
        "members": [member("m0", "left", 0, None), member("m1", "alive", 1, Some(700)),
            member("m2", "silent", 0, Some(9_500)), member("m3", "alive", 4, Some(300))],
        "notInForce": [{"policyGroup": "etl", "inForce": 2, "inArbiter": 3,
            "reason": "resource manager `lab`: queue `root.a` has applications"}],
    });
    document["members"][1]["notInForce"] = 1.into();
    if let Some(problem) = problem {
        document["problem"] = problem.into();
    }
    document
}

/// Answers reads of the cluster with this document, and lists with the header of the members that
/// have not answered.
async fn answer(tab: &Tab, document: &Value, missing: &str) {
    let script = format!(
        "{{ const real = window.fetch;
           window.fetch = async (path, ...rest) => {{
             if (path === '/ws/v1/cluster') return Response.json({document});
             const response = await real(path, ...rest);
             if (path !== '/ws/v1/sessions' || !'{missing}') return response;
             const headers = new Headers(response.headers);
             headers.set('X-Monoceros-Missing-Members', '{missing}');
             return new Response(response.body, {{status: response.status, headers}});
           }} }}"
    );
    tab.before_all(&script).await;
}

/// Names of the views in the head of the page.
const NAMED: &str = "[...document.querySelectorAll('header nav a')].map(it => it.innerText)";

#[tokio::test]
async fn members_and_their_resource_managers_are_shown() {
    let Some(chromium) = Chromium::start().await else { return };
    let scene = Scene::start().await;
    let tab = chromium.tab().await;
    let address = format!("http://{}", scene.service.http);
    answer(&tab, &cluster("serving", None), "").await;
    tab.open(&address).await;
    tab.until(&format!("{NAMED}.includes('Members')")).await;
    // A key leads to the view, as to the others.
    for key in ["g", "m"] {
        tab.press(key).await;
    }
    tab.until("location.pathname === '/ui/members'").await;
    tab.until_text("#members", "The cluster west has its claims in etcd").await;
    tab.until_text("#members", "silent for 5 s").await;
    let rows = tab.rows("#members table").await;
    let text = |row: &Value, column: &str| row[column]["text"].as_str().unwrap().to_owned();
    let keys: Vec<_> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["m1", "m2", "m3", "m0"], "what has ended comes last");
    assert!(text(&rows[0], "member").contains("answers here"), "{rows:?}");
    assert_eq!(text(&rows[0], "serves"), "lab");
    assert_eq!(text(&rows[0], "configurations"), "1 not in force");
    let why = "m1 cannot apply version 3 of the configuration of policy group etl: resource manager \
               `lab`: queue `root.a` has applications. It keeps version 2.";
    tab.until_text("#members .trouble", why).await;
    assert_eq!(text(&rows[1], "configurations"), "in force");
    assert_eq!(text(&rows[1], "state"), "silent");
    assert_eq!(text(&rows[1], "beat"), "9 s");
    assert_eq!(text(&rows[2], "serves"), "rm-0, rm-1, rm-2 and 1 more");
    assert_eq!(text(&rows[2], "rms"), "4");
    assert_eq!(text(&rows[3], "beat"), "–");

    let claims = tab.rows("#claims table").await;
    assert_eq!(claims.len(), 6);
    assert_eq!(text(&claims[0], "session"), "18446744073709551615");
    assert_eq!(text(&claims[5], "member"), "none");
    assert_eq!(text(&claims[5], "wanted"), "m3");
    tab.press("/").await;
    tab.write("M1").await;
    tab.until("document.querySelectorAll('#claims tbody tr').length === 1").await;
    tab.until_text("#count", "1 resource manager").await;
    for width in [1_400, 1_024, 390] {
        tab.resize(width, 900).await;
        tab.until(&format!("innerWidth === {width}")).await;
        assert_layout(&tab, &format!("members at {width}")).await;
    }

    // The sessions say where each is.
    tab.open(&format!("{address}/ui/sessions")).await;
    tab.until("document.querySelector('#sessions td[data-column=member]')?.innerText === 'm1'")
        .await;
    assert!(!tab.value::<bool>("document.querySelector('#missing') !== null").await);
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn a_member_says_what_is_wrong_with_it_and_others() {
    let Some(chromium) = Chromium::start().await else { return };
    let scene = Scene::start().await;
    let tab = chromium.tab().await;
    let address = format!("http://{}", scene.service.http);
    answer(&tab, &cluster("fenced", Some("etcd is away")), "m2,m3").await;
    tab.open(&format!("{address}/ui/members")).await;
    tab.until_text("#members .trouble", "m1 is fenced").await;
    tab.until_text("#members .trouble", "does not answer: etcd is away").await;
    tab.open(&format!("{address}/ui/sessions")).await;
    tab.until_text("#missing", "No answer from m2, m3").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn without_a_cluster_nothing_is_shown() {
    let Some(chromium) = Chromium::start().await else { return };
    let scene = Scene::start().await;
    let tab = chromium.tab().await;
    let address = format!("http://{}", scene.service.http);
    tab.open(&format!("{address}/ui/sessions")).await;
    tab.until("document.querySelectorAll('#sessions tbody tr').length === 1").await;
    let named: Vec<String> = tab.value(NAMED).await;
    assert_eq!(named.last().map(String::as_str), Some("Sessions"));
    assert!(tab.value::<bool>("document.querySelector('td[data-column=member]') === null").await);
    tab.open(&format!("{address}/ui/members")).await;
    tab.until("/no member of a cluster/.test(document.querySelector('main').innerText)").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
