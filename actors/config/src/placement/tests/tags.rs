//! Settings of dynamic queues from namespace tags: quota, guarantee and number of applications.

use super::*;
use crate::{dynamic_queue, recovery_queue};
use monoceros_rules::queues::Template;
use monoceros_rules::values::resources::{Limits, NameHolder, Resources};

fn tags(said: &[(&str, &str)]) -> Tags {
    Arc::new(said.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

fn templated() -> QueueConfig {
    let root = configured(
        "{name: p, parent: true, resources: {max: {vcore: 9}}}, \
         {name: q, resources: {guaranteed: {vcore: 1}, max: {vcore: 9}}}",
    );
    let shape = &root.children[1];
    let template = Template {
        max_applications: 7,
        max: shape.max.clone(),
        guaranteed: shape.guaranteed.clone(),
        ..Template::default()
    };
    dynamic_queue("root.p.x", true, Some(&template))
}

/// Formats max, guarantee and number of applications after an application with these tags.
fn after(queue: &QueueConfig, said: &[(&str, &str)]) -> String {
    let (said, _) = NamespaceTags::read(&tags(said), &NameHolder::default());
    let changed = said.changed(queue).unwrap_or_else(|| queue.clone());
    let max = changed.max.as_ref().map_or("-".to_owned(), Limits::to_string);
    let guaranteed = changed.guaranteed.as_ref().map_or("-".to_owned(), Resources::to_string);
    format!("{max} {guaranteed} {}", changed.max_applications)
}

const QUOTA: &str = "namespace.resourcequota";
const GUARANTEED: &str = "namespace.resourceguaranteed";
const APPS: &str = "namespace.resourcemaxapps";
const FIVE: &str = r#"{"resources":{"vcore":{"value":5}}}"#;

#[test]
fn tags_replace_the_template() {
    let queue = templated();
    let unchanged = "map[vcore:9000] map[vcore:1000] 7";
    for (said, expected) in [
        (&[(QUOTA, FIVE)] as &[(&str, &str)], "map[vcore:5] - 7"),
        (&[(GUARANTEED, FIVE)], "- map[vcore:5] 7"),
        (&[("NameSpace.ResourceQuota", FIVE), (APPS, "3")], "map[vcore:5] - 3"),
        (&[(APPS, "3")], "map[vcore:9000] map[vcore:1000] 3"),
        (&[(QUOTA, ""), (APPS, "")], unchanged),
        (&[(QUOTA, r#"{"resources":{"vcore":{"value":-1}}}"#)], unchanged),
        (&[(QUOTA, "{xx}")], unchanged),
        (&[(QUOTA, "null")], unchanged),
        (&[(QUOTA, r#"{"resources":{"vcore":null}}"#)], unchanged),
        (&[(QUOTA, r#"{"resources":{"vcore":{"value":0}}}"#)], unchanged),
        (&[(QUOTA, r#"{"resources":{"vcore":{"value":"5"}}}"#)], unchanged),
        (&[(QUOTA, r#"{"resources":[5]}"#)], unchanged),
        (&[(APPS, "-33")], unchanged),
        (&[(APPS, "+3")], unchanged),
        (&[(APPS, "0")], unchanged),
        (
            &[(
                QUOTA,
                r#"{"x":1,"resources":{"vcore":{"value":1},"vcore":{"value":2},"memory":{}}}"#,
            )],
            "map[memory:0 vcore:2] - 7",
        ),
    ] {
        assert_eq!(after(&queue, said), expected, "{said:?}");
    }
}

#[test]
fn configured_queues_parents_and_recovery_do_not_listen() {
    let said = &[(QUOTA, FIVE), (APPS, "3")];
    let (said, warnings) = NamespaceTags::read(&tags(said), &NameHolder::default());
    assert!(warnings.is_empty());
    let configured = configured("{name: q}").children.remove(0);
    for queue in [configured, recovery_queue(), dynamic_queue("root.p", false, None)] {
        assert_eq!(said.changed(&queue), None, "{}", queue.path);
    }
}

#[test]
fn repeated_tags_change_nothing_and_bad_tags_warn() {
    let said = tags(&[(QUOTA, FIVE), (GUARANTEED, "{"), (APPS, "many")]);
    let (said, warnings) = NamespaceTags::read(&said, &NameHolder::default());
    let changed = said.changed(&templated()).unwrap();
    assert_eq!(said.changed(&changed), None);
    assert!(warnings[0].starts_with("tag `namespace.resourceguaranteed` is ignored: "));
    assert_eq!(
        warnings[1],
        "tag `namespace.resourcemaxapps` is ignored: `many` is not a number of applications"
    );
}
