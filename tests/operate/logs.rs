//! The log: its failures do not affect the service, and text from outside cannot forge lines.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use monoceros::logging;
use monoceros_actors::{ResourceManagerCallback, Scheduler};
use monoceros_proto::si::v1 as si;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::harness::{
    PATIENCE, QUEUES, Rm, Service, TempFile, amount, application, ask, node, registration, release,
    run,
};

/// Registers, places and releases, reads over HTTP, and ends the service in order.
async fn works_and_ends(mut service: Service) {
    works(&service, "rm").await;
    service.terminate();
    assert!(service.wait(PATIENCE).await.success());
}

async fn works(service: &Service, id: &str) {
    let rm = Rm::register(service, id).await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    for round in 1..=3 {
        let key = format!("k{round}");
        rm.send_allocations(vec![], vec![ask("app", &key)], vec![]).await;
        rm.until("placed", |seen| seen.new.len() == round).await;
        rm.send_allocations(vec![], vec![], vec![release("app", &key)]).await;
    }
    assert_eq!(service.get("/healthz").await, "serving\n");
    let head = service.http("HEAD", "/healthz", &[], "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.head.contains("content-length: 8"), "{}", head.head);
    assert!(service.get("/ws/v1/partitions").await.contains("default"));
}

fn full_disk() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[tokio::test]
async fn a_full_disk_is_reported_and_harmless() {
    let service = Service::start_logging_to(full_disk(), &[]);
    service.until_printed("the log cannot be written: No space left on device").await;
    service.until_counted("monoceros_log_lines_total{outcome=\"lost\"}", 1).await;
    works_and_ends(service).await;
}

#[tokio::test]
async fn a_pipe_whose_reader_has_gone_disturbs_nobody() {
    let (reader, writer) = std::io::pipe().unwrap();
    let service = Service::start_logging_to(writer, &[("LOG__FILTER", "debug")]);
    works(&service, "before").await;
    drop(reader);
    service.http("GET", "/ws/v1/clusters", &[], "").await;
    service.until_printed("the log cannot be written: Broken pipe").await;
    works_and_ends(service).await;
}

#[tokio::test]
async fn a_file_that_may_not_grow_disturbs_nobody() {
    let log = TempFile::new("small.log", "");
    // Four or eight KiB, depending on the shell: enough for lines of the watchdog on a slow
    // machine.
    let script = format!("ulimit -f 8; exec \"$@\" 2>'{}'", log.path());
    let service = Service::start_from_shell(&script);
    for number in 0..30 {
        works(&service, &format!("rm-{number}")).await;
    }
    service.until_printed("the log cannot be written: File too large").await;
    works_and_ends(service).await;
    assert!(std::fs::read_to_string(log.path()).unwrap().contains("registered"));
}

/// Makes an invalid update of a node, which gives a line of the log and no answer.
fn bad_update(node_id: &str) -> si::NodeInfo {
    si::NodeInfo {
        node_id: node_id.to_owned(),
        action: si::node_info::ActionFromRm::Update.into(),
        schedulable_resource: Some(amount(&[("vcore", -1)])),
        ..Default::default()
    }
}

#[tokio::test]
async fn an_unread_pipe_loses_lines_and_reports_them() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut service = Service::start_logging_to(writer, &[("LOG__FILTER", "trace")]);
    let loud = Rm::register(&service, "loud").await.with_nodes(&["n1"]).await;
    for _ in 0..10 {
        let updates = (0..5_000).map(|_| bad_update("n1")).collect();
        loud.send_nodes(updates).await;
    }
    works(&service, "innocent").await;
    let lost = "monoceros_log_lines_total{outcome=\"lost\"}";
    service.until_counted(lost, 1).await;
    // Reading continues until the losses are reported.
    let read = std::thread::spawn(move || {
        let (mut log, mut more) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(bytes @ 1..) = reader.read(&mut more) {
            log.extend_from_slice(&more[..bytes]);
        }
        String::from_utf8(log).unwrap()
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    works(&service, "another").await;
    service.terminate();
    assert!(service.wait(PATIENCE).await.success());
    let log = read.join().unwrap();
    assert!(log.contains("lines of the log were lost lines="), "{} bytes", log.len());
}

#[tokio::test]
async fn an_unread_pipe_does_not_delay_the_end() {
    let (reader, writer) = std::io::pipe().unwrap();
    let service = Service::start_logging_to(writer, &[("LOG__FILTER", "trace")]);
    works_and_ends(service).await;
    drop(reader);
}

/// As with a log collector that hangs: the pipe is full before the service starts.
#[tokio::test]
async fn a_full_standard_output_is_harmless() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut full = writer.try_clone().unwrap();
    // Ends when the reader closes.
    let filling = std::thread::spawn(move || while full.write_all(&[b'x'; 4_096]).is_ok() {});
    let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
    command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut service = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let log = BufReader::new(service.stderr.take().unwrap());
    let (send_address, address) = tokio::sync::oneshot::channel();
    let reading = std::thread::spawn(move || {
        let mut send_address = Some(send_address);
        for line in log.lines().map_while(Result::ok) {
            if let Some(send_address) = send_address.take_if(|_| line.contains("serving REST")) {
                let (_, address) = line.rsplit_once("address=").unwrap();
                send_address.send(address.to_owned()).unwrap();
            }
        }
    });
    let address = timeout(PATIENCE, address).await.unwrap().unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("serving\n"), "{answer}");
    let pid = service.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let end = async {
        while service.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = timeout(PATIENCE, end).await.is_ok();
    // Killed in any case, or the process would be left behind.
    let _ = service.kill();
    assert!(ended && service.wait().unwrap().success(), "it ends in order and in time");
    drop(reader);
    filling.join().unwrap();
    reading.join().unwrap();
}

fn lines_with<'l>(log: &'l str, text: &str) -> Vec<&'l str> {
    log.lines().filter(|line| line.contains(text)).collect()
}

fn left_out(line: &str) -> usize {
    let (_, count) = line.rsplit_once("left_out=").unwrap_or(("", "0"));
    count.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn one_manager_gets_one_line_a_second() {
    const BAD: usize = 50_000;
    let service = Service::start();
    let loud = Rm::register(&service, "loud").await.with_nodes(&["n1"]).await;
    let quiet = Rm::register(&service, "quiet").await.with_nodes(&["n1"]).await;
    let began = Instant::now();
    for _ in 0..10 {
        let updates = (0..BAD / 10).map(|n| bad_update(&format!("n{n}"))).collect();
        loud.send_nodes(updates).await;
    }
    service.until_logged("node update ignored", 1).await;
    quiet.send_nodes(vec![bad_update("n1")]).await;
    let counted = || {
        let log = service.log();
        let of_loud = lines_with(&log, "rm=loud");
        let (mut lines, mut stands_for) = (0, 0);
        for line in of_loud {
            if line.contains("node update ignored") {
                lines += 1;
                stands_for += 1 + left_out(line);
            } else if line.contains("were left out") {
                stands_for += left_out(line);
            }
        }
        (lines, stands_for)
    };
    let all = async {
        while counted().1 < BAD {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(4 * PATIENCE, all).await.is_ok(), "{:?}", counted());
    let took = began.elapsed();
    let (lines, stands_for) = counted();
    assert_eq!(stands_for, BAD);
    assert!(lines <= took.as_secs() + 1, "{lines} lines in {took:?}");
    let log = service.log();
    let of_quiet = lines_with(&log, "node update ignored");
    assert!(of_quiet.iter().any(|line| line.contains("quiet")), "{of_quiet:?}");
}

/// A name that would forge a line, control a terminal and change the direction of writing.
const NAME: &str = "x\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[2J\u{7f}\u{9b}31m\u{2028}\u{202e}";

fn is_fit(text: &str) -> bool {
    let unfit = |c: char| c.is_control() && c != '\n' && c != '\t';
    !text.chars().any(|c| unfit(c) || matches!(c, '\u{2028}' | '\u{202e}'))
}

#[tokio::test]
async fn outside_names_forge_no_log_lines() {
    for format in ["text", "json"] {
        let settings = [("LOG__FILTER", "debug"), ("LOG__FORMAT", format)];
        let service = Service::start_with(&settings);
        let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
        rm.send_nodes(vec![bad_update(NAME)]).await;
        let mut foreign = ask("", NAME);
        foreign.node_id = "n1".to_owned();
        foreign.allocation_tags.insert("foreign".to_owned(), NAME.to_owned());
        rm.send_allocations(vec![], vec![foreign, ask("no such", NAME)], vec![]).await;
        service.until_logged("node update ignored", 1).await;
        service.until_logged("foreign allocation of an unknown kind", 1).await;
        let log = service.log();
        assert!(is_fit(&log), "{log}");
        assert!(log.contains("forged"));
        assert!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
        if format == "json" {
            for line in log.lines() {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(
                    line["level"].is_string() && line["fields"]["message"].is_string(),
                    "{line}"
                );
                assert!(is_fit(line["fields"]["node"].as_str().unwrap_or_default()));
            }
        }
    }
}

#[tokio::test]
async fn outside_names_do_not_control_terminals() {
    let service = Service::start();
    let client = service.client().await;
    client.clone().register_resource_manager(registration("rm", QUEUES)).await.unwrap();
    let rm = Rm::open(client, "rm").await.with_nodes(&["n1"]).await;
    rm.send_applications(vec![application(NAME, "root.a")], vec![]).await;
    let huge = si::Allocation {
        resource_per_alloc: Some(amount(&[("vcore", 1_000_000)])),
        ..ask(NAME, NAME)
    };
    rm.send_allocations(vec![], vec![huge], vec![]).await;
    rm.send_nodes(vec![node(NAME, 1, 1)]).await;
    let address = service.grpc.to_string();
    rm.until("the node is there", |seen| seen.accepted_nodes.iter().any(|id| id == NAME)).await;
    let waits =
        async { while !run(&["explain", "--grpc", &address, NAME]).1.contains("forged") {} };
    assert!(timeout(PATIENCE, waits).await.is_ok());
    for command in [
        &["get", "apps", "--grpc", &address][..],
        &["get", "nodes", "--grpc", &address, "-o", "name"],
        &["get", "nodes", "--grpc", &address, "-o", "yaml"],
        &["get", "events", "--grpc", &address, "-o", "wide"],
        &["describe", "app", NAME, "--grpc", &address],
        &["describe", "node", NAME, "--grpc", &address],
        &["dump", "--grpc", &address],
        &["explain", "--grpc", &address, NAME],
        &["explain", "--grpc", &address, NAME, "-o", "json"],
        &["explain", "--grpc", &address, &format!("{NAME}?")],
    ] {
        let (_, stdout, stderr) = run(command);
        assert!(
            stdout.contains("forged") || stderr.contains("forged"),
            "{command:?}: {stdout}{stderr}"
        );
        assert!(is_fit(&stdout) && is_fit(&stderr), "{command:?}: {stdout}{stderr}");
        let mut lines = stdout.lines().chain(stderr.lines());
        assert!(!lines.any(|line| line.starts_with("2026-01-01")), "{command:?}: {stdout}{stderr}");
    }
}

#[tokio::test]
async fn the_first_line_has_build_files_and_address() {
    let settings = TempFile::new("start.toml", "[log]\nfilter = \"info\"\n");
    let service = Service::start_configured(settings.path());
    service.until_logged("monoceros runs", 1).await;
    let log = service.log();
    let line = lines_with(&log, "monoceros runs")[0];
    let open = format!(" open=http://{}/", service.http);
    let (path, grpc) =
        (format!(" settings={}", settings.path()), format!(" grpc={}", service.grpc));
    let version = concat!(" version=", env!("CARGO_PKG_VERSION"));
    for part in
        [version, " commit=", " target=", &path, " queues=built-in", " log=info", &grpc, &open]
    {
        assert!(line.contains(part), "no `{part}` in {line}");
    }
    service.until_printed(&format!("open http://{}/", service.http)).await;
}

#[tokio::test]
async fn the_filter_of_all_programs_is_heeded() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monoceros"));
    command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.env("RUST_LOG", "warn,monoceros::rest=info").stderr(Stdio::piped());
    let service = Service::start_by(command);
    service.until_logged("serving REST", 1).await;
    works(&service, "rm").await;
    assert!(!service.log().contains("registered"), "{}", service.log());
}

#[tokio::test]
async fn a_placement_can_be_followed_by_id() {
    let service = Service::start_with(&[("LOG__FILTER", "info,monoceros_actors=debug")]);
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "x"), ask("app", "y")], vec![]).await;
    rm.until("both", |seen| seen.new.len() == 2).await;
    rm.send_allocations(vec![], vec![], vec![release("app", "x")]).await;
    service.until_logged(": released placement=", 1).await;
    let log = service.log();
    let placed = lines_with(&log, ": placed placement=");
    let of_x = placed.iter().find(|line| line.contains(" ask=x ")).unwrap();
    let id = of_x.split(" placement=").nth(1).unwrap().split(' ').next().unwrap();
    let story = lines_with(&log, &format!(" placement={id} "));
    let counted = |text: &str| story.iter().filter(|line| line.contains(text)).count();
    assert_eq!([": node asked", ": placed", ": released"].map(counted), [1, 1, 1], "{story:#?}");
    assert!(story.iter().all(|line| line.contains(" ask=x ")), "{story:#?}");
}

/// A resource manager in this process that counts its allocations.
#[derive(Default)]
struct Counting(AtomicUsize);

impl ResourceManagerCallback for Counting {
    fn update_allocation(&self, response: si::AllocationResponse) {
        self.0.fetch_add(response.new.len(), Ordering::Relaxed);
    }

    fn update_application(&self, _: si::ApplicationResponse) {}

    fn update_node(&self, _: si::NodeResponse) {}
}

/// A million lines are logged and never read. Meanwhile all asks are placed, and every line is
/// counted.
#[tokio::test]
async fn a_million_unread_lines_delay_no_placement() {
    const LINES: u64 = 1_000_000;
    let (reader, writer) = std::io::pipe().unwrap();
    let settings = monoceros::settings::LogSettings {
        filter: "debug".to_owned(),
        format: monoceros::settings::LogFormat::Text,
    };
    let (layer, log) = logging::layer(writer, &settings).unwrap();
    let account = log.account();
    // Other tests of this process log in processes of their own.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    let handle = Scheduler::builder().start().unwrap();
    let recorded = Arc::new(Counting::default());
    let callback = Arc::clone(&recorded) as Arc<dyn ResourceManagerCallback>;
    handle.register_resource_manager(registration("rm", QUEUES), callback).await.unwrap();
    let nodes = si::NodeRequest {
        rm_id: "rm".to_owned(),
        nodes: vec![node("n1", 10_000, 10)],
        ..Default::default()
    };
    handle.update_node(nodes).await.unwrap();
    let applications = si::ApplicationRequest {
        rm_id: "rm".to_owned(),
        new: vec![application("app", "root.a")],
        ..Default::default()
    };
    handle.update_application(applications).await.unwrap();
    let before = total(account.counts());
    let noise = std::thread::spawn(|| {
        for line in 0..LINES / 2 {
            tracing::debug!(line, "noise");
            tracing::warn!(rm = "loud", line, "noise");
        }
    });
    let mut rounds = 0;
    while !noise.is_finished() || rounds < 10 {
        let key = format!("k{rounds}");
        let request = |allocations, releases| si::AllocationRequest {
            rm_id: "rm".to_owned(),
            allocations,
            releases,
            ..Default::default()
        };
        handle.update_allocation(request(vec![ask("app", &key)], None)).await.unwrap();
        timeout(PATIENCE, handle.settle()).await.unwrap();
        rounds += 1;
        assert_eq!(recorded.0.load(Ordering::Relaxed), rounds, "each is placed before the next");
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: vec![release("app", &key)],
            ..Default::default()
        };
        handle.update_allocation(request(vec![], Some(releases))).await.unwrap();
    }
    noise.join().unwrap();
    assert!(total(account.counts()) >= before + LINES, "{:?}", account.counts());
    assert!(account.counts().lost > 0 && account.counts().left_out > 0, "{:?}", account.counts());
    handle.shutdown().await;
    drop(reader);
}

fn total(counts: logging::LineCounts) -> u64 {
    // Queued lines are in none of these counts. They are at most the capacity of the queue.
    counts.written + counts.left_out + counts.lost + counts.waiting
}
