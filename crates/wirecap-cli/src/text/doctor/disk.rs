//! What `--measure` found.

use wirecap_doctor::snapshot::Disk;

use crate::text::units::byte_rate;

/// The speed of a disk that was measured, beside that of the links.
pub(crate) fn measurement(disk: &Disk, links: Option<u64>) -> Option<String> {
    let speed = byte_rate(disk.bytes_per_second?);
    let way = if disk.takes_direct_io == Some(true) { "past" } else { "through" };
    let links = match links {
        Some(links) => format!("the links bring up to {}", byte_rate(links)),
        None => "the links have no known speed to compare it with".into(),
    };
    Some(format!("{} took {speed} in a test, written {way} the page cache; {links}", disk.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_that_was_measured_is_printed_beside_that_of_the_links() {
        let measured = Disk {
            path: "/data".into(),
            takes_direct_io: Some(true),
            bytes_per_second: Some(812_400_000),
            ..Disk::default()
        };
        assert_eq!(
            measurement(&measured, Some(1_250_000_000)).unwrap(),
            "/data took 812 MB/s in a test, written past the page cache; the links bring up to 1250 MB/s"
        );
        let cached = Disk { takes_direct_io: None, ..measured.clone() };
        assert_eq!(
            measurement(&cached, None).unwrap(),
            "/data took 812 MB/s in a test, written through the page cache; the links have no known speed to compare it with"
        );
        assert_eq!(measurement(&Disk { bytes_per_second: None, ..measured }, None), None);
    }
}
