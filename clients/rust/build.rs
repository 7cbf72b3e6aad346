//! Generates the gRPC clients of the services that a resource manager calls. The messages are those
//! of `monoceros-proto`, whose build script names the folder of their texts: a published crate has
//! no neighbours.

use std::path::PathBuf;

use tonic_prost_build::Builder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let texts = std::env::var("DEP_MONOCEROS_PROTO_TEXTS")?;
    println!("cargo::rerun-if-changed={texts}/monoceros");
    let files = [
        "monoceros/si/v1/scheduler.proto",
        "monoceros/v1/admin.proto",
        "monoceros/v1/callback.proto",
    ];
    let files = protox::compile(files, [texts])?;
    stubs().build_server(false).compile_fds(files.clone())?;
    // Tests have servers of their own.
    let servers = PathBuf::from(std::env::var("OUT_DIR")?).join("servers");
    std::fs::create_dir_all(&servers)?;
    stubs().build_client(false).out_dir(servers).compile_fds(files)?;
    Ok(())
}

fn stubs() -> Builder {
    tonic_prost_build::configure()
        .extern_path(".monoceros.si.v1", "::monoceros_proto::si::v1")
        .extern_path(".monoceros.si.legacy.v0", "::monoceros_proto::si::legacy::v0")
        .extern_path(".monoceros.v1", "::monoceros_proto::v1")
}
