#!/usr/bin/env python3
"""Compares a capture, as tshark reads it, with the packets that were sent. Prints PASS or FAIL for each claim; exit code 1 if any fails."""

import argparse
import collections
import filecmp
import pathlib
import subprocess
import sys
import tempfile

FIELDS = ["ipv6.src", "http.request.method", "dns.flags.response", "dns.qry.type", "icmp.type", "icmpv6.type",
          "udp.dstport", "udp.payload"]
DISCARD = "9"
DNS_TYPES = {"1": "A", "28": "AAAA"}
failures = 0


def claim(what, expected, found):
    """Prints whether `found` is what was expected."""
    global failures
    if expected == found:
        print(f"PASS  {what}: {found}")
    else:
        print(f"FAIL  {what}: {found}, but {expected} expected")
        failures += 1


def account(path):
    """The totals of wirecap's final account by column; the packets offloaded; and the verdict on the generator's frames by column."""
    heads, totals, offloaded, verdict = [], {}, 0, {}
    for line in path.read_text(errors="replace").splitlines():
        words = line.split()
        if words[:2] == ["port", "queue"]:
            heads = words[3:]
        elif words[:1] == ["total"] and len(words) == len(heads) + 1:
            totals = dict(zip(heads, map(int, words[1:])))
        elif words[:1] == ["worker"]:
            heads = words
        elif words[:1] == ["run"]:
            heads = words
        elif heads[:2] == ["run", "received"] and len(words) == len(heads):
            verdict = dict(zip(heads, map(int, words)))
        elif heads[:1] == ["worker"] and len(words) == len(heads) and all(map(str.isdigit, words[2:])):
            offloaded += int(words[heads.index("offloaded_in")])
    if not totals:
        sys.exit("FAIL  wirecap printed no account")
    return totals, offloaded, verdict


def tshark(file, *arguments):
    """Lines that tshark prints about the file."""
    # Burst frames carry only numbers; heuristic dissectors would misread them.
    command = ["tshark", "-n", "-r", file, "-o", "tcp.reassemble_out_of_order:TRUE", "--disable-heuristic", "wol_udp", *arguments]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.splitlines()


def tally(file):
    """Packets, counts by kind, and how often each burst frame occurs."""
    counts, sequences, packets = collections.Counter(), collections.Counter(), 0
    wanted = [part for field in FIELDS for part in ("-e", field)]
    for line in tshark(file, "-T", "fields", *wanted):
        packets += 1
        ipv6, method, response, query, icmp, icmpv6, port, payload = line.split("\t")
        version = 6 if ipv6 else 4
        if port == DISCARD:
            # "wc", the run, then the sequence number in 48 bits.
            sequences[int(payload.replace(":", "")[8:20], 16)] += 1
        elif method:
            counts[f"{method} {version}"] += 1
        elif response:
            answer = "query" if response in ("0", "False") else "answer"
            counts[f"{answer} {DNS_TYPES.get(query, query)}"] += 1
        elif icmp or icmpv6:
            counts[f"ping {icmp or icmpv6}"] += 1
    return packets, counts, sequences


def rebuilt(file, served):
    """How many of the served files can be extracted from the capture byte for byte."""
    with tempfile.TemporaryDirectory() as directory:
        tshark(file, "-q", "--export-objects", f"http,{directory}")
        names = [path.name for path in served.iterdir()]
        return len(filecmp.cmpfiles(served, directory, names, shallow=False)[0])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for path in ("file", "account", "files"):
        parser.add_argument(f"--{path}", type=pathlib.Path, required=True)
    for number in ("mirrored", "tapped", "burst-frames", "queries", "pings"):
        parser.add_argument(f"--{number}", type=int, required=True)
    return parser.parse_args()


def main():
    asked = arguments()
    totals, offloaded, verdict = account(asked.account)
    packets, counts, sequences = tally(asked.file)
    files = len(list(asked.files.iterdir()))

    carried = asked.mirrored + asked.burst_frames
    claim("packets that tc mirrored or the generator sent, and the mirror port carried", carried, asked.tapped)
    claim("packets that the mirror port carried and wirecap saw", asked.tapped, totals["seen"])
    claim("packets that wirecap saw and delivered", totals["seen"], totals["delivered"])
    claim("packets lost", 0, totals["lost"])
    # The column is printed only if it is not 0.
    claim("packets the account does not explain", 0, totals.get("unexplained", 0))
    claim("packets that wirecap delivered and tshark reads in the file", totals["delivered"], packets)

    if offloaded > 0:
        print(f"PASS  packets that buddies took over from the worker of the queue that was hit: {offloaded}")
    else:
        # Whether a worker falls behind depends on the machine.
        print("NOTE  no worker fell behind on this machine, so no buddy had to help")
    claim("burst frames sent and in the file", asked.burst_frames, sum(sequences.values()))
    missing = asked.burst_frames - len(sequences.keys() & set(range(asked.burst_frames)))
    claim("burst frames whose sequence number is missing", 0, missing)
    claim("burst frames that wirecap itself has verified", asked.burst_frames, verdict.get("received"))
    for trouble in ("lost", "duplicated", "reordered"):
        claim(f"of them {trouble}, by wirecap's own verdict", 0, verdict.get(trouble))
    for version in (4, 6):
        claim(f"HTTP requests over IPv{version}", files // 2, counts[f"GET {version}"])
    claim("files rebuilt from the capture, byte for byte", files, rebuilt(asked.file, asked.files))
    for kind in DNS_TYPES.values():
        claim(f"DNS queries for {kind}", asked.queries, counts[f"query {kind}"])
        claim(f"DNS answers for {kind}", asked.queries, counts[f"answer {kind}"])
    for version, request, reply in ((4, 8, 0), (6, 128, 129)):
        claim(f"echo requests over IPv{version}", asked.pings, counts[f"ping {request}"])
        claim(f"echo replies over IPv{version}", asked.pings, counts[f"ping {reply}"])

    print("demo: PASS" if failures == 0 else f"demo: FAIL, {failures} of the claims above")
    return failures > 0


sys.exit(main())
