//! Requests against a scheduler that is made up: what clients see of paths, headers, errors,
//! compression and documents.

use std::io::Read;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use expect_test::{Expect, expect};
use flate2::read::GzDecoder;
use monoceros_actors::config::placement::PlacementRules;
use monoceros_actors::metrics::Metrics;
use monoceros_actors::{ApplicationFilter, ApplicationState, Scheduler};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tower::{Layer as _, ServiceExt};

use super::routes::Answers;
use super::*;
use crate::connections::Connections;
use crate::identity::layer::IdentityLayer;
use crate::identity::{Access, Rule};
use crate::settings::{Flags, Settings};
use crate::watchdog::{Health, Healthy};

/// Two RMs with a partition `default` each; the second has many queues.
#[derive(Clone, Debug)]
pub(super) struct Scripted {
    stopped: bool,
    /// The last step of each partition.
    step: u64,
}

pub(super) const RUNNING: Scripted = Scripted { stopped: false, step: 7 };

/// The most bytes of a body.
const MAX_BODY: usize = 1000;

fn queue(path: &str, children: Vec<QueueSnapshot>) -> QueueSnapshot {
    QueueSnapshot {
        queue_name: path.into(),
        is_leaf: children.is_empty(),
        child_names: children.iter().map(|child| child.queue_name.clone()).collect(),
        children,
        preemption_delay: "30s".into(),
        quota_preemption_delay: "0s".into(),
        ..QueueSnapshot::default()
    }
}

impl Scripted {
    fn number(&self, partition: &str) -> Result<usize, ReadError> {
        match partition {
            _ if self.stopped => Err(ReadError::Stopped),
            "default" | "[lab]default" => Ok(0),
            "[yard]default" => Ok(1),
            _ => Err(ReadError::PartitionNotFound(partition.to_owned())),
        }
    }
}

impl Scripted {
    async fn page<T>(
        &self,
        partition: &str,
        mut rows: Vec<T>,
        page: Page,
        id: impl Fn(&T) -> &String,
    ) -> Result<Listed<T>, ReadError> {
        let steps = self.steps(partition).await?;
        if let Some(after) = page.after {
            rows.retain(|row| *id(row) > after);
        }
        let limit = page.limit.unwrap_or(usize::MAX);
        let next = (rows.len() > limit).then(|| id(&rows[limit - 1]).clone());
        rows.truncate(limit);
        Ok(Listed { rows, next, steps: Steps { last: steps.last + 2, ..steps } })
    }
}

impl Reads for Scripted {
    fn partition_names(&self) -> Vec<String> {
        let names = ["[lab]default", "[yard]default"].map(str::to_owned);
        if self.stopped { Vec::new() } else { names.into() }
    }

    async fn clusters(&self) -> Vec<ClusterSnapshot> {
        vec![ClusterSnapshot { partition: "default".into(), ..ClusterSnapshot::default() }; 2]
    }

    async fn partitions(&self) -> Vec<PartitionSnapshot> {
        let partition = |cluster_id: &str| PartitionSnapshot {
            cluster_id: cluster_id.into(),
            name: "default".into(),
            applications: [("total".into(), 0)].into(),
            ..PartitionSnapshot::default()
        };
        vec![partition("lab"), partition("yard")]
    }

    async fn check_configuration(
        &self,
        text: String,
    ) -> Result<Result<String, ConfigErrors>, TooBusy> {
        Ok(monoceros_actors::config::parse(&text).map(|configuration| configuration.checksum))
    }

    async fn steps(&self, partition: &str) -> Result<Steps, ReadError> {
        let number = u64::try_from(self.number(partition)?).unwrap();
        Ok(Steps { partition: 0xa + number, first: self.step, last: self.step })
    }

    async fn queues(
        &self,
        partition: &str,
        _: Option<&str>,
    ) -> Result<(Option<QueueSnapshot>, Steps), ReadError> {
        let children = match self.number(partition)? {
            0 => {
                vec![queue("root.a", vec![queue("root.a.b/c#d", vec![])]), queue("root.ab", vec![])]
            }
            _ => (0..50).map(|n| queue(&format!("root.q{n:02}"), vec![])).collect(),
        };
        let root = QueueSnapshot { partition: "default".into(), ..queue("root", children) };
        Ok((Some(root), self.steps(partition).await?))
    }

    async fn configuration(
        &self,
        rm_id: &str,
    ) -> Result<ConfigurationSnapshot, ConfigurationError> {
        match rm_id {
            rm @ ("lab" | "yard") => Ok(ConfigurationSnapshot {
                rm_id: rm.into(),
                policy_group: "queues".into(),
                config: format!("partitions: [{{queues: [{{name: {rm}}}]}}]"),
                extra_config: [("Log.level".into(), "WARN".into())].into(),
                checksum: String::new(),
            }),
            rm => Err(ConfigurationError::NotRegistered(rm.to_owned())),
        }
    }

    async fn placement_rules(&self, partition: &str) -> Result<Vec<ShownRule>, ReadError> {
        self.number(partition)?;
        Ok(PlacementRules::build(&[]).unwrap().shown())
    }

    async fn explain(
        &self,
        partition: &str,
        application: &str,
        offset: usize,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        self.number(partition)?;
        if application != "app" {
            return Err(ExplainError::ApplicationNotFound(application.to_owned()));
        }
        let cause = format!("behind {offset}");
        Ok(vec![ExplanationSnapshot { cause, ..ExplanationSnapshot::default() }])
    }

    async fn explain_ask(
        &self,
        partition: &str,
        application: &str,
        key: &str,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        self.number(partition)?;
        let (application, ask) = (application.to_owned(), key.to_owned());
        Err(ExplainError::AskNotFound { application, ask })
    }

    async fn decisions(
        &self,
        partition: &str,
        filter: DecisionFilter,
        page: Page,
    ) -> Result<Listed<DecisionSnapshot>, ReadError> {
        self.number(partition)?;
        let text = format!("{filter:?} {page:?}");
        let decision = DecisionSnapshot { id: 3, ruled: text, ..DecisionSnapshot::default() };
        let steps = self.steps(partition).await?;
        Ok(Listed { rows: vec![decision], next: None, steps })
    }

    async fn users(&self, partition: &str, page: Page) -> Result<Listed<UserSnapshot>, ReadError> {
        let name = if self.number(partition)? == 0 { "svc$" } else { "ann" };
        let user = UserSnapshot { user_name: name.into(), ..UserSnapshot::default() };
        self.page(partition, vec![user], page, |user| &user.user_name).await
    }

    async fn user(&self, partition: &str, name: &str) -> Result<Option<UserSnapshot>, ReadError> {
        let users = self.users(partition, Page::default()).await?;
        Ok(users.rows.into_iter().find(|user| user.user_name == name))
    }

    async fn groups(
        &self,
        partition: &str,
        page: Page,
    ) -> Result<Listed<GroupSnapshot>, ReadError> {
        let group =
            |name: &str| GroupSnapshot { group_name: name.into(), ..GroupSnapshot::default() };
        let all = vec![group("*"), group("dev.ops")];
        self.page(partition, all, page, |group| &group.group_name).await
    }

    async fn group(&self, partition: &str, name: &str) -> Result<Option<GroupSnapshot>, ReadError> {
        let groups = self.groups(partition, Page::default()).await?;
        Ok(groups.rows.into_iter().find(|group| group.group_name == name))
    }

    async fn nodes(&self, partition: &str, page: Page) -> Result<Listed<NodeSnapshot>, ReadError> {
        let node = |id: &str| NodeSnapshot { node_id: id.into(), ..NodeSnapshot::default() };
        let all = vec![node("n 1"), node("n2"), node("ü")];
        self.page(partition, all, page, |node| &node.node_id).await
    }

    async fn node(&self, partition: &str, id: &str) -> Result<Option<NodeSnapshot>, ReadError> {
        let nodes = self.nodes(partition, Page::default()).await?;
        Ok(nodes.rows.into_iter().find(|node| node.node_id == id))
    }

    async fn application(
        &self,
        partition: &str,
        id: &str,
    ) -> Result<Option<ApplicationSnapshot>, ReadError> {
        let list = ApplicationList::Live(ApplicationFilter::default());
        let live = self.applications(partition, list, Page::default()).await?;
        Ok(live.rows.into_iter().find(|app| app.application_id == id))
    }

    async fn applications(
        &self,
        partition: &str,
        list: ApplicationList,
        page: Page,
    ) -> Result<Listed<ApplicationSnapshot>, ReadError> {
        use ApplicationState as State;
        self.number(partition)?;
        let app = |id: &str, state: ApplicationState| ApplicationSnapshot {
            application_id: id.into(),
            application_state: state.text().into(),
            ..ApplicationSnapshot::default()
        };
        let all = match list {
            ApplicationList::Live(ApplicationFilter { queue: Some(queue), .. }) => {
                match queue.as_str() {
                    "root.ab" => vec![ApplicationSnapshot {
                        application_id: "app-1".into(),
                        queue_name: queue,
                        ..ApplicationSnapshot::default()
                    }],
                    "root" | "root.a" => vec![],
                    _ => return Err(ReadError::QueueNotFound(queue)),
                }
            }
            ApplicationList::Live(filter) => {
                let app = |id: &str, state| ApplicationSnapshot {
                    queue_name: "root.a".into(),
                    ..app(id, state)
                };
                let live = [("app 1", State::Running), ("app-2", State::New)].into_iter();
                let states = filter.states;
                let wanted = |state: &State| states.is_empty() || states.contains(state);
                live.filter(|(_, state)| wanted(state)).map(|(id, state)| app(id, state)).collect()
            }
            ApplicationList::Completed(_) if page.after.is_some() => {
                return Err(ReadError::NotAPlace(page.after.unwrap()));
            }
            ApplicationList::Completed(_) => {
                vec![app("app-0", State::Completed), app("app-0", State::Failed)]
            }
            ApplicationList::Rejected(_) => vec![app("app-9", State::Rejected)],
        };
        self.page(partition, all, page, |app| &app.application_id).await
    }

    async fn node_utilizations(&self) -> Vec<NodeUtilizationSnapshot> {
        let of = |cluster_id: &str| NodeUtilizationSnapshot {
            cluster_id: cluster_id.into(),
            partition: "default".into(),
            utilizations: vec![],
        };
        vec![of("lab"), of("yard")]
    }

    fn events(&self) -> EventReader {
        Scheduler::builder().start().unwrap().events()
    }

    async fn state_dump(&self, _: &Logbook) -> Result<Vec<u8>, DumpError> {
        if self.stopped { Err(DumpError::Stopped) } else { Ok(b"{}\n".to_vec()) }
    }

    async fn refresh_metrics(&self) {}

    fn metrics(&self) -> prometheus::Registry {
        Metrics::new().registry()
    }
}

async fn send(source: Scripted, request: Request<Body>) -> Response {
    router(source, MAX_BODY).oneshot(request).await.unwrap()
}

async fn call(method: &str, uri: &str) -> Response {
    let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    send(RUNNING, request).await
}

async fn get_with_encoding(uri: &str, encoding: &str) -> Response {
    let request = Request::get(uri).header("accept-encoding", encoding);
    send(RUNNING, request.body(Body::empty()).unwrap()).await
}

async fn body(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Status, headers and body, as a client prints them.
async fn shown(response: Response) -> String {
    use std::fmt::Write;
    let mut text = format!("{}\n", response.status());
    for (name, value) in response.headers() {
        writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
    }
    format!("{text}\n{}", body(response).await)
}

async fn check(method: &str, uri: &str, expected: &Expect) {
    expected.assert_eq(&shown(call(method, uri).await).await);
}

async fn check_error(uri: &str, status: u16, message: &str) {
    let response = call("GET", uri).await;
    assert_eq!(response.status().as_u16(), status, "{uri}");
    assert_eq!(response.headers()["content-type"], "application/json; charset=UTF-8", "{uri}");
    assert_eq!(response.headers()["access-control-allow-origin"], "*", "{uri}");
    let object = serde_json::json!({
        "status_code": status, "message": message, "description": message,
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&body(response).await).unwrap(), object);
}

const P: &str = "/ws/v1/partition/default";

#[tokio::test]
async fn json_documents_have_their_headers_and_the_cors_trio() {
    check("GET", "/ws/v1/clusters", &expect![[r#"
        200 OK
        content-type: application/json; charset=UTF-8
        access-control-allow-origin: *
        access-control-allow-methods: GET, OPTIONS
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        content-length: 104

        [{"partition":"default","clusterName":"kubernetes"},{"partition":"default","clusterName":"kubernetes"}]
    "#]]).await;
    check("GET", "/ws/v1/partitions", &expect![[r#"
        200 OK
        content-type: application/json; charset=UTF-8
        access-control-allow-origin: *
        access-control-allow-methods: GET, OPTIONS
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        content-length: 403

        [{"clusterId":"lab","name":"default","capacity":{},"nodeSortingPolicy":{"type":""},"preemptionEnabled":false,"quotaPreemptionEnabled":false,"totalNodes":0,"applications":{"total":0},"decisionsKept":0},{"clusterId":"yard","name":"default","capacity":{},"nodeSortingPolicy":{"type":""},"preemptionEnabled":false,"quotaPreemptionEnabled":false,"totalNodes":0,"applications":{"total":0},"decisionsKept":0}]
    "#]]).await;
    check(
        "GET",
        &format!("{P}/node/n%201"),
        &expect![[r#"
            200 OK
            content-type: application/json; charset=UTF-8
            access-control-allow-origin: *
            access-control-allow-methods: GET, OPTIONS
            access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
            etag: W/"a-7-4fecfa96"
            x-step-first: 7
            x-step-last: 7
            access-control-expose-headers: ETag,Link,X-Step-First,X-Step-Last
            content-length: 72

            {"nodeID":"n 1","attributes":{},"schedulable":false,"isReserved":false}
        "#]],
    )
    .await;
    for path in [
        "placementrules",
        "queues",
        "queue/root",
        "nodes",
        "queue/root.ab/applications",
        "applications/active",
        "application/app%201",
        "usage/users",
        "usage/user/svc$",
        "usage/groups",
        "usage/group/dev.ops",
    ] {
        let response = call("GET", &format!("{P}/{path}")).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "application/json; charset=UTF-8");
        assert_eq!(response.headers()["access-control-allow-origin"], "*", "{path}");
    }
}

/// A request at a step of the partition, with these headers.
async fn get_at(step: u64, uri: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = Request::get(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let source = Scripted { step, ..RUNNING };
    send(source, request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn a_document_of_a_partition_says_when_it_was_read() {
    check(
        "GET",
        &format!("{P}/nodes?limit=2&after=a"),
        &expect![[r#"
            200 OK
            content-type: application/json; charset=UTF-8
            access-control-allow-origin: *
            access-control-allow-methods: GET, OPTIONS
            access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
            etag: W/"a-7-6682556b"
            x-step-first: 7
            x-step-last: 9
            link: </ws/v1/partition/default/nodes?limit=2&after=n2>; rel="next"
            access-control-expose-headers: ETag,Link,X-Step-First,X-Step-Last
            content-length: 145

            [{"nodeID":"n 1","attributes":{},"schedulable":false,"isReserved":false},{"nodeID":"n2","attributes":{},"schedulable":false,"isReserved":false}]
        "#]],
    )
    .await;
}

#[tokio::test]
async fn pages_are_behind_one_another_and_without_parameters_there_is_one() {
    let mut path = format!("{P}/nodes?limit=2");
    let mut pages = Vec::new();
    loop {
        let response = call("GET", &path).await;
        let next = response.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
        let nodes: Vec<serde_json::Value> = serde_json::from_str(&body(response).await).unwrap();
        let ids = nodes.iter().map(|node| node["nodeID"].as_str().unwrap().to_owned());
        pages.push(ids.collect::<Vec<_>>());
        let Some(next) = next else { break };
        path = next.strip_prefix('<').unwrap().split_once(">; rel=\"next\"").unwrap().0.to_owned();
    }
    assert_eq!(pages, [vec!["n 1", "n2"], vec!["ü"]]);
    let whole = call("GET", &format!("{P}/nodes")).await;
    assert!(!whole.headers().contains_key("link"));
    let whole: Vec<serde_json::Value> = serde_json::from_str(&body(whole).await).unwrap();
    assert_eq!(whole.len(), 3);
}

#[tokio::test]
async fn a_page_that_cannot_be_is_refused_after_the_partition() {
    let limit = "limit `none` is no number of rows (1 or more)";
    check_error(&format!("{P}/nodes?limit=none"), 400, limit).await;
    check_error("/ws/v1/partition/nope/nodes?limit=none", 404, "Partition not found").await;
    let after = "after `app-0` is no place in this list: follow the `Link` of a page";
    check_error(&format!("{P}/applications/completed?after=app-0"), 400, after).await;
}

#[tokio::test]
async fn who_has_a_document_is_not_sent_it_again_until_the_partition_makes_a_step() {
    for path in [
        "nodes",
        "nodes?limit=1",
        "queues",
        "queue/root.a",
        "node/n2",
        "applications/active",
        "application/app-2",
        "usage/users",
        "usage/groups",
    ] {
        let uri = format!("{P}/{path}");
        let first = get_at(7, &uri, &[]).await;
        let tag = first.headers()["etag"].to_str().unwrap().to_owned();
        assert!(tag.starts_with("W/\"a-7-"), "{tag}");
        let again = get_at(7, &uri, &[("if-none-match", &tag)]).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{path}");
        assert_eq!(again.headers()["etag"], *tag);
        assert_eq!(again.headers()["access-control-allow-origin"], "*");
        assert_eq!(body(again).await, "");
        let later = get_at(8, &uri, &[("if-none-match", &tag)]).await;
        assert_eq!(later.status(), StatusCode::OK, "{path}");
        assert_ne!(later.headers()["etag"], *tag);
        let elsewhere = uri.replace("/default/", "/%5Byard%5Ddefault/");
        let elsewhere = get_at(7, &elsewhere, &[("if-none-match", &tag)]).await;
        assert_ne!(elsewhere.status(), StatusCode::NOT_MODIFIED, "{path}");
    }
    check_error("/ws/v1/partition/nope/nodes", 404, "Partition not found").await;
}

/// The ids that a list of applications has.
async fn ids(path: &str) -> Vec<String> {
    let response = call("GET", &format!("{P}/applications/{path}")).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    let list: Vec<serde_json::Value> = serde_json::from_str(&body(response).await).unwrap();
    list.iter().map(|app| app["applicationID"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn applications_are_listed_by_whether_they_live_have_ended_or_were_rejected() {
    assert_eq!(ids("active").await, ["app 1", "app-2"]);
    assert_eq!(ids("ACTIVE").await, ["app 1", "app-2"]);
    assert_eq!(ids("completed").await, ["app-0", "app-0"]);
    assert_eq!(ids("Rejected").await, ["app-9"]);
}

#[tokio::test]
async fn live_applications_may_be_narrowed_to_a_state_and_others_not() {
    assert_eq!(ids("active?status=Running").await, ["app 1"]);
    assert_eq!(ids("active?status=failing").await, [""; 0]);
    assert_eq!(ids("active?status=").await, ["app 1", "app-2"]);
    assert_eq!(ids("completed?status=done").await, ["app-0", "app-0"]);
}

#[tokio::test]
async fn a_list_of_applications_that_there_is_not_is_refused_after_the_partition() {
    let states = "Only following application states are allowed: active, rejected, completed";
    check_error(&format!("{P}/applications/done"), 400, states).await;
    let statuses = "Only following active statuses are allowed: \
                    new,accepted,running,completing,failing,resuming";
    check_error(&format!("{P}/applications/active?status=failed"), 400, statuses).await;
    let nowhere = "/ws/v1/partition/nope/applications";
    check_error(&format!("{nowhere}/done"), 404, "Partition not found").await;
    check_error(&format!("{nowhere}/active?status=failed"), 404, "Partition not found").await;
}

#[tokio::test]
async fn one_application_is_found_while_it_lives() {
    let response = call("GET", &format!("{P}/application/app-2")).await;
    assert!(body(response).await.contains(r#""applicationID":"app-2""#));
    check_error(&format!("{P}/application/app-0"), 404, "Application not found").await;
    check_error("/ws/v1/partition/nope/application/x", 404, "Partition not found").await;
    let explain = format!("{P}/application/app/explain");
    check_error(&format!("{explain}?offset=x"), 400, "offset `x` is no number").await;
    check_error("/ws/v1/partition/nope/application/x/explain?offset=x", 404, "Partition not found")
        .await;
    check_error(&format!("{P}/application/a1/explain"), 404, "application `a1` not found").await;
    let ask = "ask `k 9` of application `app` not found";
    check_error(&format!("{explain}?ask=k+9"), 404, ask).await;
}

#[tokio::test]
async fn only_get_head_and_options_are_answered() {
    for method in ["PUT", "POST", "DELETE"] {
        let response = call(method, "/ws/v1/clusters").await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()["allow"], "GET, HEAD, OPTIONS");
    }
    check(
        "POST",
        "/ws/v1/metrics",
        &expect![[r"
        405 Method Not Allowed
        content-type: text/plain; charset=utf-8
        allow: GET, HEAD, OPTIONS
        content-length: 18

        Method Not Allowed"]],
    )
    .await;
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let paths = ["/", "/healthz", "/ws/v1/clusters", "/ws/v1/metrics", "/debug/fullstatedump"];
    let of_partition = ["nodes", "queues", "queue/root", "application/nobody"];
    let of_partition = of_partition.map(|path| format!("{P}/{path}"));
    let elsewhere = ["/ws/v1/nothing", "/ws/v1/CLUSTERS"];
    for path in paths.into_iter().chain(of_partition.iter().map(String::as_str)).chain(elsewhere) {
        let (get, head) = (call("GET", path).await, call("HEAD", path).await);
        assert_eq!((head.status(), head.headers()), (get.status(), get.headers()), "{path}");
        let length = body(get).await.len().to_string();
        assert_eq!(head.headers()["content-length"], *length, "{path}");
        assert_eq!(body(head).await, "", "{path}");
    }
}

#[tokio::test]
async fn options_lets_browsers_in() {
    check(
        "OPTIONS",
        &format!("{P}/queue/root"),
        &expect![[r"
        200 OK
        access-control-allow-origin: *
        access-control-allow-methods: GET, OPTIONS
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        allow: GET, HEAD, OPTIONS
        content-length: 0

    "]],
    )
    .await;
}

async fn post(text: impl Into<Body>) -> Response {
    send(RUNNING, Request::post("/ws/v1/validate-conf").body(text.into()).unwrap()).await
}

#[tokio::test]
async fn a_configuration_is_posted() {
    for method in ["GET", "HEAD", "PUT"] {
        let response = call(method, "/ws/v1/validate-conf").await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()["allow"], "OPTIONS, POST");
    }
    let response = call("OPTIONS", "/ws/v1/validate-conf").await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["allow"], "OPTIONS, POST");
    assert_eq!(response.headers()["access-control-allow-methods"], "OPTIONS, POST");
}

#[tokio::test]
async fn a_configuration_is_judged_with_200_whatever_it_is() {
    expect![[r#"
        200 OK
        content-type: application/json; charset=UTF-8
        access-control-allow-origin: *
        access-control-allow-methods: OPTIONS, POST
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        content-length: 117

        {"allowed":true,"checksum":"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855","checksumMatch":false}
    "#]]
    .assert_eq(&shown(post("").await).await);
    let response = post(b"\x80\x00".to_vec()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        body(response).await,
        "{\"allowed\":false,\"reason\":\"it is not UTF-8 from byte 0 on\"}\n"
    );
}

#[tokio::test]
async fn a_body_above_the_limit_is_not_read_to_its_end() {
    for (length, status) in [(MAX_BODY, 200), (MAX_BODY + 1, 413)] {
        let response = post("#".repeat(length)).await;
        assert_eq!(response.status().as_u16(), status);
        let is_told = body(response).await.contains("more than 1000 bytes");
        assert_eq!(is_told, status == 413);
    }
}

#[tokio::test]
async fn other_spellings_are_redirected_with_their_query() {
    check(
        "GET",
        "/ws/v1/CLUSTERS/?a=1&b=%3C",
        &expect![[r#"
        301 Moved Permanently
        content-type: text/html; charset=utf-8
        location: /ws/v1/clusters?a=1&b=%3C
        content-length: 63

        <a href="/ws/v1/clusters?a=1&amp;b=%3C">Moved Permanently</a>.
    "#]],
    )
    .await;
    check(
        "POST",
        "//ws/v1/clusters",
        &expect![[r#"
        307 Temporary Redirect
        content-type: text/html; charset=utf-8
        location: /ws/v1/clusters
        content-length: 50

        <a href="/ws/v1/clusters">Temporary Redirect</a>.
    "#]],
    )
    .await;
}

#[tokio::test]
async fn an_unknown_path_is_answered_in_plain_text() {
    check(
        "GET",
        "/ws/v1/nothing",
        &expect![[r"
        404 Not Found
        content-type: text/plain; charset=utf-8
        content-length: 18

        404 page not found"]],
    )
    .await;
}

#[tokio::test]
async fn what_is_not_found_is_named() {
    for path in [
        "placementrules",
        "queues",
        "queue/root!",
        "nodes",
        "node/n2",
        "queue/root.ab/applications",
        "usage/users",
        "usage/user/1abc",
        "usage/groups",
        "usage/group/%25Zt",
    ] {
        let uri = format!("/ws/v1/partition/none/{path}");
        check_error(&uri, 404, "Partition not found").await;
    }
    check_error(&format!("{P}/queue/root.none"), 404, "Queue not found").await;
    check_error(&format!("{P}/queue/a"), 404, "Queue not found").await;
    check_error(&format!("{P}/queue/root.none/applications"), 404, "Queue not found").await;
    check_error(&format!("{P}/node/n1"), 404, "Node not found").await;
    check_error(&format!("{P}/usage/user/ann"), 404, "User not found").await;
    check_error(&format!("{P}/usage/group/ops"), 404, "Group not found").await;
}

#[tokio::test]
async fn a_queue_that_cannot_be_is_refused() {
    let rule = |path: &str| {
        format!(
            "queue path `{path}` is not valid: a queue name has at most 64 characters, which are \
             alphanumerics and -, _, #, @, /, :"
        )
    };
    check_error(&format!("{P}/queue/root.a!"), 400, &rule("root.a!")).await;
    let long = format!("root.{}", "x".repeat(65));
    check_error(&format!("{P}/queue/{long}"), 400, &rule(&long)).await;
    for escape in ["%Zt", "%25Zt"] {
        let message = r#"invalid URL escape "%Zt""#;
        check_error(&format!("{P}/queue/{escape}"), 400, message).await;
        check_error(&format!("/ws/v1/partition/none/queue/{escape}/applications"), 400, message)
            .await;
    }
}

#[tokio::test]
async fn queues_are_found_in_any_encoding_and_letter_case() {
    for path in ["root.a.b%2Fc%23d", "root.a.b%252Fc%2523d", "ROOT.A.B%2Fc%23D"] {
        let response = call("GET", &format!("{P}/queue/{path}")).await;
        assert!(body(response).await.starts_with(r#"{"queuename":"root.a.b/c#d""#), "{path}");
    }
    check_error(&format!("{P}/queue/root.x@y:z"), 404, "Queue not found").await;
}

#[tokio::test]
async fn users_and_groups_have_names_that_can_be() {
    for user in ["1abc", "*", "a%20b", "a+b", "$"] {
        check_error(&format!("{P}/usage/user/{user}"), 400, "Invalid user name").await;
    }
    for group in ["a@b", "*", "svc$", "a%252Fb"] {
        check_error(&format!("{P}/usage/group/{group}"), 400, "Invalid group name").await;
    }
    check_error(&format!("{P}/usage/user/a%25Zt"), 400, r#"invalid URL escape "%Zt""#).await;
    for user in ["svc$", "svc%24", "svc%2524"] {
        let found = body(call("GET", &format!("{P}/usage/user/{user}")).await).await;
        assert_eq!(found, "{\"userName\":\"svc$\",\"queues\":{\"queuePath\":\"\"}}\n");
    }
}

#[tokio::test]
async fn usage_is_that_of_the_partition() {
    let users = async |partition: &str| {
        body(call("GET", &format!("/ws/v1/partition/{partition}/usage/users")).await).await
    };
    assert!(users("default").await.contains("svc$"));
    assert!(users("%5Byard%5Ddefault").await.contains("ann"));
    let groups = body(call("GET", &format!("{P}/usage/groups")).await).await;
    assert!(groups.starts_with(r#"[{"groupName":"*","#), "in the list `*` is: {groups}");
}

#[tokio::test]
async fn placement_rules_are_listed_with_the_internal_one() {
    let rules = body(call("GET", &format!("{P}/placementrules")).await).await;
    expect![[r#"
        [{"name":"provided","parameters":{"create":"false"}},{"name":"recovery","parameters":{"queue":"root.@recovery@"}}]
    "#]]
    .assert_eq(&rules);
}

async fn configuration(query: &str, accept: Option<&str>) -> Response {
    let mut request = Request::get(format!("/ws/v1/config{query}"));
    if let Some(accept) = accept {
        request = request.header("accept", accept);
    }
    send(RUNNING, request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn json_is_for_whoever_accepts_just_that() {
    for (accept, is_json) in [
        (Some("application/json"), true),
        (Some("application/json, */*"), false),
        (Some("Application/JSON"), false),
        (Some("*/*"), false),
        (None, false),
    ] {
        let response = configuration("", accept).await;
        let kind = if is_json { "application/json" } else { "application/x-yaml" };
        let kind = format!("{kind}; charset=UTF-8");
        assert_eq!(response.headers()["content-type"], kind, "{accept:?}");
        assert_eq!(response.headers()["access-control-allow-methods"], "GET, OPTIONS");
        assert_eq!(body(response).await.starts_with('{'), is_json, "{accept:?}");
    }
}

#[tokio::test]
async fn the_configuration_is_that_of_the_first_partition_or_of_the_rm_named() {
    for (query, queue) in [("", "lab"), ("?rm=", "lab"), ("?rm=yard&rm=lab", "yard")] {
        let yaml = body(configuration(query, None).await).await;
        assert!(yaml.contains(&format!("name: {queue}\n")), "{yaml}");
        assert!(yaml.contains("name: root\n") && yaml.contains("  Log.level: WARN\n"), "{yaml}");
    }
    check_error("/ws/v1/config?rm=who", 404, "resource manager `who` is not registered").await;
}

#[tokio::test]
async fn the_tree_is_whole_and_its_root_alone_names_the_partition() {
    let tree = body(call("GET", &format!("{P}/queues")).await).await;
    assert_eq!(tree.matches(r#""queuename""#).count(), 4);
    assert_eq!(tree.matches(r#""partition":"default""#).count(), 1);
    assert!(tree.ends_with("}\n"));
}

#[tokio::test]
async fn one_queue_comes_with_what_is_below_only_when_asked() {
    for (query, n_queues) in [("", 1), ("?subtree", 4), ("?subtree=false", 4), ("?a=subtree", 1)] {
        let tree = body(call("GET", &format!("{P}/queue/root{query}")).await).await;
        assert_eq!(tree.matches(r#""queuename""#).count(), n_queues, "{query}");
        assert_eq!(tree.matches(r#""partition":"""#).count(), n_queues, "{query}");
        assert!(tree.contains(r#""childNames":["root.a","root.ab"]"#), "{query}");
    }
}

#[tokio::test]
async fn applications_of_a_parent_are_none() {
    for (queue, document) in [
        ("root.a", "[]\n"),
        (
            "root.AB",
            "[{\"applicationID\":\"app-1\",\"partition\":\"\",\"queueName\":\"root.ab\",\
             \"resourceHistory\":{}}]\n",
        ),
    ] {
        let response = call("GET", &format!("{P}/queue/{queue}/applications")).await;
        assert_eq!(body(response).await, document);
    }
}

#[tokio::test]
async fn long_documents_are_compressed_for_whoever_asks() {
    let long = "/ws/v1/partition/%5Byard%5Ddefault/queues";
    let plain = body(call("GET", long).await).await;
    for encoding in ["gzip", "deflate, GZIP"] {
        let response = get_with_encoding(long, encoding).await;
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(response.headers().get_all("vary").iter().count(), 1);
        assert_eq!(response.headers()["vary"], "Accept-Encoding");
        let compressed = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let mut decoded = String::new();
        GzDecoder::new(&compressed[..]).read_to_string(&mut decoded).unwrap();
        assert_eq!(decoded, plain);
    }
    for (uri, encoding) in [(long, "gzip;q=0"), (long, "br"), ("/ws/v1/clusters", "gzip")] {
        let response = get_with_encoding(uri, encoding).await;
        assert!(!response.headers().contains_key("content-encoding"), "{uri} {encoding}");
        assert!(!response.headers().contains_key("vary"), "{uri} {encoding}");
    }
}

#[tokio::test]
async fn compression_begins_at_1400_bytes() {
    let mut request = axum::http::HeaderMap::new();
    request.insert("accept-encoding", "gzip".parse().unwrap());
    for (length, compressed) in [(1399, false), (1400, true)] {
        let reply = replies::EndpointReply::ok(replies::Class::Text, "x".repeat(length));
        let response = replies::respond(Ok(reply), Answers::Get, &request).await;
        assert_eq!(response.headers().contains_key("content-encoding"), compressed, "{length}");
    }
}

#[tokio::test]
async fn metrics_are_text_under_one_layer_of_gzip() {
    let response = get_with_encoding("/ws/v1/metrics", "gzip").await;
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(!response.headers().contains_key("access-control-allow-origin"));
    let compressed = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let mut page = String::new();
    GzDecoder::new(&compressed[..]).read_to_string(&mut page).unwrap();
    assert!(page.starts_with("# HELP monoceros_"), "{page}");
}

#[tokio::test]
async fn a_partition_is_named_plainly_or_with_its_rm() {
    for (name, n_queues) in [("default", 4), ("%5Blab%5Ddefault", 4), ("%5byard%5ddefault", 51)] {
        let tree = body(call("GET", &format!("/ws/v1/partition/{name}/queues")).await).await;
        assert_eq!(tree.matches(r#""queuename""#).count(), n_queues, "{name}");
    }
}

fn serving() -> Healthy {
    Healthy::fixed(Health::Serving)
}

#[tokio::test]
async fn health_says_whether_the_scheduler_is_there_and_stays() {
    check(
        "GET",
        "/healthz",
        &expect![[r"
        200 OK
        content-type: text/plain; charset=utf-8
        content-length: 8

        serving
    "]],
    )
    .await;
    let get = || Request::get("/healthz").body(Body::empty()).unwrap();
    for (health, why) in [(Health::Stuck, "does not answer"), (Health::Gone, "is lost")] {
        // One that never answers: nobody asks it.
        let healthy = Healthy::fixed(health);
        let router = router_until(
            RUNNING,
            Door::new(1 << 20),
            Logbook::default(),
            MAX_BODY,
            healthy,
            CancellationToken::new(),
            Guard::Open,
        );
        let sick = router.oneshot(get()).await.unwrap();
        assert_eq!(sick.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(shown(sick).await.contains(why));
    }
    let stopping = CancellationToken::new();
    stopping.cancel();
    let (door, logbook) = (Door::new(1 << 20), Logbook::default());
    let leaving = router_until(RUNNING, door, logbook, MAX_BODY, serving(), stopping, Guard::Open)
        .oneshot(get())
        .await
        .unwrap();
    expect![[r"
        503 Service Unavailable
        content-type: text/plain; charset=utf-8
        content-length: 9

        stopping
    "]]
    .assert_eq(&shown(leaving).await);
}

#[tokio::test]
async fn tools_are_told_of_threads_and_that_profiles_are_not_taken() {
    let moved = call("GET", "/ws/v1/stack?x=1").await;
    assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(moved.headers()["location"], "/debug/stack?x=1");
    let stack = call("GET", "/debug/stack").await;
    assert_eq!(stack.headers()["content-type"], "application/json; charset=UTF-8");
    let threads = body(stack).await;
    assert!(threads.contains(" tasks\n") && threads.contains("thread "), "{threads}");
    let index = call("GET", "/debug/pprof").await;
    assert_eq!(index.headers()["content-type"], "text/html; charset=utf-8");
    let cmdline = body(call("GET", "/debug/pprof/cmdline").await).await;
    assert!(cmdline.starts_with(&std::env::args().next().unwrap()));
    let message = "profiles are not taken here; take one of the process from outside";
    check_error("/debug/pprof/heap", 501, message).await;
}

#[tokio::test]
async fn what_nobody_wrote_down_is_empty_or_not_there() {
    for path in ["apps", "containers"] {
        assert_eq!(body(call("GET", &format!("/ws/v1/history/{path}")).await).await, "[]\n");
    }
    let path = "/ws/v1/scheduler/healthcheck";
    check_error(path, 404, "Health check is not available").await;
}

#[tokio::test]
async fn a_queue_lists_its_live_applications_alone() {
    let only = "Only following application states are allowed: active";
    let of = |queue: &str, state: &str| format!("{P}/queue/{queue}/applications/{state}");
    check_error(&of("root.ab", "completed"), 400, only).await;
    // Of several faults the first in this order is told.
    check_error(&of("root.none", "completed"), 404, "Queue not found").await;
    check_error(&of("%25Zt", "completed"), 400, r#"invalid URL escape "%Zt""#).await;
    let nowhere = "/ws/v1/partition/nope/queue/%25Zt/applications/completed";
    check_error(nowhere, 404, "Partition not found").await;
    let response = call("GET", &of("ROOT.ab", "Active?status=Running")).await;
    assert!(body(response).await.contains("app-1"));
    let status = of("root.ab", "active?status=failed");
    let statuses = "Only following active statuses are allowed: \
                    new,accepted,running,completing,failing,resuming";
    check_error(&status, 400, statuses).await;
}

#[tokio::test]
async fn an_application_is_found_in_its_queue_and_in_no_other() {
    let of = |queue: &str, id: &str| format!("{P}/queue/{queue}/application/{id}");
    check_error(&of("root.ab", "app-2"), 404, "Application not found").await;
    check_error(&of("root.none", "app-2"), 404, "Queue not found").await;
    check_error(
        &of("root!", "app-2"),
        400,
        "queue path `root!` is not valid: a queue name has at \
        most 64 characters, which are alphanumerics and -, _, #, @, /, :",
    )
    .await;
    let nowhere = "/ws/v1/partition/nope/queue";
    check_error(&format!("{nowhere}/root!/application/x"), 404, "Partition not found").await;
    let escape = r#"invalid URL escape "%Zt""#;
    check_error(&format!("{nowhere}/%25Zt/application/x"), 400, escape).await;
    let found = call("GET", &of("root.a", "app%201")).await;
    assert!(body(found).await.contains(r#""applicationID":"app 1""#));
}

#[tokio::test]
async fn a_range_of_events_is_asked_for_by_numbers() {
    let batch = "/ws/v1/events/batch";
    check_error(&format!("{batch}?count=0&start=x"), 400, "0 is not a valid value for \"count\"")
        .await;
    let wrong = |name, text| format!("{name} `{text}` is no number from 0 to {}", u64::MAX);
    check_error(&format!("{batch}?count=1.5&start=x"), 400, &wrong("count", "1.5")).await;
    check_error(&format!("{batch}?start=-1"), 400, &wrong("start", "-1")).await;
    let stream = "/ws/v1/events/stream?count=x";
    check_error(stream, 400, &wrong("count", "x")).await;
    let empty = body(call("GET", &format!("{batch}?count=99999999999")).await).await;
    let (_, rest) = empty.split_once(r#"","LowestID":"#).unwrap();
    assert_eq!(rest, "0,\"HighestID\":0,\"EventRecords\":null}\n");
}

#[tokio::test]
async fn the_state_dump_is_found_where_it_was() {
    let moved = call("GET", "/ws/v1/fullstatedump?x=1").await;
    assert_eq!(moved.status(), StatusCode::MOVED_PERMANENTLY);
    assert_eq!(moved.headers()["location"], "/debug/fullstatedump?x=1");
    let dump = call("GET", "/debug/fullstatedump").await;
    assert_eq!(dump.headers()["content-type"], "application/json; charset=UTF-8");
    assert_eq!(body(dump).await, "{}\n");
}

#[tokio::test]
async fn a_stopped_scheduler_is_unavailable() {
    let request = Request::get(format!("{P}/queues")).body(Body::empty()).unwrap();
    let response = send(Scripted { stopped: true, step: 7 }, request).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let response = call("GET", "/").await;
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; connect-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let page = body(response).await;
    for elsewhere in ["http://", "https://", "src=\"//", "@import", "href=\"//"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    assert_eq!(body(call("GET", "/ui/applications").await).await, page, "each view is the page");
    // What it loads is kept by browsers, and compressed.
    let script = page.split("src=\"").nth(1).unwrap().split('"').next().unwrap();
    let request = Request::get(script).header("accept-encoding", "gzip").body(Body::empty());
    let response = send(RUNNING, request.unwrap()).await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(header("content-encoding"), "gzip");
    let licences = call("GET", "/assets/licenses.md").await;
    assert_eq!(licences.headers()["cache-control"], "no-cache");
    assert!(body(licences).await.contains("Permission is hereby granted"));
    assert_eq!(call("GET", "/assets/nothing.js").await.status(), StatusCode::NOT_FOUND);
}

/// The answer to a request with a token: `y4rd` is of the shim of `yard`, `d4sh` of a dashboard, and
/// `0ps` of an administrator.
async fn as_whom(token: &str, method: &str, path: &str, open_metrics: bool) -> Response {
    let rules = vec![
        Rule::token("yard", &["yard"], false).unwrap(),
        Rule::reader("dash").unwrap(),
        Rule::token("ops", &[], true).unwrap(),
    ];
    let access = Access::with_tokens(rules, b"yard:y4rd\ndash:d4sh\nops:0ps").unwrap();
    let guard = Guard::Rules { open_metrics };
    let router = router_until(
        RUNNING,
        Door::new(1 << 20),
        Logbook::default(),
        MAX_BODY,
        serving(),
        CancellationToken::new(),
        guard,
    );
    let request = Request::builder().method(method).uri(path);
    let request = request.header("authorization", format!("Bearer {token}"));
    let service = IdentityLayer::new(Arc::new(access)).layer(router);
    service.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn status_as(token: &str, method: &str, path: &str) -> u16 {
    as_whom(token, method, path, false).await.status().as_u16()
}

#[tokio::test]
async fn with_rules_each_path_needs_its_right() {
    let (own, other) = ("/ws/v1/partition/%5Byard%5Ddefault", "/ws/v1/partition/%5Blab%5Ddefault");
    for (path, nobody, shim, reader) in [
        ("/".to_owned(), 200, 200, 200),
        ("/ui/nodes".to_owned(), 200, 200, 200),
        ("/assets/licenses.md".to_owned(), 200, 200, 200),
        ("/healthz".to_owned(), 200, 200, 200),
        ("/ws/v1/metrics".to_owned(), 401, 403, 200),
        ("/ws/v1/config".to_owned(), 401, 200, 200),
        ("/ws/v1/config?rm=yard".to_owned(), 401, 200, 200),
        ("/ws/v1/config?rm=lab".to_owned(), 401, 403, 200),
        ("/ws/v1/clusters".to_owned(), 401, 200, 200),
        ("/ws/v1/partitions".to_owned(), 401, 200, 200),
        ("/ws/v1/history/apps".to_owned(), 401, 403, 200),
        ("/ws/v1/history/containers".to_owned(), 401, 403, 200),
        ("/ws/v1/scheduler/healthcheck".to_owned(), 401, 403, 404),
        ("/ws/v1/scheduler/node-utilizations".to_owned(), 401, 200, 200),
        ("/ws/v1/events/batch".to_owned(), 401, 403, 200),
        ("/ws/v1/sessions".to_owned(), 401, 403, 200),
        ("/debug/stack".to_owned(), 401, 403, 200),
        ("/debug/pprof/cmdline".to_owned(), 401, 403, 200),
        (format!("{own}/queues"), 401, 200, 200),
        (format!("{own}/nodes"), 401, 200, 200),
        (format!("{other}/queues"), 401, 403, 200),
        (format!("{other}/nodes?limit=1"), 401, 403, 200),
        (format!("{other}/usage/user/svc$"), 401, 403, 200),
        ("/ws/v1/partition/%5Bnobody%5Dp/nodes".to_owned(), 401, 403, 404),
        ("/debug/fullstatedump".to_owned(), 401, 403, 200),
    ] {
        assert_eq!(status_as("", "GET", &path).await, nobody, "{path}, by nobody");
        assert_eq!(status_as("y4rd", "GET", &path).await, shim, "{path}, by a shim");
        assert_eq!(status_as("d4sh", "GET", &path).await, reader, "{path}, by a reader");
        assert_eq!(status_as("0ps", "GET", &path).await, reader, "{path}, by an administrator");
        assert_eq!(status_as("", "OPTIONS", &path).await, 200, "{path}");
    }
    let check = "/ws/v1/validate-conf";
    for (token, status) in [("", 401), ("y4rd", 200), ("d4sh", 200), ("0ps", 200)] {
        assert_eq!(status_as(token, "POST", check).await, status);
    }
    assert_eq!(status_as("0ps", "PUT", &format!("{own}/queues")).await, 405);
    assert_eq!(status_as("", "PUT", &format!("{own}/queues")).await, 401);
    let metrics = as_whom("", "GET", "/ws/v1/metrics", true).await;
    assert_eq!(metrics.status(), StatusCode::OK, "as the settings say");
}

#[tokio::test]
async fn a_shim_is_shown_what_is_its_own_by_the_same_paths() {
    let text = async |token, path: &str| body(as_whom(token, "GET", path, false).await).await;
    let rms = async |token| {
        let partitions: Vec<serde_json::Value> =
            serde_json::from_str(&text(token, "/ws/v1/partitions").await).unwrap();
        let rms = partitions.iter().map(|it| it["clusterId"].as_str().unwrap().to_owned());
        rms.collect::<Vec<_>>()
    };
    assert_eq!(rms("y4rd").await, ["yard"]);
    assert_eq!(rms("d4sh").await, ["lab", "yard"]);
    let used = text("y4rd", "/ws/v1/scheduler/node-utilizations").await;
    assert!(used.contains("yard") && !used.contains("lab"), "{used}");
    let clusters = text("y4rd", "/ws/v1/clusters").await;
    assert_eq!(clusters.matches("clusterName").count(), 1);
    // The plain name is the first that may be read; answers are not shared across meanings.
    let queues = format!("{P}/queues");
    assert!(text("y4rd", &queues).await.contains("root.q01"));
    assert!(text("d4sh", &queues).await.contains("root.ab"));
    assert!(text("y4rd", "/ws/v1/config").await.contains("yard"));
    assert!(text("d4sh", "/ws/v1/config").await.contains("lab"));
    assert_eq!(status_as("y4rd", "GET", "/ws/v1/partition/nope/queues").await, 404);
}

#[tokio::test]
async fn who_is_not_known_is_told_how_to_be() {
    let guard = Guard::Rules { open_metrics: false };
    let router = router_until(
        RUNNING,
        Door::new(1 << 20),
        Logbook::default(),
        MAX_BODY,
        serving(),
        CancellationToken::new(),
        guard,
    );
    let request = Request::get("/ws/v1/clusters").body(Body::empty()).unwrap();
    expect![[r#"
        401 Unauthorized
        content-type: application/json; charset=UTF-8
        access-control-allow-origin: *
        access-control-allow-methods: GET, OPTIONS
        access-control-allow-headers: X-Requested-With,Content-Type,Accept,Origin,Authorization
        www-authenticate: Bearer
        content-length: 179

        {"status_code":401,"message":"a client certificate or bearer token that is known here is needed","description":"a client certificate or bearer token that is known here is needed"}"#]]
    .assert_eq(&shown(router.oneshot(request).await.unwrap()).await);
}

/// A connection to a server that runs until the token is cancelled.
async fn connected() -> (TcpStream, CancellationToken, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let connections = Connections::new(listener, None, shutdown.clone());
    let settings = Settings::load(None, &Flags::default()).unwrap().rest;
    let stop = shutdown.clone();
    let (beside, access) = ((Door::new(1 << 20), Logbook::default()), Arc::new(Access::open()));
    let server = tokio::spawn(async move {
        serve(connections, RUNNING, beside, access, &settings, serving(), stop).await
    });
    (TcpStream::connect(address).await.unwrap(), shutdown, server)
}

#[tokio::test]
async fn a_connection_is_kept_alive_until_the_server_stops() {
    let (mut client, shutdown, server) = connected().await;
    for _ in 0..2 {
        client.write_all(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"serving\n") {
            assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
        }
    }
    shutdown.cancel();
    assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 0);
    server.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_head_that_takes_ten_seconds_is_not_waited_for() {
    let began = Instant::now();
    let (mut client, _shutdown, _server) = connected().await;
    client.write_all(b"GET /healthz HTTP/1.1\r\nho").await.unwrap();
    assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 0);
    assert_eq!(began.elapsed().as_secs(), 10);
}
