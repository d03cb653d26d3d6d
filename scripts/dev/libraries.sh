# shellcheck shell=bash
# The libraries as they are installed: libpcap's functions for existing programs, and the engine for C.

PCAP_CRATE=crates/wirecap-pcap

# build_libraries: makes libwirecap_pcap.so, libwirecap.so.0 and wirecap.pc in target/release. Both libraries
# are linked from one archive: optimising it takes minutes.
build_libraries() {
    local out
    out=$(target_dir)/release
    cargo rustc --release --locked -p wirecap-pcap --lib --crate-type staticlib
    link_library "$out/libwirecap_pcap.so" libpcap.so.0.8 "$PCAP_CRATE/libpcap.map"
    link_library "$out/libwirecap.so.0" libwirecap.so.0 "$PCAP_CRATE/wirecap.map"
    ln -sf libwirecap.so.0 "$out/libwirecap.so"
    write_pkg_config "$out/wirecap.pc" "$out" "$PWD/$PCAP_CRATE/include"
}

# link_library FILE SONAME MAP: links FILE from the archive, with the symbols that MAP exports.
link_library() {
    local file=$1 soname=$2 map=$3 archive
    archive=$(target_dir)/release/libwirecap_pcap.a
    cc -shared -o "$file" -Wl,-soname,"$soname" -Wl,--version-script="$map" -Wl,--gc-sections -Wl,--no-undefined \
        -Wl,-z,relro,-z,now -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -lgcc_s -lm -lpthread -ldl -lc
    split_debug "$file"
}

# write_pkg_config FILE LIBDIR INCLUDEDIR
write_pkg_config() {
    sed "s|@PREFIX@|$(dirname "$2")|; s|@LIBDIR@|$2|; s|@INCLUDEDIR@|$3|; s|@VERSION@|$(workspace_version)|" \
        "$PCAP_CRATE/wirecap.pc.in" >"$1"
}
