//! The container file: its stages, its copied files, and the files that the program needs.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use monoceros::settings::{Flags, Settings};
use nix::unistd::Uid;

use super::{TempFolder, printed, root, skipped, text};

const CONTAINERFILE: &str = "deploy/container/Containerfile";

/// Returns the instructions, each in one line, as name and rest.
fn instructions() -> Vec<(String, String)> {
    let lines = text(CONTAINERFILE);
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let split = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap_or_else(|| panic!("`{line}`"));
        (name.to_owned(), rest.trim().to_owned())
    };
    joined.lines().filter(|line| !line.trim().is_empty()).map(split).collect()
}

/// Returns the arguments of the instructions with this name.
fn all<'i>(instructions: &'i [(String, String)], name: &str) -> Vec<&'i str> {
    let found = instructions.iter().filter(|(found, _)| found == name);
    found.map(|(_, rest)| rest.as_str()).collect()
}

/// Returns sources and target of each copy from the repository.
fn copies(instructions: &[(String, String)]) -> Vec<(Vec<&str>, &str)> {
    let mut copies = Vec::new();
    for rest in all(instructions, "COPY").into_iter().filter(|rest| !rest.starts_with("--")) {
        let (sources, target) = rest.rsplit_once(' ').unwrap();
        copies.push((sources.split(' ').collect(), target));
    }
    copies
}

#[test]
fn the_image_is_built_from_source_without_root() {
    let instructions = instructions();
    let known =
        ["ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "RUN", "USER", "WORKDIR"];
    for (name, rest) in &instructions {
        assert!(known.contains(&&**name), "`{name} {rest}`");
    }
    let pinned = text("rust-toolchain.toml");
    let pinned = pinned.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let compiler = format!("RUST={}", pinned.trim_matches('"'));
    // The second is the variable that `build.rs` reads outside a repository.
    assert_eq!(all(&instructions, "ARG"), [&*compiler, "MONOCEROS_COMMIT=", "PROFILE_GUIDED="]);

    let stages = all(&instructions, "FROM");
    assert_eq!(stages, ["rust:${RUST}-slim-bookworm AS build", "scratch"]);
    let last = instructions.iter().rposition(|(name, _)| name == "FROM").unwrap();
    let (build, image) = instructions.split_at(last);
    let [program, files] = all(build, "RUN")[..] else { panic!("two commands") };
    assert_eq!(
        program.split_whitespace().collect::<Vec<_>>().join(" "),
        "if [ -n \"$PROFILE_GUIDED\" ]; then \
         rustup component add llvm-tools && sh deploy/build/profile-guided.sh; \
         else cargo build --release --locked --package monoceros --features kubernetes; fi"
    );
    assert_eq!(files, "sh deploy/container/image.sh target/release/monoceros /image");
    assert_eq!(all(image, "COPY"), ["--from=build /image /"]);
    assert_eq!(all(image, "RUN"), [""; 0], "there is no shell");
    assert_eq!(all(image, "ENTRYPOINT"), [r#"["/usr/bin/monoceros"]"#]);
    let [user] = all(image, "USER")[..] else { panic!("one user") };
    let (user, group) = user.split_once(':').unwrap();
    assert!(user.parse::<u32>().unwrap() > 0 && group.parse::<u32>().unwrap() > 0);
    let names = text("deploy/container/image.sh");
    assert!(names.contains(&format!("monoceros:x:{user}:{group}:")), "the user has a name");
}

#[test]
fn the_image_is_reachable_as_documented() {
    let instructions = instructions();
    let [variables] = all(&instructions, "ENV")[..] else { panic!("one list of variables") };
    let address = |key: &str| -> SocketAddr {
        let values = variables.split_whitespace().filter_map(|pair| pair.split_once('='));
        let found = values.into_iter().find(|(name, _)| *name == format!("MONOCEROS__{key}"));
        found.unwrap_or_else(|| panic!("no {key} in `{variables}`")).1.parse().unwrap()
    };
    let defaults = Settings::load(None, &Flags::default()).unwrap();
    let mut ports = Vec::new();
    for (inside, outside) in [
        (address("GRPC__ADDRESS"), defaults.grpc.address),
        (address("REST__ADDRESS"), defaults.rest.address),
    ] {
        assert!(inside.ip().is_unspecified() && outside.ip().is_loopback());
        assert_eq!(inside.port(), outside.port());
        ports.push(inside.port().to_string());
    }
    assert_eq!(all(&instructions, "EXPOSE"), [ports.join(" ")]);
}

#[test]
fn the_build_image_has_the_whole_workspace() {
    let instructions = instructions();
    let folder = TempFolder::new("build-context");
    let admitted = text(".dockerignore");
    for (sources, target) in copies(&instructions) {
        for source in sources {
            assert!(admitted.lines().any(|line| line == format!("!{source}")), "`{source}`");
            let (from, to) = (root().join(source), folder.0.join(target));
            if from.is_dir() {
                assert_eq!(source, target, "a folder stays where it is");
                copy(&from, &to);
            } else {
                fs::copy(from, to.join(source)).unwrap();
            }
        }
    }
    // Every member of the workspace is copied, with the file of each test and benchmark in its
    // manifest.
    let metadata = ["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"];
    printed(Command::new(env!("CARGO")).args(metadata).current_dir(&folder.0));
    for folder_of_sources in ["src", "actors", "clients/rust", "cluster", "proto", "shims"] {
        included(&folder.0.join(folder_of_sources));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Checks that each file that sources include is copied. Pages of the manual are for tests only.
fn included(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            included(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            for rest in source.split("include_str!(\"").skip(1) {
                let file = rest.split('"').next().unwrap();
                let is_there = path.parent().unwrap().join(file).is_file();
                assert!(
                    is_there || Path::new(file).extension().is_some_and(|it| it == "md"),
                    "{}: {file}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn the_image_has_what_the_program_needs() {
    if !Path::new("/etc/ssl/certs/ca-certificates.crt").is_file() || !Uid::effective().is_root() {
        return skipped("an image is tried as root, where there are certificates of authorities");
    }
    let image = TempFolder::new("image");
    let gather = root().join("deploy/container/image.sh");
    let program = env!("CARGO_BIN_EXE_monoceros");
    printed(Command::new("sh").arg(gather).arg(program).arg(&image.0));
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg("--userspec=65532:65532").arg(&image.0).arg("/usr/bin/monoceros");
        printed(command.args(arguments))
    };
    assert!(inside(&["--version"]).contains(env!("CARGO_PKG_VERSION")));
    assert!(inside(&["serve", "--help"]).contains("--config"));
    if cfg!(feature = "kubernetes") {
        assert!(inside(&["kubernetes", "--help"]).contains("--kubeconfig"));
    }
}
