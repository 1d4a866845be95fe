-- Inserts or replaces the version of the schema.
-- Index: the rowid.
-- Parameters: ?1 version, ?2 minimum_reader
insert into selvedge_schema (rowid, version, minimum_reader)
values (1, ?1, ?2)
on conflict (rowid) do update
set version = excluded.version,
    minimum_reader = excluded.minimum_reader
