//! What looking at and changing a packet costs. Prints one table; `cargo bench -p wirecap-headers`.

use std::hint::black_box;

use wirecap_headers::{Frame, Layout, Rewrite, Side, VecFrame, checksum};
use wirecap_lab::cost::{RUNS, Random, header, row};

fn main() {
    header();
    sums();
    changes();
}

fn sums() {
    let mut random = Random(1);
    let packet: Vec<u8> = (0..1_500).map(|_| random.draw() as u8).collect();
    for len in [20, 64, 1_500] {
        row(&format!("sum of {len} bytes"), || {
            for _ in 0..RUNS {
                black_box(checksum::sum(black_box(&packet[..len])));
            }
        });
    }
}

fn changes() {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    bytes.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0xf6, 0xbb, 192, 0, 2, 1, 192, 0, 2, 2]);
    bytes.extend([0; 26]);
    row("layout, IPv4", || {
        for _ in 0..RUNS {
            black_box(Layout::of(black_box(&bytes)));
        }
    });
    let rewrite = Rewrite {
        vlans: "none=20".parse().unwrap(),
        ttl: "64".parse().unwrap(),
        source: Some("02:00:00:00:00:0a".parse().unwrap()),
        destination: Some("02:00:00:00:00:0b".parse().unwrap()),
    };
    let mut frame = VecFrame::new(&bytes, 4);
    row("VLAN tag written or taken away, TTL and both addresses set", || {
        for run in 0..RUNS {
            let toward = if run % 2 == 0 { Side::B } else { Side::A };
            rewrite.apply(toward, black_box(&mut frame)).unwrap();
        }
    });
    assert_eq!(frame.data().len(), bytes.len());
}
