//! Generates the gRPC clients of the services that a resource manager calls. The messages are those
//! of `monoceros-proto`, whose build script names the folder of their texts: a published crate has
//! no neighbours.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let texts = std::env::var("DEP_MONOCEROS_PROTO_TEXTS")?;
    println!("cargo::rerun-if-changed={texts}/monoceros");
    let files = [
        "monoceros/si/v1/scheduler.proto",
        "monoceros/v1/admin.proto",
        "monoceros/v1/callback.proto",
    ];
    let files = protox::compile(files, [texts])?;
    tonic_prost_build::configure()
        .build_server(false)
        .extern_path(".monoceros.si.v1", "::monoceros_proto::si::v1")
        .extern_path(".monoceros.si.legacy.v0", "::monoceros_proto::si::legacy::v0")
        .extern_path(".monoceros.v1", "::monoceros_proto::v1")
        .compile_fds(files)?;
    Ok(())
}
