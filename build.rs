//! Generates the gRPC stubs (server and client) of the services in `proto/`, and what server
//! reflection tells of them: the messages are those of `monoceros-proto`. The
//! protobuf compiler is written in Rust, so that a build needs nothing installed beside Cargo.
//! Beside that it finds out what a build says of itself, and does nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message as _;
use tonic_prost_build::Builder;

/// The package of the scheduler in the published interface (`src/grpc/aliases.rs`).
const PUBLISHED: &str = "si.v1";

/// What the server's streams send: the messages, and what has them as bytes (`src/grpc/encoded.rs`).
const REPLIES: [(&str, &str); 4] = [
    (".monoceros.si.v1.AllocationResponse", "AllocationReply"),
    (".monoceros.si.v1.ApplicationResponse", "ApplicationReply"),
    (".monoceros.si.v1.NodeResponse", "NodeReply"),
    (".monoceros.si.legacy.v0.UpdateResponse", "LegacyReply"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/monoceros");
    let files = [
        "monoceros/si/v1/scheduler.proto",
        "monoceros/v1/admin.proto",
        "monoceros/v1/callback.proto",
    ];
    let files = protox::compile(files, ["proto"])?;
    // For server reflection. The scheduler under its other name is a file that defines nothing else,
    // and has the messages of the real one.
    let mut described = files.clone();
    let text = "monoceros/si/v1/scheduler.proto";
    let mut file = files.file.iter().find(|file| file.name() == text).ok_or(text)?.clone();
    file.dependency.push(text.to_owned());
    file.name = Some(format!("monoceros/aliases/{PUBLISHED}.Scheduler.proto"));
    file.package = Some(PUBLISHED.to_owned());
    file.message_type.clear();
    file.enum_type.clear();
    file.options = None;
    file.source_code_info = None;
    described.file.push(file);
    let descriptors = PathBuf::from(std::env::var("OUT_DIR")?).join("descriptors.bin");
    std::fs::write(descriptors, described.encode_to_vec())?;
    stubs("client")?.build_server(false).compile_fds(files.clone())?;
    let mut server = stubs("server")?.build_client(false);
    for (reply, encoded) in REPLIES {
        server = server.extern_path(reply, format!("crate::grpc::encoded::{encoded}"));
    }
    server.compile_fds(files)?;
    name_build()
}

/// A builder whose code goes to this folder of the build.
fn stubs(folder: &str) -> Result<Builder, Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::var("OUT_DIR")?).join(folder);
    std::fs::create_dir_all(&folder)?;
    let builder = tonic_prost_build::configure()
        .out_dir(folder)
        .extern_path(".monoceros.si.v1", "::monoceros_proto::si::v1")
        .extern_path(".monoceros.si.legacy.v0", "::monoceros_proto::si::legacy::v0")
        .extern_path(".monoceros.v1", "::monoceros_proto::v1");
    Ok(builder)
}

/// Passes the commit, the target and the time to the compiler. The commit is that of the working tree; builds from an
/// archive have none, and say what `MONOCEROS_COMMIT` says. After a commit this package is compiled again. The time
/// is that of the commit, so that what is built twice is the same; `SOURCE_DATE_EPOCH` overrides it, and without a
/// commit it is now.
fn name_build() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=MONOCEROS_COMMIT");
    let commit = if let Ok(given) = std::env::var("MONOCEROS_COMMIT") {
        Some(given.trim().to_owned())
    } else {
        // Each commit and each checkout adds a line to it.
        if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
            println!("cargo::rerun-if-changed={log}");
        }
        git(&["rev-parse", "--short=12", "HEAD"])
    };
    let commit = commit.filter(|commit| !commit.is_empty()).unwrap_or("unknown".to_owned());
    println!("cargo::rustc-env=BUILT_COMMIT={commit}");
    println!("cargo::rustc-env=BUILT_TARGET={}", std::env::var("TARGET")?);
    // `rustc 1.90.0 (… 2025-09-14)`
    let version = Command::new(std::env::var("RUSTC")?).arg("--version").output()?.stdout;
    let version = String::from_utf8(version)?;
    let rustc = version.split_whitespace().nth(1).unwrap_or("unknown");
    println!("cargo::rustc-env=BUILT_RUSTC={rustc}");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let of_commit = || git(&["log", "-1", "--format=%ct"]);
    let seconds = std::env::var("SOURCE_DATE_EPOCH").ok().or_else(of_commit);
    let seconds = match seconds.filter(|seconds| seconds.parse::<u64>().is_ok()) {
        Some(seconds) => seconds,
        None => now()?,
    };
    println!("cargo::rustc-env=BUILT_SECONDS={seconds}");
    Ok(())
}

/// Seconds since the epoch.
fn now() -> Result<String, Box<dyn std::error::Error>> {
    #[expect(clippy::disallowed_methods, reason = "a build has no clock of its own")]
    let now = SystemTime::now();
    Ok(now.duration_since(UNIX_EPOCH)?.as_secs().to_string())
}

/// What Git says, where there is one, and a repository.
fn git(arguments: &[&str]) -> Option<String> {
    // An archive that is unpacked below another repository is not of that one.
    if !Path::new(".git").exists() {
        return None;
    }
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
