//! Gives the library the name that programs are linked to.

/// Debian's soname of libpcap. With it, a program that needs `libpcap.so.0.8` gets this library alone when it
/// is preloaded: the dynamic loader takes it for the one that is needed.
const SONAME: &str = "libpcap.so.0.8";

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    println!("cargo::rerun-if-changed=build.rs");
}
