//! Scale-up signals for autoscalers: the requests for which more machines would help.
//!
//! A watch reads once per interval and sends the set only when it has changed. So a watching
//! autoscaler costs a partition one read per interval, however many requests come and go.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use monoceros_actors::SchedulerHandle;
use monoceros_actors::snapshot::OutstandingRequest;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tonic::Status;

use crate::grpc::admin::refusal::CallRefusal;
use crate::grpc::admin::target;
use crate::grpc::admin::views::amount;
use crate::grpc::shared::{self, DocumentStream, Reads};
use crate::identity::Identity;
use crate::reads::{Document, Kind};

/// The default and shortest interval of a watch.
const INTERVAL: Duration = Duration::from_secs(1);

const APPLICATION: &str = "si/application-id";
const PARTITION: &str = "si/node-partition";
const QUEUE: &str = "yunikorn.apache.org/queue";
const PENDING_SINCE: &str = "yunikorn.apache.org/pendingSince";
/// Tag of members of a task group.
const TASK_GROUP: &str = "yunikorn.apache.org/task-group-name";
/// Tag of a request for several allocations: the number of them for which more machines would help.
const COUNT: &str = "monoceros/count";

const NS_PER_S: i64 = 1_000_000_000;

/// The stream of sets, as the generated service declares it.
pub(super) type Sets = Pin<Box<dyn Stream<Item = Result<si::AutoScalingMetrics, Status>> + Send>>;

/// A query for outstanding requests.
#[derive(Clone, Debug)]
pub(super) struct ScalingQuery {
    rm_id: String,
    /// `None` for all partitions.
    partition: Option<String>,
    limit: usize,
}

impl ScalingQuery {
    pub(super) async fn of(
        handle: &SchedulerHandle,
        caller: &Identity,
        request: &v1::AutoScalingParameters,
    ) -> Result<Self, CallRefusal> {
        let limit = match request.limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let (named, partition) = (&request.rm_id, &request.partition_name);
        let (rm_id, partition) =
            target::one_or_all_partitions(handle, caller, named, partition).await?;
        Ok(Self { rm_id, partition, limit })
    }

    pub(super) async fn ask(
        &self,
        handle: &SchedulerHandle,
        reads: &Reads,
    ) -> Result<Arc<Document>, CallRefusal> {
        let (handle, asked) = (handle.clone(), self.clone());
        let wanted = v1::AutoScalingParameters {
            partition_name: self.partition.clone().unwrap_or_default(),
            limit: u32::try_from(self.limit).unwrap_or(0),
            ..v1::AutoScalingParameters::default()
        };
        let read = move || async move {
            let partition = asked.partition.as_deref();
            let found = handle.outstanding_requests(&asked.rm_id, partition, asked.limit).await;
            let found = found.map_err(|error| CallRefusal::unread(error, &asked.rm_id))?;
            let outstanding_requests = found.into_iter().map(message).collect();
            Ok(si::AutoScalingMetrics { outstanding_requests })
        };
        shared::document(reads, Kind::Outstanding, &self.rm_id, &wanted, read).await
    }
}

/// The state of a watch.
struct ScalingWatch {
    handle: SchedulerHandle,
    reads: Reads,
    query: ScalingQuery,
    interval: Interval,
    /// Hash of the set sent last.
    last_hash: Option<u64>,
}

/// Starts a watch. The present set is sent at once, even if it is empty.
pub(super) fn watch(
    handle: SchedulerHandle,
    reads: Reads,
    query: ScalingQuery,
    interval_ms: u32,
) -> DocumentStream {
    let period = Duration::from_millis(interval_ms.into()).max(INTERVAL);
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watch = ScalingWatch { handle, reads, query, interval, last_hash: None };
    Box::pin(stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(set) => Some((Ok(set), Some(watch))),
            Err(refusal) => Some((Err(refusal.into()), None)),
        }
    }))
}

impl ScalingWatch {
    async fn next(&mut self) -> Result<Arc<Document>, CallRefusal> {
        loop {
            self.interval.tick().await;
            let set = match self.query.ask(&self.handle, &self.reads).await {
                // Too many reads are in progress; a watch can try again later.
                Err(CallRefusal::Busy(_)) => continue,
                set => set?,
            };
            let mut hash = DefaultHasher::new();
            set.bytes().hash(&mut hash);
            let hash = Some(hash.finish());
            if self.last_hash != hash {
                self.last_hash = hash;
                return Ok(set);
            }
        }
    }
}

fn message(request: OutstandingRequest) -> si::OutstandingResourceRequest {
    let mut tags: BTreeMap<_, _> = request.tags;
    let since = request.pending_since_ns / NS_PER_S;
    tags.extend([
        (APPLICATION.to_owned(), request.application),
        (PARTITION.to_owned(), request.partition),
        (QUEUE.to_owned(), request.queue),
        (PENDING_SINCE.to_owned(), since.to_string()),
    ]);
    if !request.task_group.is_empty() {
        tags.insert(TASK_GROUP.to_owned(), request.task_group);
    }
    if request.count > 1 {
        tags.insert(COUNT.to_owned(), request.count.to_string());
    }
    let resource = amount(&request.resource);
    si::OutstandingResourceRequest { request_id: request.key, resource, tags }
}

#[cfg(test)]
mod tests {
    use monoceros_actors::Resources;

    use super::*;

    #[test]
    fn outstanding_request_names_owner_and_time() {
        let request = OutstandingRequest {
            partition: "default".to_owned(),
            application: "app".to_owned(),
            key: "k".to_owned(),
            task_group: String::new(),
            queue: "root.a".to_owned(),
            resource: Resources::of(&[("vcore", 1)]),
            count: 1,
            tags: [("team".to_owned(), "x".to_owned())].into(),
            pending_since_ns: 7_900_000_000,
        };
        let sent = message(request.clone());
        assert_eq!(sent.request_id, "k");
        let tags: Vec<_> = sent.tags.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(
            tags,
            [
                ("si/application-id", "app"),
                ("si/node-partition", "default"),
                ("team", "x"),
                ("yunikorn.apache.org/pendingSince", "7"),
                ("yunikorn.apache.org/queue", "root.a"),
            ]
        );
        let several = message(OutstandingRequest { count: 3, ..request });
        assert_eq!(several.tags["monoceros/count"], "3");
    }

    #[test]
    fn unasked_members_are_distinguished_by_task_group() {
        let of_group = |task_group: &str| OutstandingRequest {
            application: "app".to_owned(),
            task_group: task_group.to_owned(),
            count: 2,
            ..OutstandingRequest::default()
        };
        let sent = ["driver", "workers"].map(|group| message(of_group(group)));
        assert!(sent.iter().all(|sent| sent.request_id.is_empty()));
        let groups = sent.map(|sent| sent.tags["yunikorn.apache.org/task-group-name"].clone());
        assert_eq!(groups, ["driver", "workers"]);
    }
}
