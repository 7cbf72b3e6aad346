//! The page on installation: its commands are the program's, and the files that it names exist.

use clap::Parser as _;
use monoceros::cli::Cli;

use super::{root, text, yaml};

const PAGE: &str = "docs/install.md";

#[test]
fn the_install_page_names_existing_things() {
    let page = text(PAGE);
    let mut blocks = page.split("```").skip(1).step_by(2);
    let shell = blocks.by_ref().filter_map(|block| block.strip_prefix("sh\n"));
    let lines: Vec<&str> = shell.flat_map(str::lines).collect();
    let (mut n_commands, mut n_files) = (0, 0);
    for line in lines {
        // The entry point of the image.
        let command = line.starts_with("monoceros ") || line.starts_with("docker run ");
        if let Some(at) = line.find("monoceros serve").filter(|_| command) {
            Cli::try_parse_from(line[at..].split(' ')).unwrap();
            n_commands += 1;
        }
        for file in line.split(' ').filter(|word| word.starts_with("deploy/")) {
            assert!(root().join(file).exists(), "`{line}`");
            n_files += 1;
        }
    }
    assert_eq!((n_commands, n_files), (2, 3));

    let values = yaml(&text("deploy/helm/monoceros/values.yaml"));
    let tables = page.split("| value | what it is |").skip(1);
    let tables = tables.map(|table| table.split_once("\n\n").unwrap().0);
    let rows = tables.flat_map(str::lines);
    let cells = rows.filter_map(|row| row.strip_prefix("| `")?.split(" | ").next());
    let named: Vec<&str> =
        cells.flat_map(|cell| cell.split(", ").map(|name| name.trim_matches('`'))).collect();
    assert!(named.len() >= 15, "{named:?}");
    for name in named {
        let pointer = format!("/{}", name.replace('.', "/"));
        assert!(values.pointer(&pointer).is_some(), "`{name}` is not in values.yaml");
    }
}

#[test]
fn the_documented_scrape_targets_exist() {
    let page = text(PAGE);
    let (_, watching) = page.split_once("## Watching it").unwrap();
    let (_, block) = watching.split_once("```yaml\n").unwrap();
    let configuration = yaml(block.split("```").next().unwrap());
    assert_eq!(configuration["scrape_configs"][0]["metrics_path"], "/ws/v1/metrics");
    let rules = configuration["rule_files"][0].as_str().unwrap();
    assert!(super::debian::installed().contains_key(rules), "{rules}");
}
