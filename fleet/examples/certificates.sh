#!/bin/sh
# Makes certificates with openssl, in this folder. They are good for a year; made anew, they replace the old ones.
#   certificates.sh ROUTER…          an authority of your own, and certificates of the router with these names or addresses, an
#                                    operator and a viewer
#   certificates.sh --robot NAME…    of robots: NAME.json5 (from robot.json5), and in router.json5 what lets the robot speak for itself
# Keep ca.key away from the robots: whoever has it can be anybody. ROS_DOMAIN_ID is that of the robots' bridges, 0 if not set.
set -eu
umask 077

certificate() { # NAME USE [SUBJECT ALTERNATIVE NAMES]
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
  printf 'basicConstraints=CA:FALSE\nextendedKeyUsage=%s\n%s\n' "$2" "${3:+subjectAltName=$3}" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.pem"
  rm "$1.csr" "$1.ext"
}

give_up() {
  echo "certificates.sh: $1" >&2
  exit 1
}

add() { # PLACE TEXT
  grep -q "// $1" router.json5 || give_up "router.json5 has no line \`// $1\`: take that of fleet/examples"
  awk -v place="// $1" -v text="$2" '{ print } index($0, place) { print text }' router.json5 > router.json5.new
  cat router.json5.new > router.json5
  rm router.json5.new
}

robot() { # NAME
  case $1 in
    '' | -* | *[!A-Za-z0-9_-]*) give_up "\`$1\` is no name of a robot: use letters, digits, _ and -, no - first" ;;
    ca | router | operator | viewer | robot) give_up "a robot cannot be named $1 here: that would be another role's certificate" ;;
  esac
  [ ${#1} -le 64 ] || give_up "\`$1\` is no name of a robot: it has more than 64 letters"
  # The name that ROS 2 gets: docs/fleet.md.
  ros=$(printf %s "$1" | tr - _)
  case $ros in [!A-Za-z]*) ros=robot_$ros ;; esac
  is_new=true
  if grep -q "id: \"robot $1\"" router.json5; then
    is_new=false
    grep -q "\"khz/$1/\*/@greatest\", \"khz/@ros/$domain/$ros/\*\"" router.json5 ||
      give_up "router.json5 has rules of $1 for another ROS_DOMAIN_ID than $domain: remove them first"
  else
    ! grep -q "\"$domain/$ros/\*\*\"" router.json5 || give_up "ROS 2 would take $1 for another robot here: both are $ros to it"
  fi
  certificate "$1" clientAuth "DNS:$1"
  if $is_new; then
    add 'RULES OF ROBOTS' "      {
        id: \"be $1\",
        permission: \"allow\",
        flows: [\"ingress\"],
        messages: [
          \"put\", \"delete\", \"declare_subscriber\", \"reply\", \"declare_queryable\",
          \"liveliness_token\", \"liveliness_query\", \"declare_liveliness_subscriber\",
        ],
        key_exprs: [
          // \`**\` does not reach parts that begin with @.
          \"khz/$1/**\", \"khz/$1/@up\", \"khz/$1/@bridge/*\", \"khz/$1/@status\", \"khz/$1/@clock\", \"khz/$1/@stream\", \"khz/$1/@beginning\",
          \"khz/$1/*/@least\", \"khz/$1/*/@greatest\", \"khz/@ros/$domain/$ros/*\",
          \"$domain/$ros/**\", \"$domain/diagnostics/**\", 
          \"@ros2_lv/$domain/*/*/*/*/%/%$ros/khz\", \"@ros2_lv/$domain/*/*/*/*/%/%$ros/khz/%$ros%\$*/**\", \"@ros2_lv/$domain/*/*/*/*/%/%$ros/khz/%diagnostics/**\",
        ],
      },"
    add 'SUBJECTS OF ROBOTS' "      { id: \"robot $1\", cert_common_names: [\"$1\"] },"
    add 'POLICIES OF ROBOTS' "      { rules: [\"be $1\", \"be asked\"], subjects: [\"robot $1\"] },"
  fi
  sed "s/robot\.\(pem\|key\|json5\)/$1.\1/" robot.json5 > "$1.json5"
}

if [ "${1-}" = --robot ]; then
  shift
  domain=${ROS_DOMAIN_ID:-0}
  case $domain in *[!0-9]*) give_up "ROS_DOMAIN_ID is no number: $domain" ;; esac
  [ -e ca.key ] || give_up "no ca.key here: make the authority first, with \`certificates.sh ROUTER\`"
  for name in "$@"; do
    robot "$name"
    echo "$name: carry $name.json5, ca.pem, $name.pem and $name.key to the robot; start the router with the new router.json5"
  done
  exit
fi
names=$(for name in "${@:-localhost}"; do
  case $name in *[!0-9.]*) printf 'DNS:%s,' "$name" ;; *) printf 'IP:%s,' "$name" ;; esac
done)
if [ ! -e ca.key ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj "/CN=robots" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.pem
fi
certificate router serverAuth "${names%,}"
for who in operator viewer; do
  certificate "$who" clientAuth "DNS:$who"
done
