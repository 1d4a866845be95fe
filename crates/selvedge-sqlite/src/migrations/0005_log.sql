-- The event log: one row for all events of a transaction. Numbers only grow, even after the newest row was deleted.

create table log (
  number integer primary key autoincrement,
  at integer not null,
  body blob not null
) strict;
