-- What is interned: namespaces, and claim classes. Rows are only ever added; an id is never used again.

create table namespaces (
  id integer primary key autoincrement,
  name text not null unique
) strict;

create table classes (
  id integer primary key autoincrement,
  namespace integer not null,
  lane text not null,
  kind text not null,
  capabilities text not null, -- a sorted JSON array
  unique (namespace, lane, kind, capabilities)
) strict;
