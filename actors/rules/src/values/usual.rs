//! Usual values: what the serialized form of an entry leaves out, since there may be a hundred
//! thousand of its kind.
//!
//! For a field, `#[serde(default, skip_serializing_if = "is_usual")]`.

/// Whether this is the default value of its type.
///
/// ```
/// use monoceros_rules::values::usual::is_usual;
/// assert!(is_usual(&0) && !is_usual(&true));
/// ```
pub fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
