//! How a running capture is reached, watched and supervised.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use super::text;

/// The longest name of a capture.
const MAX_NAME: usize = 64;

/// How a running capture is reached, watched and supervised.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServiceSettings {
    /// The name of the capture, for `wirecap status` and others.
    #[serde(with = "text::parsed")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) name: Option<CaptureName>,
    /// The control socket, or `off`. `None`: the usual one.
    #[serde(with = "text::parsed")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) control: Option<SocketChoice>,
    /// Where metrics are served: a port, `ADDRESS:PORT` or `unix:PATH`.
    #[serde(with = "text::parsed")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) metrics: Option<MetricsAddress>,
}

impl ServiceSettings {
    /// Whether clients are served.
    pub(crate) fn is_served(&self) -> bool {
        self.control != Some(SocketChoice::Off) || self.metrics.is_some()
    }
}

/// The name of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CaptureName(String);

impl CaptureName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CaptureName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for CaptureName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let is_number = text.bytes().all(|letter| letter.is_ascii_digit());
        if is_number
            || text.len() > MAX_NAME
            || !text.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        {
            return Err(format!(
                "write a name of at most {MAX_NAME} characters that begins with a letter or digit and is not a number, like uplink"
            ));
        }
        if !text.chars().all(is_allowed) {
            return Err("write a name of letters, digits and . _ - like uplink".into());
        }
        Ok(Self(text.into()))
    }
}

/// Where the control socket is, if not in its usual place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SocketChoice {
    /// Nowhere.
    Off,
    /// There; an error if it cannot be made.
    At(PathBuf),
}

impl fmt::Display for SocketChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketChoice::Off => formatter.write_str("off"),
            SocketChoice::At(path) => path.display().fmt(formatter),
        }
    }
}

impl FromStr for SocketChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(SocketChoice::Off),
            // A word may be a mistyped `off`.
            path if path.contains('/') => Ok(SocketChoice::At(path.into())),
            _ => Err("write the path of a socket with its directory, like ./control.sock, or off".into()),
        }
    }
}

/// Where metrics are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MetricsAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsAddress::Tcp(address) => address.fmt(formatter),
            MetricsAddress::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXAMPLES: &str = "write a loopback port, like 9417, an address and a port, like 192.0.2.1:9417 or \
                                [::]:9417, or a socket, like unix:/run/wirecap/metrics.sock";
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(EXAMPLES.into())
            } else {
                Ok(MetricsAddress::Unix(path.into()))
            };
        }
        if let Ok(port) = text.parse::<u16>() {
            // Loopback only: wider access needs an explicit address.
            return Ok(MetricsAddress::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        text.parse().map(MetricsAddress::Tcp).map_err(|_| EXAMPLES.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word_that_is_no_process_id_and_no_path() {
        for name in ["uplink", "eth1.100", "a", "4uplinks", "x_y-z"] {
            assert_eq!(name.parse::<CaptureName>().unwrap().as_str(), name);
        }
        for name in ["", "4711", "a/b", "-x", ".x", "a b", "käse", &"x".repeat(65)] {
            assert!(name.parse::<CaptureName>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_port_alone_is_of_this_machine() {
        let tcp = |text: &str| MetricsAddress::Tcp(text.parse().unwrap());
        for (text, expected) in [
            ("9417", tcp("127.0.0.1:9417")),
            ("192.0.2.1:80", tcp("192.0.2.1:80")),
            ("[::]:9417", tcp("[::]:9417")),
            ("unix:/a/b", MetricsAddress::Unix("/a/b".into())),
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()));
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
        for text in ["", ":9417", "localhost:9417", "70000", "unix:", "192.0.2.1"] {
            assert!(text.parse::<MetricsAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_socket_has_a_directory_or_is_off() {
        assert_eq!("off".parse(), Ok(SocketChoice::Off));
        assert_eq!("./x".parse(), Ok(SocketChoice::At("./x".into())));
        assert!("of".parse::<SocketChoice>().is_err() && "".parse::<SocketChoice>().is_err());
    }
}
