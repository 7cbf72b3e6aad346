//! Python's stock gRPC package sends a message for each ask, as fast as it can, and reads the
//! answers meanwhile. Without that package the test prints a message, as those of the example do.

use std::path::Path;
use std::process::Command;

use super::python::python;
use crate::harness::Service;

const BURST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/repository/burst.py");

#[test]
fn stock_python_may_send_a_message_per_ask() {
    const MESSAGES: &str = "100000";
    let Some(python) = python() else { return };
    let service = Service::start_with(&[("session.reorder_window", "0")]);
    let stubs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-stubs-burst");
    let mut command = Command::new(&python.program);
    if let Some(packages) = &python.packages {
        command.env("PYTHONPATH", packages);
    }
    command.arg(BURST).arg(service.grpc.to_string()).arg(stubs).arg(MESSAGES);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.trim(), MESSAGES, "{}", String::from_utf8_lossy(&output.stderr));
}
