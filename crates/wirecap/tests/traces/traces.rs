//! Real traces: each comes out as the reader reads it, a damaged one up to its damage.

use std::fs;

use wirecap::{PortSpec, report::TraceFailure};

use crate::run::{assert_same, expected, port, setups, to_the_end};

#[test]
fn every_trace_comes_out_as_read_up_to_its_damage() {
    const TEST: &str = "every_trace_comes_out_as_read_up_to_its_damage";
    let Some(paths) = wirecap_lab::trace_files(TEST) else { return };
    let (mut whole, mut damaged, mut mixed) = (0, 0, 0);
    for path in paths {
        let Ok(file) = wirecap_lab::Capture::read(fs::File::open(&path).unwrap()) else { continue };
        let link_type = file.interfaces[0].link_type;
        let ours = file.packets.iter().position(|packet| packet.link_type != link_type);
        let (packets, other) = (&file.packets[..ours.unwrap_or(file.packets.len())], ours.is_some());
        let wanted = expected(packets);
        for (setup, builder) in setups(64, 4) {
            let (got, report) = to_the_end(builder.port(port(&path)).open().unwrap());
            assert_same(&format!("{}, {setup}", path.display()), &got, &wanted);
            let port = &report.ports[0];
            let error = port.error.as_ref().map(ToString::to_string);
            assert_eq!(
                (port.link_type, &port.name),
                (link_type, &PortSpec::Trace { path: path.clone() }.name())
            );
            match &file.damage {
                _ if other => {
                    assert!(matches!(port.error, Some(TraceFailure::LinkTypes { .. })), "{error:?}")
                }
                Some(damage) => assert!(error.unwrap().ends_with(&damage.to_string()), "{:?}", port.error),
                None => assert_eq!(error, None, "{}", path.display()),
            }
        }
        match (file.damage.is_some(), other) {
            (_, true) => mixed += 1,
            (true, false) => damaged += 1,
            (false, false) => whole += 1,
        }
    }
    eprintln!("{whole} whole, {damaged} damaged, {mixed} of several link types");
    assert!(whole > 0, "no trace is whole");
}
