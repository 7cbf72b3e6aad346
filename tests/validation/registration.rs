//! Registrations: V6 to V8.

use monoceros_proto::si::v1 as si;
use tonic::Code;

use crate::harness::{QUEUES, Service, reason_of, registration};

async fn refused(service: &Service, request: si::RegisterResourceManagerRequest) -> tonic::Status {
    service.client().await.register_resource_manager(request).await.unwrap_err()
}

/// V6
#[tokio::test]
async fn an_rm_needs_an_id_that_can_be_one() {
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

/// V7
#[tokio::test]
async fn a_queue_configuration_with_errors_is_refused_with_all_of_them() {
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
    // A root that is missing is put above what is there.
    let rootless = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]";
    service.client().await.register_resource_manager(registration("rm", rootless)).await.unwrap();
}

/// V8
#[tokio::test]
async fn a_value_that_cannot_be_read_leaves_the_default() {
    let service = Service::start();
    let request = si::RegisterResourceManagerRequest {
        extra_config: [
            ("legacy.memoryUnit", "stone"),
            ("session.strictEnums", "perhaps"),
            ("priorityClasses.high", "very"),
            ("somebody.elses.key", "whatever"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        ..registration("rm", QUEUES)
    };
    service.client().await.register_resource_manager(request).await.unwrap();
}
