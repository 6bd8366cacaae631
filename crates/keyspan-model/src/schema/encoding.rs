//! How a table's values are written to disk: `WITH encoding = 'small'`.

use serde::{Deserialize, Serialize};

/// Which encoding values get where one is faster to read and another takes less room. It holds for segments that are
/// written from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// What is read fast, unless it takes more than twice the room.
    #[default]
    Fast,
    /// What takes the least room.
    Small,
}

impl Encoding {
    /// The encoding of this name, in any case; `None` if there is none.
    pub fn of_name(name: &str) -> Option<Encoding> {
        let names = [("fast", Encoding::Fast), ("small", Encoding::Small)];
        names.into_iter().find(|(own, _)| name.eq_ignore_ascii_case(own)).map(|(_, encoding)| encoding)
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Encoding::default()
    }
}
