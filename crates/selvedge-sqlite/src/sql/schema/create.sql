-- Creates the table whose one row names the newest migration that has run and the oldest program that can still use the
-- file.
-- Index: none.
create table selvedge_schema (
  version integer not null,
  minimum_reader integer not null
) strict
