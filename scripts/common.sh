# Shared by the scripts beside it; sourced, never run. Leaves the caller in the repository root.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 4
name=$(basename "$0")

say() { printf '%s: %s\n' "$name" "$*" >&2; }
fail() {
  local code=$1
  shift
  say "$@"
  exit "$code"
}

# A login shell has Cargo's folder on its path; a cron job or a CI step often has not.
command -v cargo >/dev/null 2>&1 || PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
export PATH

# Prints the comment block at the head of the calling script, as its help.
help_from_header() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"; }
