//! Compiles the messages of `proto/` with a protobuf compiler written in Rust, so that a build
//! needs nothing installed beside Cargo. The services belong to the crate that serves them, whose
//! build script gets the folder of the texts in `DEP_MONOCEROS_PROTO_TEXTS`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=monoceros");
    println!("cargo::metadata=texts={}", std::env::var("CARGO_MANIFEST_DIR")?);
    let files = [
        "monoceros/si/v1/types.proto",
        "monoceros/si/legacy/v0/legacy.proto",
        "monoceros/v1/admin.proto",
        "monoceros/v1/callback.proto",
    ];
    let files = protox::compile(files, ["."])?;
    // Ordered maps: equal messages have equal bytes, and no decision can follow hash order.
    prost_build::Config::new().btree_map(["."]).compile_fds(files)?;
    Ok(())
}
