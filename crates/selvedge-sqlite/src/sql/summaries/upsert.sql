-- Inserts a summary document, or replaces it if its version has changed.
-- Index: the primary key of summaries.
-- Parameters: ?1 execution, ?2 attempt, ?3 version, ?4 document
insert into summaries (execution, attempt, version, document)
values (?1, ?2, ?3, ?4)
on conflict (execution, attempt) do update
set
  version = excluded.version,
  document = excluded.document
where version <> excluded.version
