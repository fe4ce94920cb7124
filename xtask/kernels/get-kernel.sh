#!/usr/bin/env bash
# get-kernel.sh - fetch a Debian kernel image package through apt, without installing it.
# 'cargo xtask kernels' calls it; it also works on its own.
#
#   get-kernel.sh [-s SUITE] [-f FLAVOUR] [-d DIR] [-x|-l] SERIES
#
#   SERIES      version prefix, cut at a '.', '-' or '+' boundary: 5.10, 6.1, 6.12,
#               6.12.95, 6.1.0-57.  The newest package that matches is taken.
#   -s SUITE    Debian suite to look in (bookworm-backports, trixie, trixie-backports,
#               bullseye-security, sid, ...).  Without it: the suites that this machine's
#               own apt sources already name (run 'apt-get update' once before).
#   -f FLAVOUR  kernel flavour, default cloud-amd64 (others: amd64, rt-amd64)
#   -d DIR      where the .deb goes, default the current directory; a .deb that is
#               already there is not downloaded again
#   -x          also take the kernel image out of the .deb, as DIR/vmlinuz-VERSION, and print
#               that path; saves unpacking the .deb at every run of run-in-kernel.sh
#   -l          only list the matching packages, one "package version" a line, newest last
#
# Prints the path of the .deb (or image) on standard output; everything else goes to standard error.
#
# A suite given with -s is looked up in a private, throw-away apt state: neither the
# machine's sources, nor its lists, nor its package database are touched. The mirror is the
# one that the machine's own sources use (the security mirror for *-security suites), so no
# host name is written down here. Signatures are checked with Debian's archive keyring.
#
# Needs: apt (2.x), dpkg, debian-archive-keyring. Not root, except where the machine's apt
# configuration is unreadable for others.
set -euo pipefail

die() { echo "get-kernel: $*" >&2; exit 2; }
usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; }

suite='' flavour=cloud-amd64 dir=. list='' extract=''
while getopts s:f:d:lxh o; do case $o in
  s) suite=$OPTARG ;; f) flavour=$OPTARG ;; d) dir=$OPTARG ;; l) list=1 ;; x) extract=1 ;;
  h) usage; exit 0 ;; *) usage >&2; exit 2 ;;
esac; done
shift $((OPTIND - 1))
[ $# -eq 1 ] || { usage >&2; exit 2; }
series=$1
mkdir -p "$dir"; dir=$(cd "$dir" && pwd)

tmp=$(mktemp -d "${TMPDIR:-/tmp}/get-kernel.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

apt_opts=()
if [ -n "$suite" ]; then
  # The mirror that this machine uses for the same kind of suite.
  # Security suites live on a mirror of their own; everything else is on the main one.
  case $suite in *-security) want='-security$' ;; *) want='^[a-z]+$' ;; esac
  # shellcheck disable=SC2016  # apt's own placeholders
  mirror=$(apt-get indextargets --format '$(CREATED_BY) $(CODENAME) $(COMPONENT) $(ORIGIN) $(REPO_URI)' |
    awk -v want="$want" '$1 == "Packages" && $3 == "main" && $4 == "Debian" && $2 ~ want { print $5; exit }')
  [ -n "$mirror" ] || die "found no Debian mirror for suites like '$suite' in this machine's apt sources (apt-get update done?)"
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -e "$keyring" ] || die "package debian-archive-keyring is missing"
  mkdir -p "$tmp"/{state/lists/partial,cache/archives/partial}
  : > "$tmp/status"
  echo "deb [arch=amd64 signed-by=$keyring] $mirror $suite main" > "$tmp/sources.list"
  apt_opts=(
    -o "Dir::Etc::sourcelist=$tmp/sources.list" -o Dir::Etc::sourceparts=-
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o "Dir::State=$tmp/state" -o "Dir::State::status=$tmp/status"
    -o "Dir::Cache=$tmp/cache" -o APT::Architecture=amd64
    -o Acquire::Languages=none                       # no translations ...
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false   # ... and no AppStream data
    -o Acquire::IndexTargets::deb::DEP-11-icons-small::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::DEP-11-icons::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::DEP-11-icons-hidpi::DefaultEnabled=false
    -o APT::Sandbox::User=                           # do not change owners of our folder
    -o Acquire::Retries=3
  )
  # 'apt-get update' exits 0 for some failed downloads; --error-on=any makes those fail.
  apt-get "${apt_opts[@]}" -qq --error-on=any update >&2 || die "cannot read suite '$suite' from $mirror"
fi

# In older packagings the kernel lies in linux-image-VERSION (signed) and also in
# linux-image-VERSION-unsigned; in newer ones (7.x) linux-image-VERSION is nearly empty and
# the kernel lies in linux-binary-VERSION or linux-binary-unsigned-VERSION, the modules in
# linux-modules-VERSION. So look for all of them and leave out what is too small to hold a
# kernel. Signed or not makes no difference here.
# Between the series and the flavour only numbers and Debian's "debN" may stand, so 6.1 does
# not match 6.12, nor flavour amd64 the cloud-amd64 or rt-amd64 packages.
re=${series//./\\.}; re=${re//+/\\+}
re="^linux-(image|binary|binary-unsigned)-$re([.+-](deb)?[0-9.]+)*-${flavour//./\\.}(-unsigned)?\$"
mapfile -t names < <(apt-cache "${apt_opts[@]}" search --names-only "$re" | awk '{ print $1 }')
where=${suite:-"the suites of this machine's apt sources"}
[ ${#names[@]} -gt 0 ] || die "no kernel '$series' of flavour '$flavour' in $where"
cands=$(apt-cache "${apt_opts[@]}" show --no-all-versions "${names[@]}" |
  awk '/^Package:/ { p = $2 } /^Version:/ { v = $2 } /^Size:/ { s = $2 }
       /^$/ { if (s > 1048576) print p, v; p = v = s = "" }
       END  { if (s > 1048576) print p, v }' |
  sort -k2,2V -k1,1)
[ -n "$cands" ] || die "no kernel '$series' of flavour '$flavour' in $where"
if [ -n "$list" ]; then echo "$cands"; exit 0; fi

# Newest first. Signed or unsigned will both do. A mirror's index can name packages that its
# pool no longer (or not yet) has, so go on to an older one when a download fails.
deb=
tries=0
while read -r pkg ver; do
  file=${pkg}_${ver//:/%3a}_amd64.deb
  if [ ! -s "$dir/$file" ]; then
    [ $((tries += 1)) -le 8 ] || break
    echo "get-kernel: downloading $pkg $ver" >&2
    # apt-get download checks the hash and writes into the current directory.
    mkdir -p "$tmp/dl"
    (cd "$tmp/dl" && apt-get "${apt_opts[@]}" -qq -o APT::Sandbox::User= download "$pkg=$ver" >&2) ||
      { echo "get-kernel: $pkg $ver could not be had" >&2; continue; }
    mv "$tmp"/dl/*.deb "$dir/$file"
  fi
  deb=$dir/$file
  break
done < <(tac <<< "$cands")
[ -n "$deb" ] || die "no kernel '$series' of flavour '$flavour' could be downloaded from $where"
if [ -z "$extract" ]; then echo "$deb"; exit 0; fi

# -x: the kernel image alone, as vmlinuz-VERSION beside the package.
mkdir "$tmp/x"
# tar complains about patterns that match nothing: the places differ between packagings.
dpkg-deb --fsys-tarfile "$deb" |
  tar -C "$tmp/x" -x --no-same-owner --wildcards './boot/vmlinuz-*' './lib/modules/*/vmlinuz*' \
    './usr/lib/modules/*/vmlinuz*' 2> /dev/null || true
image=$(find "$tmp/x" -type f | head -n 1)
[ -n "$image" ] || die "no kernel image in $deb"
case $image in
  */boot/*) version=${image##*/vmlinuz-} ;;
  *) version=${image%/*}; version=${version##*/} ;;
esac
mv "$image" "$dir/vmlinuz-$version"
echo "$dir/vmlinuz-$version"
