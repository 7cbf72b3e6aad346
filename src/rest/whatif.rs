//! What would happen with some changes: `POST /ws/v1/whatif`.
//!
//! A question is answered by a fork: an image of the scheduler is taken beside its decisions, and two
//! replays go on from it on threads of the lowest priority. The scheduler itself is not changed.
//!
//! # Bounds
//! * One question at a time, over all edges of the process. The next one may come when the threads of
//!   the last one have ended, and with them the copies of the state.
//! * The replays stop at the deadline, and when the caller has gone.
//! * Of an image with too many objects there is no replay.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use axum::body::Body;
use monoceros_actors::image::{PartitionImage, ResourceManagerImage};
use monoceros_actors::{ConfigurationError, SchedulerBuilder};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tracing::warn;

use super::endpoints::whole;
use super::failures::Failure;
use super::replies::{Class, EndpointReply};
use super::{Reads, RestEdge};
use crate::reads::Draft;
use crate::settings::{WhatIfSettings, seconds};
use crate::whatif::{self, Answer, ChangeError, Changes, Options, ReplayError, WhatIfError};

/// The nice value of a replay: that of the lowest priority.
const NICE: i32 = 19;

/// Answers to what would happen. Clones share the turn of the one question at a time.
#[derive(Clone)]
pub struct WhatIf {
    settings: WhatIfSettings,
    /// The settings of the scheduler, for its replays.
    scheduler: SchedulerBuilder,
    turn: Arc<Semaphore>,
}

impl WhatIf {
    /// Answers within these settings, of a scheduler that was built like this.
    pub fn new(settings: WhatIfSettings, scheduler: SchedulerBuilder) -> Self {
        Self { settings, scheduler, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Answers nothing.
    pub fn off() -> Self {
        let settings = WhatIfSettings { enabled: false, deadline: Duration::ZERO, objects: 0 };
        Self::new(settings, SchedulerBuilder::default())
    }

    /// Whether questions are answered.
    pub(super) fn is_on(&self) -> bool {
        self.settings.enabled
    }
}

/// A question.
#[derive(Debug, PartialEq)]
struct Question {
    /// The resource manager. Empty for the only one.
    rm: String,
    changes: Changes,
    horizon: Duration,
    runs: u32,
    seed: u64,
}

/// The answer as a document.
#[derive(Serialize)]
struct Told<'a> {
    /// The lines that say whether it is safe.
    lines: Vec<String>,
    #[serde(flatten)]
    answer: &'a Answer,
}

/// Stops the replays when nobody waits for them any more.
struct StopAtEnd(Arc<AtomicBool>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers a question.
pub(super) async fn answer<S: Reads>(
    edge: &RestEdge<S>,
    body: Body,
) -> Result<EndpointReply, Failure> {
    let WhatIf { settings, scheduler, turn } = &edge.whatif;
    if !settings.enabled {
        return Err(Failure::WhatIfDisabled);
    }
    let question = Question::read(&whole(body, edge.max_body_bytes).await?)?;
    if let Some(queues) = &question.changes.queues {
        if queues.trim().is_empty() {
            return Err(wrong("queues", "it is empty, and would replace all queues"));
        }
        let checked = edge.source.check_configuration(queues.clone()).await;
        let faulty = |why: String| wrong("queues", why);
        checked.map_err(|_| Failure::WhatIfBusy)?.map_err(|errors| faulty(errors.to_string()))?;
    }
    let turn = Arc::clone(turn).try_acquire_owned().map_err(|_| Failure::WhatIfBusy)?;
    let options = Options {
        horizon: question.horizon,
        runs: question.runs,
        seed: question.seed,
        scheduler: scheduler.clone(),
        ..Options::default()
    };
    let _stop = StopAtEnd(Arc::clone(&options.cancelled));
    let (reply, answered) = oneshot::channel();
    let fork = Fork { turn, question, options, most: settings.objects, reply };
    let source = edge.source.clone();
    // A task of its own: an image that was begun is taken to its end, and keeps the turn.
    tokio::spawn(async move {
        let image = source.image(&fork.question.rm).await;
        fork.begin(image);
    });
    match timeout(settings.deadline, answered).await {
        Err(_) => Err(Failure::WhatIfLate(settings.deadline)),
        Ok(Err(_)) => Err(Failure::Document("the replays broke".to_owned())),
        Ok(Ok(draft)) => {
            let document = edge.joined.unshared(draft?).await?;
            Ok(EndpointReply::shared(Class::Json, document))
        }
    }
}

/// A question under way.
struct Fork {
    turn: OwnedSemaphorePermit,
    question: Question,
    options: Options,
    /// The most objects.
    most: usize,
    reply: oneshot::Sender<Result<Draft, Failure>>,
}

impl Fork {
    /// Answers on a thread of its own, if there is an image and anybody still waits.
    fn begin(self, image: Result<ResourceManagerImage, ConfigurationError>) {
        let image = match image {
            Ok(_) if self.options.cancelled.load(Ordering::Relaxed) => return,
            Ok(image) => image,
            Err(error) => {
                let failure = match error {
                    ConfigurationError::RmIdMissing => wrong("rm", error.to_string()),
                    error => error.into(),
                };
                self.reply.send(Err(failure)).ok();
                return;
            }
        };
        let thread = thread::Builder::new().name("monoceros-whatif".to_owned());
        // Without a thread the reply is dropped, and the caller learns that.
        if let Err(error) = thread.spawn(move || self.answer(image)) {
            warn!(%error, "no thread for a question of what would happen");
        }
    }

    fn answer(self, image: ResourceManagerImage) {
        let Self { turn, question, options, most, reply } = self;
        lower_priority();
        let answer = draft(&image, &question, &options, most);
        drop(image);
        // The next question may come as soon as this one has its answer.
        drop(turn);
        reply.send(answer).ok();
    }
}

/// Answers a question. Blocks until then.
fn draft(
    image: &ResourceManagerImage,
    question: &Question,
    options: &Options,
    most: usize,
) -> Result<Draft, Failure> {
    let objects = image.partitions.iter().map(objects).sum();
    if objects > most {
        let rm = image.configuration.rm_id.clone();
        return Err(Failure::WhatIfTooLarge { rm, objects, most });
    }
    let answer = whatif::answer(image, &question.changes, options)
        .map_err(|error| failure(error, &question.changes))?;
    let told = Told { lines: answer.lines(), answer: &answer };
    let mut document =
        serde_json::to_vec(&told).map_err(|error| Failure::Document(error.to_string()))?;
    document.push(b'\n');
    Ok(Draft::of(document))
}

/// Counts allocations, requests and nodes.
fn objects(partition: &PartitionImage) -> usize {
    let of_applications = partition
        .applications()
        .map(|application| application.pending().len() + application.running().len());
    partition.nodes().count() + of_applications.sum::<usize>()
}

/// Gives this thread, and those that it starts, the lowest priority.
fn lower_priority() {
    static TOLD: Once = Once::new();
    // On Linux, what is said of the calling process is of this thread.
    #[cfg(target_os = "linux")]
    let lowered = rustix::process::setpriority_process(None, NICE).map_err(|it| it.to_string());
    #[cfg(not(target_os = "linux"))]
    let lowered = Err::<(), _>("this system has no priorities of threads".to_owned());
    if let Err(error) = lowered {
        TOLD.call_once(|| {
            warn!(nice = NICE, error, "answers to what would happen have the usual priority");
        });
    }
}

fn wrong(field: &str, why: impl Into<String>) -> Failure {
    Failure::Question { field: field.to_owned(), why: why.into() }
}

/// Returns the failure of a question, which names the field that has to be changed.
fn failure(error: WhatIfError, changes: &Changes) -> Failure {
    let text = error.to_string();
    match error {
        WhatIfError::Change(error) => wrong(field(&error, changes), text),
        WhatIfError::Horizon => wrong("horizon", text),
        WhatIfError::Runs => wrong("runs", text),
        WhatIfError::Replay(ReplayError::Queues(_)) => wrong("queues", text),
        WhatIfError::Replay(error) => {
            let error = anyhow::Error::new(error);
            Failure::Document(format!("{error:#}"))
        }
        WhatIfError::Mirror(_) | WhatIfError::Broken(_) => Failure::Document(text),
    }
}

/// Returns the field that has a wrong change.
fn field(error: &ChangeError, changes: &Changes) -> &'static str {
    match error {
        ChangeError::NoSuchNode(id) if changes.remove_nodes.contains(id) => "removeNodes",
        ChangeError::NoSuchNode(id) if changes.drain_nodes.contains(id) => "drain",
        ChangeError::NoSuchNode(_) | ChangeError::TooManyNodes => "addNodes",
        ChangeError::NoSuchApplication(id) if changes.release_applications.contains(id) => {
            "release"
        }
        ChangeError::NoSuchApplication(_)
        | ChangeError::ApplicationExists(_)
        | ChangeError::NoSuchPartition(_)
        | ChangeError::KeyExists { .. }
        | ChangeError::Empty(_)
        | ChangeError::Unreadable(_) => "submit",
    }
}

impl Question {
    /// Reads a question from the JSON of a body.
    fn read(body: &[u8]) -> Result<Self, Failure> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| Failure::NoQuestion(format!("the body is no JSON: {error}")))?;
        let Value::Object(mut fields) = value else {
            return Err(Failure::NoQuestion("the body is no JSON object".to_owned()));
        };
        let usual = Options::default();
        let changes = Changes {
            queues: take(&mut fields, "queues")?,
            add_nodes: take(&mut fields, "addNodes")?.unwrap_or_default(),
            remove_nodes: take(&mut fields, "removeNodes")?.unwrap_or_default(),
            drain_nodes: take(&mut fields, "drain")?.unwrap_or_default(),
            release_applications: take(&mut fields, "release")?.unwrap_or_default(),
            submit: take(&mut fields, "submit")?.unwrap_or_default(),
        };
        let horizon = take(&mut fields, "horizon")?.map(horizon).transpose()?;
        let runs: Option<NonZeroU32> = take(&mut fields, "runs")?;
        let question = Self {
            rm: take(&mut fields, "rm")?.unwrap_or_default(),
            changes,
            horizon: horizon.unwrap_or(usual.horizon),
            runs: runs.map_or(usual.runs, NonZeroU32::get),
            seed: take(&mut fields, "seed")?.unwrap_or(usual.seed),
        };
        if let Some(field) = fields.keys().next() {
            return Err(wrong(field, "a question has no such field"));
        }
        if question.runs > whatif::RUNS_MAX {
            return Err(wrong("runs", WhatIfError::Runs.to_string()));
        }
        Ok(question)
    }
}

/// Reads a field, and removes it. `None` if it is absent or null.
fn take<T: DeserializeOwned>(
    fields: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, Failure> {
    let value = fields.remove(name).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| wrong(name, error.to_string()))
}

/// Reads a horizon: a number of seconds, or a text with units.
fn horizon(value: Value) -> Result<Duration, Failure> {
    let text = match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let horizon = seconds::read(&text).map_err(|why| wrong("horizon", why))?;
    if horizon.is_zero() || horizon > whatif::HORIZON_MAX {
        return Err(wrong("horizon", WhatIfError::Horizon.to_string()));
    }
    Ok(horizon)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::whatif::AddedNodes;

    #[test]
    fn a_question_has_usual_values() {
        let usual = Question::read(b"{}").unwrap();
        let day = Duration::from_secs(86_400);
        let (rm, changes) = (String::new(), Changes::default());
        assert_eq!(usual, Question { rm, changes, horizon: day, runs: 1, seed: 0 });
        let body = br#"{"addNodes": [{"count": 3, "like": "n1"}], "removeNodes": ["n2"], "rm": "lab",
                        "drain": ["n3"], "release": ["app"], "queues": "partitions: []", "horizon": "2h",
                        "runs": 19, "seed": 7, "submit": {"asks": []}}"#;
        let asked = Question::read(body).unwrap();
        let changes = Changes {
            queues: Some("partitions: []".to_owned()),
            add_nodes: vec![AddedNodes { count: 3, like: "n1".to_owned() }],
            remove_nodes: vec!["n2".to_owned()],
            drain_nodes: vec!["n3".to_owned()],
            release_applications: vec!["app".to_owned()],
            ..Changes::default()
        };
        let horizon = day / 12;
        assert_eq!(asked, Question { rm: "lab".to_owned(), changes, horizon, runs: 19, seed: 7 });
        assert_eq!(Question::read(br#"{"horizon": 7200}"#).unwrap().horizon, day / 12);
    }

    #[test]
    fn what_cannot_be_read_names_its_field() {
        let faults = [
            "",
            "[]",
            r#"{"queue": "x"}"#,
            r#"{"queues": 1}"#,
            r#"{"addNodes": [{"count": -1, "like": "n1"}]}"#,
            r#"{"addNodes": [{"count": 1}]}"#,
            r#"{"removeNodes": "n1"}"#,
            r#"{"drain": [1]}"#,
            r#"{"release": {}}"#,
            r#"{"submit": {"apps": []}}"#,
            r#"{"submit": {"asks": [{"allocationKey": 1}]}}"#,
            r#"{"horizon": "soon"}"#,
            r#"{"horizon": 0}"#,
            r#"{"horizon": "9000h"}"#,
            r#"{"runs": 0}"#,
            r#"{"runs": 1001}"#,
            r#"{"rm": []}"#,
        ];
        let told =
            faults.map(|body| Question::read(body.as_bytes()).unwrap_err().to_string() + "\n");
        expect![[r#"
            the body is no JSON: EOF while parsing a value at line 1 column 0
            the body is no JSON object
            `queue`: a question has no such field
            `queues`: invalid type: integer `1`, expected a string
            `addNodes`: invalid value: integer `-1`, expected u32
            `addNodes`: missing field `like`
            `removeNodes`: invalid type: string "n1", expected a sequence
            `drain`: invalid type: integer `1`, expected a string
            `release`: invalid type: map, expected a sequence
            `submit`: `apps` is none of `applications` and `asks`
            `submit`: `asks`, number 1: invalid type: integer `1`, expected a string
            `horizon`: `soon` is not a span of time (a number of seconds, `200ms`, `90s`, `2m` or `1h`)
            `horizon`: the horizon is more than zero and at most 366 days
            `horizon`: the horizon is more than zero and at most 366 days
            `runs`: invalid value: integer `0`, expected a nonzero u32
            `runs`: there are 1 to 1000 runs
            `rm`: invalid type: sequence, expected a string
        "#]].assert_eq(&told.concat());
    }

    #[test]
    fn a_wrong_change_names_its_field() {
        let changes = Changes {
            remove_nodes: vec!["n1".to_owned()],
            drain_nodes: vec!["n2".to_owned()],
            release_applications: vec!["app".to_owned()],
            ..Changes::default()
        };
        let of = |error| failure(WhatIfError::Change(error), &changes).to_string();
        for (error, told) in [
            (
                ChangeError::NoSuchNode("n1".into()),
                "`removeNodes`: node `n1` is not in the snapshot",
            ),
            (ChangeError::NoSuchNode("n2".into()), "`drain`: node `n2` is not in the snapshot"),
            (ChangeError::NoSuchNode("n3".into()), "`addNodes`: node `n3` is not in the snapshot"),
            (
                ChangeError::NoSuchApplication("app".into()),
                "`release`: application `app` is not in the snapshot",
            ),
            (
                ChangeError::NoSuchApplication("other".into()),
                "`submit`: application `other` is not in the snapshot",
            ),
        ] {
            assert_eq!(of(error), told);
        }
    }
}
