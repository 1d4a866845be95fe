-- The event log: one row for all facts of one transaction. Numbers only grow, even when the newest row was deleted.

create table log (
  number integer primary key autoincrement,
  at integer not null,
  body blob not null
) strict;
