//! Values that a file of settings has as text, in the form of their flag.

use std::{borrow::Cow, fmt::Display, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// For `#[serde(with = …)]` on an optional value with `FromStr` and `Display`.
pub(crate) mod parsed {
    use super::{Cow, Deserialize, Deserializer, Display, Error, FromStr, Serialize, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
    }
}

/// For `#[serde(with = …)]` on an optional size of a file: a number of bytes, or `512k`, `100M`, `2G`.
pub(crate) mod file_size {
    use super::{Deserialize, Deserializer, Error, Serialize, Serializer};
    use crate::values;

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number of bytes, or a size like \"512k\", \"100M\" or \"2G\"")]
    enum Size {
        Bytes(u64),
        Text(String),
    }

    pub(crate) fn serialize<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        match Size::deserialize(deserializer)? {
            Size::Bytes(bytes) => Ok(Some(bytes)),
            Size::Text(text) => {
                let bytes = values::size_of_file(&text, 1);
                let wrong =
                    || D::Error::custom(format!("{text:?} is no size; write bytes, or 512k, 100M, 2G"));
                bytes.ok_or_else(wrong).map(Some)
            }
        }
    }
}

/// For `#[serde(with = …)]` on an optional length of time: `10s`, `500ms`.
pub(crate) mod time {
    use std::time::Duration;

    use super::{Cow, Deserialize, Deserializer, Error, Serialize, Serializer};
    use crate::values;

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(in_largest_unit).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        values::duration(&Cow::<str>::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
    }

    /// The time in the largest unit that leaves no remainder, as [`values::duration`] parses it.
    pub(super) fn in_largest_unit(time: Duration) -> String {
        let units =
            [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000)];
        let ns = time.as_nanos();
        match units.iter().find(|&&(_, unit_ns)| ns % unit_ns == 0) {
            Some((unit, unit_ns)) => format!("{}{unit}", ns / unit_ns),
            None => format!("{}.{:03}us", ns / 1_000, ns % 1_000),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_time_is_read_back_from_its_text() {
            for text in ["10s", "2m", "1h", "500ms", "1500ms", "20.000us", "0.001us", "90s", "1.500us"] {
                assert_eq!(in_largest_unit(values::duration(text).unwrap()), text);
            }
        }
    }
}
