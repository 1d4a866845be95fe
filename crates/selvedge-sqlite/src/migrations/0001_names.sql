-- Interned names: namespaces, and classes of claims. Rows are only inserted; an id is never used again.

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
