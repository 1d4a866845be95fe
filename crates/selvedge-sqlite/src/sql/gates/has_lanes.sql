-- Returns whether a lane is configured.
-- Index: gates_configured; configured gates are few.
-- Parameters: ?1 the kind of lanes
select exists (
  select 1
  from gates indexed by gates_configured
  where config is not null
    and kind = ?1
)
