//! The file of queues is read again when it was changed, in whichever way (queues-and-config chapter,
//! 9.1).
#![allow(clippy::unwrap_used)]

mod harness;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness::{QUEUES, Service, registration};
use monoceros::grpc::stubs::si::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use tonic::transport::{Channel, Endpoint};

/// A folder of its own that goes with the test.
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

/// A service that watches the file, and an RM that goes by it.
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
        let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
        let admin = AdminServiceClient::new(endpoint.connect().await.unwrap());
        Self { service, admin }
    }

    /// Waits for the `nth` text to be taken, which is this.
    async fn until_read(&mut self, nth: usize, text: &str) {
        self.service.until_logged("queue configuration read again", nth).await;
        assert_eq!(self.in_force().await, text);
    }

    async fn until_refused(&self, nth: usize) {
        self.service.until_logged("what was read before stays", nth).await;
    }

    async fn in_force(&mut self) -> String {
        let request = si::GetConfigRequest::default();
        self.admin.get_config(request).await.unwrap().into_inner().config
    }
}

/// The `nth` configuration.
fn queues(nth: usize) -> String {
    format!("{QUEUES}          - name: c{nth}\n")
}

#[tokio::test]
async fn a_file_may_be_written_in_place_renamed_over_deleted_and_brought_back() {
    let folder = Folder::new("watched");
    let file = folder.file("queues.yaml");
    fs::write(&file, queues(0)).unwrap();
    let mut watching = Watching::start(&file).await;

    fs::write(&file, queues(1)).unwrap();
    watching.until_read(1, &queues(1)).await;
    // What changed is in the log, in words.
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

    // A name that stays and a file that is another one each time.
    for nth in [4, 5] {
        fs::remove_file(&file).unwrap();
        fs::write(&file, queues(nth)).unwrap();
        watching.until_read(nth, &queues(nth)).await;
    }
}

#[tokio::test]
async fn neither_an_empty_file_nor_one_with_errors_changes_anything() {
    let folder = Folder::new("empty");
    let file = folder.file("queues.yaml");
    fs::write(&file, queues(0)).unwrap();
    let mut watching = Watching::start(&file).await;

    fs::write(&file, "").unwrap();
    watching.until_refused(1).await;
    assert_eq!(watching.in_force().await, queues(0));
    assert!(watching.service.log().contains("it is empty"), "{}", watching.service.log());

    // Every error, with the name of the file.
    fs::write(&file, "partitions:\n  - bogus: 1\n    queues: [{name: a b}]\n").unwrap();
    watching.until_refused(2).await;
    let log = watching.service.log();
    for fragment in ["bogus", "a b"] {
        let told = |line: &str| line.contains(fragment) && line.contains("queues.yaml");
        assert!(log.lines().any(told), "{fragment}:\n{log}");
    }
    assert_eq!(watching.in_force().await, queues(0));

    // Whoever means the empty one says so.
    fs::write(&file, queues(1)).unwrap();
    watching.until_read(1, &queues(1)).await;
    fs::write(&file, "").unwrap();
    watching.until_refused(3).await;
    watching.service.hang_up();
    watching.until_read(2, include_str!("../config/queues.yaml")).await;
}

#[tokio::test]
async fn a_writer_who_has_not_closed_the_file_is_waited_for() {
    use std::io::Write as _;

    let folder = Folder::new("slow");
    let file = folder.file("queues.yaml");
    fs::write(&file, queues(0)).unwrap();
    let mut watching = Watching::start(&file).await;
    // Half of it is a configuration, too: one without the queue `b`.
    let whole = queues(1);
    let half = whole.find("          - name: b").unwrap();
    let mut writer = fs::File::create(&file).unwrap();
    writer.write_all(&whole.as_bytes()[..half]).unwrap();
    writer.flush().unwrap();
    writer.write_all(&whole.as_bytes()[half..]).unwrap();
    drop(writer);
    watching.until_read(1, &whole).await;
    assert!(!watching.service.log().contains("root.b: no longer configured"));
}

#[tokio::test]
async fn a_mounted_config_map_is_followed_when_its_links_are_swapped() {
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
async fn a_link_to_a_file_elsewhere_is_followed_when_that_changes() {
    let (folder, elsewhere) = (Folder::new("linked"), Folder::new("linked-to"));
    let file = elsewhere.file("real.yaml");
    fs::write(&file, queues(0)).unwrap();
    symlink(&file, folder.file("queues.yaml")).unwrap();
    let mut watching = Watching::start(&folder.file("queues.yaml")).await;
    fs::write(&file, queues(1)).unwrap();
    watching.until_read(1, &queues(1)).await;
}

#[tokio::test]
async fn where_watching_is_switched_off_only_a_hangup_counts() {
    let folder = Folder::new("unwatched");
    let file = folder.file("queues.yaml");
    fs::write(&file, queues(0)).unwrap();
    let settings =
        [("SCHEDULER__QUEUES", file.to_str().unwrap()), ("SCHEDULER__WATCH_QUEUES", "false")];
    let service = Service::start_with(&settings);
    service.client().await.register_resource_manager(registration("rm", "")).await.unwrap();
    fs::write(&file, queues(1)).unwrap();
    service.hang_up();
    service.until_logged("queue configuration read again", 1).await;
    assert!(!service.log().contains("are noticed"), "{}", service.log());
}
