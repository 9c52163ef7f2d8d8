# Runs handlers in a POSIX shell. docs/reference/script-protocol.md describes the messages on descriptor 3, which this host has in
# base64. It needs base64, head, tail and tr. $1 is the shell that checks the syntax of sources.
#
# Each job runs in a subshell that loads the source. What before defines is of this process, and all jobs see it.

h_shell=$1
h_wrap=
if base64 -w0 </dev/null >/dev/null 2>&1; then h_wrap=-w0; fi
h_dir=$(mktemp -d) || exit 1
trap 'rm -rf "$h_dir"' EXIT
h_befores=

# Fail and Retry end a job from handle. In a part of a pipeline they end only that part.
Fail() {
  printf 'failed - %s' "$1" >"$h_dir/end"
  exit 1
}
Retry() {
  printf 'retry %s %s' "${2:--}" "$1" >"$h_dir/end"
  exit 75
}

# field finds a field of the message $h_line and stores it in $h_value.
field() {
  case $h_line in
  *"\"$1\":"*) h_value=${h_line#*"\"$1\":"} ;;
  *)
    h_value=
    return 1
    ;;
  esac
  case $h_value in
  '"'*)
    h_value=${h_value#?}
    h_value=${h_value%%'"'*}
    ;;
  *) h_value=${h_value%%[,\}]*} ;;
  esac
}

# decode stores the text of a field in $h_value. A shell has no NUL.
decode() {
  field "$1_b64" || return 1
  h_value=$(printf %s "$h_value" | base64 -d && echo .)
  h_value=${h_value%.}
}

# encode writes the text of its input in base64, without line ends.
encode() {
  if [ -n "$h_wrap" ]; then base64 -w0; else base64 | tr -d '\n'; fi
}

# refuse answers that something of a handler failed: $1 is the message, $2 the text, and the file err what was printed.
refuse() {
  h_text=$({
    printf '%s' "$2"
    tail -c 8192 "$h_dir/err"
  } | encode)
  printf '{%s,"error_b64":"%s"}\n' "$1" "$h_text" >&3
}

check() {
  printf '%s\n' "$2" | "$h_shell" -n 2>"$h_dir/err" && return 0
  refuse "\"loaded\":$h_number" "$1 is not valid: "
  return 1
}

load() {
  field load && h_number=$h_value
  for h_part in before source before_each after_each; do
    h_value=
    if decode $h_part; then check $h_part "$h_value" || return; fi
    eval "h_${h_part}_$h_number=\$h_value"
  done
  eval "h_value=\$h_before_$h_number"
  case $h_befores in
  *"<$h_value>"*) ;;
  *)
    h_befores="$h_befores<$h_value>"
    eval "$h_value" >&2 2>"$h_dir/err" </dev/null 3>&-
    h_status=$?
    if [ $h_status != 0 ]; then
      refuse "\"loaded\":$h_number" "before ended with status $h_status: "
      return
    fi
    cat "$h_dir/err" >&2
    ;;
  esac
  eval "h_value=\$h_source_$h_number"
  if ! (
    exec 3>&-
    unset -f handle
    eval "$h_value" && command -v handle >/dev/null
  ) >"$h_dir/out" 2>"$h_dir/err" </dev/null; then
    refuse "\"loaded\":$h_number" "the source defines no function handle: "
    return
  fi
  printf '{"loaded":%s}\n' "$h_number" >&3
}

# hook runs before_each or after_each of the handler in this process.
hook() {
  eval "h_value=\$h_$1_$h_number"
  if [ -z "$h_value" ]; then return 0; fi
  eval "$h_value" >&2 2>"$h_dir/err" </dev/null 3>&- && "$1" "$h_count" >&2 2>"$h_dir/err" </dev/null 3>&-
}

batch() {
  field batch && h_count=$h_value
  field handler && h_number=$h_value
  field output_bytes && h_most=$((h_value + 1))
  field client && export DAYBOOK_CLIENT="$h_value"
  field type && export DAYBOOK_TYPE="$h_value"
  eval "h_code=\$h_source_$h_number h_begun=\$h_before_each_$h_number"
  if [ -n "$h_begun" ]; then
    if ! hook before_each; then
      refuse '"begun":true' 'before_each failed: '
      return
    fi
    printf '{"begun":true}\n' >&3
  fi
  h_job=0
  while [ $h_job -lt "$h_count" ]; do
    IFS= read -r h_line <&3 || exit 0
    job
    h_job=$((h_job + 1))
  done
  if hook after_each; then
    printf '{"done":true}\n' >&3
  else
    refuse '"done":true' 'after_each failed: '
  fi
}

job() {
  field id && export DAYBOOK_JOB_ID="$h_value"
  field kind && export DAYBOOK_KIND="$h_value"
  field attempt && export DAYBOOK_ATTEMPT="$h_value"
  field max_attempts && export DAYBOOK_MAX_ATTEMPTS="$h_value"
  unset TRACEPARENT DAYBOOK_META
  if field traceparent; then export TRACEPARENT="$h_value"; fi
  if decode meta; then export DAYBOOK_META="$h_value"; fi
  : >"$h_dir/in"
  if [ -e "$h_dir/end" ]; then rm -f "$h_dir/end"; fi
  if [ "$DAYBOOK_KIND" = bytes ]; then
    if field payload_b64; then printf %s "$h_value" | base64 -d >"$h_dir/in"; fi
    h_value=
  elif decode payload; then
    printf %s "$h_value" >"$h_dir/in"
  fi
  (
    exec 3>&-
    eval "$h_code"
    handle "$h_value"
  ) <"$h_dir/in" >"$h_dir/out" 2>"$h_dir/err"
  answer $?
}

answer() {
  h_text=
  if [ -s "$h_dir/out" ]; then h_text=$(head -c "$h_most" "$h_dir/out" | encode); fi
  if [ -e "$h_dir/end" ]; then
    read -r h_ended h_delay h_rest <"$h_dir/end"
    h_error=$(tail -c +$((${#h_ended} + ${#h_delay} + 3)) "$h_dir/end" | head -c 16384 | encode)
    rm -f "$h_dir/end"
    case $h_delay in
    '' | *[!0-9]*) h_delay= ;;
    *) h_delay=",\"delay_ms\":$h_delay" ;;
    esac
    printf '{"job":%s,"code":"%s","error_b64":"%s"%s,"output_b64":"%s"}\n' "$h_job" "$h_ended" "$h_error" "$h_delay" "$h_text" >&3
  elif [ "$1" = 0 ]; then
    printf '{"job":%s,"code":"ok","output_b64":"%s"}\n' "$h_job" "$h_text" >&3
  else
    h_ended=error
    if [ "$1" = 75 ]; then h_ended=retry; fi
    refuse "\"job\":$h_job,\"code\":\"$h_ended\"" "ended with status $1: "
    return
  fi
  if [ -s "$h_dir/err" ]; then cat "$h_dir/err" >&2; fi
}

while IFS= read -r h_line <&3; do
  case $h_line in
  '{"load":'*) load ;;
  '{"batch":'*) batch ;;
  esac
done
