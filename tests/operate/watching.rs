//! The file of queues is read again after every kind of change.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::transport::{Channel, Endpoint};

use crate::harness::{QUEUES, Service, registration};

/// A folder of the test's own, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("monoceros-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Logged when a text of `scheduler.queues` is in force.
const READ_AGAIN: &str = "queue configuration read again";
/// Logged when a text of a policy group is in force.
const GROUP_READ: &str = "queue configuration of the policy group read";
/// Logged when SIGHUP finds that a group has no file.
const GROUP_GONE: &str = "the policy group has no queue configuration any more";

/// A service that watches the file, and an RM that uses it.
struct Watching {
    service: Service,
    admin: AdminServiceClient<Channel>,
}

impl Watching {
    async fn start(file: &Path) -> Self {
        let service = Service::start_with(&[("SCHEDULER__QUEUES", file.to_str().unwrap())]);
        let mut client = service.client().await;
        client.register_resource_manager(registration("rm", "")).await.unwrap();
        service.until_logged("changes of the queue configuration are noticed", 1).await;
        Self::of_service(service).await
    }

    /// Starts a service with a folder of policy groups, and without an RM.
    async fn start_with(file: Option<&Path>, policies: &Folder, more: &[(&str, &str)]) -> Self {
        let mut settings = vec![("REGISTRATION__POLICY_DIR", policies.0.to_str().unwrap())];
        settings.extend(file.map(|file| ("SCHEDULER__QUEUES", file.to_str().unwrap())));
        settings.extend(more);
        let service = Service::start_with(&settings);
        if more.is_empty() {
            let n_watched = 1 + usize::from(file.is_some());
            service.until_logged("changes of the queue configuration are noticed", n_watched).await;
        }
        Self::of_service(service).await
    }

    async fn of_service(service: Service) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
        let admin = AdminServiceClient::new(endpoint.connect().await.unwrap());
        Self { service, admin }
    }

    async fn register(&self, rm_id: &str, group: &str, config: &str) {
        let request = si::RegisterResourceManagerRequest {
            policy_group: group.to_owned(),
            ..registration(rm_id, config)
        };
        self.service.client().await.register_resource_manager(request).await.unwrap();
    }

    /// Waits for the `nth` text to be in force, and compares it.
    async fn until_read(&mut self, nth: usize, text: &str) {
        self.service.until_logged(READ_AGAIN, nth).await;
        assert_eq!(self.in_force().await, text);
    }

    async fn until_refused(&self, nth: usize) {
        self.service.until_logged("what was read before stays", nth).await;
    }

    /// Returns the configuration in force of the only RM.
    async fn in_force(&mut self) -> String {
        self.of("").await
    }

    /// Returns the configuration in force of an RM.
    async fn of(&mut self, rm_id: &str) -> String {
        let request = v1::GetConfigRequest { rm_id: rm_id.to_owned(), ..Default::default() };
        self.admin.get_config(request).await.unwrap().into_inner().config
    }
}

/// Makes the `nth` configuration.
fn queues(nth: usize) -> String {
    format!("{QUEUES}          - name: c{nth}\n")
}

#[tokio::test]
async fn every_kind_of_replacement_is_noticed() {
    let folder = Folder::new("watched");
    let file = folder.file("queues.yaml");
    fs::write(&file, queues(0)).unwrap();
    let mut watching = Watching::start(&file).await;

    fs::write(&file, queues(1)).unwrap();
    watching.until_read(1, &queues(1)).await;
    // The log describes the changes.
    let log = watching.service.log();
    assert!(log.contains("root.c1: new") && log.contains("root.c0: no longer configured"), "{log}");

    fs::write(folder.file("other.yaml"), "nobody looks").unwrap();
    fs::write(folder.file("new"), queues(2)).unwrap();
    fs::rename(folder.file("new"), &file).unwrap();
    watching.until_read(2, &queues(2)).await;

    fs::remove_file(&file).unwrap();
    watching.until_refused(1).await;
    assert_eq!(watching.in_force().await, queues(2));
    fs::write(&file, queues(3)).unwrap();
    watching.until_read(3, &queues(3)).await;

    // The name stays, the file is a new one each time.
    for nth in [4, 5] {
        fs::remove_file(&file).unwrap();
        fs::write(&file, queues(nth)).unwrap();
        watching.until_read(nth, &queues(nth)).await;
    }
}

#[tokio::test]
async fn empty_and_invalid_files_change_nothing() {
    let folder = Folder::new("empty");
    let file = folder.file("queues.yaml");
    fs::write(&file, queues(0)).unwrap();
    let mut watching = Watching::start(&file).await;

    fs::write(&file, "").unwrap();
    watching.until_refused(1).await;
    assert_eq!(watching.in_force().await, queues(0));
    assert!(watching.service.log().contains("it is empty"), "{}", watching.service.log());

    // Every error is logged with the name of the file.
    fs::write(&file, "partitions:\n  - bogus: 1\n    queues: [{name: a b}]\n").unwrap();
    watching.until_refused(2).await;
    let log = watching.service.log();
    for fragment in ["bogus", "a b"] {
        let is_logged = |line: &str| line.contains(fragment) && line.contains("queues.yaml");
        assert!(log.lines().any(is_logged), "{fragment}:\n{log}");
    }
    assert_eq!(watching.in_force().await, queues(0));

    // SIGHUP confirms that the file is meant to be empty.
    fs::write(&file, queues(1)).unwrap();
    watching.until_read(1, &queues(1)).await;
    fs::write(&file, "").unwrap();
    watching.until_refused(3).await;
    watching.service.hang_up();
    watching.until_read(2, include_str!("../../config/queues.yaml")).await;
}

/// Half of a configuration is valid, too, with fewer queues. While one file is half-written, a
/// later change of another file is read.
#[tokio::test]
async fn a_half_written_file_waits_alone() {
    let (folder, policies) = (Folder::new("slow"), Folder::new("slow-policies"));
    let (file, of_group) = (folder.file("queues.yaml"), policies.file("etl.yaml"));
    fs::write(&file, queues(0)).unwrap();
    fs::write(&of_group, queues(0)).unwrap();
    let mut watching = Watching::start_with(Some(&file), &policies, &[]).await;
    watching.register("etl", "etl", "").await;
    watching.register("rm", "queues", "").await;
    let (whole, other) = (queues(1), queues(2));
    let (half, rest) = whole.split_at(whole.find("          - name: b").unwrap());

    let mut writer = fs::File::create(&of_group).unwrap();
    writer.write_all(half.as_bytes()).unwrap();
    fs::write(&file, &other).unwrap();
    watching.service.until_logged(READ_AGAIN, 1).await;
    assert_eq!((watching.of("rm").await, watching.of("etl").await), (other, queues(0)));
    writer.write_all(rest.as_bytes()).unwrap();
    drop(writer);
    watching.service.until_logged(GROUP_READ, 2).await;
    assert_eq!(watching.of("etl").await, whole);

    let mut writer = fs::File::create(&file).unwrap();
    writer.write_all(half.as_bytes()).unwrap();
    fs::write(&of_group, queues(3)).unwrap();
    watching.service.until_logged(GROUP_READ, 3).await;
    assert_eq!((watching.of("rm").await, watching.of("etl").await), (queues(2), queues(3)));
    writer.write_all(rest.as_bytes()).unwrap();
    drop(writer);
    watching.service.until_logged(READ_AGAIN, 2).await;
    assert_eq!(watching.of("rm").await, whole);
    let log = watching.service.log();
    assert!(!log.contains("root.b: no longer configured"), "{log}");
}

#[tokio::test]
async fn a_mounted_config_map_is_followed() {
    let folder = Folder::new("config-map");
    let version = |nth: usize| {
        let directory = folder.file(&format!("..version-{nth}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("queues.yaml"), queues(nth)).unwrap();
    };
    let swap = |nth: usize| {
        let temporary = folder.file("..data_tmp");
        symlink(format!("..version-{nth}"), &temporary).unwrap();
        fs::rename(temporary, folder.file("..data")).unwrap();
    };
    version(0);
    swap(0);
    symlink("..data/queues.yaml", folder.file("queues.yaml")).unwrap();
    let mut watching = Watching::start(&folder.file("queues.yaml")).await;
    for nth in 1..=3 {
        version(nth);
        swap(nth);
        fs::remove_dir_all(folder.file(&format!("..version-{}", nth - 1))).unwrap();
        watching.until_read(nth, &queues(nth)).await;
    }
}

#[tokio::test]
async fn a_link_is_followed_when_its_target_changes() {
    let (folder, elsewhere) = (Folder::new("linked"), Folder::new("linked-to"));
    let file = elsewhere.file("real.yaml");
    fs::write(&file, queues(0)).unwrap();
    symlink(&file, folder.file("queues.yaml")).unwrap();
    let mut watching = Watching::start(&folder.file("queues.yaml")).await;
    fs::write(&file, queues(1)).unwrap();
    watching.until_read(1, &queues(1)).await;
}

/// The directory of the file, or the one above, is replaced by a new one: `mv w w_; mkdir w`.
#[tokio::test]
async fn a_replaced_directory_is_noticed() {
    let folder = Folder::new("replaced");
    let (above, inner) = (folder.file("above"), folder.file("above/inner"));
    let file = inner.join("queues.yaml");
    let write = |nth: usize| {
        fs::create_dir_all(&inner).unwrap();
        fs::write(&file, queues(nth)).unwrap();
    };
    write(0);
    let mut watching = Watching::start(&file).await;
    for (nth, replaced) in [(1, &inner), (3, &above), (5, &inner)] {
        fs::rename(replaced, folder.file(&format!("old-{nth}"))).unwrap();
        write(nth);
        watching.until_read(nth, &queues(nth)).await;
        write(nth + 1);
        watching.until_read(nth + 1, &queues(nth + 1)).await;
    }
    fs::remove_dir_all(&above).unwrap();
    watching.until_refused(1).await;
    watching.service.hang_up();
    watching.service.until_logged("queue configuration not read again", 1).await;
    write(7);
    watching.until_read(7, &queues(7)).await;
}

/// `queues.yaml` leads through `current`, which another link is renamed over.
#[tokio::test]
async fn a_swapped_link_on_the_way_is_noticed() {
    let folder = Folder::new("releases");
    let release = |nth: usize| folder.file(&format!("release-{nth}"));
    let swap = |nth: usize| {
        fs::create_dir_all(release(nth)).unwrap();
        fs::write(release(nth).join("q"), queues(nth)).unwrap();
        symlink(format!("release-{nth}"), folder.file("new")).unwrap();
        fs::rename(folder.file("new"), folder.file("current")).unwrap();
    };
    swap(0);
    symlink("current/q", folder.file("queues.yaml")).unwrap();
    let mut watching = Watching::start(&folder.file("queues.yaml")).await;
    for nth in [1, 3] {
        swap(nth);
        watching.until_read(nth, &queues(nth)).await;
        fs::write(release(nth).join("q"), queues(nth + 1)).unwrap();
        watching.until_read(nth + 1, &queues(nth + 1)).await;
    }
    fs::remove_file(folder.file("queues.yaml")).unwrap();
    fs::write(folder.file("queues.yaml"), queues(5)).unwrap();
    watching.until_read(5, &queues(5)).await;
}

#[tokio::test]
async fn a_pipe_is_refused_without_blocking() {
    let folder = Folder::new("pipe");
    let file = folder.file("queues.yaml");
    fs::write(&file, queues(0)).unwrap();
    let mut watching = Watching::start(&file).await;
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    watching.service.until_logged("it is no file", 1).await;
    watching.service.hang_up();
    watching.service.until_logged("that is no file cannot be read again", 1).await;
    fs::remove_file(&file).unwrap();
    for nth in [1, 2] {
        fs::write(&file, queues(nth)).unwrap();
        watching.until_read(nth, &queues(nth)).await;
    }
}

#[tokio::test]
async fn without_watching_only_sighup_counts() {
    let folder = Folder::new("unwatched");
    let file = folder.file("queues.yaml");
    fs::write(&file, queues(0)).unwrap();
    let settings =
        [("SCHEDULER__QUEUES", file.to_str().unwrap()), ("SCHEDULER__WATCH_QUEUES", "false")];
    let service = Service::start_with(&settings);
    service.client().await.register_resource_manager(registration("rm", "")).await.unwrap();
    fs::write(&file, queues(1)).unwrap();
    service.hang_up();
    service.until_logged(READ_AGAIN, 1).await;
    assert!(!service.log().contains("are noticed"), "{}", service.log());
}

#[tokio::test]
async fn a_group_file_applies_to_members_without_queues() {
    let (folder, policies) = (Folder::new("others"), Folder::new("groups"));
    let (file, etl) = (folder.file("queues.yaml"), policies.file("etl.yaml"));
    fs::write(&file, queues(50)).unwrap();
    fs::write(&etl, queues(0)).unwrap();
    let mut watching = Watching::start_with(Some(&file), &policies, &[]).await;
    watching.register("etl", "etl", "").await;
    watching.register("own", "etl", &queues(90)).await;
    watching.register("adhoc", "adhoc", "").await;
    assert_eq!(watching.of("etl").await, queues(0));
    assert_eq!(watching.of("own").await, queues(90));
    assert_eq!(watching.of("adhoc").await, queues(50));

    fs::write(&etl, queues(1)).unwrap();
    watching.service.until_logged(GROUP_READ, 2).await;
    assert_eq!(watching.of("etl").await, queues(1));
    assert_eq!(watching.of("own").await, queues(90));
    assert_eq!(watching.of("adhoc").await, queues(50));
    fs::write(&file, queues(51)).unwrap();
    watching.service.until_logged(READ_AGAIN, 1).await;
    assert_eq!(watching.of("etl").await, queues(1));
    assert_eq!(watching.of("adhoc").await, queues(51));
    // An empty configuration also means that of the group.
    let nothing = si::UpdateConfigurationRequest { rm_id: "own".to_owned(), ..Default::default() };
    assert!(watching.admin.update_config(nothing).await.unwrap().into_inner().success);
    assert_eq!(watching.of("own").await, queues(1));
}

#[tokio::test]
async fn a_group_file_may_appear_fail_and_vanish() {
    let (folder, policies) = (Folder::new("behind"), Folder::new("coming-and-going"));
    let (file, etl) = (folder.file("queues.yaml"), policies.file("etl.yaml"));
    fs::write(&file, queues(50)).unwrap();
    let mut watching = Watching::start_with(Some(&file), &policies, &[]).await;
    watching.register("rm", "etl", "").await;
    assert_eq!(watching.of("rm").await, queues(50));

    fs::write(&etl, queues(0)).unwrap();
    watching.service.until_logged(GROUP_READ, 1).await;
    assert_eq!(watching.of("rm").await, queues(0));
    // Every error is logged with the name of the file. A new registration still gets the old text.
    fs::write(&etl, "partitions:\n  - bogus: 1\n    queues: [{name: a b}]\n").unwrap();
    watching.until_refused(1).await;
    let log = watching.service.log();
    for fragment in ["bogus", "a b"] {
        let is_logged = |line: &str| line.contains(fragment) && line.contains("etl.yaml");
        assert!(log.lines().any(is_logged), "{fragment}:\n{log}");
    }
    watching.register("late", "etl", "").await;
    fs::remove_file(&etl).unwrap();
    watching.until_refused(2).await;
    for rm in ["rm", "late"] {
        assert_eq!(watching.of(rm).await, queues(0), "{rm}");
    }
    // SIGHUP confirms that the file is meant to be missing.
    watching.service.hang_up();
    watching.service.until_logged(GROUP_GONE, 1).await;
    for rm in ["rm", "late"] {
        assert_eq!(watching.of(rm).await, queues(50), "{rm}");
    }
    // The folder may be replaced by another of the same name.
    fs::remove_dir_all(&policies.0).unwrap();
    watching.service.until_logged("policy groups not read again", 1).await;
    fs::create_dir_all(&policies.0).unwrap();
    fs::write(&etl, queues(2)).unwrap();
    watching.service.until_logged(GROUP_READ, 2).await;
    assert_eq!(watching.of("late").await, queues(2));
}

#[tokio::test]
async fn unwatched_group_files_are_read_at_registration_and_sighup() {
    let policies = Folder::new("unwatched-groups");
    let etl = policies.file("etl.yaml");
    let off = [("SCHEDULER__WATCH_QUEUES", "false")];
    let mut watching = Watching::start_with(None, &policies, &off).await;
    watching.register("early", "etl", "").await;
    fs::write(&etl, queues(0)).unwrap();
    watching.register("late", "etl", "").await;
    let built_in = include_str!("../../config/queues.yaml");
    assert_eq!(watching.of("early").await, built_in);
    assert_eq!(watching.of("late").await, queues(0));
    watching.service.hang_up();
    watching.service.until_logged(GROUP_READ, 1).await;
    assert_eq!(watching.of("early").await, queues(0));
    fs::write(&etl, "").unwrap();
    watching.service.hang_up();
    watching.service.until_logged(GROUP_GONE, 1).await;
    for rm in ["early", "late"] {
        assert_eq!(watching.of(rm).await, built_in, "{rm}");
    }
    assert!(!watching.service.log().contains("are noticed"));
}

#[tokio::test]
async fn mounted_group_files_are_followed() {
    let policies = Folder::new("mounted-groups");
    let mount = |nth: usize| {
        let version = policies.file(&format!("..version-{nth}"));
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join("etl.yaml"), queues(nth)).unwrap();
        symlink(&version, policies.file("..data_tmp")).unwrap();
        fs::rename(policies.file("..data_tmp"), policies.file("..data")).unwrap();
    };
    mount(0);
    symlink("..data/etl.yaml", policies.file("etl.yaml")).unwrap();
    let mut watching = Watching::start_with(None, &policies, &[]).await;
    watching.register("rm", "etl", "").await;
    for nth in 1..=3 {
        mount(nth);
        fs::remove_dir_all(policies.file(&format!("..version-{}", nth - 1))).unwrap();
        watching.service.until_logged(GROUP_READ, nth + 1).await;
        assert_eq!(watching.in_force().await, queues(nth));
    }
}
