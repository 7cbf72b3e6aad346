//! Queue configuration, merged from ConfigMaps.

use std::collections::BTreeMap;

use monoceros_actors::config::{self, DEFAULT_PARTITION};

use crate::objects::ConfigMap;

/// The ConfigMaps that are read. A later one overrides the earlier ones.
pub const CONFIG_MAPS: [&str; 3] = ["yunikorn-defaults", "yunikorn-configs", "monoceros-configs"];
/// Key of the queues.
pub const QUEUES: &str = "queues.yaml";

/// Merged configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Queues (YAML); empty if no ConfigMap has any.
    pub yaml: String,
    /// Name of the ConfigMap that has the queues.
    pub from: String,
    /// All other settings.
    pub extra: BTreeMap<String, String>,
}

impl Queues {
    /// Checks that the queues can be parsed and have the partition of the cluster. Without it no
    /// node or pod would belong to any. The error names the line.
    pub fn check(&self) -> Result<(), String> {
        if self.yaml.is_empty() {
            return Ok(());
        }
        let read = config::parse(&self.yaml).map_err(|why| why.to_string())?;
        if read.partitions.iter().any(|partition| *partition.name == *DEFAULT_PARTITION) {
            return Ok(());
        }
        let names = read.partitions.iter().map(|partition| format!("`{}`", partition.name));
        let names = names.collect::<Vec<_>>().join(", ");
        Err(format!(
            "the cluster is the partition `{DEFAULT_PARTITION}`, and there is {names} alone"
        ))
    }
}

/// Merges the ConfigMaps, given in the order of [`CONFIG_MAPS`].
pub fn queues<'c>(maps: impl IntoIterator<Item = (&'static str, Option<&'c ConfigMap>)>) -> Queues {
    let mut queues = Queues::default();
    for (name, map) in maps {
        for (key, text) in map.into_iter().flat_map(|map| &map.data) {
            if key == QUEUES {
                queues.yaml.clone_from(text);
                name.clone_into(&mut queues.from);
            } else {
                queues.extra.insert(key.clone(), text.clone());
            }
        }
    }
    queues
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_config_map_overrides() {
        let map = |data: &[(&str, &str)]| ConfigMap {
            data: data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect(),
            ..ConfigMap::default()
        };
        let [defaults, theirs, ours] = CONFIG_MAPS;
        let low = map(&[("queues.yaml", "low"), ("log.level", "INFO"), ("a", "1")]);
        let high = map(&[("a", "2")]);
        let both = queues([(defaults, Some(&low)), (theirs, Some(&high)), (ours, None)]);
        assert_eq!((&*both.yaml, &*both.from), ("low", defaults));
        assert_eq!(both.extra["a"], "2");
        let top = map(&[("queues.yaml", "top")]);
        let all = queues([(defaults, Some(&low)), (theirs, Some(&high)), (ours, Some(&top))]);
        assert_eq!((&*all.yaml, &*all.from), ("top", ours));
    }
}
