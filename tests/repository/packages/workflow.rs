//! The workflow of releases: its jobs follow each other, and what they run is there.

use regex::Regex;
use serde_json::Value;

use super::{printed, root, text, tool, yaml};

const WORKFLOW: &str = ".github/workflows/release.yml";

#[test]
fn a_release_is_made_of_a_tag_and_only_after_all_checks() {
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
fn what_is_released_can_schedule_a_cluster_and_was_tried_on_an_api_server() {
    let workflow = yaml(&text(WORKFLOW));
    let runs = |job: &str| {
        let steps = workflow["jobs"][job]["steps"].as_array().unwrap().iter();
        steps.filter_map(|step| step["run"].as_str()).collect::<Vec<_>>().join("\n")
    };
    let guided =
        "rustup component add llvm-tools\ndeploy/build/profile-guided.sh\ncargo install cargo-deb ";
    assert!(runs("build").contains(guided), "{}", runs("build"));
    assert!(runs("image").contains("--build-arg PROFILE_GUIDED=yes"));
    for job in ["build", "image"] {
        assert!(runs(job).contains("kubernetes --help"), "{job} looks that it can");
    }
    assert!(runs("chart").contains("cp deploy/kubernetes/monoceros.yaml"));

    // What builds the server: at least the version that its module wants.
    let steps = workflow["jobs"]["check"]["steps"].as_array().unwrap();
    let go = steps.iter().find(|step| step["uses"] == "actions/setup-go@v5").unwrap();
    let module = text("tests/kubernetes/bed/go.mod");
    let wanted = module.lines().find_map(|line| line.strip_prefix("go ")).unwrap();
    assert!(wanted.starts_with(go["with"]["go-version"].as_str().unwrap()), "{wanted}");
    assert!(runs("check").contains(".ci/run"));
    let checks = text(".ci/run");
    let tests = checks.lines().last().unwrap();
    for variable in
        ["MONOCEROS_PYTHON=install", "MONOCEROS_TOOLS=install", "MONOCEROS_KUBERNETES=build"]
    {
        assert!(tests.contains(variable), "{variable}");
    }
}

#[test]
fn actionlint_finds_no_fault_with_the_workflow() {
    let Some(mut actionlint) = tool("actionlint") else { return };
    // Whatever else of its tools this machine has makes no difference.
    printed(actionlint.args(["-shellcheck=", "-pyflakes="]).arg(root().join(WORKFLOW)));
}
