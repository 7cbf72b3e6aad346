//! Claims of the documentation: examples are run, tables are complete, and links have targets.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{TempFile, run};

const CONFIGURATION: &str = include_str!("../../docs/configuration.md");
const ADMIN: &str = include_str!("../../docs/admin.md");
const GRPC: &str = include_str!("../../docs/grpc.md");

/// Returns the fenced blocks of a page: language and text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut fenced = page.split("```").skip(1).step_by(2);
    std::iter::from_fn(|| fenced.next()?.split_once('\n')).collect()
}

#[test]
fn documented_queue_configurations_get_their_answers() {
    let blocks = blocks(CONFIGURATION);
    let mut answered = 0;
    for (at, (_, yaml)) in blocks.iter().enumerate().filter(|(_, block)| block.0 == "yaml") {
        let file = TempFile::new("manual.yaml", yaml);
        let (_, _, stderr) = run(&["validate", file.path()]);
        let answer = stderr.replace(file.path(), "queues.yaml");
        match blocks.get(at + 1) {
            Some(("text", expected)) => {
                assert_eq!(answer, *expected);
                answered += 1;
            }
            _ => assert_eq!(answer, "", "valid, and without warnings"),
        }
    }
    assert_eq!(answered, 2);
}

#[test]
fn the_manual_has_each_setting_with_its_default() {
    let mut section = "";
    for line in monoceros::settings::DEFAULTS.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, value)) = line.split_once(" = ")
            && !key.contains('#')
        {
            let row = format!("| `{section}.{key}` | `{}` |", value.trim_matches('"'));
            assert!(CONFIGURATION.contains(&row), "no row `{row}`");
        }
    }
}

#[test]
fn the_manual_explains_each_reason_and_no_other() {
    let rejections = include_str!("../../actors/rules/src/specs/rejection.rs");
    let quotas = include_str!("../../actors/rules/src/specs/quotas.rs");
    let (quotas, _) = quotas.split_once("mod tests").unwrap();
    let mut sent = codes(rejections, "[R_");
    sent.extend(codes(quotas, "\"R_"));
    let explained = codes(GRPC, "| `R_");
    assert_eq!(explained, sent);
}

#[test]
fn the_manual_explains_each_status() {
    let ends = include_str!("../../src/grpc/end.rs");
    let (ends, _) = ends.split_once("mod tests").unwrap();
    let is_reason =
        |text: &&str| text.len() > 3 && text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    // The status `CLIENT_GONE` has no reader.
    let reasons = ends.split('"').filter(is_reason).filter(|reason| *reason != "CLIENT_GONE");
    for reason in reasons {
        assert!(GRPC.contains(&format!("`{reason}`")), "`{reason}` is not in docs/grpc.md");
    }
}

#[test]
fn the_manual_explains_each_admin_call_and_refusal() {
    let protocol = include_str!("../../proto/monoceros/v1/admin.proto");
    for call in protocol.split("  rpc ").skip(1).map(|rest| rest.split('(').next().unwrap()) {
        assert!(ADMIN.contains(call), "`{call}` is not in docs/admin.md");
    }
    let refusals = include_str!("../../src/grpc/admin/refusal.rs");
    let is_reason =
        |text: &&str| text.len() > 3 && text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    for reason in refusals.split('"').filter(is_reason) {
        assert!(ADMIN.contains(&format!("`{reason}`")), "`{reason}` is not in docs/admin.md");
    }
}

/// Returns the crates that a program uses: the first names of the paths of its `use` lines.
fn crates_of(program: &str) -> BTreeSet<String> {
    let roots = program.lines().filter_map(|line| line.strip_prefix("use "));
    let roots = roots.map(|path| path.split("::").next().unwrap().replace('_', "-"));
    let attributes = program.lines().filter_map(|line| line.strip_prefix("#["));
    let of_attributes = attributes.filter_map(|line| Some(line.split_once("::")?.0.to_owned()));
    roots.chain(of_attributes).filter(|name| name != "std").collect()
}

#[test]
fn each_program_in_rust_names_its_dependencies() {
    let manifest = include_str!("../../Cargo.toml");
    let pages = [
        ("docs/embedding.md", include_str!("../../docs/embedding.md")),
        ("docs/grpc.md", GRPC),
        ("docs/shims.md", include_str!("../../docs/shims.md")),
        ("clients/rust/README.md", include_str!("../../clients/rust/README.md")),
    ];
    let mut n_programs = 0;
    for (page, text) in pages {
        let blocks = blocks(text);
        let is_dependencies = |block: &&(&str, &str)| block.1.starts_with("[dependencies]\n");
        let (_, named) = blocks.iter().find(is_dependencies).expect(page);
        for (name, line) in named.lines().filter_map(|line| Some((line.split_once(" = ")?.0, line)))
        {
            // A path below the checkout, or the version that is built here.
            if let Some((_, path)) = line.split_once("path = \"monoceros") {
                let folder = path.split('"').next().unwrap().trim_start_matches('/');
                let theirs = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("Cargo.toml");
                let theirs = fs::read_to_string(theirs).expect(line);
                assert!(theirs.contains(&format!("name = \"{name}\"")), "{page}: {line}");
            } else {
                let version = line.split('"').nth(1).expect(line);
                let ours = manifest.lines().find(|ours| ours.starts_with(&format!("{name} = ")));
                let ours = ours.expect(line).split('"').nth(1).unwrap();
                assert!(ours.starts_with(&format!("{version}.")), "{page}: {line}");
            }
        }
        for (_, program) in blocks.iter().filter(|(language, _)| language.starts_with("rust")) {
            n_programs += 1;
            for used in crates_of(program) {
                assert!(named.contains(&format!("\n{used} = ")), "{page} names no `{used}`");
            }
        }
    }
    assert!(n_programs >= 3, "{n_programs}");
}

#[test]
fn every_page_with_a_program_in_rust_is_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = fs::read_dir(folder.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let with_programs =
        pages.filter(|path| path.extension().is_some_and(|it| it == "md")).filter(|path| {
            blocks(&fs::read_to_string(path).unwrap()).iter().any(|it| it.0.starts_with("rust"))
        });
    let names: BTreeSet<_> =
        with_programs.map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["embedding.md", "grpc.md", "shims.md"].map(Into::into).into());
}

/// Returns the codes in `text` after `before`, which ends in their first letters.
fn codes(text: &str, before: &str) -> BTreeSet<String> {
    let is_code = |c: char| c.is_ascii_uppercase() || c == '_';
    let behind = text.split(before).skip(1);
    behind.map(|rest| rest.chars().take_while(|c| is_code(*c)).collect()).collect()
}

#[test]
fn the_page_of_figures_names_every_benchmark() {
    let page = include_str!("../../docs/performance.md");
    let manifest = include_str!("../../Cargo.toml");
    let behind = manifest.split("[[bench]]\nname = \"").skip(1);
    let mut benches: BTreeSet<&str> = behind.filter_map(|rest| rest.split('"').next()).collect();
    assert!(benches.remove("figures"), "it writes the page");
    let (mut named, mut marks) = (BTreeSet::new(), BTreeSet::new());
    let mut parts = page.split("<!-- figures: ");
    assert!(!parts.next().unwrap().contains("<!-- end of figures -->"));
    for part in parts {
        let (mark, rest) = part.split_once(" -->\n").expect("a mark is a line");
        assert_eq!(rest.matches("<!-- end of figures -->").count(), 1, "the end of `{mark}`");
        assert!(marks.insert(mark), "`{mark}` stands there twice");
        named.extend(mark.split(' ').next());
    }
    assert!(named.remove("machine"), "what was measured on");
    assert_eq!(named, benches);
}

#[test]
fn each_link_to_a_file_leads_to_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let in_folder =
        |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = [root.to_owned(), root.join("docs"), root.join("docs/decisions")];
    let pages = folders.into_iter().flat_map(in_folder);
    for page in pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let path = link.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            let target = page.parent().unwrap().join(path);
            assert!(target.exists(), "{}: the link `{link}` leads nowhere", page.display());
        }
    }
}
