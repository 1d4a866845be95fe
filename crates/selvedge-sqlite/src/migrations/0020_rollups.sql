-- Minute rollups: the changes of a lane within a minute, as one server committed them. A server replaces its own rows,
-- always with the total so far; readers add up the rows of all servers. Kept for 24 hours.

-- The lane is empty for the lanes beyond those that a server counts separately. The counts are a JSON object.
create table rollups (
  namespace integer not null,
  minute_at integer not null,
  lane text not null,
  server integer not null,
  counts text not null,
  primary key (namespace, minute_at, lane, server)
) strict, without rowid;
