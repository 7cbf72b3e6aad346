//! Python's stock gRPC package sends a message for each ask, as fast as it can, and reads the
//! answers meanwhile. Without that package the test prints a message, as those of the client do.

use std::path::Path;

use super::python::{CLIENT, python};
use crate::harness::Service;

const BURST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/repository/burst.py");

#[test]
fn stock_python_may_send_a_message_per_ask() {
    const MESSAGES: &str = "100000";
    let Some(python) = python() else { return };
    let service = Service::start_with(&[("session.reorder_window", "0")]);
    let mut command = python.command(Path::new(CLIENT));
    let output = command.arg(BURST).arg(service.grpc.to_string()).arg(MESSAGES).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.trim(), MESSAGES, "{}", String::from_utf8_lossy(&output.stderr));
}
