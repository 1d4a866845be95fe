-- The highest number that was dropped from the log, and the time of that entry; zeroes if none was.

create table log_window (
  single integer primary key check (single = 1),
  dropped integer not null,
  at integer not null
) strict;

insert into log_window values (1, 0, 0);
