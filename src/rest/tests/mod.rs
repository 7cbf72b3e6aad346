//! Requests to a scripted scheduler: paths, headers, errors, compression and documents.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use expect_test::{Expect, expect};
use monoceros_actors::config::ConfigErrors;
use monoceros_actors::config::placement::PlacementRules;
use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::metrics::Metrics;
use monoceros_actors::runtimes::RunTimes;
use monoceros_actors::snapshot::{
    ApplicationSnapshot, ClusterSnapshot, DecisionSnapshot, ExplanationSnapshot, GroupSnapshot,
    NodeSnapshot, NodeUtilizationSnapshot, PartitionSnapshot, QueueSnapshot, ShownRule,
    UserSnapshot,
};
use monoceros_actors::{
    ApplicationFilter, ApplicationList, ApplicationState, ConfigurationError,
    ConfigurationSnapshot, DecisionFilter, EventReader, ExplainError, Listed, Page, ReadError,
    Scheduler, Steps, TooBusy,
};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use super::*;
use crate::dump::DumpError;
use crate::snapshot::{Replaced, SnapshotError, Snapshots, Summary, Turn, Written};

mod access;
mod applications;
mod documents;
mod paths;
#[cfg(feature = "simulator")]
mod whatif;

/// Two RMs with a partition `default` each. The second has many queues.
#[derive(Clone, Debug)]
pub(super) struct Scripted {
    stopped: bool,
    /// The last step of each partition.
    step: u64,
    /// Each image waits for a permit.
    images: Option<&'static Semaphore>,
}

pub(super) const RUNNING: Scripted = Scripted { stopped: false, step: 7, images: None };

/// What an edge shares with others.
fn beside(whatif: WhatIf) -> Beside {
    (Door::new(1 << 20), Logbook::default(), whatif)
}

/// Largest body in bytes.
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

    async fn image(&self, rm_id: &str) -> Result<ResourceManagerImage, ConfigurationError> {
        if let Some(images) = self.images {
            images.acquire().await.unwrap().forget();
        }
        let configuration = self.configuration(rm_id).await?;
        Ok(ResourceManagerImage {
            configuration: ConfigurationSnapshot { config: String::new(), ..configuration },
            partitions: Vec::new(),
            run_times: Vec::new(),
            mirror: None,
        })
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
            ApplicationList::Ended(filter) => {
                let all = [app("app-0", State::Completed), app("app-8", State::Removed)];
                let is_wanted = |app: &ApplicationSnapshot| {
                    filter.ids.is_empty() || filter.ids.contains(&app.application_id)
                };
                all.into_iter().filter(is_wanted).collect()
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

    async fn run_times(&self, partition: &str) -> Result<Option<(RunTimes, i64)>, ReadError> {
        self.steps(partition).await?;
        Ok(None)
    }

    fn events(&self) -> EventReader {
        Scheduler::builder().start().unwrap().events()
    }

    async fn state_dump(&self, _: &Logbook) -> Result<Vec<u8>, DumpError> {
        if self.stopped { Err(DumpError::Stopped) } else { Ok(b"{}\n".to_vec()) }
    }

    async fn snapshot(
        &self,
        _: &Snapshots,
        rm_id: Option<&str>,
        _: Replaced,
        _: Turn,
    ) -> Result<Written, SnapshotError> {
        match rm_id {
            None | Some("lab") => {
                Ok(Written { bytes: b"gzip".into(), summary: Summary::default() })
            }
            Some("huge") => {
                Err(SnapshotError::TooLarge { rm: "huge".to_owned(), bytes: 9, limit: 8 })
            }
            Some(other) => Err(SnapshotError::NotRead(format!("no `{other}`"))),
        }
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

async fn body(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Formats status, headers and body as a client prints them.
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
