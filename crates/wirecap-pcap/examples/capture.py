# Prints the length and the bytes of packets: python3 capture.py DEVICE.
# Ends with a packet to a MAC address that ends in 99.
import ctypes, sys
pcap = ctypes.CDLL("libpcap.so.0.8")
class Header(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("micros", ctypes.c_long), ("caplen", ctypes.c_uint32), ("len", ctypes.c_uint32)]
pcap.pcap_open_live.restype, error = ctypes.c_void_p, ctypes.create_string_buffer(256)
handle = ctypes.c_void_p(pcap.pcap_open_live(sys.argv[1].encode(), 65535, 1, 100, error))
header, data = ctypes.POINTER(Header)(), ctypes.POINTER(ctypes.c_ubyte)()
if not handle: sys.exit(error.value.decode())
print("ready", file=sys.stderr, flush=True)
while pcap.pcap_next_ex(handle, ctypes.byref(header), ctypes.byref(data)) >= 0 and (not header or data[5] != 0x99):
    if header: print(header.contents.len, bytes(data[:header.contents.caplen]).hex())
