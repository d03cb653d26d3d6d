//! What finding the route of a packet costs. Prints one table; `cargo bench -p wirecap-router`.
//!
//! Routes: 100,000 prefixes of each version with the lengths that are most in the tables of the internet
//! (IPv4: 60 % of 24 bits, IPv6: half of 48 bits, under 25 values of the first 16 bits), 1 Mi destinations
//! within them in no order. *waiting*: each look-up waits for the one before, as nothing does that has a
//! batch of packets.

#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use wirecap_lab::cost::{RUNS, Random, header, row};
use wirecap_router::{Route, Routes};

const PREFIXES: usize = 100_000;

fn main() {
    header();
    routes();
}

fn routes() {
    let mut random = Random(88_172_645_463_325_252);
    let v4 = prefixes(&mut random, prefix_v4);
    let v6 = prefixes(&mut random, prefix_v6);
    let lines = v4.iter().chain(&v6).map(|(address, len)| {
        let (device, router) = (len % 8, len % 16 + 1);
        let via = if address.is_ipv4() { "192.0.2." } else { "2001:db8::" };
        format!("{address}/{len} dev e{device} via {via}{router}\n")
    });
    let text: String = lines.collect();
    let begin = Instant::now();
    let routes: Routes = text.parse().unwrap();
    println!("| all {} lines of routes, read, in ms | {} |", 2 * PREFIXES, begin.elapsed().as_millis());
    for (version, prefixes) in [("IPv4", &v4), ("IPv6", &v6)] {
        let destinations: Vec<IpAddr> = (0..RUNS).map(|_| within(&mut random, prefixes)).collect();
        row(&format!("route, {version}, {PREFIXES} prefixes"), || {
            for destination in &destinations {
                black_box(device(&routes, *destination));
            }
        });
        row(&format!("route, {version}, {PREFIXES} prefixes, waiting"), || {
            let mut last = 0;
            for run in 0..RUNS {
                last = device(&routes, destinations[(run + last % 2) % RUNS]);
            }
            black_box(last);
        });
    }
}

fn device(routes: &Routes, destination: IpAddr) -> usize {
    match routes.to(destination) {
        Some(Route::Via { device, .. }) => *device,
        other => panic!("{destination}: {other:?}"),
    }
}

fn prefixes(random: &mut Random, one: impl Fn(&mut Random) -> (IpAddr, u8)) -> Vec<(IpAddr, u8)> {
    let mut prefixes = BTreeSet::new();
    while prefixes.len() < PREFIXES {
        prefixes.insert(one(random));
    }
    prefixes.into_iter().collect()
}

fn prefix_v4(random: &mut Random) -> (IpAddr, u8) {
    let len = match random.below(100) {
        0..60 => 24,
        60..80 => 22 + random.below(2),
        80..96 => 16 + random.below(6),
        _ => 10 + random.below(6),
    };
    // 16.0.0.0 to 111.255.255.255: nothing that is not forwarded.
    let bits = ((16 + random.below(96)) << 24) + (random.draw() & 0xff_ffff);
    let bits = bits as u32 & (u32::MAX << (32 - len));
    (Ipv4Addr::from_bits(bits).into(), len as u8)
}

fn prefix_v6(random: &mut Random) -> (IpAddr, u8) {
    let len = match random.below(100) {
        0..50 => 48,
        50..70 => 32 + random.below(13),
        70..90 => 32,
        _ => 29 + random.below(20),
    };
    let top = 0x2a00 + random.below(25);
    let bits = u128::from((top << 48) + (random.draw() & 0xffff_ffff_ffff)) << 64;
    (Ipv6Addr::from_bits(bits & (u128::MAX << (128 - len))).into(), len as u8)
}

/// An address in one of the prefixes.
fn within(random: &mut Random, prefixes: &[(IpAddr, u8)]) -> IpAddr {
    let (address, len) = prefixes[random.below(PREFIXES as u64) as usize];
    match address {
        IpAddr::V4(v4) => {
            Ipv4Addr::from_bits(v4.to_bits() | (random.draw() as u32 & (u32::MAX >> len))).into()
        }
        IpAddr::V6(v6) => {
            let host = (u128::from(random.draw()) << 64) | u128::from(random.draw());
            Ipv6Addr::from_bits(v6.to_bits() | (host & (u128::MAX >> len))).into()
        }
    }
}
