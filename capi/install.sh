#!/bin/sh
# Installs the C library: headers, static and shared library, pkg-config and CMake package files.
#
#   capi/install.sh PREFIX [FOLDER]
#
# FOLDER holds libkhz.a and libkhz.so (default: target/release, what `cargo build --release --package khz-capi` made). PREFIX may be
# moved later: nothing that is installed names it. In the environment:
#   DESTDIR   put before PREFIX, for packages that are built in a folder of their own
#   LIBDIR    the libraries' folder below PREFIX (default: lib; Debian: lib/x86_64-linux-gnu)
#   STATIC_LIBS  what a program needs beside libkhz.a (default: what the standard library needs with glibc)
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: capi/install.sh PREFIX [FOLDER]" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
prefix=${DESTDIR:-}$1
folder=${2:-$here/../target/release}
libdir=${LIBDIR:-lib}
static_libs=${STATIC_LIBS:--lgcc_s -lutil -lrt -lpthread -lm -ldl}

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml")
major=${version%%.*}
if [ -z "$version" ]; then
  echo "capi/install.sh: no version under [workspace.package] in Cargo.toml" >&2
  exit 1
fi
for library in libkhz.a libkhz.so; do
  if [ ! -f "$folder/$library" ]; then
    echo "capi/install.sh: $folder/$library is missing: run \`cargo build --release --package khz-capi\`" >&2
    exit 1
  fi
done

# e_machine of the ELF header, in CMake's words.
case $(od -An -tx1 -j18 -N1 "$folder/libkhz.so" | tr -d ' ') in
  3e) machine=x86_64 machine_too=AMD64 ;;
  b7) machine=aarch64 machine_too=arm64 ;;
  *) echo "capi/install.sh: $folder/libkhz.so is for neither x86_64 nor aarch64" >&2; exit 1 ;;
esac

# From the folder of the .pc file, and of the CMake files, back to the prefix.
up=$(echo "$libdir" | sed 's|[^/][^/]*|..|g')
fill() {
  sed -e "s|@VERSION@|$version|g" -e "s|@MAJOR@|$major|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@UP@|$up|g" \
    -e "s|@STATIC_LIBS@|$static_libs|g" -e "s|@MACHINE@|$machine|g" -e "s|@MACHINE_TOO@|$machine_too|g" "$here/$1.in" >"$2/$1"
  chmod 644 "$2/$1"
}

lib=$prefix/$libdir
mkdir -p "$prefix/include" "$lib/pkgconfig" "$lib/cmake/kilohertz"
install -m 644 "$here/include/kilohertz.h" "$here/include/kilohertz.hpp" "$prefix/include/"
install -m 644 "$folder/libkhz.a" "$lib/libkhz.a"
install -m 755 "$folder/libkhz.so" "$lib/libkhz.so.$version"
ln -sf "libkhz.so.$version" "$lib/libkhz.so.$major"
ln -sf "libkhz.so.$major" "$lib/libkhz.so"
fill kilohertz.pc "$lib/pkgconfig"
fill kilohertzConfig.cmake "$lib/cmake/kilohertz"
fill kilohertzConfigVersion.cmake "$lib/cmake/kilohertz"
