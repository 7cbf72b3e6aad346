//! Generates the client of etcd from `proto/etcd.proto` with a protobuf compiler written in Rust,
//! so that a build needs nothing installed besides Cargo.

#[cfg(feature = "etcd")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["etcd.proto"], ["proto"])?;
    // Contents of records are shared with the caller, not copied.
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(files)?;
    Ok(())
}

#[cfg(not(feature = "etcd"))]
fn main() {}
