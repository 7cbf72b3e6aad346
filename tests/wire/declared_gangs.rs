//! Gangs declared with their application, in the form of every published revision and by the later
//! field: all members are placed at once, and no stream mentions the places held by the scheduler.

use monoceros_proto::si::v1 as si;
use serde_json::Value;

use crate::harness::shim::{ALL, Shim, hello, passes};
use crate::harness::{QUEUES, Rm, Service, application as submitted, ask, registration, resource};
use crate::revisions::client::{SPLIT, application, field, series_reaches, vcore};
use crate::validation::speaker::{Ask, Speaker};

const REVISIONS: [&str; 4] = ["l", "m", "n", "t"];

/// The tag that declares `count` workers of `cores` cores.
fn workers(count: u32, cores: u32) -> String {
    declared(&format!(
        r#"[{{"name": "workers", "minMember": {count}, "minResource": {{"vcore": {cores}}}}}]"#
    ))
}

/// The tag with this value.
fn declared(value: &str) -> String {
    format!("tags {{ key: \"monoceros.io/task-groups\" value: '{value}' }}")
}

/// Submits `gang` with a tag and waits until it is accepted. No decision is made for an RM before
/// each of its streams has sent something.
async fn gang(rm: &Speaker, tag: &str) {
    rm.allocation("").await;
    rm.application("gang", &format!("{} {tag}", rm.queue())).await;
    rm.accepted_application("gang").await;
}

/// Asks for a worker of this many thousandths of a core.
async fn ask_for(rm: &Speaker, key: &str, amount: i64) {
    let more = r#"taskGroupName: "workers""#;
    rm.ask(Ask { key, application: "gang", size: vec![("vcore", amount)], more, ..Ask::default() })
        .await;
}

/// Waits until the gang is reported in the state.
async fn enters(rm: &Speaker, state: &str) {
    let (method, list) = if rm.is_legacy() {
        ("Update", "updatedApplications")
    } else {
        ("UpdateApplication", "updated")
    };
    let is_it = || {
        let items = rm.client.items(method, list);
        let mut of_gang = items.iter().filter(|item| field(item, "applicationID") == "gang");
        of_gang.any(|item| field(item, "state") == state).then_some(())
    };
    rm.client.wait(&format!("gang is {state}"), is_it).await;
}

/// The gang as shown by REST.
async fn shown(service: &Service, rm: &Speaker) -> Value {
    application(service, &rm.client.rm_id, rm.leaf(), "gang").await
}

/// The number of places held for members, and of running members.
fn held_and_real(gang: &Value) -> (usize, usize) {
    let allocations = gang["allocations"].as_array().map_or(&[][..], Vec::as_slice);
    let (held, real): (Vec<&Value>, Vec<&Value>) =
        allocations.iter().partition(|allocation| allocation["internal"] == true);
    assert!(held.iter().all(|hold| hold["placeholder"] == true), "{gang}");
    assert!(real.iter().all(|real| real["placeholder"] != true), "{gang}");
    (held.len(), real.len())
}

/// Checks that all messages received name only what the RM asked for itself.
fn heard_of_no_hold(rm: &Speaker) {
    let methods: &[&str] = if rm.is_legacy() { &["Update"] } else { &SPLIT };
    for text in methods.iter().flat_map(|method| rm.client.messages(method)) {
        let text = text.to_text_format();
        assert!(!text.contains("workers~"), "{}: {text}", rm.revision);
        assert!(!text.contains("placeholder:true"), "{}: {text}", rm.revision);
    }
    assert_eq!(rm.n_released(), 0, "{}", rm.revision);
}

#[tokio::test]
async fn asks_take_held_places() {
    for revision in REVISIONS {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, &workers(3, 2)).await;
        enters(&rm, "Running").await;
        rm.settled("k1").await;
        assert_eq!(rm.n_allocated(), 1, "{revision}: nothing is told of what is held");
        let gang = shown(&service, &rm).await;
        assert_eq!(held_and_real(&gang), (3, 0), "{revision}: {gang}");
        // The node is fully used: only the held places have room for these.
        ask_for(&rm, "r1", 2_000).await;
        ask_for(&rm, "r2", 1_500).await;
        for key in ["r1", "r2"] {
            let member = rm.allocated(key).await;
            assert_eq!(field(&member, "taskGroupName"), "workers");
            assert_eq!(
                (&*field(&member, "nodeID"), &*field(&member, "placeholder")),
                ("n1", "false")
            );
        }
        rm.settled("k2").await;
        assert_eq!(rm.n_allocated(), 4, "{revision}");
        let gang = shown(&service, &rm).await;
        assert_eq!(held_and_real(&gang), (1, 2), "{revision}: {gang}");
        let group = &gang["placeholderData"][0];
        assert_eq!((&group["count"], &group["replaced"]), (&3.into(), &2.into()), "{gang}");
        heard_of_no_hold(&rm);
    }
}

#[tokio::test]
async fn members_are_placed_together() {
    for revision in REVISIONS {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, &workers(3, 3)).await;
        enters(&rm, "Accepted").await;
        ask_for(&rm, "r1", 3_000).await;
        ask_for(&rm, "r2", 3_000).await;
        rm.settled("k1").await;
        assert_eq!(rm.n_allocated(), 1, "{revision}: two of three places are none");
        let waits = shown(&service, &rm).await;
        assert_eq!(held_and_real(&waits), (0, 0), "{revision}: {waits}");
        assert_eq!(waits["pendingResource"]["vcore"], 9_000, "{waits}");
        rm.node("n2", &vcore("schedulableResource", 3_000)).await;
        enters(&rm, "Running").await;
        for key in ["r1", "r2"] {
            rm.allocated(key).await;
        }
        let (method, list) =
            if rm.is_legacy() { ("Update", "newAllocations") } else { ("UpdateAllocation", "new") };
        let sizes = rm.client.messages(method).into_iter().map(|message| {
            message.get_field_by_name(list).unwrap().as_list().map_or(0, <[_]>::len)
        });
        assert!(sizes.max() == Some(2), "{revision}: both come in one message");
        let gang = shown(&service, &rm).await;
        assert_eq!(held_and_real(&gang), (1, 2), "{revision}: {gang}");
        heard_of_no_hold(&rm);
    }
}

#[tokio::test]
async fn expired_holds_are_silent() {
    for revision in REVISIONS {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, &format!("{} executionTimeoutMilliSeconds: 200", workers(2, 4))).await;
        enters(&rm, "Running").await;
        enters(&rm, "Completing").await;
        let gang = shown(&service, &rm).await;
        assert_eq!(held_and_real(&gang), (0, 0), "{revision}: {gang}");
        assert_eq!(gang["placeholderData"][0]["timedout"], 2, "{gang}");
        // The held places are free.
        rm.ask(Ask { key: "k", size: vec![("vcore", 8_000)], ..Ask::default() }).await;
        rm.allocated("k").await;
        heard_of_no_hold(&rm);
    }
}

/// The gang is decided before its RM reports running pods: a reported member takes its held place.
#[tokio::test]
async fn recovered_member_takes_its_held_place() {
    for revision in ["l", "m", "n"] {
        let service = Service::start();
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, &workers(3, 1)).await;
        enters(&rm, "Running").await;
        let size = vcore("resourcePerAlloc", 1_000);
        let member = format!(
            r#"existingAllocations {{ allocationKey: "r1" UUID: "r1" nodeID: "n2"
                applicationID: "gang" taskGroupName: "workers" {size} }}"#
        );
        let capacity = vcore("schedulableResource", 1_000);
        rm.node("n2", &[capacity, member].concat()).await;
        rm.accepted_node("n2").await;
        rm.settled("k").await;
        let gang = shown(&service, &rm).await;
        assert_eq!(held_and_real(&gang), (2, 1), "{revision}: {gang}");
        ask_for(&rm, "r2", 1_000).await;
        assert_eq!(field(&rm.allocated("r2").await, "nodeID"), "n1");
        heard_of_no_hold(&rm);
    }
}

#[tokio::test]
async fn invalid_declaration_is_rejected() {
    let service = Service::start();
    for revision in REVISIONS {
        let rm = Speaker::start(&service, revision).await;
        let member = r#"{"name": "workers", "minMember": 1}"#;
        let faults = [
            ("[", "line 1"),
            (r#"[{"name": "workers", "minMember": 0}]"#, "`workers`"),
            (&format!("[{member}, {member}]"), "`workers`"),
            (r#"[{"name": "workers", "minMember": 1, "size": 3}]"#, "`size`"),
        ];
        for (at, (fault, named)) in faults.iter().enumerate() {
            let id = format!("gang-{at}");
            rm.application(&id, &format!("{} {}", rm.queue(), declared(fault))).await;
            let reason = rm.rejected_application(&id, "R_GANG_DECLARATION").await;
            assert!(reason.contains(named), "{revision}: {reason}");
        }
        let both = format!("{} {} {}", rm.queue(), workers(1, 1), vcore("placeholderAsk", 1_000));
        rm.application("both", &both).await;
        rm.rejected_application("both", "R_GANG_DECLARATION").await;
        series_reaches(&service, &rm.series("rejected", "R_GANG_DECLARATION"), 5).await;
    }
}

#[tokio::test]
async fn placeholder_in_a_declared_gang_is_rejected() {
    let service = Service::start();
    for revision in REVISIONS {
        let rm = Speaker::start(&service, revision).await;
        gang(&rm, &workers(1, 1)).await;
        let more = r#"placeholder: true taskGroupName: "workers""#;
        rm.ask(Ask { key: "p1", application: "gang", more, ..Ask::default() }).await;
        let (method, list) = match revision {
            "l" => ("Update", "rejectedAllocations"),
            "t" => ("UpdateAllocation", "rejectedAllocations"),
            _ => ("UpdateAllocation", "rejected"),
        };
        let reason = field(&rm.client.last(method, list, 1).await, "reason");
        assert!(reason.contains("`p1`") && reason.contains("`gang`"), "{reason}");
        assert!(reason.ends_with("[R_GANG_PLACEHOLDER]"), "{revision}: {reason}");
    }
}

/// Makes a task group, which the oldest revisions cannot express.
fn task_group(name: &str, min_members: i32, member: si::Resource) -> si::TaskGroup {
    si::TaskGroup { name: name.to_owned(), min_members, member: Some(member), ..Default::default() }
}

fn member(key: &str) -> si::Allocation {
    si::Allocation { task_group_name: "workers".to_owned(), ..ask("gang", key) }
}

async fn is_running(rm: &Rm) {
    let state = |seen: &crate::harness::Seen| {
        let mut updated = seen.updated_applications.iter();
        updated.any(|it| it.application_id == "gang" && it.state == "Running")
    };
    rm.until("gang is Running", state).await;
}

#[tokio::test]
async fn field_and_tag_must_declare_the_same() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    rm.hello().await;
    let rm = rm.with_nodes(&["n1"]).await;
    let text =
        r#"[{"name": "workers", "minMember": 2, "minResource": {"vcore": 1, "memory": "1G"}}]"#;
    let tags = || [("monoceros.io/task-groups".to_owned(), text.to_owned())].into();
    let gang = |id, size| si::AddApplicationRequest {
        task_groups: vec![task_group("workers", 2, size)],
        ..submitted(id, "root.a")
    };
    let differs = si::AddApplicationRequest { tags: tags(), ..gang("differs", resource(2_000, 1)) };
    rm.send_applications(vec![differs], vec![]).await;
    rm.expect_rejection("differs", "R_GANG_DECLARATION").await;
    let same = si::AddApplicationRequest { tags: tags(), ..gang("same", resource(1_000, 1)) };
    rm.send_applications(vec![same, gang("gang", resource(1_000, 1))], vec![]).await;
    is_running(&rm).await;
    // Four cores: two for each gang.
    for id in ["same", "gang"] {
        let shown = application(&service, "rm", "root.a", id).await;
        assert_eq!(held_and_real(&shown), (2, 0), "{shown}");
    }
    rm.send_allocations(vec![], vec![member("r1"), member("r2")], vec![]).await;
    rm.until("allocated", |seen| seen.new.len() == 2).await;
    let shown = application(&service, "rm", "root.a", "gang").await;
    assert_eq!(held_and_real(&shown), (0, 2), "{shown}");
    rm.read(|seen| {
        assert!(seen.new.iter().all(|new| !new.placeholder && new.node_id == "n1"));
        assert!(seen.released.is_empty());
    });
}

#[tokio::test]
async fn gang_above_the_queue_maximum_is_rejected() {
    let service = Service::start();
    let mut client = service.client().await;
    let queues = QUEUES.replace("- name: a", "- {name: a, resources: {max: {vcore: 3}}}");
    client.register_resource_manager(registration("rm", &queues)).await.unwrap();
    let rm = Rm::open(client, "rm").await;
    let groups = |count| vec![task_group("workers", count, resource(1_000, 1))];
    let gang = |id, count| si::AddApplicationRequest {
        task_groups: groups(count),
        ..submitted(id, "root.a")
    };
    rm.send_applications(vec![gang("large", 4), gang("gang", 3)], vec![]).await;
    let reason = rm.expect_rejection("large", "R_GANG_TOO_LARGE").await;
    let amounts = " of memory, more than the maximum of queue `root.a`, 3 cores [";
    assert!(reason.contains("ask for 4 cores and ") && reason.contains(amounts), "{reason}");
    rm.until("accepted", |seen| seen.accepted_applications == ["gang"]).await;
}

/// Held places are sent neither as assumptions, nor as events, nor in the snapshot of a stream. A
/// member is asked about on the node where its place is held.
#[tokio::test]
async fn callback_streams_never_mention_held_places() {
    let service = Service::start();
    let mut client = service.client().await;
    let required = [("callback.predicates".to_owned(), "required".to_owned())];
    let register = si::RegisterResourceManagerRequest {
        extra_config: required.into(),
        ..registration("rm", QUEUES)
    };
    client.register_resource_manager(register).await.unwrap();
    let rm = Rm::open(client, "rm").await;
    rm.hello().await;
    let rm = rm.with_nodes(&["n1"]).await;
    let mut first = Shim::attach(&service, hello("rm", ALL)).await;
    first.welcome().await;
    let gang = si::AddApplicationRequest {
        task_groups: vec![task_group("workers", 3, resource(1_000, 1))],
        ..submitted("gang", "root.a")
    };
    rm.send_applications(vec![gang], vec![]).await;
    is_running(&rm).await;
    rm.send_allocations(vec![], vec![member("r1")], vec![]).await;
    let batch = first.batch().await;
    let query = &batch.queries[0];
    assert_eq!((&*query.allocation_key, query.allocate), ("r1", false));
    first.answer(&batch, passes).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
    first.events().await;
    // Another stream begins with a snapshot of the allocations.
    let mut second = Shim::attach(&service, hello("rm", ALL)).await;
    let sync = second.sync().await;
    let assumed = sync.args.unwrap_or_default().assumed_allocations;
    let assumed: Vec<&str> = assumed.iter().map(|one| one.allocation_key.as_str()).collect();
    assert_eq!((sync.snapshot, assumed), (true, vec!["r1"]));
    first.goodbye().await;
    let told = format!("{:?} {:?}", first.seen, second.seen);
    assert!(!told.contains("workers~"), "{told}");
    rm.read(|seen| assert!(seen.released.is_empty()));
    let shown = application(&service, "rm", "root.a", "gang").await;
    assert_eq!(held_and_real(&shown), (2, 1), "{shown}");
}
