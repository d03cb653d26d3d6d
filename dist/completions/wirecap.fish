# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_wirecap_global_optspecs
    string join \n h/help V/version
end

function __fish_wirecap_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_wirecap_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_wirecap_using_subcommand
    set -l cmd (__fish_wirecap_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c wirecap -n "__fish_wirecap_needs_command" -s h -l help -d 'Print help'
complete -c wirecap -n "__fish_wirecap_needs_command" -s V -l version -d 'Print version'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "status" -d 'List the captures that run, or print the account of one'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "top" -d 'Show a capture live in the terminal: rates, pools, losses, helping workers, talkers'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "stop" -d 'End a capture as SIGINT does, wait until it has ended, and print how it ended'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "rotate" -d 'Begin the next file of a capture that writes a series (-C, -G)'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "set" -d 'Change settings of a capture that runs'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "size" -d 'Compute how large pools have to be for some traffic, by simulation'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "capture" -d 'Capture every packet of one or more interfaces or trace files, into a file or only counted'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "forward" -d 'Forward every packet between two interfaces, in both directions, as a cable would'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "generate" -d 'Generate traffic: numbered frames, which `capture --verify` at the other end checks'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "replay" -d 'Send trace files from an interface, at the recorded speed or any other'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "profile" -d 'Profile the receive queues: packets of each in bins of time, and how uneven they are'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "handle" -d 'Handle packets as a slow application does: a filter N times for each, or a given pace'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "run" -d 'Run a program that captures by libpcap, unchanged, with the engine in libpcap\'s place'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "extcap" -d 'Answer Wireshark and tshark, which run this command through a link to it'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "interfaces" -d 'List the interfaces: queues, speed, what XDP can do, and which programs are attached'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "doctor" -d 'Examine the settings of this machine that cost packets, and change them if asked'
complete -c wirecap -n "__fish_wirecap_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c wirecap -n "__fish_wirecap_using_subcommand status" -l json -d 'Print JSON: the account as the capture prints it with --json, or without CAPTURE an array of all captures'
complete -c wirecap -n "__fish_wirecap_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand top" -l interval -d 'The interval between updates: 100ms to 1m' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand stop" -l timeout -d 'Wait at most this long until everything is written, then exit with code 1; the capture still ends [default: no limit]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand rotate" -l timeout -d 'Wait at most this long until the old file is complete, then exit with code 1; the next file still begins [default: no limit]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand rotate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand set" -s T -d 'T: how full, in percent, a worker\'s pools are when its buddies begin to help' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand set" -l duration -d 'Stop this long after the start of the capture; at once if that time has passed' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -l queues -d 'Receive queues; each has a worker' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -l rate -d 'Rate of all queues together: of a link, 10Gbit, or of packets, 5Mpps' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -l packet -d 'Length of packets, with FCS; on the wire, each takes 20 bytes more' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -l burst -d 'How long packets come at this rate [default: always]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -l worker -d 'Packets per second that a worker handles: 500k, 2Mpps' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -l skew -d 'How many times the mean the busiest queue gets: from 1, all alike, to the number of queues, all in one' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -l dispatch -d 'How chunks get from rings to workers, as with wirecap capture [default: pull]' -r -f -a "push\t'Capture threads hand chunks to workers'
pull\t'The workers drain their own receive queues'"
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -s M -d 'M, cells per chunk: a power of two' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -l json -d 'Print one JSON object'
complete -c wirecap -n "__fish_wirecap_using_subcommand size" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s f -l filter -d 'The filter, if it could be mistaken for an interface or a flag' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s F -l filter-file -d 'Read the filter from FILE, where # begins a comment' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s Q -l direction -d 'Capture only packets that come in, or that leave: the same as the filter inbound or outbound' -r -f -a "in\t'Packets that come in'
out\t'Packets that leave'
inout\t'Both'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l unmatched -d 'What becomes of packets that do not match the filter, on interfaces taken from the host [default: pass, where the filter runs in the kernel]' -r -f -a "pass\t'The host gets them'
drop\t'They are dropped'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l config -d 'Read settings from FILE (TOML); flags override them. The book lists the keys' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s w -l write -d 'Write the packets to FILE.pcapng, FILE.pcap, a named pipe, or - (pcapng on standard output); without it they are only counted' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s s -l snaplen -d 'Keep at most this many bytes of each packet in the file; 0 keeps all [default: 0]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l file-mode -d 'Permissions of the file, as for chmod [default: 0640 less the umask, or those of the file that it replaces]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s C -l rotate-size -d 'Begin a new file before one has more than this: 100 (million bytes), 512k, 2G. -w x.pcapng gives x_00001.pcapng, x_00002.pcapng, ...' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s G -l rotate-time -d 'Begin a new file each time this has passed, by the times of packets: 60, 10m, 1h. The name may say when, in the local time: -w %Y-%m-%d_%H%M%S.pcapng (man strftime); else files are numbered' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s W -l rotate-files -d 'With -C, keep the last N files: file N+1 replaces the first, also over restarts. With -G, stop after N files' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s z -l rotate-command -d 'Run COMMAND FILE, without a shell, for each file of -C and -G that is complete: gzip' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l copy-to -d 'Send a copy of each packet by this interface, for a program that captures at its other end (a veth), or beside -w into a named pipe, by its path: ./pipe. What they do not accept in time is counted, and never delays the capture' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s c -l count -d 'Stop after N packets (10k, 5M and 1G are thousands, millions, billions): the file has exactly N. Without -w, packets that the workers already hold are counted, too' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l duration -d 'Stop after this time: 10 or 10s, 500ms, 2m, 1h' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s a -l autostop -d 'Stop, as with dumpcap: -a duration:60, filesize:100000 (kB), files:10 (of a series), packets:1000' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s b -l ring-buffer -d 'Begin the next file, as with dumpcap: -b duration:60, filesize:100000 (kB), packets:1000. With -b files:10, the last ten are kept and older ones deleted' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s M -d 'M, cells per chunk: a power of two [default: 256]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s R -d 'R, chunks per receive queue. A queue can buffer R x M packets [default: 128, or fewer, so that all queues together take at most an eighth of the available memory]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l memory -d 'Memory for the cells of all receive queues together, which determines R: 512M, 2G' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s B -d 'The same in MiB, as with dumpcap: -B 512' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l cell-bytes -d 'Size of a cell: 2048 or 4096. Larger packets take several cells [default: 2048]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l ring -d 'Entries of the kernel\'s rings, a power of two [default: as many as the pool has cells]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s T -d 'T: how full, in percent, a worker\'s pools are when its buddies begin to help (advanced mode) [default: 60]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l mode -d 'Whether workers help each other [default: advanced]' -r -f -a "basic\t'Each receive queue is on its own'
advanced\t'Over T, a worker\'s buddies help'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l dispatch -d 'How chunks get from receive queues to workers [default: pull]' -r -f -a "push\t'Capture threads hand chunks to workers'
pull\t'The workers drain their own receive queues'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l capture-threads -d 'Number of capture threads (push) [default: 1]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l capture-cores -d 'Cores to pin the capture threads to (push), in turn [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l workers -d 'Number of workers [default: one per receive queue, at most one per core]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l cores -d 'Cores to pin the workers to, in turn: 0,2-3 [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l wait -d 'What idle workers do [default: sleep]' -r -f -a "busy\t'Ask again at once; costs a core per thread, also in silence'
sleep\t'Sleep, shorter than the pool could fill up'
block\t'Sleep in the kernel until a packet comes'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l xdp-mode -d 'How to attach to the interfaces [default: best]' -r -f -a "best\t'The best that works: zero-copy, packed, copy, generic'
zero-copy\t'The driver writes into the cells; else an error'
packed\t'Native XDP: the program packs packets into blocks, one behind the other'
copy\t'Native XDP, with one copy by the kernel'
generic\t'Works with every driver, slowly'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l timestamp -d 'Source of the packets\' timestamps [default: kernel with -w or --verify, on passive ports, and where packets are packed; batch otherwise]' -r -f -a "hardware\t'The NIC stamps each packet, where its driver offers that to XDP; else an error'
kernel\t'The XDP program stamps each packet, at some 50 ns each'
batch\t'One time for all packets that one look finds; cheapest. The end says how far off it was'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l rss -d 'How the NIC spreads packets over its receive queues during the capture [default: keep]' -r -f -a "keep\t'As it is set'
symmetric\t'Both directions of a connection to one queue; put back at the end'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l fanout -d 'How to spread packets over the workers when capturing passively [default: by core where the interface is tapped, else hash]. With several workers, hash and queue exclude taps' -r -f -a "hash\t'By flow: both directions of a connection go to one worker'
queue\t'By receive queue of the NIC'
cpu\t'By core on which they came in'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l tap-hook -d 'Where a tap copies packets that come in [default: tcx]. With xdp, the interface can have no second such tap and no capture over AF_XDP at the same time' -r -f -a "tcx\t'In traffic control, where every device has its packets; nothing changes for the host'
xdp\t'In native XDP, before the kernel makes socket buffers of them: faster'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l expect -d 'Frames in each run; those missing at its start or end then count as lost' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s Z -l relinquish-privileges -d 'Become USER once everything is open; only root can. Files are opened with the permissions of USER, and belong to USER' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l stats -d 'Print the statistics so far on standard error at this interval: 10s, 1m. With --json, print the account so far as one JSON object on one line, to the stream that gets the account at the end' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l log -d 'How messages are written on standard error [default: text]' -r -f -a "text\t'A line of text; in the journal, with its level'
json\t'A JSON object on one line: time, level, code and text'"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l name -d 'A name for wirecap status, stop, rotate and set, instead of the process id' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l control -d 'The socket by which wirecap status, stop, rotate and set reach the capture, or off [default: /run/wirecap/PID.sock as root, $XDG_RUNTIME_DIR/wirecap/PID.sock as another user]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l metrics -d 'Serve metrics for Prometheus (OpenMetrics) over HTTP: on a port of the loopback interface, like 9417, on ADDRESS:PORT, or on unix:PATH' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s i -l interface -d 'Interfaces in another form, as with tcpdump: the words that are no flags are the filter then' -r -f -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s D -l list-interfaces -d 'List the interfaces and exit, as wirecap interfaces does'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l print-config -d 'Print the settings in force, as --config reads them, check them, and exit: with code 2 if something is wrong with them. What depends on this machine, such as its interfaces, is not checked'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l direct-io -d 'Write the file past the page cache (O_DIRECT): for long captures that are as fast as the disk'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l in-place -d 'Write FILE from the start under its own name, over a file that exists. Without it, it is FILE.partial until it is complete'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l file-per-queue -d 'Write a file for each receive queue, in the order of the queue, from a thread of its own: -w x.pcapng gives x.0.pcapng, x.1.pcapng, and with several interfaces x.eth1.0.pcapng'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l print -d 'Print a line for each packet; tcpdump prints it. With -w, packets that tcpdump reads too slowly are written but not printed'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l require-zero-copy -d 'Fail where packets would be copied; the same as --xdp-mode zero-copy'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s p -l no-promiscuous -d 'Do not capture packets addressed to other stations'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s n -d 'Accepted as a habit: names are never looked up'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s U -d 'Accepted as a habit: packets are always written at once'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s l -d 'Accepted as a habit: lines are always printed at once'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l verify -d 'Report what became of frames of `wirecap generate`: lost, duplicated, reordered, and how long they took. Exit with code 1 if frames were lost or duplicated, or none arrived'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l no-sandbox -d 'Keep all privileges. By default, once everything is open, each thread gives up the capabilities, system calls and files that it does not need'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l json -d 'Print the account as one JSON object, as the last line of standard output (of standard error with -w -)'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -l fail-on-loss -d 'Exit with code 3 if packets were lost and nothing else failed'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s q -l quiet -d 'Print only errors, losses, and what --json or --stats ask for'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l pass -d 'Forward only packets that match this tcpdump filter; drop all others' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l drop -d 'Drop packets that match this tcpdump filter' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l on-full -d 'What to do with a packet for which the other port\'s ring has no room [default: wait]' -r -f -a "wait\t'Wait for room, while the pools buffer packets'
drop\t'Drop and count it'"
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l vlan -d 'Translate VLANs, in pairs of the first and the second interface: 10=20,none=30,40=none' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l ttl -d 'What becomes of the TTL of IPv4 and the hop limit of IPv6: keep, decrement, or 1 to 255. Packets whose TTL expires are dropped [default: keep, with --route decrement]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l route -d 'Be a small router: send each packet by the longest prefix in FILE that contains its destination. The lines are like those of ip route: 10.0.0.0/8 dev eth2 via 192.0.2.1' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l set-source -d 'Set the source Ethernet address of packets that leave by IFACE' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l set-destination -d 'Set the destination Ethernet address of packets that leave by IFACE' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l checksums -d 'Whether to complete checksums that the sender left to its NIC, as hosts behind veth and virtio interfaces do [default: auto]' -r -f -a "auto\t'Complete them on veth and virtio, where a sender may have left them; leave packets of NICs'
keep\t'Change nothing'
complete\t'Complete them on every port'"
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l config -d 'Read settings from FILE (TOML); flags override them. The book lists the keys' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s s -l snaplen -d 'Keep at most this many bytes of each packet in the file; 0 keeps all [default: 0]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l file-mode -d 'Permissions of the file, as for chmod [default: 0640 less the umask, or those of the file that it replaces]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s C -l rotate-size -d 'Begin a new file before one has more than this: 100 (million bytes), 512k, 2G. -w x.pcapng gives x_00001.pcapng, x_00002.pcapng, ...' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s G -l rotate-time -d 'Begin a new file each time this has passed, by the times of packets: 60, 10m, 1h. The name may say when, in the local time: -w %Y-%m-%d_%H%M%S.pcapng (man strftime); else files are numbered' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s W -l rotate-files -d 'With -C, keep the last N files: file N+1 replaces the first, also over restarts. With -G, stop after N files' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s z -l rotate-command -d 'Run COMMAND FILE, without a shell, for each file of -C and -G that is complete: gzip' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l duration -d 'Stop after this time: 10 or 10s, 500ms, 2m, 1h' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s M -d 'M, cells per chunk: a power of two [default: 256]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l memory -d 'Memory for the cells of all receive queues together, which determines R: 512M, 2G' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s B -d 'The same in MiB, as with dumpcap: -B 512' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l cell-bytes -d 'Size of a cell: 2048 or 4096. Larger packets take several cells [default: 2048]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l transmit-ring -d 'Entries of each transmit ring, a power of two [default: 2048]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l cores -d 'Cores to pin the workers to, in turn: 0,2-3 [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l xdp-mode -d 'How to attach to the interfaces [default: best]' -r -f -a "best\t'The best that works: zero-copy, packed, copy, generic'
zero-copy\t'The driver writes into the cells; else an error'
packed\t'Native XDP: the program packs packets into blocks, one behind the other'
copy\t'Native XDP, with one copy by the kernel'
generic\t'Works with every driver, slowly'"
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s Z -l relinquish-privileges -d 'Become USER once everything is open; only root can. Files are opened with the permissions of USER, and belong to USER' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l stats -d 'Print the statistics so far on standard error at this interval: 10s, 1m. With --json, print the account so far as one JSON object on one line, to the stream that gets the account at the end' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l log -d 'How messages are written on standard error [default: text]' -r -f -a "text\t'A line of text; in the journal, with its level'
json\t'A JSON object on one line: time, level, code and text'"
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l name -d 'A name for wirecap status, stop, rotate and set, instead of the process id' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l control -d 'The socket by which wirecap status, stop, rotate and set reach the capture, or off [default: /run/wirecap/PID.sock as root, $XDG_RUNTIME_DIR/wirecap/PID.sock as another user]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l metrics -d 'Serve metrics for Prometheus (OpenMetrics) over HTTP: on a port of the loopback interface, like 9417, on ADDRESS:PORT, or on unix:PATH' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s w -l write -d 'Also write all received packets to FILE.pcapng, FILE.pcap, a named pipe, or -' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s R -d 'R, chunks per receive queue. A queue can buffer R x M packets [default: 32, or fewer, so that all queues together take at most an eighth of the available memory]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l workers -d 'Number of workers, at most as many as each interface has receive queues [default: that number, at most one per core]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l wait -d 'What idle workers do [default: block]' -r -f -a "busy\t'Ask again at once; costs a core per thread, also in silence'
sleep\t'Sleep, shorter than the pool could fill up'
block\t'Sleep in the kernel until a packet comes'"
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l timestamp -d 'Source of the packets\' timestamps, from which the latency is measured, too [default: kernel with -w, else batch]' -r -f -a "hardware\t'The NIC stamps each packet, where its driver offers that to XDP; else an error'
kernel\t'The XDP program stamps each packet, at some 50 ns each'
batch\t'One time for all packets that one look finds; cheapest. The end says how far off it was'"
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l print-config -d 'Print the settings in force, as --config reads them, check them, and exit: with code 2 if something is wrong with them. What depends on this machine, such as its interfaces, is not checked'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l direct-io -d 'Write the file past the page cache (O_DIRECT): for long captures that are as fast as the disk'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l in-place -d 'Write FILE from the start under its own name, over a file that exists. Without it, it is FILE.partial until it is complete'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l require-zero-copy -d 'Fail where packets would be copied; the same as --xdp-mode zero-copy'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l no-sandbox -d 'Keep all privileges. By default, once everything is open, each thread gives up the capabilities, system calls and files that it does not need'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l json -d 'Print the account as one JSON object, as the last line of standard output (of standard error with -w -)'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -l fail-on-loss -d 'Exit with code 3 if packets were lost and nothing else failed'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s q -l quiet -d 'Print only errors, losses, and what --json or --stats ask for'
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l engine -d 'How frames are sent' -r -f -a "xdp\t'AF_XDP transmit: any interface, any queues, all kinds of frames'
live\t'Live frames of the kernel, much faster on virtual interfaces: UDP of one size, queues by core'"
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l size -d 'Size of frames with FCS: 64, imix (7 of 64, 4 of 594 and 1 of 1518 bytes), or a mix like 64:7,594:4,1518:1 [default: 64, or the smallest size with room for the headers]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l flows -d 'Number of flows, which differ in source address and port' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l popularity -d 'Which flow is next: round-robin, uniform (random, equally likely), zipf or zipf:1.2 (few large flows, many small ones)' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l seed -d 'Seed of random choices: the same seed gives the same frames' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l ip -d 'IP version' -r -f -a "4\t'IPv4'
6\t'IPv6'"
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l protocol -d 'Transport protocol' -r -f -a "udp\t'UDP'
tcp\t'TCP: data segments, without a handshake'"
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l vlan -d 'VLAN tag of the frames: 0 to 4094' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l destination-mac -d 'Destination MAC address, by which switches forward' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l source-mac -d 'Source MAC address [default: that of the interface]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l run -d 'Number of the run, which each frame contains: 0 to 65535 [default: random]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l rate -d 'Rate: 500k or 1.5Mpps (packets per second), 2Gbps (bits of frames with FCS), 80% (of the capacity of the link, with preambles and gaps) [default: as fast as possible]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l link-speed -d 'Speed of the link to which percentages refer: 10G [default: that of the interface]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l burst -d 'Frames per burst; a gap follows each' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l gap -d 'Time from the end of a burst to the start of the next: 50us, 10ms, 1s' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l queue-share -d 'Share of each transmit queue, starting with queue 0 or the first named one: 80,20,20' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -s c -l count -d 'Stop after N frames (10k, 5M and 1G are thousands, millions, billions)' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l duration -d 'Stop after this time: 10 or 10s, 500ms, 2m, 1h' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l core -d 'Core to pin the sending thread to [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l tx-mode -d 'How frames reach the driver (xdp) [default: best; copy where the host uses the interface]' -r -f -a "best\t'The best mode that works'
zero-copy\t'The driver sends from the cells; an error if it cannot'
copy\t'The kernel copies each packet once'"
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -s i -l interface -d 'The same, as a flag' -r -f -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -l json -d 'Print the report as one JSON object, as the last line of standard output'
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -s q -l quiet -d 'Print only errors, losses, and what --json asks for'
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l speed -d 'Speed relative to the recording: 10, 0.5 [default: 1]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l pps -d 'Packets per second, evenly spaced: 1000, 10k, 1.5M' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l bps -d 'Bits per second, of packets as they are in the file, without preamble and checksum: 100M, 2.5G' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l loops -d 'How often to send the files; 0 repeats until stopped' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l loop-gap -d 'Gap between two passes, in recorded time: 0, 20us, 1ms, 2s [default: the mean gap of the trace]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l max-gap -d 'Cut longer gaps to this, in recorded time' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -s c -l count -d 'Stop after N packets (10k, 5M and 1G are thousands, millions, billions)' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l duration -d 'Stop after this time: 10 or 10s, 500ms, 2m, 1h' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l queues -d 'Transmit queues: a number; flow (both directions of a connection from one queue) or round-robin, over all queues or over some, as in flow:0-3; file:SIDE is a text file with one queue number per packet' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l truncated -d 'What to do with packets of which the file has only the beginning' -r -f -a "send\t'Send the beginning'
pad\t'Append zeros up to the length on the wire'
skip\t'Skip them'"
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l memory -d 'Memory for cells: 512M, 2G. A trace that needs more is read while it is sent [default: 1G, or half of the available memory]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l tx-mode -d 'How packets reach the driver [default: best; copy where the host uses the interface]' -r -f -a "best\t'The best mode that works'
zero-copy\t'The driver sends from the cells; an error if it cannot'
copy\t'The kernel copies each packet once'"
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l core -d 'Core to pin the sending thread to [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -s i -l interface -d 'The interface to send from, by name or alternative name [default: the word after the files]' -r -f -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l top-speed -d 'Send as fast as possible'
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l align -d 'Start all files together, whenever they were recorded'
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -l json -d 'Print the report as one JSON object, as the last line of standard output'
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -s q -l quiet -d 'Print only errors, losses, and what --json asks for'
complete -c wirecap -n "__fish_wirecap_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -s f -l filter -d 'The filter, if it could be mistaken for an interface or a flag' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l bin -d 'The width of a bin: 1ms, 10ms, 1s' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l window -d 'How much time counts as short-term: the window in which bursts and imbalance are measured' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l queues -d 'Compute the queue of each packet, as a NIC with N receive queues chooses it (RSS) [default: 6 for a trace file; for an interface the queue that the packet came in on]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l rss-key -d 'The key of the hash: microsoft, symmetric (both directions alike), or hexadecimal as ethtool -x prints it [default: microsoft]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l rss-table -d 'The indirection table, all entries of it: 0,1,2,3 [default: 128 entries, the queues in turn]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l rss-weight -d 'The weight of each queue in a table of 128 entries, as ethtool -X weight sets it: 6,2,1' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l rss-fields -d 'What is hashed [default: ports]' -r -f -a "ports\t'Addresses, and the ports of TCP and UDP'
tcp-ports\t'Addresses, and the ports of TCP only, as Intel\'s drivers do by default'
addresses\t'Addresses only'"
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l csv -d 'Write each bin with packets to FILE: its time, its Gini coefficient, the packets of each queue' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l picture -d 'Draw the profile at the end: FILE.svg' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l interval -d 'How often a line is printed where standard error is no terminal; a terminal has a table' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -s c -l count -d 'Stop after N packets (10k, 5M and 1G are thousands, millions, billions), and those that the workers already hold' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l duration -d 'Stop after this time: 10 or 10s, 500ms, 2m, 1h' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -s M -d 'M, cells per chunk: a power of two [default: 256]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -s R -d 'R, chunks per receive queue. A queue can buffer R x M packets [default: 128, or fewer, so that all queues together take at most an eighth of the available memory]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l memory -d 'Memory for the cells of all receive queues together, which determines R: 512M, 2G' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -s B -d 'The same in MiB, as with dumpcap: -B 512' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l cell-bytes -d 'Size of a cell: 2048 or 4096. Larger packets take several cells [default: 2048]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l workers -d 'Number of workers [default: one per receive queue, at most one per core]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l cores -d 'Cores to pin the workers to, in turn: 0,2-3 [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l wait -d 'What idle workers do [default: sleep]' -r -f -a "busy\t'Ask again at once; costs a core per thread, also in silence'
sleep\t'Sleep, shorter than the pool could fill up'
block\t'Sleep in the kernel until a packet comes'"
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l xdp-mode -d 'How to attach to the interfaces [default: best]' -r -f -a "best\t'The best that works: zero-copy, packed, copy, generic'
zero-copy\t'The driver writes into the cells; else an error'
packed\t'Native XDP: the program packs packets into blocks, one behind the other'
copy\t'Native XDP, with one copy by the kernel'
generic\t'Works with every driver, slowly'"
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l timestamp -d 'Source of the packets\' timestamps [default: kernel with -w or --verify, on passive ports, and where packets are packed; batch otherwise]' -r -f -a "hardware\t'The NIC stamps each packet, where its driver offers that to XDP; else an error'
kernel\t'The XDP program stamps each packet, at some 50 ns each'
batch\t'One time for all packets that one look finds; cheapest. The end says how far off it was'"
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l fanout -d 'How to spread packets over the workers when capturing passively, as with wirecap capture' -r -f -a "hash\t'By flow: both directions of a connection go to one worker'
queue\t'By receive queue of the NIC'
cpu\t'By core on which they came in'"
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -s Z -l relinquish-privileges -d 'Become USER once everything is open; only root can. Files are opened with the permissions of USER, and belong to USER' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l stats -d 'Print the statistics so far on standard error at this interval: 10s, 1m. With --json, print the account so far as one JSON object on one line, to the stream that gets the account at the end' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l log -d 'How messages are written on standard error [default: text]' -r -f -a "text\t'A line of text; in the journal, with its level'
json\t'A JSON object on one line: time, level, code and text'"
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l name -d 'A name for wirecap status, stop, rotate and set, instead of the process id' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l control -d 'The socket by which wirecap status, stop, rotate and set reach the capture, or off [default: /run/wirecap/PID.sock as root, $XDG_RUNTIME_DIR/wirecap/PID.sock as another user]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l metrics -d 'Serve metrics for Prometheus (OpenMetrics) over HTTP: on a port of the loopback interface, like 9417, on ADDRESS:PORT, or on unix:PATH' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l require-zero-copy -d 'Fail where packets would be copied; the same as --xdp-mode zero-copy'
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l no-sandbox -d 'Keep all privileges. By default, once everything is open, each thread gives up the capabilities, system calls and files that it does not need'
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l json -d 'Print the account as one JSON object, as the last line of standard output (of standard error with -w -)'
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -l fail-on-loss -d 'Exit with code 3 if packets were lost and nothing else failed'
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -s q -l quiet -d 'Print only errors, losses, and what --json or --stats ask for'
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s f -l filter -d 'The filter of what is captured, if it could be mistaken for an interface or a flag' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s x -d 'Apply a filter N times to each packet before it is dropped; 0 does nothing with packets' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l apply -d 'The filter that is applied; it decides nothing, and matches are counted [default: net 131.225.2 and udp]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l pace -d 'Let each thread handle at most this many packets per second, as a slow application would: 40k, 1Mpps. Threads sleep in between, so there may be more of them than cores' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l forward -d 'Send packets on through IFACE2 once they are handled. Both interfaces are taken from the host, and what arrives at IFACE2 is dropped' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s c -l count -d 'Stop after N packets (10k, 5M and 1G are thousands, millions, billions), and those that the workers already hold' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l duration -d 'Stop after this time: 10 or 10s, 500ms, 2m, 1h' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s M -d 'M, cells per chunk: a power of two [default: 256]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s R -d 'R, chunks per receive queue. A queue can buffer R x M packets [default: 128, or fewer, so that all queues together take at most an eighth of the available memory]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l memory -d 'Memory for the cells of all receive queues together, which determines R: 512M, 2G' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s B -d 'The same in MiB, as with dumpcap: -B 512' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l cell-bytes -d 'Size of a cell: 2048 or 4096. Larger packets take several cells [default: 2048]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l ring -d 'Entries of the kernel\'s rings, a power of two [default: as many as the pool has cells]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s T -d 'T: how full, in percent, a worker\'s pools are when its buddies begin to help (advanced mode) [default: 60]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l mode -d 'Whether workers help each other [default: advanced]' -r -f -a "basic\t'Each receive queue is on its own'
advanced\t'Over T, a worker\'s buddies help'"
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l dispatch -d 'How chunks get from receive queues to workers [default: pull]' -r -f -a "push\t'Capture threads hand chunks to workers'
pull\t'The workers drain their own receive queues'"
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l capture-threads -d 'Number of capture threads (push) [default: 1]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l capture-cores -d 'Cores to pin the capture threads to (push), in turn [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l cores -d 'Cores to pin the workers to, in turn: 0,2-3 [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l wait -d 'What idle workers do [default: sleep]' -r -f -a "busy\t'Ask again at once; costs a core per thread, also in silence'
sleep\t'Sleep, shorter than the pool could fill up'
block\t'Sleep in the kernel until a packet comes'"
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l xdp-mode -d 'How to attach to the interfaces [default: best]' -r -f -a "best\t'The best that works: zero-copy, packed, copy, generic'
zero-copy\t'The driver writes into the cells; else an error'
packed\t'Native XDP: the program packs packets into blocks, one behind the other'
copy\t'Native XDP, with one copy by the kernel'
generic\t'Works with every driver, slowly'"
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l timestamp -d 'Source of the packets\' timestamps [default: kernel with -w or --verify, on passive ports, and where packets are packed; batch otherwise]' -r -f -a "hardware\t'The NIC stamps each packet, where its driver offers that to XDP; else an error'
kernel\t'The XDP program stamps each packet, at some 50 ns each'
batch\t'One time for all packets that one look finds; cheapest. The end says how far off it was'"
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s Z -l relinquish-privileges -d 'Become USER once everything is open; only root can. Files are opened with the permissions of USER, and belong to USER' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l stats -d 'Print the statistics so far on standard error at this interval: 10s, 1m. With --json, print the account so far as one JSON object on one line, to the stream that gets the account at the end' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l log -d 'How messages are written on standard error [default: text]' -r -f -a "text\t'A line of text; in the journal, with its level'
json\t'A JSON object on one line: time, level, code and text'"
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l name -d 'A name for wirecap status, stop, rotate and set, instead of the process id' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l control -d 'The socket by which wirecap status, stop, rotate and set reach the capture, or off [default: /run/wirecap/PID.sock as root, $XDG_RUNTIME_DIR/wirecap/PID.sock as another user]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l metrics -d 'Serve metrics for Prometheus (OpenMetrics) over HTTP: on a port of the loopback interface, like 9417, on ADDRESS:PORT, or on unix:PATH' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l threads -l workers -d 'Number of threads that handle packets. With fewer threads than receive queues, a thread serves several; with more (advanced mode), the others only help [default: one per receive queue]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l native -d 'Run the filter as machine code, if the machine and the filter allow it, instead of interpreting it'
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l require-zero-copy -d 'Fail where packets would be copied; the same as --xdp-mode zero-copy'
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l no-sandbox -d 'Keep all privileges. By default, once everything is open, each thread gives up the capabilities, system calls and files that it does not need'
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l json -d 'Print the account as one JSON object, as the last line of standard output (of standard error with -w -)'
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -l fail-on-loss -d 'Exit with code 3 if packets were lost and nothing else failed'
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s q -l quiet -d 'Print only errors, losses, and what --json or --stats ask for'
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -s M -d 'M, cells per chunk: a power of two [default: 256]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -s R -d 'R, chunks per receive queue [default: 128, or what the program\'s buffer size asks for]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -s T -d 'T, the threshold in percent, for devices that form a group' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l memory -d 'Memory for the cells of a device, which determines R: 512M, 2G' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l cores -d 'Core to pin each thread that reads packets to [default: not pinned]' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l dispatch -d 'How chunks get to workers [default: pull]' -r -f -a "push\t'Capture threads hand chunks to workers'
pull\t'The workers drain their own receive queues'"
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l wait -d 'What a thread does that waits for packets [default: sleep]' -r -f -a "busy\t'Ask again at once; costs a core per thread, also in silence'
sleep\t'Sleep, shorter than the pool could fill up'
block\t'Sleep in the kernel until a packet comes'"
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l xdp-mode -d 'How to attach to interfaces [default: best]' -r -f -a "best\t'The best that works: zero-copy, packed, copy, generic'
zero-copy\t'The driver writes into the cells; else an error'
packed\t'Native XDP: the program packs packets into blocks, one behind the other'
copy\t'Native XDP, with one copy by the kernel'
generic\t'Works with every driver, slowly'"
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l timestamp -d 'Source of the packets\' timestamps [default: as the program asks for, the kernel\'s otherwise]' -r -f -a "hardware\t'The NIC stamps each packet, where its driver offers that to XDP; else an error'
kernel\t'The XDP program stamps each packet, at some 50 ns each'
batch\t'One time for all packets that one look finds; cheapest. The end says how far off it was'"
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l config -d 'Read settings of the engine from FILE (TOML) [default: /etc/wirecap/libpcap.toml, if it is there]' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l account -d 'Print the account of each device on standard error when the program has ended'
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -l json -d 'Print the accounts as JSON, a line each, on standard error'
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -s q -l quiet -d 'Print nothing about a program that did not capture on the engine'
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l extcap-version -d 'The version of Wireshark' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l extcap-capture-filter -d 'The filter; without --capture it is checked' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l fifo -d 'The pipe' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l cells-per-chunk -d 'M, cells per chunk' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l chunks-per-queue -d 'R, chunks per receive queue' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l threshold -d 'T: how full, in percent, a worker\'s pools are when its buddies begin to help' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l snaplen -d 'Keep at most this many bytes of each packet; 0 keeps all' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l promiscuous -d 'Capture packets addressed to other stations, too: true or false' -r -f -a "true\t''
false\t''"
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l extcap-interface -d 'The interface, as it was listed' -r -f -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l extcap-interfaces -d 'List the interfaces'
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l extcap-dlts -d 'List the link types of the interface'
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l extcap-config -d 'List the settings of the interface'
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l capture -d 'Capture into a pipe'
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -l take -d 'Take the interface from the host'
complete -c wirecap -n "__fish_wirecap_using_subcommand extcap" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand interfaces" -l json -d 'Print one JSON array'
complete -c wirecap -n "__fish_wirecap_using_subcommand interfaces" -s h -l help -d 'Print help'
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l fix -d 'Change what the findings name, as far as that is safe, and report what became of it; with --fix=RULE,RULE make all changes of these rules, and only these. Most settings are restored by a restart of the machine, too' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l disk -d 'Where packets are to be written: a directory, or a file in it' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l account -d 'Explain the losses of a capture: a file with what `wirecap capture --json` printed. Without an interface, those that it captured are examined' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l cell-bytes -d 'Size of a cell in the planned capture: 2048 or 4096' -r
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l record -d 'Write what is known of the machine to a file as well' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l snapshot -d 'Examine a machine that --record has written to a file, instead of this one' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l journal -d 'Directory of the journal that --fix writes and --undo reads' -r -F
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l undo -d 'Restore every setting that --fix has changed, of all interfaces, as it was before'
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l measure -d 'Write a test file there, for three seconds or up to 2 GiB, and report the speed. The file has no name and is gone at the end'
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l fail-on-findings -d 'Exit with code 4 if there is a problem or a warning'
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -l json -d 'Print one JSON object'
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "status" -d 'List the captures that run, or print the account of one'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "top" -d 'Show a capture live in the terminal: rates, pools, losses, helping workers, talkers'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "stop" -d 'End a capture as SIGINT does, wait until it has ended, and print how it ended'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "rotate" -d 'Begin the next file of a capture that writes a series (-C, -G)'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "set" -d 'Change settings of a capture that runs'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "size" -d 'Compute how large pools have to be for some traffic, by simulation'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "capture" -d 'Capture every packet of one or more interfaces or trace files, into a file or only counted'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "forward" -d 'Forward every packet between two interfaces, in both directions, as a cable would'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "generate" -d 'Generate traffic: numbered frames, which `capture --verify` at the other end checks'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "replay" -d 'Send trace files from an interface, at the recorded speed or any other'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "profile" -d 'Profile the receive queues: packets of each in bins of time, and how uneven they are'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "handle" -d 'Handle packets as a slow application does: a filter N times for each, or a given pace'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "run" -d 'Run a program that captures by libpcap, unchanged, with the engine in libpcap\'s place'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "extcap" -d 'Answer Wireshark and tshark, which run this command through a link to it'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "interfaces" -d 'List the interfaces: queues, speed, what XDP can do, and which programs are attached'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "doctor" -d 'Examine the settings of this machine that cost packets, and change them if asked'
complete -c wirecap -n "__fish_wirecap_using_subcommand help; and not __fish_seen_subcommand_from status top stop rotate set size capture forward generate replay profile handle run extcap interfaces doctor help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c wirecap -n "__fish_wirecap_using_subcommand capture" -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand forward" -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand generate" -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand profile" -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand handle" -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand run" -a "(__fish_complete_command)"
complete -c wirecap -n "__fish_wirecap_using_subcommand interfaces" -a "(__fish_print_interfaces)"
complete -c wirecap -n "__fish_wirecap_using_subcommand doctor" -a "(__fish_print_interfaces)"
