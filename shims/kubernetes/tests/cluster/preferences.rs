//! Preferences of pods, which a remote scheduler does not support.

use serde_json::json;

use crate::world::{World, in_virtual_time};

#[test]
fn prefers_one_of_equal_nodes() {
    in_virtual_time(async {
        let mut world = World::begun(4).await;
        let prefers = json!({"spec": {"affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}}]}}}});
        let first = world.add("first", prefers.clone());
        world.settle().await;
        assert_eq!(world.node_of(&first), Some("n2"));
        // That node is fuller than the others now.
        let second = world.add("second", prefers);
        world.settle().await;
        assert_eq!(world.node_of(&second), Some("n0"));
        world.check().await;
    });
}
