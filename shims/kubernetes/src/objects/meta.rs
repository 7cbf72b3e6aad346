//! Metadata that all objects have, and quantities.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

/// Quantities by resource name, as the API writes them.
pub type Quantities = BTreeMap<String, Quantity>;

/// The metadata that is read. The rest is skipped: `managedFields` alone is often longer than the
/// object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Known {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<OwnerReference>>,
}

/// Reads the metadata of an object.
pub(super) fn known<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let known = Known::deserialize(from)?;
    Ok(ObjectMeta {
        name: known.name,
        namespace: known.namespace,
        uid: known.uid,
        resource_version: known.resource_version,
        labels: known.labels,
        annotations: known.annotations,
        creation_timestamp: known.creation_timestamp,
        deletion_timestamp: known.deletion_timestamp,
        owner_references: known.owner_references,
        ..ObjectMeta::default()
    })
}

/// Reads `null` as the default, since older clients write it for an empty list.
pub(super) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Names of a kind that is watched.
pub trait Read: Sized {
    /// Name of the kind.
    const KIND: &'static str;
    /// Its API group; empty for the core group.
    const GROUP: &'static str;
    /// The API version that is read.
    const VERSION: &'static str;
    /// Plural name, as used in paths.
    const PLURAL: &'static str;
}

/// Accessors of metadata.
pub trait Meta {
    /// Returns the metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns the name. It is empty only for an object that no API server sent.
    fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace; empty for objects without one.
    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// Returns the UID.
    fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// Returns the value of a label.
    fn label(&self, key: &str) -> Option<&str> {
        Some(self.metadata().labels.as_ref()?.get(key)?.as_str())
    }

    /// Returns the value of an annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        Some(self.metadata().annotations.as_ref()?.get(key)?.as_str())
    }

    /// Returns all labels.
    fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.metadata().labels.as_ref().unwrap_or(&NONE)
    }

    /// Returns whether the object is being deleted.
    fn is_going(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Returns the time of creation, in seconds since the epoch.
    fn created(&self) -> i64 {
        self.metadata().creation_timestamp.as_ref().map_or(0, |time| time.0.as_second())
    }

    /// Returns the owner that controls the object.
    fn controller(&self) -> Option<&OwnerReference> {
        let owners = self.metadata().owner_references.as_deref().unwrap_or_default();
        owners.iter().find(|owner| owner.controller == Some(true))
    }
}

/// Implements the traits that a watched kind needs.
macro_rules! readable {
    ($($kind:ident $name:literal: $group:literal / $version:literal $plural:literal;)*) => {$(
        impl Meta for $kind {
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        }

        impl Read for $kind {
            const KIND: &'static str = $name;
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const PLURAL: &'static str = $plural;
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = kube::core::DynamicResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                Self::KIND.into()
            }
            fn group((): &()) -> Cow<'_, str> {
                Self::GROUP.into()
            }
            fn version((): &()) -> Cow<'_, str> {
                Self::VERSION.into()
            }
            fn plural((): &()) -> Cow<'_, str> {
                Self::PLURAL.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*};
}

use super::{
    ConfigMap, CsiNode, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodGroup, PriorityClass, StorageClass,
};

readable! {
    ConfigMap "ConfigMap": "" / "v1" "configmaps";
    CsiNode "CSINode": "storage.k8s.io" / "v1" "csinodes";
    Namespace "Namespace": "" / "v1" "namespaces";
    Node "Node": "" / "v1" "nodes";
    PersistentVolume "PersistentVolume": "" / "v1" "persistentvolumes";
    PersistentVolumeClaim "PersistentVolumeClaim": "" / "v1" "persistentvolumeclaims";
    Pod "Pod": "" / "v1" "pods";
    PodDisruptionBudget "PodDisruptionBudget": "policy" / "v1" "poddisruptionbudgets";
    PodGroup "PodGroup": "scheduling.k8s.io" / "v1beta1" "podgroups";
    PriorityClass "PriorityClass": "scheduling.k8s.io" / "v1" "priorityclasses";
    StorageClass "StorageClass": "storage.k8s.io" / "v1" "storageclasses";
}

/// Returns the quantity in units of `1 / scale`, rounded up: 1.2 to 2, and -1.5 to -1. Saturates at
/// the bounds of `i64`. `None` if the text is no quantity.
///
/// ```
/// # use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
/// # use monoceros_kubernetes::objects::rounded_up;
/// let quantity = |text: &str| Quantity(text.to_owned());
/// assert_eq!(rounded_up(&quantity("1500m"), 1_000), Some(1_500));
/// assert_eq!(rounded_up(&quantity("1500m"), 1), Some(2));
/// assert_eq!(rounded_up(&quantity("1.5Gi"), 1), Some(1_610_612_736));
/// assert_eq!(rounded_up(&quantity("2e3"), 1), Some(2_000));
/// assert_eq!(rounded_up(&quantity("much"), 1), None);
/// ```
pub fn rounded_up(quantity: &Quantity, scale: i64) -> Option<i64> {
    let text = quantity.0.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let digits = text.bytes().take_while(is_number).count();
    let (number, suffix) = text.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (up, down): (i128, i128) = match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => exponent(suffix)?,
    };
    // A quantity has at most nine decimal places. Further ones only matter for rounding.
    let places = fraction.len().min(9);
    let is_finer = fraction.bytes().skip(places).any(|digit| digit != b'0');
    let Ok(mantissa) = format!("0{whole}{}", &fraction[..places]).parse::<i128>() else {
        return Some(if negative { i64::MIN } else { i64::MAX });
    };
    let ten_to = |exponent: usize| 10_i128.pow(u32::try_from(exponent).unwrap_or(9));
    let upper = mantissa.checked_mul(up).and_then(|product| product.checked_mul(i128::from(scale)));
    let Some(upper) = upper else {
        return Some(if negative { i64::MIN } else { i64::MAX });
    };
    let lower = down * ten_to(places);
    let value = if negative {
        -(upper / lower)
    } else {
        upper / lower + i128::from(is_finer || upper % lower != 0)
    };
    Some(i64::try_from(value).unwrap_or(if negative { i64::MIN } else { i64::MAX }))
}

/// Returns the multiplier and divisor of an exponent such as `e3` or `E-3`.
fn exponent(suffix: &str) -> Option<(i128, i128)> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = digits.parse().ok()?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs().min(24))?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_all_forms_of_quantities() {
        for (text, scale, value) in [
            ("0", 1, Some(0)),
            ("1", 1_000, Some(1_000)),
            ("250m", 1_000, Some(250)),
            ("0.1", 1_000, Some(100)),
            (".5", 1_000, Some(500)),
            ("1n", 1_000, Some(1)),
            ("100u", 1_000, Some(1)),
            ("1k", 1, Some(1_000)),
            ("3M", 1, Some(3_000_000)),
            ("1Ki", 1, Some(1_024)),
            ("128974848", 1, Some(128_974_848)),
            ("129e6", 1, Some(129_000_000)),
            ("123Mi", 1, Some(128_974_848)),
            ("1.0000000001", 1, Some(2)),
            ("8Ei", 1, Some(i64::MAX)),
            ("99999999999999999999999999999999999999999", 1, Some(i64::MAX)),
            ("170141183460469231731687303715884105727n", 1, Some(i64::MAX)),
            ("-1", 1, Some(-1)),
            ("-1500m", 1, Some(-1)),
            ("+5", 1, Some(5)),
            ("", 1, None),
            ("m", 1, None),
            ("1.2.3", 1, None),
            ("1 Gi", 1, None),
            ("1gi", 1, None),
            ("ten", 1, None),
        ] {
            assert_eq!(rounded_up(&Quantity(text.to_owned()), scale), value, "{text}");
        }
    }
}
