//! Users of the operating system and of a directory, through the running service.

use monoceros_proto::si::v1 as si;

use crate::harness::{Rm, Service, TempFile, application, registration, run};

/// Two leaves: one for members of the group `root`, one for members of the group `nobody-is-in`.
const QUEUES: &str = r#"
partitions:
  - name: default
    usergroupresolver: {type: os}
    queues:
      - name: root
        queues:
          - name: members
            submitacl: " root"
          - name: others
            submitacl: " nobody-is-in"
"#;

async fn register(service: &Service, queues: &str) -> Rm {
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", queues)).await.unwrap();
    Rm::open(client, "rm").await
}

/// Makes an application without groups.
fn of(user: &str, id: &str, queue: &str) -> si::AddApplicationRequest {
    let ugi = si::UserGroupInformation { user: user.to_owned(), groups: vec![] };
    si::AddApplicationRequest { ugi: Some(ugi), ..application(id, queue) }
}

#[tokio::test]
async fn system_users_are_in_their_groups() {
    let service = Service::start();
    let rm = register(&service, QUEUES).await;
    let unknown = of("no-such-user-here", "unknown", "root.members");
    let tags = [("application.create.force".to_owned(), "true".to_owned())].into();
    rm.send_applications(
        vec![
            of("root", "inside", "root.members"),
            of("root", "outside", "root.others"),
            si::AddApplicationRequest {
                tags,
                application_id: "forced".to_owned(),
                ..unknown.clone()
            },
            unknown,
            of("root", "last", "root.members"),
        ],
        vec![],
    )
    .await;
    rm.until("the last", |seen| seen.accepted_applications.iter().any(|id| id == "last")).await;
    rm.expect_rejection("outside", "R_PLACEMENT").await;
    rm.expect_rejection("unknown", "R_USER E_USER_RESOLVE").await;
    assert_eq!(rm.read(|seen| seen.accepted_applications.clone()), ["inside", "forced", "last"]);
}

#[tokio::test]
async fn ldap_without_settings_rejects_applications() {
    let service = Service::start_with(&[("USERS__LDAP_DIR", "/does/not/exist")]);
    let rm = register(&service, &QUEUES.replace("type: os", "type: ldap")).await;
    rm.send_applications(vec![of("root", "app", "root.members")], vec![]).await;
    rm.expect_rejection("app", "R_USER E_USER_RESOLVE").await;
    let reason = rm.read(|seen| seen.reason("app").unwrap().to_owned());
    let why = if cfg!(feature = "ldap") {
        "LDAP has no settings, `/does/not/exist` is missing"
    } else {
        "there is no LDAP: this program was built without it"
    };
    assert!(reason.contains(why), "{reason}");
}

#[test]
fn a_queue_file_with_unset_ldap_is_fatal() {
    let queues = TempFile::new("wants-ldap.yaml", &QUEUES.replace("type: os", "type: ldap"));
    let settings = TempFile::new("no-ldap.toml", "[users]\nldap_dir = \"/does/not/exist\"\n");
    let arguments =
        ["serve", "--config", settings.path(), "--queues", queues.path(), "--grpc", "127.0.0.1:0"];
    let (code, _, stderr) = run(&arguments);
    assert_eq!(code, Some(1), "{stderr}");
    let why = if cfg!(feature = "ldap") {
        "cannot read the LDAP settings in `/does/not/exist`"
    } else {
        "this program was built without it"
    };
    assert!(stderr.contains(why), "{stderr}");
}
