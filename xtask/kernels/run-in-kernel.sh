#!/usr/bin/env bash
# run-in-kernel.sh - run one program under another Linux kernel, in qemu without KVM.
# 'cargo xtask kernels' calls it with the test binary; it also works on its own.
#
#   run-in-kernel.sh [options] KERNEL PROGRAM [ARG...]
#
#   KERNEL   a Debian kernel package (linux-image-*.deb or linux-binary-*.deb, see
#            get-kernel.sh), or a vmlinuz/bzImage. The package is only unpacked, not installed.
#   PROGRAM  an executable or a script for /bin/sh (busybox). It is run as root with the
#            arguments given; its shared libraries (ldd) and its loader come along.
#
#   -f SRC[:DEST]   also put the file or folder SRC into the guest, at DEST (default: the same
#                   absolute path); libraries of executables come along. Can be repeated.
#   -e NAME=VALUE   set an environment variable for the program. Can be repeated.
#   -o DIR          bring back what the program leaves in /out (sent as a tar over a serial
#                   line; meant for a few MiB)
#   -t SECONDS      limit for the whole run, boot included (default 180)
#   -m MEM          guest memory (default 1G)
#   -c CPUS         guest processors (default 2)
#   -C MODEL        qemu CPU model (default max)
#   -a WORDS        more words for the kernel command line
#   -j              let the guest's processors run on several host threads. Faster for parallel
#                   programs, but qemu before 8.1 then sometimes runs stale code after the
#                   kernel has patched itself ('Oops: int3', at boot or while an eBPF program is
#                   attached): status 125. Without -j they take turns on one thread.
#   -v              show the kernel's own boot messages too
#
# Standard output gets the guest's console (the program's stdout and stderr together).
# Exit status: the program's own (128+N if signal N ended it); 124 if the time limit passed;
# 125 if the guest did not come as far as to report one (kernel panic, qemu failed);
# 2 for wrong usage. The last line on standard error says which and how long it took.
#
# In the guest: proc, sysfs, devtmpfs, tracefs (/sys/kernel/tracing), debugfs, bpffs
# (/sys/fs/bpf), cgroup2 (/sys/fs/cgroup), securityfs; everything else lies in memory, and
# half of the memory at most (raise -m for large programs); 'lo' is up; busybox supplies the
# usual commands; the memlock limit is lifted. No disk, no network, no modules, no hardware
# performance counters. Standard output is a terminal (the console); TERM=dumb, NO_COLOR=1.
#
# Needs: qemu-system-x86, busybox-static, cpio, dpkg (for .deb), xz-utils/zstd as dpkg needs.
# Not root.
set -euo pipefail

me=run-in-kernel
die() { echo "$me: $*" >&2; exit 2; }
usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; }

extra=() envs=() out='' thread=single limit=180 mem=1G cpus=2 cpu=max append='' verbose=''
while getopts +f:e:o:t:m:c:C:a:jvh o; do case $o in
  f) extra+=("$OPTARG") ;; e) envs+=("$OPTARG") ;; o) out=$OPTARG ;; t) limit=$OPTARG ;;
  m) mem=$OPTARG ;; c) cpus=$OPTARG ;; C) cpu=$OPTARG ;; a) append=$OPTARG ;;
  j) thread=multi ;; v) verbose=1 ;;
  h) usage; exit 0 ;; *) usage >&2; exit 2 ;;
esac; done
shift $((OPTIND - 1))
[ $# -ge 2 ] || { usage >&2; exit 2; }
kernel=$1 program=$2; shift 2

[ -f "$kernel" ] || die "no such kernel: $kernel"
[ -f "$program" ] || die "no such program: $program"
for tool in qemu-system-x86_64 cpio timeout; do
  command -v "$tool" > /dev/null || die "$tool is missing"
done
# Debian's busybox-static; a dynamic busybox works too, its libraries come along.
busybox=$(command -v busybox) || die "busybox is missing"

tmp=$(mktemp -d "${TMPDIR:-/tmp}/$me.XXXXXX")
qemu_pid=''
# shellcheck disable=SC2317  # called by the trap
cleanup() {
  [ -z "$qemu_pid" ] || kill "$qemu_pid" 2> /dev/null || true
  rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- the kernel ---------------------------------------------------------------------------
case $kernel in
  *.deb)
    # Older packages: /boot/vmlinuz-VERSION. Newer: /usr/lib/modules/VERSION/vmlinuz[.unsigned].
    # One pass, since unpacking takes seconds; tar complains about patterns that match nothing.
    mkdir "$tmp/deb"
    dpkg-deb --fsys-tarfile "$kernel" |
      tar -C "$tmp/deb" -x --no-same-owner --wildcards './boot/vmlinuz-*' './lib/modules/*/vmlinuz*' \
        './usr/lib/modules/*/vmlinuz*' 2> /dev/null || true
    image=$(find "$tmp/deb" -type f | head -n 1)
    [ -n "$image" ] || die "no kernel image in $kernel (an empty meta package?)"
    mv "$image" "$tmp/vmlinuz"
    ;;
  *) cp "$kernel" "$tmp/vmlinuz" ;;
esac

# ---- the root file system, as an initramfs --------------------------------------------------
root=$tmp/root
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,etc,proc,sys,dev,tmp,run,root,out}
chmod 1777 "$root/tmp"

# add_libs FILE: copy the loader and the shared libraries of a dynamic executable, to the
# paths where its loader will look for them. Static files and scripts have none.
add_libs() {
  local lib
  ldd "$1" 2> /dev/null | grep -oE '(=> |^[[:space:]]*)/[^ ]+ \(0x' | grep -oE '/[^ ]+' |
  while read -r lib; do
    [ -e "$root$lib" ] && continue
    mkdir -p "$root${lib%/*}"
    cp -L "$lib" "$root$lib"
    # The guest has no ld.so.cache, and the program moves (so $ORIGIN would be another).
    case ${lib%/*} in
      /lib | /lib64 | /usr/lib | /usr/lib64 | /lib/*-linux-gnu | /usr/lib/*-linux-gnu) ;;
      *) echo "${lib%/*}" >> "$tmp/libdirs" ;;
    esac
  done || true
  if ldd "$1" 2> /dev/null | grep -q 'not found'; then
    echo "$me: warning: $1 lacks libraries on this machine:" >&2
    ldd "$1" | grep 'not found' >&2
  fi
}
# add SRC DEST: copy a file or folder, with the libraries of the executables in it.
add() {
  local f
  if [ -d "$1" ]; then
    mkdir -p "$root$2"
    cp -LR --preserve=mode,timestamps "$1/." "$root$2/"
  else
    mkdir -p "$root${2%/*}"
    cp -L --preserve=mode,timestamps "$1" "$root$2"
  fi
  find -L "$1" -type f -perm /111 -print0 | while IFS= read -r -d '' f; do
    if [ "$(head -c 4 "$f" | tr -d '\0')" = $'\x7fELF' ]; then add_libs "$f"; fi
  done
}

add "$busybox" /bin/busybox
ln -s busybox "$root/bin/sh"
add "$program" /test
chmod +x "$root/test"
for spec in ${extra[@]+"${extra[@]}"}; do
  src=${spec%%:*} dest=
  [[ $spec == *:* ]] && dest=${spec#*:}
  [ -e "$src" ] || die "no such file: $src"
  add "$src" "${dest:-$(realpath -s "$src")}"
done
echo 'root:x:0:0:root:/root:/bin/sh' > "$root/etc/passwd"
echo 'root:x:0:' > "$root/etc/group"
echo '127.0.0.1 localhost' > "$root/etc/hosts"

# The program's environment and arguments, quoted for the guest's shell.
quote() { printf "'%s'" "${1//\'/\'\\\'\'}"; }
{
  if [ -s "$tmp/libdirs" ]; then
    printf 'export LD_LIBRARY_PATH=%s\n' "$(quote "$(sort -u "$tmp/libdirs" | paste -sd:)")"
  fi
  for e in ${envs[@]+"${envs[@]}"}; do printf 'export %s=%s\n' "${e%%=*}" "$(quote "${e#*=}")"; done
  printf 'exec /test'
  for a in "$@"; do printf ' %s' "$(quote "$a")"; done
  echo
} > "$root/test.cmd"

cat > "$root/init" <<'INIT'
#!/bin/sh
# First process of the guest: mount what tests of eBPF programs need, run the program, report.
/bin/busybox --install -s
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb NO_COLOR=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpffs /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t securityfs securityfs /sys/kernel/security
ln -sf /proc/self/fd /dev/fd
ip link set lo up
hostname guest
ulimit -l unlimited      # before 5.11 BPF maps count against the memlock limit
cd /root
# The second serial line carries the results, so that console noise cannot spoil them.
# Raw mode, or the terminal layer would turn each line feed into two characters.
stty -F /dev/ttyS1 raw -echo
echo "uptime $(cut -d' ' -f1 /proc/uptime)" > /dev/ttyS1
setsid sh /test.cmd < /dev/null
rc=$?
echo "rc $rc" > /dev/ttyS1
if grep -qw sendout /proc/cmdline; then
  stty -F /dev/ttyS2 raw -echo
  tar -C /out -cf - . > /dev/ttyS2
fi
# 'poweroff -f' works through ACPI; if it does not, the kernel panics when this process ends,
# reboots because of panic=-1, and qemu ends because of -no-reboot.
echo 0 > /proc/sys/kernel/printk
poweroff -f
INIT
chmod +x "$root/init"
# Not compressed: the emulated processor would need longer to unpack it than qemu to load it.
(cd "$root" && find . -print0 | cpio --quiet -0 -o -H newc -R 0:0) > "$tmp/initramfs"

# ---- boot -------------------------------------------------------------------------------------
# mitigations=off      they only cost time here
# panic=-1             reboot at once on a panic; with -no-reboot qemu then ends
# nowatchdog, rcu...   an emulated processor on a busy machine stalls longer than these allow
# tsc=reliable         qemu's TSC is one for all processors, but the kernel's check of that takes
#                      emulation's delays for skew, falls back to the HPET, and each reading of
#                      the clock then costs microseconds and a system call
# random.trust_cpu     '-cpu max' has RDRAND: the random pool is ready at once
cmdline="console=ttyS0 panic=-1 mitigations=off nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
cmdline+=" tsc=reliable random.trust_cpu=on"
[ -n "$verbose" ] || cmdline+=" quiet loglevel=3"
cmdline+=" $append"
serial=(-serial stdio -serial "file:$tmp/status")
if [ -n "$out" ]; then
  cmdline+=" sendout"
  serial+=(-serial "file:$tmp/out.tar")
fi
: > "$tmp/status"
start=$EPOCHREALTIME
mkfifo "$tmp/console"
# The console ends lines with CR LF; colours and cursor movements are of no use in a log.
sed -u -e 's/\r//g' -e 's/\x1b\[[0-9;?=]*[a-zA-Z]//g' -e 's/\x1bc//g' < "$tmp/console" &
sed_pid=$!
# In the background, so that a signal to this script ends qemu too (see cleanup).
timeout --foreground --kill-after=10 "$limit" \
  qemu-system-x86_64 -accel tcg,thread=$thread -cpu "$cpu" -smp "$cpus" -m "$mem" \
    -nodefaults -no-user-config -display none -no-reboot "${serial[@]}" \
    -kernel "$tmp/vmlinuz" -initrd "$tmp/initramfs" -append "$cmdline" < /dev/null > "$tmp/console" &
qemu_pid=$!
qrc=0
wait "$qemu_pid" || qrc=$?
qemu_pid=''
wait "$sed_pid" || true
took=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
boot=$(awk '$1 == "uptime" { print $2 }' "$tmp/status")
rc=$(awk '$1 == "rc" { print $2 }' "$tmp/status")

if [ -n "$out" ] && [ -s "$tmp/out.tar" ]; then
  mkdir -p "$out"
  tar -C "$out" --no-same-owner -xf "$tmp/out.tar" || echo "$me: /out did not come back whole" >&2
fi
if [ -n "$rc" ]; then
  echo "$me: exit status $rc (up after ${boot}s of guest time, ${took}s in all)" >&2
  exit "$rc"
elif [ "$qrc" = 124 ] || [ "$qrc" = 137 ]; then
  echo "$me: time limit of ${limit}s passed${boot:+, the program was running}" >&2
  exit 124
else
  echo "$me: the guest ended without a result after ${took}s (qemu's exit status $qrc)${boot:+, while the program was running}; try -v" >&2
  exit 125
fi
