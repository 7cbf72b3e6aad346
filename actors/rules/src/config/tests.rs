//! The tables of sections 2.8 and 3.10, and what no text may bring about.

use super::*;

#[test]
fn the_default_configuration_is_one_leaf_open_to_everybody() {
    let configuration = parse(DEFAULT).unwrap();
    assert_eq!(configuration.warnings, []);
    let [partition] = &*configuration.partitions else { panic!("one partition") };
    assert_eq!(&*partition.name, "default");
    let [leaf] = &*partition.root.children else { panic!("one queue") };
    assert_eq!((&*leaf.path, leaf.is_leaf), ("root.default", true));
    assert!(partition.root.submit_acl.allows("anyone", &[""; 0]));
}
