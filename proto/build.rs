//! Compiles the messages of `proto/si` with a protobuf compiler written in Rust, so that a build
//! needs nothing installed beside Cargo. The service belongs to the crate that serves it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=si");
    let files = protox::compile(["si/si_types.proto"], ["."])?;
    // Ordered maps: equal messages have equal bytes, and no decision can follow hash order.
    prost_build::Config::new().btree_map(["."]).compile_fds(files)?;
    Ok(())
}
