//! The workflows: the workflow of changes runs the common script. The jobs of the release follow
//! each other, their files exist, and steps that only need this machine are run.

use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use super::{TempFolder, at, on_path, printed, root, skipped, text, tool, yaml};

const WORKFLOW: &str = ".github/workflows/release.yml";
const OF_CHANGES: &str = ".github/workflows/check.yml";

fn steps<'a>(workflow: &'a Value, job: &str) -> impl Iterator<Item = &'a Value> {
    workflow["jobs"][job]["steps"].as_array().unwrap().iter()
}

#[test]
fn changes_are_checked_with_the_pinned_toolchain() {
    let workflow = yaml(&text(OF_CHANGES));
    assert_eq!(workflow["permissions"], serde_json::json!({"contents": "read"}));
    assert!(workflow["on"].as_object().unwrap().contains_key("pull_request"));
    assert!(workflow["jobs"]["check"]["timeout-minutes"].is_u64());
    let runs: Vec<_> = steps(&workflow, "check").filter_map(|step| step["run"].as_str()).collect();
    assert_eq!(runs, ["rustup toolchain install", ".ci/run"]);
    let runs = steps(&workflow, "oldest").filter_map(|step| step["run"].as_str());
    let oldest = runs.last().unwrap().split_once(" +").unwrap().1;

    // One compiler checks and releases. The oldest supported one is not newer.
    let minor = |version: &str| version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    let of_file = |file: &str, key: &str| {
        let line = Regex::new(&format!(r#"(?m)^{key} = "([\d.]+)""#)).unwrap();
        line.captures(&text(file)).unwrap()[1].to_owned()
    };
    let pinned = of_file("rust-toolchain.toml", "channel");
    let will_do = of_file("Cargo.toml", "rust-version");
    assert!(minor(&will_do) <= minor(&pinned), "{pinned}");
    assert_eq!(oldest.split_once(' ').unwrap().0, will_do);
}

/// Returns a job's step by a part of its name.
fn script(workflow: &Value, job: &str, name: &str) -> String {
    let mut steps = steps(workflow, job);
    let step = steps.find(|step| step["name"].as_str().is_some_and(|it| it.contains(name)));
    let step = step.unwrap_or_else(|| panic!("`{job}` has no step `{name}`"));
    step["run"].as_str().unwrap().replace("${{ matrix.target }}", "x86_64-unknown-linux-gnu")
}

/// The image and the chart that earlier steps have pushed.
const PUSHED: [(&str, &str); 4] = [
    ("IMAGE", "ghcr.io/us/monoceros"),
    ("IMAGE_DIGEST", "sha256:1111111111111111111111111111111111111111111111111111111111111111"),
    ("CHART", "ghcr.io/us/charts/monoceros"),
    ("CHART_DIGEST", "sha256:2222222222222222222222222222222222222222222222222222222222222222"),
];

/// Runs a step as the workflow does for a tag, in a folder like a checkout. `programs` is a folder
/// of programs that come before those of the machine.
fn run_for(tag: &str, script: &str, folder: &Path, programs: Option<&Path>) -> String {
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]).current_dir(folder);
    bash.env("GITHUB_REF_NAME", tag).envs(PUSHED).env("GITHUB_ENV", folder.join("variables"));
    bash.env("GITHUB_SERVER_URL", "https://forge").env("GITHUB_REPOSITORY", "Us/monoceros");
    bash.env("GITHUB_REPOSITORY_OWNER", "Us");
    if let Some(programs) = programs {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
        bash.env("PATH", std::env::join_paths(all).unwrap());
    }
    printed(&mut bash)
}

/// Runs a step for the tag of this version.
fn run(script: &str, folder: &Path, programs: Option<&Path>) -> String {
    run_for(concat!("v", env!("CARGO_PKG_VERSION")), script, folder, programs)
}

/// Runs the workflow's commands for the archive, the chart, the checksums and the notes of the
/// present version. The program is the tested one, without optimization.
#[test]
fn local_release_steps_make_their_files() {
    if on_path("bash").is_none() {
        skipped("there is no bash to run the steps of a release");
        return;
    }
    let workflow = yaml(&text(WORKFLOW));
    if on_path("jq").is_some() {
        run(&script(&workflow, "check", "one version"), root(), None);
    } else {
        skipped("there is no jq to compare the versions of a release");
    }
    let folder = TempFolder::new("release");
    let copied = ["LICENSE", "README.md", "CHANGELOG.md", "Cargo.toml", "config", "deploy"];
    let mut copy = Command::new("cp");
    printed(copy.arg("-r").args(copied.map(|name| root().join(name))).arg(&folder.0));
    let program = folder.0.join("target/release/monoceros");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_monoceros"), &program).unwrap();

    run(&script(&workflow, "build", "as an archive"), &folder.0, None);
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("monoceros-{version}-x86_64-unknown-linux-gnu");
    let unpack =
        format!("mkdir unpacked && tar -xzf out/{name}.tar.gz -C unpacked && ls unpacked/{name}");
    let files = run(&unpack, &folder.0, None);
    let expected = "CHANGELOG.md\nLICENSE\nREADME.md\nmonoceros\nmonoceros.toml\nqueues.yaml\n";
    assert_eq!(files, expected);
    let version_line = run(&format!("unpacked/{name}/monoceros --version"), &folder.0, None);
    assert!(version_line.starts_with(&format!("monoceros {version} (commit ")), "{version_line}");

    if let Some(helm) = tool("helm") {
        let programs = Path::new(helm.get_program()).parent().unwrap();
        run(&script(&workflow, "release", "The chart"), &folder.0, Some(programs));
        let image = format!("image: \"{}@{}\"\n", PUSHED[0].1, PUSHED[1].1);
        let chart = folder.0.join(format!("out/monoceros-{version}.tgz"));
        let mut template = Command::new(helm.get_program());
        template.args(["template", "r", "--kube-version=1.33.0"]).arg(chart);
        assert!(printed(&mut template).contains(&image), "the chart installs the pushed image");
        let manifests = folder.0.join(format!("out/monoceros-{version}-kubernetes.yaml"));
        assert!(std::fs::read_to_string(manifests).unwrap().contains(&image));
    }

    run(&script(&workflow, "release", "checksums"), &folder.0, None);
    let checked = run("cd out && sha256sum --check SHA256SUMS", &folder.0, None);
    assert!(checked.contains(&format!("{name}.tar.gz: OK")), "{checked}");

    run(&script(&workflow, "release", "change log"), &folder.0, None);
    let notes = std::fs::read_to_string(folder.0.join("notes.md")).unwrap();
    let changes = text("CHANGELOG.md");
    let of_version =
        changes.split("\n## ").find_map(|part| part.strip_prefix(&format!("{version} - ")));
    let (_, expected) = of_version.unwrap().split_once('\n').unwrap();
    let (changes, digests) = notes.split_once("\n### Digests\n").unwrap();
    assert_eq!(changes.lines().count(), expected.lines().count());
    assert!(
        changes.contains(&format!("](https://forge/Us/monoceros/blob/v{version}/docs/page.md)"))
    );
    for (_, pushed) in PUSHED {
        assert!(digests.contains(pushed), "{digests}");
    }
    let heading = digests.split("docs/install.md#").nth(1).unwrap().split(')').next().unwrap();
    let headings = text("docs/install.md").to_lowercase().replace(' ', "-");
    assert!(headings.contains(&format!("#-{heading}\n")), "{heading}");
    assert!(!notes.contains("](docs/") && !notes.lines().any(|line| line.starts_with("## ")));
}

/// Writes a program that notes its arguments in `calls`, and then runs `script`.
fn stand_in(folder: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    let calls = folder.join("calls");
    let text = format!("#!/bin/sh\necho \"{name} $*\" >> {}\n{script}\n", calls.display());
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the steps that push image and chart with stand-ins for the programs that need a network.
#[test]
fn pushed_images_and_charts_are_signed_by_digest() {
    if on_path("bash").is_none() || on_path("jq").is_none() {
        skipped("there is no bash or no jq to run the steps that push");
        return;
    }
    let workflow = yaml(&text(WORKFLOW));
    let image = script(&workflow, "release", "The image");
    let chart = script(&workflow, "release", "Push the chart");
    for (tag, is_latest) in [("v9.0.0", true), ("v9.0.0-rc.1", false)] {
        let folder = TempFolder::new(&format!("push-{tag}"));
        let inspected = format!("{{\"digest\": \"{}\"}}", PUSHED[1].1);
        let docker = format!("case \"$*\" in *inspect*) echo '{inspected}' ;; esac");
        stand_in(&folder.0, "docker", &docker);
        stand_in(&folder.0, "helm", &format!("echo 'Digest: {}' >&2", PUSHED[3].1));
        stand_in(&folder.0, "cosign", "");
        run_for(tag, &image, &folder.0, Some(&folder.0));
        run_for(tag, &chart, &folder.0, Some(&folder.0));
        let calls = std::fs::read_to_string(folder.0.join("calls")).unwrap();
        let name = format!("ghcr.io/us/monoceros:{}", &tag[1..]);
        for architecture in ["amd64", "arm64"] {
            assert!(calls.contains(&format!("docker push {name}-{architecture}\n")), "{calls}");
        }
        assert!(calls.contains(&format!("imagetools create --tag {name} ")), "{calls}");
        assert_eq!(calls.contains("monoceros:latest"), is_latest, "{tag}: {calls}");
        let signed: Vec<_> = calls.lines().filter(|line| line.starts_with("cosign ")).collect();
        let of_image = format!("cosign sign --yes --recursive {}@{}", PUSHED[0].1, PUSHED[1].1);
        let of_chart = format!("cosign sign --yes {}@{}", PUSHED[2].1, PUSHED[3].1);
        assert_eq!(signed, [of_image, of_chart]);
        let variables = std::fs::read_to_string(folder.0.join("variables")).unwrap();
        let expected = PUSHED.map(|(name, value)| format!("{name}={value}\n")).concat();
        assert_eq!(variables, expected);
    }
}

#[test]
fn everything_that_is_released_has_an_attestation() {
    let workflow = yaml(&text(WORKFLOW));
    let job = &workflow["jobs"]["release"];
    for right in ["attestations", "contents", "id-token", "packages"] {
        assert_eq!(job["permissions"][right], "write", "{right}");
    }
    let all: Vec<&Value> = steps(&workflow, "release").collect();
    let is_attested = |step: &&&Value| {
        step["uses"].as_str().is_some_and(|it| it.starts_with("actions/attest-build-provenance@"))
    };
    let attested: Vec<_> = all.iter().filter(is_attested).map(|step| &step["with"]).collect();
    for (subject, name) in [("IMAGE", 0), ("CHART", 1)] {
        assert_eq!(at(attested[name], "/subject-name"), format!("${{{{ env.{subject} }}}}"));
        let digest = format!("${{{{ env.{subject}_DIGEST }}}}");
        assert_eq!(at(attested[name], "/subject-digest"), digest);
    }
    assert_eq!(at(attested[2], "/subject-path"), "out/*");
    // The release is the last step, and a version with a hyphen is a pre-release.
    let last = at(all.last().unwrap(), "/run");
    assert!(last.contains("*-*) kind=(--prerelease)") && last.contains("gh release create"));
}

#[test]
fn a_release_needs_a_tag_and_all_checks() {
    let workflow = yaml(&text(WORKFLOW));
    assert!(workflow["on"]["push"]["tags"][0].as_str().unwrap().starts_with('v'));
    assert_eq!(workflow["permissions"], serde_json::json!({"contents": "read"}));
    let jobs = workflow["jobs"].as_object().unwrap();
    for (name, job) in jobs {
        assert!(job["timeout-minutes"].is_u64(), "{name} has a bound");
        let writes = job["permissions"]["contents"] == "write";
        assert_eq!(writes, name == "release", "{name}");
        let needs = match &job["needs"] {
            Value::Null => Vec::new(),
            Value::String(one) => vec![one.as_str()],
            many => many.as_array().unwrap().iter().map(|job| job.as_str().unwrap()).collect(),
        };
        assert!(needs.iter().all(|need| jobs.contains_key(*need)), "{name}: {needs:?}");
        assert_eq!(needs.is_empty(), name == "check", "{name} comes after the checks");
    }
}

#[test]
fn what_the_workflow_runs_is_there() {
    let workflow = yaml(&text(WORKFLOW));
    let steps = workflow["jobs"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|job| job["steps"].as_array().unwrap());
    let path = Regex::new(r"(?:\.ci|config|deploy)/[\w./-]+|\b[A-Z]+(?:\.md)?\b").unwrap();
    let mut n_paths = 0;
    for step in steps {
        if let Some(action) = step["uses"].as_str() {
            let (_, version) = action.split_once('@').expect("an action has a version");
            assert!(version.starts_with('v') || version.len() == 40, "{action}");
            continue;
        }
        let run = step["run"].as_str().unwrap();
        let paths = path.find_iter(run).map(|found| found.as_str());
        let is_path = |found: &&str| found.contains(['/', '.']) || *found == "LICENSE";
        for found in paths.filter(is_path) {
            n_paths += 1;
            assert!(root().join(found).exists(), "`{found}` in `{run}`");
        }
    }
    assert!(n_paths >= 8, "{n_paths}");
}

#[test]
fn releases_are_tested_on_an_api_server() {
    let workflow = yaml(&text(WORKFLOW));
    let runs = |job: &str| {
        let runs = steps(&workflow, job).filter_map(|step| step["run"].as_str());
        runs.collect::<Vec<_>>().join("\n")
    };
    let guided =
        "rustup component add llvm-tools\ndeploy/build/profile-guided.sh\ncargo install cargo-deb ";
    assert!(runs("build").contains(guided), "{}", runs("build"));
    assert!(runs("image").contains("--build-arg PROFILE_GUIDED=yes"));
    for job in ["build", "image"] {
        assert!(runs(job).contains("kubernetes --help"), "{job} looks that it can");
    }

    // The server is built with at least the version that its module requires.
    let go = steps(&workflow, "check").find(|step| step["uses"] == "actions/setup-go@v5").unwrap();
    let module = text("tests/kubernetes/bed/go.mod");
    let wanted = module.lines().find_map(|line| line.strip_prefix("go ")).unwrap();
    assert!(wanted.starts_with(go["with"]["go-version"].as_str().unwrap()), "{wanted}");
    assert!(runs("check").contains(".ci/run"));
    let checks = text(".ci/run");
    let tests = checks.lines().find(|line| line.contains("cargo test")).unwrap();
    for variable in [
        "MONOCEROS_PYTHON=install",
        "MONOCEROS_TOOLS=install",
        "MONOCEROS_ETCD=install",
        "MONOCEROS_KUBERNETES=build",
    ] {
        assert!(tests.contains(variable), "{variable}");
    }
}

#[test]
fn actionlint_finds_no_fault_with_the_workflows() {
    let Some(mut actionlint) = tool("actionlint") else { return };
    // Other installed tools of actionlint are not used.
    let files = [WORKFLOW, OF_CHANGES].map(|file| root().join(file));
    printed(actionlint.args(["-shellcheck=", "-pyflakes="]).args(files));
}
