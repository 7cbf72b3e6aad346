//! Our stubs and those of the published interface in one program: no name is defined twice, the
//! bytes are the same, and both reach the service.
//!
//! The published interface is `tests/wire/revisions/t.proto`, which has its names and numbers.

use std::path::Path;
use std::process::Command;

use crate::harness::Service;
use crate::python::python;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn a_program_in_python_loads_both() {
    let Some(python) = python() else { return };
    let service = Service::start();
    let mut command = Command::new(&python.program);
    if let Some(packages) = &python.packages {
        command.env("PYTHONPATH", packages);
    }
    let output = command
        .arg(Path::new(ROOT).join("tests/repository/stubs/beside.py"))
        .arg(Path::new(ROOT).join("proto"))
        .arg(Path::new(ROOT).join("tests/wire/revisions/t.proto"))
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-stubs-beside"))
        .arg(service.grpc.to_string())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let seen = String::from_utf8(output.stdout).unwrap();
    let seen: Vec<_> = seen.lines().collect();
    assert_eq!(
        seen,
        [
            "both are loaded",
            "the same names twice are refused",
            "bytes are the same",
            "registered by /si.v1.Scheduler/RegisterResourceManager",
            "registered by /monoceros.si.v1.Scheduler/RegisterResourceManager",
        ]
    );
}
