-- Minute rollups: the changes of a lane within a minute, as one server committed them. A server replaces its own rows,
-- always with the total so far; readers add up the rows of all servers. Kept for 24 hours.

-- The lane is empty for the lanes beyond those that a server counts separately. The counts are a JSON object; no index
-- contains them, so replacing them is a heap-only update.
create table rollups (
  namespace integer not null,
  minute_at timestamptz not null,
  lane text collate "C" not null,
  server bigint not null,
  counts text not null,
  primary key (namespace, minute_at, lane, server)
) with (fillfactor = 70);
