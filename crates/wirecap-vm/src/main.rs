//! The init and only process of a virtual machine: proves wirecap on drivers that have zero-copy.
//!
//! ```text
//!  vm/guest.sh: kernel, initramfs of this program ─► QEMU: two NICs, joined
//!                                                      │ boot
//!      eth1, the sender ══════════════════════ eth0, captured by the library and by the command
//!        PacketSender, numbered frames                 │
//!                                                      ▼ lines on the serial console, which vm/steps.sh reads
//!      vm: begins
//!      vm: case NAME passed SECONDS
//!      vm: row DRIVER | KERNEL | QUEUES | …            one, at the end
//!      vm: end PASSED of ALL
//! ```
//!
//! **The rule that holds here:** a case passes if it returns and the kernel logs no complaint: a warning, a
//! BUG or an Oops in the kernel's log fails the case in which it happened. A guest that dies, or whose
//! [watchdog] switches it off, prints no `vm: end`, so the whole run fails.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the console is how a guest speaks")]

mod boot;
mod cases;
mod host;
mod kernel_log;
mod ledger;
mod machine;
mod program;
mod qemu;
mod suite;
mod veth;
mod watchdog;

fn main() {
    if std::process::id() != 1 {
        if std::env::args().nth(1).as_deref() == Some("cases") {
            return cases::names().for_each(|name| println!("{name}"));
        }
        eprintln!("wirecap-guest is the init of a virtual machine and nothing else: see ./dev vm");
        std::process::exit(2);
    }
    // The firmware leaves an unfinished line. From `vm: begins` on, vm/guest.sh retries no failed boot.
    println!("\nvm: begins");
    boot::mount_all();
    let plan = boot::Plan::of_kernel_command_line();
    boot::load_modules();
    let machine = machine::Machine::set_up(&plan);
    suite::run(&plan, &machine);
    machine.take_down();
    boot::power_off();
}
