#!/bin/sh
# Makes an authority of your own and a certificate each for the router, a robot, an operator and a viewer, in this folder, with
# openssl. They are good for a year. Usage: certificates.sh [ROUTER'S NAME OR ADDRESS…]; more certificates: repeat `certificate`.
# Keep ca.key away from the robots: whoever has it can be anybody.
set -eu
umask 077
names=$(for name in "${@:-localhost}"; do
  case $name in *[!0-9.]*) printf 'DNS:%s,' "$name" ;; *) printf 'IP:%s,' "$name" ;; esac
done)

certificate() { # NAME USE [SUBJECT ALTERNATIVE NAMES]
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
  printf 'basicConstraints=CA:FALSE\nextendedKeyUsage=%s\n%s\n' "$2" "${3:+subjectAltName=$3}" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.pem"
  rm "$1.csr" "$1.ext"
}

if [ ! -e ca.key ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj "/CN=robots" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.pem
fi
certificate router serverAuth "${names%,}"
for who in robot operator viewer; do
  certificate "$who" clientAuth "DNS:$who"
done
