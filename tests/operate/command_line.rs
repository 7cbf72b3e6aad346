//! Commands against a running service: transcripts, and tests that need more than one command.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use expect_test::{ExpectFile, expect_file};
use monoceros_proto::si::v1 as si;
use serde_json::Value;

use crate::harness::transcript::{CLUSTER_QUEUES, Cluster, Folder};
use crate::harness::{
    PATIENCE, Rm, Seen, Service, TempFile, application, registration, release, run,
};

/// Plays the transcript in the file.
fn check(folder: &Folder, environment: &[(&str, String)], file: &ExpectFile) {
    file.assert_eq(&folder.play(&file.data(), environment));
}

async fn check_cluster(file: ExpectFile) {
    let cluster = Cluster::start().await;
    check(&Folder::new(), &cluster.environment(), &file);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_printed_in_every_form_and_filtered() {
    check_cluster(expect_file!["transcripts/lists.txt"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_formed_ordered_and_selected_by_the_user() {
    let cluster = Cluster::start().await;
    let tagged = si::AddApplicationRequest {
        tags: [("team".to_owned(), "data".to_owned())].into(),
        ..application("report-3", "root.dev")
    };
    cluster.rm.send_applications(vec![tagged], vec![]).await;
    let is_there = |it: &Seen| it.accepted_applications.iter().any(|id| id == "report-3");
    cluster.rm.until("an application", is_there).await;
    let transcript = expect_file!["transcripts/forms.txt"];
    check(&Folder::new(), &cluster.environment(), &transcript);
}

#[tokio::test(flavor = "multi_thread")]
async fn things_are_described() {
    check_cluster(expect_file!["transcripts/things.txt"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_steered_and_asked_first() {
    let mut cluster = Cluster::start().await;
    let transcript = expect_file!["transcripts/steering.txt"];
    check(&Folder::new(), &cluster.environment(), &transcript);
    assert_eq!(cluster.service.wait(PATIENCE).await.code(), Some(0));
}

#[test]
fn configurations_are_read_from_every_source() {
    let folder = Folder::new();
    let map_of = |text: &str| {
        let text = text.trim_end().replace('\n', "\n    ");
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yunikorn-configs\ndata:\n  \
             log.level: INFO\n  queues.yaml: |\n    {text}\n"
        )
    };
    let bad = CLUSTER_QUEUES
        .replace("guaranteed: {vcore: 2, memory: 8Gi}", "guaranteed: {vcore: 20, memory: 80Gi}")
        .replace("name: dev", "name: Prod")
        .replace("maxapplications", "maxApplications");
    for (name, text) in [
        ("good.yaml", CLUSTER_QUEUES),
        ("bad.yaml", &*bad),
        ("smaller.yaml", &CLUSTER_QUEUES.replace("memory: 24Gi", "memory: 16Gi")),
        ("map.yaml", &map_of(CLUSTER_QUEUES)),
        ("bad-map.yaml", &map_of(&bad)),
        ("good.toml", "[log]\nformat = \"json\"\n"),
        (
            "bad.toml",
            "[grpc]\nadress = \"127.0.0.1:1\"\nsend_chunk_items = 0\n\n[log]\nformat = \"xml\"\n\
             [scheduler]\nstart_retry = 90\n",
        ),
        ("one.toml", "[grpc]\nadress = \"127.0.0.1:1\"\n"),
        ("no-map.yaml", "kind: ConfigMap\ndata:\n  log.level: INFO\n"),
        ("quoted-map.yaml", &format!("kind: ConfigMap\ndata: {{queues.yaml: {bad:?}}}\n")),
    ] {
        folder.write(name, text);
    }
    check(&folder, &[], &expect_file!["transcripts/validate.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_standard_output_is_no_error() {
    let cluster = Cluster::start().await;
    let folder = Folder::new();
    folder.write("good.yaml", CLUSTER_QUEUES);
    for command in [
        "get nodes",
        "get apps -o json",
        "describe app etl-7",
        "explain etl-7",
        "top",
        "events",
        "dump",
        "config get",
        "validate good.yaml",
        "completions bash",
        "man",
    ] {
        // The reader closes before the first line is written.
        let line = format!("{{ sleep 0.3; monoceros {command}; echo $? >&2; }} | true");
        let printed = folder.run(&line, &cluster.environment());
        assert_eq!(printed, "0\n", "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_watched_prints_what_changes() {
    let cluster = Cluster::start().await;
    let folder = Folder::new();
    let line = "exec monoceros get nodes --watch --interval 1";
    let mut command = folder.shell(line, &cluster.environment());
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    let whole: Vec<_> = lines.by_ref().take(4).collect();
    assert!(whole[0].starts_with("NODE") && whole[3].starts_with("node-9   Open"), "{whole:?}");
    assert_eq!(cluster.run("monoceros cordon node-8"), "1 node closed\n");
    let changed = lines.next().unwrap();
    assert!(changed.starts_with("node-8   Closed"), "{changed}");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_followed_from_the_past_on() {
    let cluster = Cluster::start().await;
    let folder = Folder::new();
    let line = "exec monoceros events --follow --type node -o json";
    let mut command = folder.shell(line, &cluster.environment());
    let mut following = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap()).unwrap();
    let first = next();
    assert_eq!((&first["objectID"], &first["type"]), (&"node-7".into(), &"NODE".into()));
    assert_eq!(cluster.run("monoceros cordon node-8"), "1 node closed\n");
    let mut last = first["seq"].as_u64().unwrap();
    loop {
        let event = next();
        assert!(event["seq"].as_u64().unwrap() > last, "{event}");
        last = event["seq"].as_u64().unwrap();
        if event["objectID"] == "node-8" && event["message"] == "schedulable: false" {
            break;
        }
    }
    following.kill().unwrap();
    following.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_until_nothing_runs_there() {
    let cluster = Cluster::start().await;
    let folder = Folder::new();
    let node = cluster.rm.read(|seen| {
        let driver = seen.new.iter().find(|it| it.allocation_key == "shell").unwrap();
        driver.node_id.clone()
    });
    let on_node = cluster.rm.read(|seen| {
        let there = seen.new.iter().filter(|it| it.node_id == node);
        there.map(|it| (it.application_id.clone(), it.allocation_key.clone())).collect::<Vec<_>>()
    });
    let line = format!("exec monoceros drain {node} --wait");
    let mut command = folder.shell(&line, &cluster.environment());
    let mut draining = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(draining.stdout.take().unwrap());
    let mut first = String::new();
    printed.read_line(&mut first).unwrap();
    let n = on_node.len();
    assert!(first.starts_with(&format!("1 node closed, {n} allocation")), "{first}");
    let gone = on_node.iter().map(|(application, key)| release(application, key)).collect();
    cluster.rm.send_allocations(vec![], vec![], gone).await;
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("empty\n"), "{rest}");
    assert!(draining.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manager_is_named_only_if_ambiguous() {
    let cluster = Cluster::start().await;
    let _other = Rm::register(&cluster.service, "rm-2").await;
    for command in ["resync", "deregister --yes"] {
        let printed = cluster.run(&format!("monoceros {command}"));
        let text = "2 resource managers are registered: rm-1, rm-2; choose one with --rm";
        assert_eq!(printed, format!("monoceros: {text}\n? 1\n"));
    }
    let printed = cluster.run("monoceros deregister --yes --rm rm-2");
    assert_eq!(printed, "0 applications, 0 allocations, 0 nodes forgotten\n");
    let printed = cluster.run("monoceros resync");
    assert_eq!(printed, "3 streams closed\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_reaches_no_cluster_says_what_to_do() {
    let cluster = Cluster::start().await;
    let _other = Rm::register(&cluster.service, "rm-2").await;
    let transcript = expect_file!["transcripts/connections.txt"];
    check(&Folder::new(), &cluster.environment(), &transcript);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_shown_and_read_again_at_sighup() {
    let tokens = TempFile::new("cli-tokens", "ops:of-an-operator\n");
    let settings = format!(
        "identity.tokens = '{}'\n\
         [[identity.rules]]\ntoken = 'ops'\nadmin = true\n\
         [[identity.rules]]\ntoken = 'new'\nread = true\n",
        tokens.path()
    );
    let settings = TempFile::new("cli-tokens.toml", &settings);
    let service = Service::start_configured(settings.path());
    let folder = Folder::new();
    for (name, text) in
        [("ops.txt", "of-an-operator\n"), ("new.txt", "of-a-newcomer\n"), ("lines.txt", "a\nb\n")]
    {
        folder.write(name, text);
    }
    let environment = [("MONOCEROS_GRPC", service.grpc.to_string())];
    let file = expect_file!["transcripts/tokens.txt"];
    let transcript = file.data();
    let (before, after) = transcript.split_at(transcript.find("# After SIGHUP").unwrap());
    let before = folder.play(before, &environment);
    std::fs::write(tokens.path(), "new:of-a-newcomer\n").unwrap();
    service.hang_up();
    service.until_logged("read again, in use from now on", 1).await;
    let after = folder.play(after, &environment);
    file.assert_eq(&format!("{before}\n{after}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_author_and_origin_of_changes() {
    let cluster = Cluster::start().await;
    let printed = cluster.run("monoceros cordon node-8 node-7 --reason 'a new kernel'");
    assert_eq!(printed, "2 nodes closed\n");
    cluster.service.until_logged("by an administrator", 1).await;
    let log = cluster.service.log();
    let line = log.lines().find(|line| line.contains("by an administrator")).unwrap();
    for part in [
        "monoceros::audit:",
        " by=anybody from=127.0.0.1:",
        " rm=rm-1 partition=default nodes=node-7,node-8 drain=true",
        " reason=\"a new kernel\"",
    ] {
        assert!(line.contains(part), "no `{part}` in {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn yes_that_is_typed_is_enough() {
    let mut cluster = Cluster::start().await;
    let folder = Folder::new();
    let mut command = folder.shell("monoceros shutdown", &cluster.environment());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut asked = command.spawn().unwrap();
    asked.stdin.take().unwrap().write_all(b"y\n").unwrap();
    let output = asked.wait_with_output().unwrap();
    let question = String::from_utf8(output.stderr).unwrap();
    assert_eq!(question, "This will end the scheduler. Go on? [y/N] ");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "ends within 4000 ms\n");
    assert_eq!(cluster.service.wait(PATIENCE).await.code(), Some(0));
}

#[test]
fn the_version_has_the_commit_and_the_target() {
    for flag in ["--version", "-V"] {
        let (code, stdout, _) = run(&[flag]);
        assert_eq!(code, Some(0));
        let head = concat!("monoceros ", env!("CARGO_PKG_VERSION"), " (commit ");
        assert!(stdout.starts_with(head) && stdout.ends_with(")\n"), "{stdout}");
        assert!(stdout.contains(std::env::consts::ARCH), "{stdout}");
        if let Some(commit) = commit() {
            assert!(stdout.starts_with(&format!("{head}{commit}, ")), "{stdout}");
        }
    }
}

/// Returns the commit of this checkout. Empty outside a repository, or if the build was given
/// another one.
fn commit() -> Option<String> {
    let root = env!("CARGO_MANIFEST_DIR");
    if !std::path::Path::new(root).join(".git").exists()
        || std::env::var_os("MONOCEROS_COMMIT").is_some()
    {
        return None;
    }
    let mut git = std::process::Command::new("git");
    let output = git.args(["-C", root, "rev-parse", "--short=12", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_the_scheduler_complete() {
    check_cluster(expect_file!["transcripts/completions.txt"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_behind_many_others_complete() {
    let names = |of: &str| (0..300).map(|n| format!("{of}{n:03}")).collect::<Vec<_>>().join(", ");
    let before = "            maxapplications: 10\n";
    let limits = format!(
        "{before}            limits:\n              - {{limit: \"\", users: [{}], groups: [{}], \
         maxapplications: 4}}\n",
        names("u"),
        names("g")
    );
    let queues = CLUSTER_QUEUES.replace(before, &limits);
    let service = Service::start();
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm-1", &queues)).await.unwrap();
    let environment = [("MONOCEROS_GRPC", service.grpc.to_string())];
    for (kind, of) in [("users", "u"), ("groups", "g")] {
        let line = format!(
            "_CLAP_COMPLETE_INDEX=3 _MONOCEROS_COMPLETE=bash monoceros -- monoceros get {kind} {of}29"
        );
        let expected: Vec<_> = (290..300).map(|n| format!("{of}{n}")).collect();
        let printed = Folder::new().run(&line, &environment);
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn shells_complete_and_there_are_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, stderr) = run(&["completions", shell]);
        assert_eq!((code, &*stderr), (Some(0), ""));
        assert!(script.contains("_MONOCEROS_COMPLETE"), "{shell}: {script}");
    }
    let (code, _, stderr) = run(&["completions", "csh"]);
    assert!(code == Some(2) && stderr.contains("csh"), "{stderr}");
    let (code, page, _) = run(&["man"]);
    assert_eq!(code, Some(0));
    assert!(page.contains(".TH monoceros 1"), "{page}");
    let folder = Folder::new();
    let (code, _, stderr) = run(&["man", folder.path().to_str().unwrap()]);
    assert_eq!((code, &*stderr), (Some(0), ""));
    for name in ["monoceros.1", "monoceros-get.1", "monoceros-drain.1"] {
        let page = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page.contains(".SH"), "{name}");
    }
    let pages = std::fs::read_dir(folder.path()).unwrap().map(|page| page.unwrap().file_name());
    let is_of_help = |name: &String| name.contains("help");
    let useless: Vec<_> = pages.map(|it| it.into_string().unwrap()).filter(is_of_help).collect();
    assert!(useless.is_empty(), "{useless:?}");
    let (code, _, stderr) = run(&["man", "/does/not/exist"]);
    assert!(code == Some(1) && stderr.contains("/does/not/exist"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_no_schedulers_is_named_with_what_to_do() {
    let service = Service::start();
    let line = format!("monoceros get nodes --grpc {}", service.http);
    let printed = Folder::new().run(&line, &[]);
    let head =
        format!("monoceros: {} (--grpc) does not answer as a scheduler does: ", service.http);
    assert!(printed.starts_with(&head) && printed.ends_with("? 1\n"), "{printed}");
    assert!(
        printed.contains("say where the gRPC port of the scheduler is with --grpc"),
        "{printed}"
    );
    assert!(!printed.contains("--cert"), "{printed}");
}

#[test]
fn a_failed_connection_names_address_and_source() {
    let folder = Folder::new();
    let variable = [("MONOCEROS_GRPC", "127.0.0.1:1".to_owned())];
    let printed = folder.run("monoceros get nodes", &variable);
    assert!(
        printed.contains("nothing listens on 127.0.0.1:1 (MONOCEROS_GRPC): start"),
        "{printed}"
    );
    let printed = folder.run("monoceros get nodes --grpc '127.0.0.1:2'", &variable);
    assert!(printed.contains("nothing listens on 127.0.0.1:2 (--grpc): start"), "{printed}");
    let printed = folder.run("monoceros get nodes --grpc 'no where'", &[]);
    assert!(printed.contains("`no where` (--grpc) is not HOST:PORT"), "{printed}");
    let printed = folder.run("monoceros get nodes --grpc garbage", &[]);
    assert_eq!(printed, "monoceros: `garbage` (--grpc) is not HOST:PORT\n? 1\n");
    let printed = folder.run("monoceros get nodes --grpc no-such-host.invalid:1", &[]);
    assert!(printed.contains("with --grpc HOST:PORT") && !printed.contains("--ca"), "{printed}");
}
