//! Maps of shared definitions in serde: `Arc<V>` is written as `V`.
//!
//! serde's own feature for this (`rc`) would rebuild every dependency that uses serde, DataFusion among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes the map as one of plain values.
pub(crate) fn serialize<K, V, S>(map: &BTreeMap<K, Arc<V>>, serializer: S) -> Result<S::Ok, S::Error>
where
    K: Serialize,
    V: Serialize,
    S: Serializer,
{
    serializer.collect_map(map.iter().map(|(key, value)| (key, value.as_ref())))
}

/// Reads a map of plain values.
pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, Arc<V>>, D::Error>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let plain = BTreeMap::<K, V>::deserialize(deserializer)?;
    Ok(plain.into_iter().map(|(key, value)| (key, Arc::new(value))).collect())
}
