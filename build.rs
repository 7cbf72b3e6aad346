//! Generates the gRPC stubs (server and client) of the services in `proto/`, and nothing else: the
//! messages are those of `monoceros-proto`. The protobuf compiler is written in Rust, so that a
//! build needs nothing installed beside Cargo.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/si");
    println!("cargo::rerun-if-changed=proto/callback");
    let files = ["si/si_service.proto", "si/admin.proto", "callback/callback.proto"];
    let files = protox::compile(files, ["proto"])?;
    // For server reflection.
    let descriptors = PathBuf::from(std::env::var("OUT_DIR")?).join("descriptors.bin");
    std::fs::write(descriptors, files.encode_to_vec())?;
    tonic_prost_build::configure()
        .extern_path(".si.v1", "::monoceros_proto::si::v1")
        .extern_path(".si.legacy.v0", "::monoceros_proto::si::legacy::v0")
        .extern_path(".callback.v1", "::monoceros_proto::callback::v1")
        .compile_fds(files)?;
    Ok(())
}
