#!/usr/bin/env bash
# Moves the configuration from an old to a new server, and waits until the old one is empty: the commands of the guide
# docs/guides/sqlite-to-postgres.md. OLD and NEW are the addresses of the servers.
set -euo pipefail

# region: copy
for collection in lanes quotas budgets; do
  curl -fsS "$OLD/v1/$collection?limit=500" | jq -c '.items[]' | while read -r item; do
    jq -c '{state, concurrency, rate, weight, limits, scope, period_ms, on_hard} | with_entries(select(.value != null))' <<< "$item" |
      curl -fsS -X PUT "$NEW/v1/$collection/$(jq -r '.name | @uri' <<< "$item")" -d @- > /dev/null
  done
done
# endregion: copy

# region: schedules
curl -fsS "$OLD/v1/schedules?limit=500" | jq -c '.items[]' | while read -r item; do
  name=$(jq -r '.name | @uri' <<< "$item")
  curl -fsS -X PATCH "$OLD/v1/schedules/$name" -d '{"paused": true}' > /dev/null
  jq -c '{cron, time_zone, interval_ms, submit, overlap, catch_up, jitter_ms, paused} | with_entries(select(.value != null))' <<< "$item" |
    curl -fsS -X PUT "$NEW/v1/schedules/$name" -d @- > /dev/null
done
# endregion: schedules

# region: drain
states='waiting,waiting_dependencies,delayed,held,active,suspended'
# A server that does not answer is not empty.
until left=$(selvedge list --server "$OLD" --state "$states" --json) && [ -z "$left" ]; do
  sleep 1
done
# endregion: drain
