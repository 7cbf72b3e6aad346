//! Our stubs and those of the published interface in one program: no name is defined twice, the
//! bytes are equal, and both reach the service. Also the Go client, whose stubs are in this
//! repository, with its example for programs with the published stubs.
//!
//! For Python the published interface is `tests/wire/revisions/t.proto`, with its names and
//! numbers. For Go it is the module of its authors.

use std::path::{Path, PathBuf};
use std::process::Command;

use monoceros::grpc::stubs::DESCRIPTORS;

use crate::harness::programs::skipped;
use crate::harness::{Service, TempFile};
use crate::packages::TempFolder;
use crate::python::python;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn a_program_in_python_loads_both() {
    let Some(python) = python() else { return };
    let service = Service::start();
    // Its own stubs come first.
    let stubs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-stubs-beside");
    let output = python
        .command(&stubs)
        .arg(Path::new(ROOT).join("tests/repository/stubs/beside.py"))
        .arg(Path::new(ROOT).join("proto"))
        .arg(Path::new(ROOT).join("tests/wire/revisions/t.proto"))
        .arg(&stubs)
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

/// Returns a module of this repository with its dependencies. `None` without Go, or if they cannot
/// be downloaded.
fn go_module(path: &str) -> Option<PathBuf> {
    let module = Path::new(ROOT).join(path);
    let Ok(output) = Command::new("go").args(["mod", "download"]).current_dir(&module).output()
    else {
        skipped(&format!("{path}: there is no go"));
        return None;
    };
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let why = stderr.lines().next().unwrap_or_default();
        skipped(&format!("{path}: go cannot get its dependencies: {why}"));
        return None;
    }
    Some(module)
}

/// Runs Go in a module. If it fails, its output is that of the test.
fn go(module: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new("go");
    command.args(arguments).current_dir(module).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "go {arguments:?}:\n{stdout}\n{stderr}");
    stdout
}

#[test]
fn a_program_in_go_starts_with_both() {
    let Some(module) = go_module("tests/repository/stubs/go") else { return };
    let service = Service::start();
    let address = service.grpc.to_string();
    let seen = go(&module, &["test", "-v", "-count=1", "."], &[("MONOCEROS_ADDRESS", &address)]);
    assert!(!seen.contains("SKIP"), "{seen}");
}

#[test]
fn the_go_client_passes_its_tests() {
    let Some(module) = go_module("clients/go") else { return };
    go(&module, &["vet", "./..."], &[]);
    let descriptors = TempFile::new("descriptors.bin", "");
    std::fs::write(descriptors.path(), DESCRIPTORS).unwrap();
    let variables = [
        ("MONOCEROS", env!("CARGO_BIN_EXE_monoceros")),
        ("MONOCEROS_DESCRIPTORS", descriptors.path()),
    ];
    let seen = go(&module, &["test", "-v", "-count=1", "./..."], &variables);
    assert!(!seen.contains("SKIP"), "{seen}");
}

/// Copies the files of a module of this repository that Git has.
fn copy_module(from: &Path, to: &Path) {
    let listed = Command::new("git").args(["ls-files", "-z", "."]).current_dir(from).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    for file in listed.split_terminator('\0') {
        let target = to.join(file);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(file), target).unwrap();
    }
    assert!(to.join("go.mod").is_file(), "{listed}");
}

/// The module is complete by itself, as somebody gets it who requires it by its published path.
#[test]
fn the_go_module_works_outside_the_repository() {
    let Some(module) = go_module("clients/go") else { return };
    let folder = TempFolder::new("go-module");
    let (copied, program) = (folder.0.join("module"), folder.0.join("program"));
    copy_module(&module, &copied);
    go(&copied, &["vet", "-mod=readonly", "./..."], &[]);

    std::fs::create_dir_all(&program).unwrap();
    std::fs::write(program.join("main.go"), PROGRAM).unwrap();
    std::fs::copy(module.join("go.sum"), program.join("go.sum")).unwrap();
    // The manual has these lines for whoever has a checkout.
    let required = "-require=monoceros.io/clients/go@v0.0.0";
    let replaced = "-replace=monoceros.io/clients/go=../module";
    go(&program, &["mod", "init", "example.org/rm"], &[]);
    go(&program, &["mod", "edit", required, replaced], &[]);
    // What the module requires is fetched already, and nothing else may be.
    let offline = [("GOFLAGS", "-mod=mod"), ("GOPROXY", "off")];
    go(&program, &["vet", "./..."], &offline);
    let printed = go(&program, &["run", "."], &offline);
    assert_eq!(printed, "monoceros: Config.Target is empty\n");
}

const PROGRAM: &str = r#"package main

import (
	"fmt"

	monoceros "monoceros.io/clients/go"
)

func main() {
	_, err := monoceros.New(monoceros.Config{})
	fmt.Println(err)
}
"#;

#[test]
fn a_go_program_of_the_published_interface_runs() {
    let Some(module) = go_module("clients/go/examples/adapter") else { return };
    go(&module, &["vet", "./..."], &[]);
    let variables = [("MONOCEROS", env!("CARGO_BIN_EXE_monoceros"))];
    let seen = go(&module, &["test", "-v", "-count=1", "./..."], &variables);
    assert!(!seen.contains("SKIP"), "{seen}");
}
