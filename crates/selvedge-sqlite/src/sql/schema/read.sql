-- Returns the version of the schema and the oldest program that can use it.
-- Index: none; the table has one row.
select version, minimum_reader
from selvedge_schema
