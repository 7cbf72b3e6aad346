//! `monoceros events`: recent events, and new ones as they occur.
//!
//! # Invariant
//! No event is dropped silently: a stream that was too slow is opened again after its last event,
//! as far back as events are kept, with a message.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{Args, ValueEnum};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::event_record::{ChangeDetail, ChangeType, Type};
use monoceros_proto::v1;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tonic::{Status, Streaming};

use super::amounts::{all, moment};
use super::cluster::Cluster;
use super::document::document;
use super::names;
use super::output::{self, Form, FormParser};
use super::records::{Printer, Record};
use crate::grpc::REASON_TRAILER;

/// Default number of events.
const LIMIT: u32 = 100;

/// Longest wait for a past event. A stream does not mark the end of the past, but kept events
/// arrive at once.
const PAST: Duration = Duration::from_millis(700);

/// Time limit for all past events.
const PAST_IN_ALL: Duration = Duration::from_secs(10);

/// Most past events that are read.
const MOST_READ: u32 = 2_000_000;

/// The reason with which the scheduler ends a stream that was too slow.
const LAGGED: &str = "EVENTS_LAGGED";

/// Arguments of `monoceros events`.
#[derive(Clone, Debug, Args)]
pub(super) struct EventsArgs {
    /// Only events of these applications, nodes, queues and requests; pods also as NAMESPACE/POD
    #[arg(value_name = "OBJECT")]
    objects: Vec<String>,
    /// Only events of these kinds of objects
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', ignore_case = true)]
    types: Vec<EventType>,
    /// How many of the last events to begin with
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = LIMIT,
          value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    limit: u32,
    /// Go on with what happens
    #[arg(short, long, visible_alias = "watch")]
    follow: bool,
    /// How to print them
    #[arg(short, long, value_name = "FORM", default_value = "table", value_parser = FormParser)]
    output: Form,
}

/// A kind of object that events are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EventType {
    #[value(alias = "ask")]
    Request,
    App,
    Node,
    Queue,
    #[value(alias = "user")]
    Usergroup,
    #[value(alias = "member")]
    Cluster,
}

impl EventType {
    fn number(self) -> i32 {
        match self {
            Self::Request => Type::Request,
            Self::App => Type::App,
            Self::Node => Type::Node,
            Self::Queue => Type::Queue,
            Self::Usergroup => Type::Usergroup,
            Self::Cluster => Type::Cluster,
        }
        .into()
    }
}

impl EventsArgs {
    /// The arguments that `monoceros get events` stands for.
    pub(super) fn listed(objects: Vec<String>, follow: bool, output: Form) -> Self {
        Self { objects, types: Vec::new(), limit: LIMIT, follow, output }
    }

    /// Sets the number of past events, if it is given.
    pub(super) fn limited(self, limit: Option<u32>) -> Self {
        Self { limit: limit.unwrap_or(self.limit), ..self }
    }

    fn is_wanted(&self, event: &v1::EventInfo) -> bool {
        let is_about = |name: &String| {
            let record = record(event);
            *name == record.object_id || *name == record.reference_id || *name == event.pod
        };
        self.objects.is_empty() || self.objects.iter().any(is_about)
    }
}

pub(super) async fn run(cluster: &mut Cluster, args: &EventsArgs) -> anyhow::Result<ExitCode> {
    let mut printer = Printer::new::<v1::EventInfo>(args.output, args.follow);
    let mut stream = open(cluster, args, 0).await?;
    let mut past = past(&mut stream, args).await?;
    let mut last = past.last;
    output::write(&printer.text(past.events.make_contiguous())?)?;
    if past.events.is_empty() {
        let about = if args.objects.is_empty() { "" } else { " about what was named" };
        writeln!(io::stderr(), "there are no events{about} among those that are kept")?;
    }
    if !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        match stream.message().await {
            Ok(Some(event)) => {
                last = record(&event).seq;
                if args.is_wanted(&event) {
                    output::write(&printer.text(&[event])?)?;
                }
            }
            Ok(None) => anyhow::bail!("the scheduler has ended the stream"),
            Err(status) if reason(&status) == LAGGED => {
                // The stream was slower than the events. It continues with those that are still
                // kept.
                writeln!(io::stderr(), "too much happens: begun again behind event {last}")?;
                stream = open(cluster, args, last + 1).await?;
            }
            Err(status) => return Err(status.into()),
        }
    }
}

/// Opens the stream at an event number, or with the last events if the number is zero.
async fn open(
    cluster: &mut Cluster,
    args: &EventsArgs,
    from_seq: u64,
) -> anyhow::Result<Streaming<v1::EventInfo>> {
    // The filter by object runs here, so all kept events are read.
    let history = if args.objects.is_empty() { args.limit } else { u32::MAX };
    let request = v1::EventParameters {
        rm_id: cluster.rm.clone(),
        from_seq,
        history,
        types: args.types.iter().map(|it| it.number()).collect(),
    };
    Ok(cluster.metrics.watch_events(request).await?.into_inner())
}

/// Past events.
#[derive(Default)]
struct Past {
    /// The last events that the filter selects.
    events: VecDeque<v1::EventInfo>,
    /// The number of the last event that was read.
    last: u64,
}

/// Reads past events up to the requested number, or until none arrives for a while. A time limit
/// ends it if events never pause.
async fn past(stream: &mut Streaming<v1::EventInfo>, args: &EventsArgs) -> anyhow::Result<Past> {
    let (began, most) = (Instant::now(), usize::try_from(args.limit).unwrap_or(usize::MAX));
    let (mut past, mut n_read) = (Past::default(), 0);
    let is_all = |n_read| args.objects.is_empty() && n_read >= args.limit;
    while !is_all(n_read) && n_read < MOST_READ && began.elapsed() < PAST_IN_ALL {
        let Ok(event) = timeout(PAST, stream.message()).await else { break };
        let Some(event) = event? else { break };
        (past.last, n_read) = (record(&event).seq, n_read + 1);
        if args.is_wanted(&event) {
            past.events.push_back(event);
        }
        if past.events.len() > most {
            past.events.pop_front();
        }
    }
    Ok(past)
}

fn reason(status: &Status) -> &str {
    status.metadata().get(REASON_TRAILER).and_then(|it| it.to_str().ok()).unwrap_or_default()
}

impl Record for v1::EventInfo {
    fn titles(is_wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["TIME", "TYPE", "OBJECT", "CHANGE", "MESSAGE"];
        if is_wide {
            titles.splice(3..3, ["REFERENCE", "AMOUNT"]);
            titles.insert(0, "NUMBER");
        }
        titles
    }

    fn name(&self) -> String {
        record(self).object_id.clone()
    }

    /// Returns the event in the form of the interface, with its pod.
    fn document(&self) -> anyhow::Result<Value> {
        let mut shown = document("monoceros.si.v1.EventRecord", record(self))?;
        if let Some(fields) = shown.as_object_mut().filter(|_| !self.pod.is_empty()) {
            fields.insert("pod".to_owned(), Value::from(self.pod.clone()));
        }
        Ok(shown)
    }

    fn row(&self, is_wide: bool) -> Vec<String> {
        let (object, reference) = names::of_event(self);
        let event = record(self);
        let change = match event.event_change_detail() {
            ChangeDetail::DetailsNone => match event.event_change_type() {
                ChangeType::None => "",
                change => change.as_str_name(),
            },
            detail => detail.as_str_name(),
        };
        // Distinguishes `ADD NODE_ALLOC` from `REMOVE NODE_ALLOC`.
        let change = match event.event_change_type() {
            ChangeType::None => change.to_owned(),
            kind if change == kind.as_str_name() => change.to_owned(),
            kind => format!("{} {change}", kind.as_str_name()),
        };
        let mut row = vec![
            moment(event.timestamp_nano),
            event.r#type().as_str_name().to_lowercase(),
            object.to_owned(),
            change,
            event.message.clone(),
        ];
        if is_wide {
            row.splice(3..3, [reference.to_owned(), all(event.resource.as_ref())]);
            row.insert(0, event.seq.to_string());
        }
        row
    }
}

/// Returns the event in the form of the interface.
fn record(event: &v1::EventInfo) -> &si::EventRecord {
    static NOTHING: LazyLock<si::EventRecord> = LazyLock::new(si::EventRecord::default);
    event.record.as_ref().unwrap_or(&NOTHING)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;
    use expect_test::expect;

    use super::*;

    fn printer(output: Form, follow: bool) -> Printer {
        Printer::new::<v1::EventInfo>(output, follow)
    }

    fn event(seq: u64) -> v1::EventInfo {
        let record = si::EventRecord {
            r#type: Type::Node.into(),
            object_id: "n1".to_owned(),
            event_change_type: ChangeType::Set.into(),
            event_change_detail: ChangeDetail::NodeSchedulable.into(),
            message: "schedulable: false".to_owned(),
            timestamp_nano: 1_000_000_000,
            seq,
            ..Default::default()
        };
        v1::EventInfo { record: Some(record), pod: String::new() }
    }

    /// A pod that does not fit at first, and is then placed.
    fn events_of_a_pod() -> [v1::EventInfo; 2] {
        let about = |kind: Type, object: &str, reference: &str, change: ChangeType| {
            let record = si::EventRecord {
                r#type: kind.into(),
                object_id: object.to_owned(),
                reference_id: reference.to_owned(),
                event_change_type: change.into(),
                timestamp_nano: 1_000_000_000,
                ..Default::default()
            };
            v1::EventInfo { record: Some(record), pod: "lab/p".to_owned() }
        };
        [
            about(Type::Request, "uid", "app", ChangeType::None),
            about(Type::Node, "n1", "uid", ChangeType::Add),
        ]
    }

    #[test]
    fn an_event_is_a_line() {
        let mut output = printer(Form::Table, true);
        expect![[r#"
            TIME                       TYPE   OBJECT   CHANGE                 MESSAGE
            1970-01-01T00:00:01.000Z   node   n1       SET NODE_SCHEDULABLE   schedulable: false
        "#]]
        .assert_eq(&output.text(&[event(1)]).unwrap());
        expect![[r#"
            1970-01-01T00:00:01.000Z   node   n1       SET NODE_SCHEDULABLE   schedulable: false
        "#]]
        .assert_eq(&output.text(&[event(2)]).unwrap());
    }

    #[test]
    fn documents_are_a_list_or_lines_when_followed() {
        let shown = |follow| printer(Form::Json, follow).text(&[event(1), event(2)]);
        let list: Vec<Value> = serde_json::from_str(&shown(false).unwrap()).unwrap();
        let lines = shown(true).unwrap();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(list, lines);
        assert_eq!((&list[1]["seq"], &list[1]["objectID"]), (&2.into(), &"n1".into()));
    }

    #[test]
    fn types_may_be_written_as_events_have_them() {
        let command = EventsArgs::augment_args(clap::Command::new("events"));
        let line = ["events", "--type", "CLUSTER,Member,app"];
        let args = EventsArgs::from_arg_matches(&command.get_matches_from(line)).unwrap();
        assert_eq!(args.types, [EventType::Cluster, EventType::Cluster, EventType::App]);
    }

    #[test]
    fn objects_match_as_object_or_reference() {
        let about = |name: &str| EventsArgs::listed(vec![name.to_owned()], false, Form::Table);
        let mut event = event(1);
        event.record.as_mut().unwrap().reference_id = "a1".to_owned();
        assert!(about("n1").is_wanted(&event) && about("a1").is_wanted(&event));
        assert!(!about("n2").is_wanted(&event));
    }

    #[test]
    fn tables_show_pod_names_documents_uids_too() {
        let events = events_of_a_pod();
        let mut output = printer(Form::Table, false);
        expect![[r#"
            TIME                       TYPE      OBJECT   CHANGE   MESSAGE
            1970-01-01T00:00:01.000Z   request   lab/p    -        -
            1970-01-01T00:00:01.000Z   node      n1       ADD      -
        "#]]
        .assert_eq(&output.text(&events).unwrap());
        let mut output = printer(Form::Wide, false);
        expect![[r#"
            NUMBER   TIME                       TYPE      OBJECT   REFERENCE   AMOUNT   CHANGE   MESSAGE
            0        1970-01-01T00:00:01.000Z   request   lab/p    app         -        -        -
            0        1970-01-01T00:00:01.000Z   node      n1       lab/p       -        ADD      -
        "#]].assert_eq(&output.text(&events).unwrap());
        let document = events[1].document().unwrap();
        assert_eq!((&document["referenceID"], &document["pod"]), (&"uid".into(), &"lab/p".into()));
        assert_eq!(event(1).document().unwrap().get("pod"), None);
        let about = |name: &str| EventsArgs::listed(vec![name.to_owned()], false, Form::Table);
        for name in ["uid", "lab/p"] {
            assert!(events.iter().all(|event| about(name).is_wanted(event)), "{name}");
        }
    }
}
