//! Snapshots of a small cluster: written, read, damaged.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::{ResourceManagerCallback, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::*;

const RM: &str = "orbit";
const QUEUES: &str = "
partitions:
  - name: default
    placementrules:
      - {name: tag, value: team, filter: {type: allow, users: [ada]}}
      - {name: provided}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: Physics
            adminacl: 'curie guild'
            resources: {max: {vcore: 4, telescope: 3}}
            limits: [{limit: of curie, users: [curie], groups: [guild], maxresources: {vcore: 3}}]
          - {name: chemistry}
";
/// Every name of the cluster.
const NAMES: [&str; 20] = [
    "orbit",
    "physics",
    "chemistry",
    "curie",
    "guild",
    "telescope",
    "mars",
    "venus",
    "survey",
    "analysis",
    "frame",
    "lens",
    "prism",
    "slit",
    "tier",
    "gold",
    "granite",
    "basalt",
    "team",
    "hunter2",
];

struct Nobody;

impl ResourceManagerCallback for Nobody {
    fn update_allocation(&self, _: si::AllocationResponse) {}
    fn update_application(&self, response: si::ApplicationResponse) {
        assert!(response.rejected.is_empty(), "{:?}", response.rejected);
    }
    fn update_node(&self, _: si::NodeResponse) {}
}

async fn cluster() -> SchedulerHandle {
    let scheduler = Scheduler::builder().epoch_ns(5_000_000_000).start_local().unwrap();
    let registration = si::RegisterResourceManagerRequest {
        config: QUEUES.to_owned(),
        extra_config: [("bindPassword".to_owned(), "hunter2".to_owned())].into(),
        ..si::RegisterResourceManagerRequest::new(RM)
    };
    scheduler.register_resource_manager(registration, Arc::new(Nobody)).await.unwrap();
    let cores = |n| si::Resource::default().cores(n);
    let node = |id: &str, rock: &str| {
        si::NodeInfo::new(id, cores(2).with("telescope", 2)).with_attribute("rock", rock)
    };
    let nodes = [node("mars", "granite"), node("venus", "basalt")];
    scheduler.update_node(si::NodeRequest::report(RM, nodes)).await.unwrap();
    let new = |id: &str, queue: &str| {
        si::AddApplicationRequest::new(id, "curie")
            .with_group("guild")
            .in_queue(queue)
            .with_tag("secret", "hunter2")
    };
    let new = [new("survey", "root.physics"), new("analysis", "root.chemistry")];
    scheduler.update_application(si::ApplicationRequest::submit(RM, new)).await.unwrap();
    let near = si::AllocationAffinityConstraints {
        target_expressions: vec![si::AffinityTargetExpression {
            target_key: "tier".to_owned(),
            target_values: vec!["gold".to_owned()],
            ..Default::default()
        }],
        max_cardinality: 1,
        required: true,
        ..Default::default()
    };
    let simple = si::SimplePlacementConstraint {
        allocation_affinity_attribute: Some(near),
        ..Default::default()
    };
    let kind = si::placement_constraint::Constraint::SimpleConstraint(simple);
    let lens = si::Allocation {
        placement_constraint: Some(si::PlacementConstraint { constraint: Some(kind) }),
        ..si::Allocation::ask("survey", "lens", cores(1))
    };
    let repeated = si::AllocationAsk {
        allocation_key: "frame".to_owned(),
        application_id: "survey".to_owned(),
        resource_ask: Some(cores(1).with("telescope", 1)),
        max_allocations: 4,
        ..Default::default()
    };
    let of_analysis = |key: &str, n| si::Allocation::ask("analysis", key, cores(n));
    let asks = [
        lens.with_tag("tier", "gold"),
        of_analysis("lens", 9),
        of_analysis("prism", 5),
        of_analysis("slit", 5),
    ];
    let asks =
        si::AllocationRequest { asks: vec![repeated], ..si::AllocationRequest::ask(RM, asks) };
    scheduler.update_allocation(asks).await.unwrap();
    scheduler.settle().await;
    scheduler
}

/// The image of the cluster.
fn image() -> ResourceManagerImage {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.unwrap(), async {
        let scheduler = cluster().await;
        let image = scheduler.image(RM).await.unwrap();
        scheduler.shutdown().await;
        image
    })
}

fn written(replaced: Replaced) -> Vec<u8> {
    let about = About { cluster: String::new(), now_ns: 7_000_000_000, replaced };
    write(&[image()], &about, u64::MAX).unwrap().bytes
}

fn unpacked(file: &[u8]) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn refused(file: &[u8]) -> String {
    match read(file, READ_BYTES) {
        Err(SnapshotError::Refused(why)) => why,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it is not refused"),
    }
}

#[test]
fn a_snapshot_is_read_as_it_was_written() {
    let image = image();
    let about = About { now_ns: 7_000_000_000, ..About::default() };
    let Written { bytes, summary } = write(std::slice::from_ref(&image), &about, u64::MAX).unwrap();
    let Contents { header, managers } = read(&bytes, READ_BYTES).unwrap();
    assert_eq!((&*header.time, &header.rms[..]), ("1970-01-01T00:00:07.0Z", &[RM.to_owned()][..]));
    let [manager] = &managers[..] else { panic!("{header:?}") };
    assert_eq!((&*manager.rm_id, &*manager.config), (RM, QUEUES));
    let [partition] = &manager.partitions[..] else { panic!("{header:?}") };
    assert_eq!(partition.name, "default");
    assert_eq!(partition.report, image.partitions[0].report());
    assert_eq!((summary.nodes, summary.applications), (2, 2));
    assert_eq!((summary.allocations, summary.asks), (3, 4));
    assert_eq!(summary.bytes, bytes.len() as u64);
    let text = unpacked(&bytes);
    assert!(!text.contains("hunter2"), "neither of the tag nor of the other settings");
    for line in text.lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap().is_object());
    }
}

#[test]
fn an_anonymized_snapshot_has_no_name_of_the_original() {
    let file = written(Replaced::Everything);
    let text = unpacked(&file).to_lowercase();
    for name in NAMES.into_iter().filter(|name| *name != "team") {
        assert!(!text.contains(name), "{name}: {text}");
    }
    let contents = read(&file, READ_BYTES).unwrap();
    let image = image();
    let (then, now) = (image.partitions[0].report(), &contents.managers[0].partitions[0].report);
    assert_eq!((now.nodes.len(), now.applications.len()), (2, 2));
    assert!(now.nodes[0].node_id < now.nodes[1].node_id, "as mars and venus");
    let ages = |report: &monoceros_actors::image::Report| {
        let asks = report.asks.iter();
        asks.map(|ask| ask.allocation_tags["creationTime"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ages(now), ages(&then));
    let parsed = monoceros_actors::config::parse(&contents.managers[0].config).unwrap();
    let queues = format!("{parsed:?}");
    assert!(queues.contains(&now.applications[0].queue_name), "the configuration has its queue");
    assert_eq!(contents.header.notes.len(), 1, "the filter was left out");
}

/// What starts in a fork of an image while all nodes grow: by the numbers of applications and keys in
/// the order of their names.
fn starts_of(image: ResourceManagerImage) -> Vec<(usize, usize, String)> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.unwrap(), async {
        let starts = Arc::new(Starts::default());
        let fork = Scheduler::builder().epoch_ns(image.at_ns()).start_local().unwrap();
        let report = image.partitions[0].report();
        let rm = image.configuration.rm_id.clone();
        fork.restore(image, starts.clone()).await.unwrap();
        for cores in 3..14 {
            let grown = report.nodes.iter().map(|node| si::NodeInfo {
                action: si::node_info::ActionFromRm::Update.into(),
                ..si::NodeInfo::new(
                    &node.node_id,
                    node.schedulable_resource.clone().unwrap().cores(cores),
                )
            });
            let grown = si::NodeRequest::report(&rm, grown.collect::<Vec<_>>());
            fork.update_node(grown).await.unwrap();
            fork.settle().await;
        }
        fork.shutdown().await;
        let started = std::mem::take(&mut *starts.0.lock().unwrap());
        let number = |of: fn(&si::Allocation) -> &String, it: &si::Allocation| {
            let names: BTreeSet<_> = started.iter().map(of).collect();
            names.into_iter().position(|name| name == of(it)).unwrap()
        };
        let numbered = started.iter().map(|it| {
            let node = report.nodes.iter().position(|node| node.node_id == it.node_id).unwrap();
            let suffix = it.uuid.rsplit_once('#').map_or("", |(_, number)| number);
            let key = number(|it| &it.allocation_key, it);
            (number(|it| &it.application_id, it), key, format!("{suffix} on {node}"))
        });
        numbered.collect()
    })
}

/// Records what starts.
#[derive(Default)]
struct Starts(Mutex<Vec<si::Allocation>>);

impl ResourceManagerCallback for Starts {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.0.lock().unwrap().extend(response.new);
    }
    fn update_application(&self, _: si::ApplicationResponse) {}
    fn update_node(&self, _: si::NodeResponse) {}
}

#[test]
fn forks_of_a_file_decide_as_forks_of_the_image() {
    let expected = starts_of(image());
    assert!(expected.len() >= 2, "{expected:?}");
    for replaced in [Replaced::Nothing, Replaced::Users, Replaced::Everything] {
        let mut contents = read(&written(replaced), READ_BYTES).unwrap();
        let image = contents.managers.remove(0).image.unwrap();
        assert_eq!(starts_of(image), expected, "{replaced:?}");
    }
}

#[test]
fn a_redacted_snapshot_has_other_users_and_groups_only() {
    let text = unpacked(&written(Replaced::Users));
    for name in ["curie", "\"guild\"", " guild"] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    assert!(text.contains("survey") && text.contains("root.physics"), "{text}");
}

#[test]
fn a_damaged_snapshot_is_refused_with_the_reason() {
    let file = written(Replaced::Nothing);
    let text = unpacked(&file);
    let n_lines = text.lines().count();
    let last = text.trim_end().rfind('\n').unwrap();
    assert_eq!(
        refused(&packed(&text[..=last])),
        format!("it is cut off after line {}", n_lines - 1)
    );
    assert_eq!(
        refused(&packed(&text[..last - 3])),
        format!("it is cut off after line {}", n_lines - 2)
    );
    let changed = packed(&text.replace("mars", "luna"));
    assert_eq!(refused(&changed), "what follows its header does not match its checksum");
    let cut = refused(&file[..file.len() - 20]);
    assert!(cut.starts_with("it is cut off after line "), "{cut}");
    let mut flipped = file.clone();
    let middle = flipped.len() * 3 / 4;
    flipped[middle] ^= 0x10;
    let flipped = refused(&flipped);
    assert!(flipped.contains("damaged") || flipped.contains("checksum"), "{flipped}");
    let none = refused(b"{\"header\": {}}");
    assert!(none.starts_with("it is no gzip file, or damaged"), "{none}");
    assert_eq!(refused(&packed("")), "it is empty");
    assert_eq!(refused(&packed("{}\n")), "its first line is no header of a snapshot");
}

#[test]
fn another_format_or_version_is_refused() {
    let text = unpacked(&written(Replaced::Nothing));
    let other = text.replacen("\"format\":1", "\"format\":2", 1);
    assert_eq!(refused(&packed(&other)), "it is of format 2, this program reads 1");
    let own = crate::cli::BUILD.version;
    let other = text.replacen(&format!("\"version\":\"{own}\""), "\"version\":\"9.9.9\"", 1);
    let why = refused(&packed(&other));
    assert!(why.starts_with("version 9.9.9 (commit ") && why.contains(own), "{why}");
}

#[test]
fn what_is_too_large_is_refused_with_its_size() {
    let about = About::default();
    let text = unpacked(&written(Replaced::Nothing));
    let bytes = text.lines().skip(1).map(|it| it.len() as u64 + 1);
    let bytes: u64 = bytes.sum();
    let rm = RM.to_owned();
    let too_large = SnapshotError::TooLarge { rm, bytes, limit: bytes - 1 };
    assert_eq!(write(&[image()], &about, bytes - 1).unwrap_err(), too_large);
    let file = write(&[image()], &about, bytes).unwrap().bytes;
    let header = unpacked(&file).lines().next().unwrap().len() as u64 + 1;
    assert!(read(&file, header + bytes).is_ok());
    let why = match read(&file, bytes / 2) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it is read"),
    };
    assert!(why.contains("at most") || why.contains("more bytes"), "{why}");
}
