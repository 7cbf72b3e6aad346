//! Generates the gRPC stubs (server and client) of the services in `proto/`, and nothing else: the
//! messages are those of `monoceros-proto`. The protobuf compiler is written in Rust, so that a
//! build needs nothing installed beside Cargo.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/si");
    let files = protox::compile(["si/si_service.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .extern_path(".si.v1", "::monoceros_proto::si::v1")
        .compile_fds(files)?;
    Ok(())
}
