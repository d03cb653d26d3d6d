//! What Wireshark reads: sentences of fields in braces, a line each.

use wirecap::{Access, Config, Mode, PoolSize};

/// The program.
pub(super) fn program() -> String {
    format!("extcap {{version={}}}{{display=wirecap}}\n", env!("CARGO_PKG_VERSION"))
}

/// An interface, and how its packets are captured unless it is to be taken.
pub(super) fn interface(value: &str, name: &str, access: Access) -> String {
    let how = match access {
        Access::Tap | Access::Packet => "beside the host",
        Access::Xdp | Access::Auto => "taken from the host",
    };
    format!("interface {{value={}}}{{display=wirecap {}, {how}}}\n", plain(value), plain(name))
}

/// The link type of an interface: all that are listed have Ethernet's.
pub(super) fn link_type() -> String {
    "dlt {number=1}{name=EN10MB}{display=Ethernet}\n".into()
}

/// The settings of the dialogue. The filter is Wireshark's own field.
pub(super) fn settings() -> Vec<String> {
    let usual = Config::default();
    let chunks = match usual.pool_size {
        PoolSize::Chunks(chunks) | PoolSize::AtMost(chunks) => chunks.to_string(),
        PoolSize::Memory(_) => String::new(),
    };
    let threshold = match usual.mode {
        Mode::Advanced { threshold_percent } => threshold_percent,
        Mode::Basic => 100,
    };
    let arguments = [
        format!(
            "{{call=--chunks-per-queue}}{{display=R: chunks per receive queue}}{{type=unsigned}}{{default={chunks}}}\
             {{tooltip=A queue can buffer R x M packets}}{{group=Pool}}"
        ),
        format!(
            "{{call=--cells-per-chunk}}{{display=M: cells per chunk}}{{type=unsigned}}{{default={}}}\
             {{tooltip=A power of two}}{{group=Pool}}",
            usual.cells_per_chunk
        ),
        format!(
            "{{call=--threshold}}{{display=T: threshold in percent}}{{type=unsigned}}{{range=0,100}}{{default={threshold}}}\
             {{tooltip=How full the pools of a worker are when its buddies begin to help}}{{group=Pool}}"
        ),
        "{call=--take}{display=Take the interface from the host}{type=boolflag}{default=false}\
         {tooltip=The host does not see its packets while the capture runs}{group=Capture}"
            .into(),
        "{call=--promiscuous}{display=Packets addressed to other stations, too}{type=boolean}{default=true}{group=Capture}"
            .into(),
        "{call=--snaplen}{display=Bytes kept of each packet, 0 for all}{type=unsigned}{default=0}{group=Capture}".into(),
    ];
    let number = |(number, argument): (usize, String)| format!("arg {{number={number}}}{argument}\n");
    arguments.into_iter().enumerate().map(number).collect()
}

/// A text without the characters that end a field.
fn plain(text: &str) -> String {
    text.replace(['{', '}', '\n'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_balanced_fields() {
        let sentences =
            [vec![program(), interface("wirecap-e}1", "e}1", Access::Tap), link_type()], settings()].concat();
        for sentence in sentences {
            let fields = sentence.trim_end().split_once(' ').unwrap().1;
            let inner =
                fields.strip_prefix('{').and_then(|fields| fields.strip_suffix('}')).expect(&sentence);
            for field in inner.split("}{") {
                assert!(field.contains('=') && !field.contains(['{', '}']), "{sentence}");
            }
        }
    }
}
