# shellcheck shell=bash
# For tests in a pid namespace of their own: what is there of sandboxes, and whether it is the same as before ($before).
before=""

# What sandboxes consist of, seen from outside, one line per kind. One process, so that it does not count helpers of its own.
inventory() {
	/usr/bin/python3 -c '
import glob, os, sys
def read(path):
    try: return open(path).read()
    except OSError: return ""
def link(path):
    try: return os.readlink(path)
    except OSError: return None
ours, pid = set(), os.getpid()
while pid:
    ours.add(pid)
    pid = int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
state = {p: read(f"/proc/{p}/stat").rpartition(")")[2][1:2] for p in pids}
pidns = os.stat("/proc/self/ns/pid").st_ino # cgroups and scratch directories carry it in their names
print("mounts", read("/proc/self/mountinfo").count("\n"))
print("cgroups", sum(name.startswith(f"{pidns}-") for _, dirs, _ in os.walk("/sys/fs/cgroup") for name in dirs))
for kind in "net", "user", "mnt", "pid", "ipc", "uts", "cgroup":
    print(kind, len({link(f"/proc/{p}/ns/{kind}") for p in pids} - {None}))
print("processes", sum(p not in ours and state[p] not in ("", "Z", "X") for p in pids))
print("scratch", sum(len(d) + len(f) for place in ("scratch", "overlays") for _, d, f in os.walk(os.environ["CORDON_HOME"] + "/" + place)))
print("temporary", sum(len(d) + len(f) for top in ("/tmp", "/dev/shm") for _, d, f in os.walk(top)))'
}
# A run returns when its command is gone; what it consisted of goes a moment later.
all_gone() {
	now=$(inventory)
	grep -qx 'cgroups 0' <<<"$now" && grep -qx 'processes 0' <<<"$now" && grep -qx 'scratch 0' <<<"$now"
}
take_inventory() {
	wait_until -t 20 all_gone
	before=$now
}
as_before() { [[ $(inventory) == "$before" ]]; }
same_as_before() { # NAME
	if wait_until -t 20 as_before; then
		ok "$1"
	else
		fail "$1" "before: $before" "after: $(inventory)" "$(find "$CORDON_HOME"/{scratch,overlays} -mindepth 1 -maxdepth 1 2>&1 | head -3)" "$(ps -ef | tail -5)"
	fi
}
