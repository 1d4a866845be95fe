-- Expects the primary key of summaries.
-- ?1 execution
delete from summaries
where execution = ?1
