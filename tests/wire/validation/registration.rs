//! Registrations: the id of the RM, its queues, and its settings.

use monoceros_proto::si::v1 as si;
use tonic::Code;

use crate::harness::{QUEUES, Service, reason_of, registration};
use crate::revisions::client::{
    Client, Revision, amount_of, field, new_application, series_reaches,
};

async fn refused(service: &Service, request: si::RegisterResourceManagerRequest) -> tonic::Status {
    service.client().await.register_resource_manager(request).await.unwrap_err()
}

#[tokio::test]
async fn registration_needs_a_valid_id() {
    let service = Service::start();
    let status = refused(&service, registration("", QUEUES)).await;
    assert_eq!((status.code(), &*reason_of(&status)), (Code::InvalidArgument, "RM_ID_MISSING"));
    for id in ["[rm]", "a\nb", "r]m", &"x".repeat(129)] {
        let status = refused(&service, registration(id, QUEUES)).await;
        assert_eq!((status.code(), &*reason_of(&status)), (Code::InvalidArgument, "RM_ID_INVALID"));
    }
    let mut client = service.client().await;
    client.register_resource_manager(registration(&"x".repeat(128), QUEUES)).await.unwrap();
}

#[tokio::test]
async fn invalid_configuration_reports_all_errors() {
    let service = Service::start();
    for (config, fragment) in [
        ("partitions: [{name: default, queues: [{name: root, colour: red}]}]", "colour"),
        ("partitions: [{name: default}]", "queues"),
        ("{{{", "not valid YAML"),
        ("# nothing", "partitions"),
    ] {
        let status = refused(&service, registration("rm", config)).await;
        assert_eq!(
            (status.code(), &*reason_of(&status)),
            (Code::InvalidArgument, "CONFIG_INVALID")
        );
        assert!(status.message().contains(fragment), "{config}: {}", status.message());
    }
    // A missing root is added above the queues.
    let rootless = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]";
    service.client().await.register_resource_manager(registration("rm", rootless)).await.unwrap();
}

/// The key of an unreadable value keeps its default. No reply mentions the value, but each one is
/// counted.
#[tokio::test]
async fn unreadable_values_keep_the_default() {
    // The default of one of them differs from its value without any setting.
    let service = Service::start_with(&[("SESSION__STRICT_ENUMS", "true")]);
    let request = si::RegisterResourceManagerRequest {
        extra_config: [
            ("legacy.memoryUnit", "stone"),
            ("session.strictEnums", "perhaps"),
            ("priorityClasses.high", "very"),
            ("session.outboxItems", "many"),
            ("callback.heartbeat", "now and then"),
            ("somebody.elses.key", "whatever"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        ..registration("rm", QUEUES)
    };
    service.client().await.register_resource_manager(request).await.unwrap();
    let ignored = |reason: &str, dialect: &str| {
        format!(r#"monoceros_si_ignored_total{{dialect="{dialect}",reason="{reason}",rm="rm"}}"#)
    };
    series_reaches(&service, &ignored("G_EXTRA_CONFIG", "none"), 5).await;

    // `memory` still counts bytes, and unknown enum numbers are ignored.
    let mut rm = Client::connect(&service, &Revision::new("l"), "rm").await;
    rm.open("Update").await;
    let application = new_application("app", "root.a");
    let size = |key: &str| {
        format!(
            r#"asks {{ allocationKey: "{key}" applicationID: "app" maxAllocations: 1
                resourceAsk {{ resources {{ key: "memory" value {{ value: 7 }} }} }} }}"#
        )
    };
    let capacity = amount_of("schedulableResource", "memory", 14);
    rm.send(
        "Update",
        &format!(
            r#"newApplications {{ {application} }} {} {}
                newSchedulableNodes {{ nodeID: "n1" {capacity} }}"#,
            size("k1"),
            size("k2")
        ),
    )
    .await;
    rm.last("Update", "newAllocations", 2).await;
    let release = r#"releases { allocationsToRelease {
        applicationID: "app" UUID: "k1" terminationType: 77 } }"#;
    rm.send("Update", release).await;
    series_reaches(&service, &ignored("G_TERMINATION_TYPE", "legacy"), 1).await;
    rm.send("Update", &release.replace("k1", "k2").replace("77", "0")).await;
    let released = rm.last("Update", "releasedAllocations", 1).await;
    assert_eq!(field(&released, "UUID"), "k2");
}
