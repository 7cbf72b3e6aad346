//! Settings of a dynamic queue from the namespace of an application, sent in the application's
//! tags.
//!
//! Only dynamic leaves use these settings. The last application wins. Quota and guarantee are set
//! together: tags with only one of them remove the other.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//! use monoceros_config::dynamic_queue;
//! use monoceros_config::placement::NamespaceTags;
//! use monoceros_rules::values::resources::NameHolder;
//!
//! let quota = r#"{"resources":{"vcore":{"value":5000}}}"#;
//! let tags = BTreeMap::from([("namespace.resourceQuota".to_owned(), quota.to_owned())]);
//! let (said, warnings) = NamespaceTags::read(&Arc::new(tags.into()), &NameHolder::default());
//! assert!(warnings.is_empty());
//! let queue = said.changed(&dynamic_queue("root.team", true, None)).unwrap();
//! assert_eq!(queue.max.unwrap().to_string(), "map[vcore:5000]");
//! ```

use serde_json::Value;

use super::tag;
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::names::shown;
use monoceros_rules::values::resources::{Limits, NameHolder, Resources};

const QUOTA: &str = "namespace.resourcequota";
const GUARANTEED: &str = "namespace.resourceguaranteed";
const MAX_APPLICATIONS: &str = "namespace.resourcemaxapps";

/// The names of the tags with settings of a dynamic queue, in lower case.
pub const NAMESPACE_TAGS: [&str; 3] = [QUOTA, GUARANTEED, MAX_APPLICATIONS];

/// The settings in the tags; empty if they are missing or cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceTags {
    max: Option<Limits>,
    guaranteed: Option<Resources>,
    /// 0 means that the tag is absent.
    max_applications: u64,
}

impl NamespaceTags {
    /// Reads the tags. The second result lists the ignored tags with the reasons. `names` holds the
    /// resource types.
    pub fn read(tags: &Tags, names: &NameHolder) -> (Self, Vec<String>) {
        let mut warnings = Vec::new();
        let mut amount = |name| {
            let text = tag(tags.iter(), name)?;
            let read = resources(text, names);
            read.map_err(|why| warnings.push(format!("tag `{name}` is ignored: {why}"))).ok()
        };
        let (max, guaranteed) = (amount(QUOTA).map(Limits::from), amount(GUARANTEED));
        let max_applications = tag(tags.iter(), MAX_APPLICATIONS).map_or(0, |text| {
            let count = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok());
            count.flatten().unwrap_or_else(|| {
                let why = format!("`{}` is not a number of applications", shown(text));
                warnings.push(format!("tag `{MAX_APPLICATIONS}` is ignored: {why}"));
                0
            })
        });
        (Self { max, guaranteed, max_applications }, warnings)
    }

    /// Applies the settings to a queue. `None` if nothing changes, or if the queue is not a dynamic
    /// leaf.
    pub fn changed(&self, queue: &QueueConfig) -> Option<QueueConfig> {
        if !queue.is_dynamic || !queue.is_leaf || queue.is_recovery() {
            return None;
        }
        let mut changed = queue.clone();
        if self.max_applications != 0 {
            changed.max_applications = self.max_applications;
        }
        if self.max.is_some() || self.guaranteed.is_some() {
            changed.max.clone_from(&self.max);
            changed.guaranteed.clone_from(&self.guaranteed);
        }
        (changed != *queue).then_some(changed)
    }
}

/// Reads the wire form as JSON: `{"resources": {"vcore": {"value": 5000}}}`. Unknown keys are
/// ignored; if a key occurs twice, the last one counts.
fn resources(text: &str, names: &NameHolder) -> Result<Resources, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|why| format!("it is not JSON: {why}"))?;
    let mut amounts = Resources::new();
    match value.get("resources") {
        None | Some(Value::Null) => {}
        Some(Value::Object(members)) => {
            for (name, quantity) in members {
                let wrong = |why: &str| format!("`{name}` {why}");
                let amount = match quantity {
                    Value::Object(quantity) => match quantity.get("value") {
                        None => 0,
                        Some(value) => {
                            value.as_i64().ok_or_else(|| wrong("is not a whole number"))?
                        }
                    },
                    _ => return Err(wrong("is not a quantity")),
                };
                let name = names.hold(name).map_err(|why| why.to_string())?;
                amounts.set(name, amount);
            }
        }
        Some(_) => return Err("`resources` is not a map".to_owned()),
    }
    if amounts.is_positive() {
        Ok(amounts)
    } else {
        Err("it holds nothing above zero, or something below".to_owned())
    }
}
