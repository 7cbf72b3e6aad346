//! The stock gRPC package of Python sends a message for each ask, as fast as it can, and reads the
//! answers meanwhile. Where that package cannot be had the test says so, as those of the example do.

use std::path::Path;
use std::process::Command;

use super::python::python;
use crate::harness::Service;

const BURST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/repository/burst.py");

#[test]
fn a_stock_client_in_python_may_send_a_message_for_each_ask() {
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
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), MESSAGES, "{}", String::from_utf8_lossy(&output.stderr));
}
