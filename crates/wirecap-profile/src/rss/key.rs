//! The key of the hash.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// The key of Microsoft's verification suite, which many drivers had as their default.
const MICROSOFT: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Bytes that repeat with a period of 16 bits hash both directions of a connection alike (Woo and Park 2012).
const SYMMETRIC: [u8; 2] = [0x6d, 0x5a];

/// Keys of NICs: 40 bytes for the longest input, 52 in Intel's newer ones.
const LENGTHS: std::ops::RangeInclusive<usize> = 40..=256;

/// The key of the Toeplitz hash: at least 40 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RssKey(Vec<u8>);

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// It is not hexadecimal.
    #[error(
        "a key is hexadecimal, two digits for each byte: copy it from ethtool -x, or write microsoft or symmetric"
    )]
    NotHex,
    /// It has the wrong length.
    #[error(
        "the key has {0} bytes, and NICs have keys of 40 or more (at most 256): copy it from ethtool -x, or write microsoft or symmetric"
    )]
    Length(usize),
}

impl RssKey {
    /// The key with which both directions of a connection have the same hash.
    pub fn symmetric() -> Self {
        Self(SYMMETRIC.repeat(20))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Default for RssKey {
    /// The key of Microsoft's verification suite.
    fn default() -> Self {
        Self(MICROSOFT.into())
    }
}

/// `microsoft`, `symmetric`, or hexadecimal digits, with a colon between bytes as ethtool prints them.
impl FromStr for RssKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text {
            "microsoft" => return Ok(Self::default()),
            "symmetric" => return Ok(Self::symmetric()),
            _ => {}
        }
        let digits: Vec<u8> = match text.contains(':') {
            true if text.split(':').any(|byte| byte.len() != 2) => return Err(KeyError::NotHex),
            _ => text.bytes().filter(|&digit| digit != b':').collect(),
        };
        let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let byte = |pair: &[u8]| match pair {
            &[high, low] => Some(value(high)? << 4 | value(low)?),
            _ => None,
        };
        let bytes: Vec<u8> = digits.chunks(2).map(byte).collect::<Option<_>>().ok_or(KeyError::NotHex)?;
        if LENGTHS.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(KeyError::Length(bytes.len())) }
    }
}

impl fmt::Display for RssKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return formatter.write_str("microsoft");
        }
        if *self == Self::symmetric() {
            return formatter.write_str("symmetric");
        }
        let bytes: Vec<_> = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        formatter.write_str(&bytes.join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_ethtool_prints_them() {
        let text: Vec<_> = (0..52).map(|byte| format!("{byte:02x}")).collect();
        let key: RssKey = text.join(":").parse().unwrap();
        assert_eq!(key.bytes(), (0..52).collect::<Vec<u8>>());
        assert_eq!(text.concat().to_uppercase().parse(), Ok(key.clone()));
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(
            ("microsoft".parse(), "symmetric".parse()),
            (Ok(RssKey::default()), Ok(RssKey::symmetric()))
        );
        assert_eq!((RssKey::default().to_string(), RssKey::symmetric().to_string()).0, "microsoft");
        assert_eq!("6d:5a".parse::<RssKey>(), Err(KeyError::Length(2)));
        assert_eq!("ab".repeat(257).parse::<RssKey>(), Err(KeyError::Length(257)));
        for bad in ["key", "6d5", "6d::5a", "6:d5:a", "é", ":"] {
            assert_eq!(bad.parse::<RssKey>(), Err(KeyError::NotHex), "{bad}");
        }
    }
}
