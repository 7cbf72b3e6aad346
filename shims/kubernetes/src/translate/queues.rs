//! The configuration of queues, out of ConfigMaps.

use std::collections::BTreeMap;

use monoceros_actors::config::{self, DEFAULT_PARTITION};

use crate::objects::ConfigMap;

/// The ConfigMaps that are read, each above those before it.
pub const CONFIG_MAPS: [&str; 3] = ["yunikorn-defaults", "yunikorn-configs", "monoceros-configs"];
/// The key of the queues.
pub const QUEUES: &str = "queues.yaml";

/// What ConfigMaps say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// The queues (YAML); empty where none says any.
    pub yaml: String,
    /// The ConfigMap that they are from.
    pub from: String,
    /// Everything else.
    pub extra: BTreeMap<String, String>,
}

impl Queues {
    /// Whether the queues can be read at all and are those of a cluster; else why not, with the line.
    /// A cluster is one partition: without it, every node and pod would be of none.
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

/// What is in force by these ConfigMaps, in the order of [`CONFIG_MAPS`].
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
    fn the_last_map_that_says_something_counts() {
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
