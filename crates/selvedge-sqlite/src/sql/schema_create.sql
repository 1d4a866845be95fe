-- One row that says which migrations were run, and which programs may still use the file.
create table selvedge_schema (
  version integer not null,
  minimum_reader integer not null
) strict
