//! The interrupts of an interface, and the processors that serve them.

use std::collections::BTreeMap;

use super::files::{Files, list};
use crate::snapshot::Interrupt;

pub(super) fn read(files: &Files, interface: &str) -> Vec<Interrupt> {
    let names = names(&files.text("/proc/interrupts").unwrap_or_default());
    let device = format!("/sys/class/net/{interface}/device");
    // The device of virtio-net is one of a PCI device, which has the interrupts.
    let own = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
        .iter()
        .map(|directory| files.numbered(directory, ""))
        .find(|numbers| !numbers.is_empty());
    let by_name = || {
        let is_named = |(number, name): (&u32, &String)| is_of(name, interface).then_some(*number);
        names.iter().filter_map(is_named).collect()
    };
    let numbers: Vec<u32> = own.unwrap_or_else(by_name);
    let read = |number: u32| {
        let file = |name: &str| files.text(&format!("/proc/irq/{number}/{name}"));
        Some(Interrupt {
            number,
            name: names.get(&number)?.clone(),
            cpus: list(&file("effective_affinity_list")?),
            mask: file("smp_affinity")?,
        })
    };
    numbers.into_iter().filter_map(read).collect()
}

/// The names in `/proc/interrupts`, by number.
fn names(text: &str) -> BTreeMap<u32, String> {
    let name = |line: &str| {
        let (number, rest) = line.trim_start().split_once(':')?;
        Some((number.parse().ok()?, rest.split_whitespace().last()?.to_owned()))
    };
    text.lines().filter_map(name).collect()
}

/// Whether a name has the name of the interface as one of its parts: `eth1-TxRx-0` of `eth1`, not of `eth11`.
fn is_of(name: &str, interface: &str) -> bool {
    let is_edge = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_ascii_alphanumeric());
    name.match_indices(interface).any(|(at, _)| {
        let (before, after) = (&name[..at], &name[at + interface.len()..]);
        is_edge(before.chars().next_back()) && is_edge(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::files::tests::root;

    const INTERRUPTS: &str = "           CPU0       CPU1
 37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0       4946 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 60:          5          0 PCI-MSIX-0000:00:04.0   1-edge      eth1-TxRx-0
 61:          5          0 PCI-MSIX-0000:00:05.0   1-edge      eth11-TxRx-0
NMI:          0          0   Non-maskable interrupts
";

    #[test]
    fn interrupts_are_those_of_the_device_or_of_the_name() {
        let (_directory, files) = root(&[
            ("/proc/interrupts", INTERRUPTS),
            ("/sys/class/net/eth0/device/msi_irqs/38", "msix"),
            ("/proc/irq/38/effective_affinity_list", "1\n"),
            ("/proc/irq/38/smp_affinity", "3\n"),
            ("/proc/irq/60/effective_affinity_list", "0\n"),
            ("/proc/irq/60/smp_affinity", "1\n"),
        ]);
        let expected =
            Interrupt { number: 38, name: "virtio2-input.0".into(), cpus: vec![1], mask: "3".into() };
        assert_eq!(read(&files, "eth0"), [expected]);
        let of_name = read(&files, "eth1");
        assert_eq!((of_name.len(), of_name[0].number, &of_name[0].cpus[..]), (1, 60, &[0][..]));
        assert_eq!(read(&files, "eth2"), []);
    }
}
