//! Registrations: attaching to a session, taking it over, restarts, and limits.

use super::*;

#[tokio::test]
async fn session_is_stale_after_a_restart() {
    let before = Service::start();
    let first = registered(&before.client().await, "rm", &[]).await;
    drop(before);
    let after = Service::start();
    let client = after.client().await;
    let session = value(&first, "x-si-session");
    let named = [("x-si-rm-id", "rm"), ("x-si-session", &*session)];
    let status = Nodes::open(&client, &named).await.err().unwrap();
    assert_eq!(reason_of(&status), "SESSION_STALE");
    let status = Nodes::open(&client, &[("x-si-rm-id", "rm")]).await.err().unwrap();
    assert_eq!(reason_of(&status), "RM_NOT_REGISTERED");
    let second = registered(&client, "rm", &[]).await;
    assert_ne!(value(&second, "x-si-scheduler"), value(&first, "x-si-scheduler"));
}

#[tokio::test]
async fn second_instance_attaches_or_takes_over() {
    let service = Service::start();
    let leader = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let leader = leader.with_application("app", "root.a").await;
    leader.send_allocations(vec![], vec![ask("app", "a")], vec![]).await;
    leader.until("placed", |seen| seen.new.len() == 1).await;

    let client = service.client().await;
    let attach = [("x-si-register-mode", "attach"), ("x-si-instance", "second")];
    let metadata = registered(&client, "rm", &attach).await;
    assert_eq!(value(&metadata, "x-si-registered"), "attached");
    leader.read(|seen| assert!(seen.ends.is_empty(), "nothing has happened to its streams yet"));
    let heir = Rm::open(client.clone(), "rm").await;
    heir.hello().await;
    leader.until("displaced", |seen| seen.ends.len() == 3).await;
    assert_eq!(leader.read(|seen| seen.end("allocation").unwrap().1), "STREAM_DISPLACED");
    heir.until("replayed", |seen| seen.new.len() == 1).await;
    heir.send_allocations(vec![], vec![ask("app", "b")], vec![]).await;
    heir.until("goes on", |seen| seen.new.len() == 2).await;

    let metadata = registered(&client, "rm", &[("x-si-instance", "third")]).await;
    assert_eq!(value(&metadata, "x-si-registered"), "replaced");
    heir.until("ended", |seen| seen.ends.len() == 3).await;
    let status = heir.read(|seen| seen.ends["allocation"].clone().unwrap());
    let by = Some("third".to_owned());
    assert_eq!(told(&status, "byInstance"), (Code::Aborted, "SESSION_SUPERSEDED".to_owned(), by));
    assert!(status.get_details_retry_info().is_some());
    // Everything starts from scratch: the same names, the whole node.
    let clean = Rm::open(client, "rm").await.with_nodes(&["n1"]).await;
    let clean = clean.with_application("app", "root.a").await;
    let asks = (0..4).map(|n| ask("app", &format!("x{n}"))).collect();
    clean.send_allocations(vec![], asks, vec![]).await;
    clean.until("four cores", |seen| seen.new.len() == 4).await;
    clean.read(|seen| {
        assert!(seen.released.is_empty(), "{:?}", seen.released);
        assert_eq!(seen.accepted_nodes, ["n1"]);
        assert_eq!(seen.accepted_applications, ["app"]);
    });
}

#[tokio::test]
async fn different_configuration_cannot_attach() {
    let service = Service::start();
    let client = service.client().await;
    registered(&client, "rm", &[]).await;
    let mode = [("x-si-register-mode", "attach")];
    let other = format!("{QUEUES}          - name: c\n");
    let request = with_metadata(registration("rm", &other), &mode);
    let response = client.clone().register_resource_manager(request).await.unwrap();
    assert_eq!(value(response.metadata(), "x-si-registered"), "replaced");
    let request = with_metadata(registration("rm", ""), &mode);
    let response = client.clone().register_resource_manager(request).await.unwrap();
    assert_eq!(value(response.metadata(), "x-si-registered"), "attached");
    let request = with_metadata(registration("rm", ""), &[("x-si-register-mode", "share")]);
    let status = client.clone().register_resource_manager(request).await.unwrap_err();
    assert_eq!(reason_of(&status), "RM_ID_INVALID");
}

#[tokio::test]
async fn registrations_have_limits() {
    let service = Service::start_with(&[("GRPC__MAX_SESSIONS", "1"), ("LIMITS__ID_BYTES", "20")]);
    let mut client = service.client().await;
    registered(&client, "first", &[]).await;
    let status = client.register_resource_manager(registration("second", QUEUES)).await;
    let status = status.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::ResourceExhausted, "LIMIT_SESSIONS"));
    // The first one may register again.
    registered(&client, "first", &[]).await;
    let mut long = registration("first", QUEUES);
    long.version = "x".repeat(21);
    let status = client.register_resource_manager(long).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::ResourceExhausted, "LIMIT_ID"));
    let many = Service::start_with(&[("LIMITS__ITEMS_PER_MESSAGE", "3")]);
    let rm = Rm::register(&many, "rm").await.with_nodes(&["n1"]).await;
    rm.send_nodes((0..4).map(|n| node(&format!("x{n}"), 1, 1)).collect()).await;
    rm.until("refused", |seen| seen.end("node").is_some()).await;
    assert_eq!(rm.read(|seen| seen.end("node").unwrap().1), "LIMIT_ITEMS");
}

#[tokio::test]
async fn policy_group_conflict_can_be_rejected() {
    let folder = std::env::temp_dir().join(format!("monoceros-groups-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("etl.yaml"), QUEUES).unwrap();
    std::fs::write(folder.join("broken.yaml"), "partitions: 3").unwrap();
    let settings = TempFile::new(
        "groups.toml",
        &format!(
            "[registration]\npolicy_dir = \"{}\"\npolicy_group_conflict = \"reject\"\n",
            folder.display()
        ),
    );
    let service = Service::start_configured(settings.path());
    let mut client = service.client().await;
    let of = |id: &str, group: &str, config: &str| si::RegisterResourceManagerRequest {
        policy_group: group.to_owned(),
        ..registration(id, config)
    };
    client.register_resource_manager(of("a", "etl", "")).await.unwrap();
    let a = Rm::open(client.clone(), "a").await;
    a.with_application("app", "root.b").await;
    let status = client.register_resource_manager(of("b", "broken", "")).await.unwrap_err();
    assert_eq!(reason_of(&status), "CONFIG_INVALID");

    client.register_resource_manager(of("c", "shared", QUEUES)).await.unwrap();
    let other = format!("{QUEUES}          - name: c\n");
    let status = client.register_resource_manager(of("d", "shared", &other)).await.unwrap_err();
    let code = Code::FailedPrecondition;
    assert_eq!((status.code(), &*reason_of(&status)), (code, "POLICY_GROUP_CONFLICT"));
    client.register_resource_manager(of("d", "shared", QUEUES)).await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
